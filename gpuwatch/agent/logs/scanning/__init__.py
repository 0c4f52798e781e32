"""The scanner of one file: lines to findings and progress, with counting of repeats."""
