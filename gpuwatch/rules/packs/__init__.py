"""The built-in rule packs (YAML), one folder per subject; read in the order of their file names."""
