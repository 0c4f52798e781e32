"""Judges a folder of logs, also if gpuwatch has a fault over some of what they say."""
