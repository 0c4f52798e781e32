"""The commands `runs`: reports on ended sessions."""
