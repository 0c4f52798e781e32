"""Tests of `gpuwatch.report.browser`."""
