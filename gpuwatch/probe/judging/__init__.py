"""The verdict over what a probe has measured: pure functions over `results`."""
