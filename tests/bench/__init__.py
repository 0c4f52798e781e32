"""`make bench`: CPU seconds, counts and ratios, never an assertion; comparisons run side by side."""
