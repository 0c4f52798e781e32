"""From bytes to lines: splitting, prefixes, timestamps, levels, ranks."""
