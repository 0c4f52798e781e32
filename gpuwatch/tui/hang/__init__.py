"""The hang report."""
