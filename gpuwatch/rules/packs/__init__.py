"""The built-in rule packs (YAML), one folder a subject; they are read in the order of their file names."""
