"""`make bench`: CPU seconds, counts and ratios, never an assertion; side by side in one run where it compares."""
