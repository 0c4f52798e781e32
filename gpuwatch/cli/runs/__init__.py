"""The command group `runs`: lists, compares and reports training sessions."""
