"""The program on a terminal."""
