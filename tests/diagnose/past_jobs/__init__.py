"""Tests of `gpuwatch/diagnose/past_jobs`."""
