"""Assigns processes, files and lines to jobs and ranks, and records where each rank runs."""
