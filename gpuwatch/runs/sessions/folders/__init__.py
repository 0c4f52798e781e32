"""Reader of session folders: summary, parts and the three logs."""
