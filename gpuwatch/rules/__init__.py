"""The rule packs (YAML beside this file), and what reads, checks and compiles them."""
