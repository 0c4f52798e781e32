"""The scanner of one file: lines to findings and progress, repeats counted."""
