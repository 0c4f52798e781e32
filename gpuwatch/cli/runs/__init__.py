"""The commands `runs`: sessions after the fact."""
