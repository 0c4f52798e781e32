"""YAML with positions, the forms of values, lists and mappings, and all problems of a source at once."""
