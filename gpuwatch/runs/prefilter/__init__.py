"""The prefilter of a scan: which lines a rule may match, by words and by patterns on shapes of lines."""
