"""The data behind the log panes: files and ranks, loaded lines, merged files, folded rows."""
