"""Root-cause analysis: which alerts belong together, and which one caused the others."""
