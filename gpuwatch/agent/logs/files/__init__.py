"""Which files are followed, where they are read from, rotation, pages and tails."""
