"""The command `probe`: its options, progress and outputs."""
