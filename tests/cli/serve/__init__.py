"""Tests of `gpuwatch.cli.serve`."""
