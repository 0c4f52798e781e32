"""Files in the settings folder: silences, followed log folders, jobs that failed in earlier sessions."""
