"""Tests of gpuwatch.runs.files.exports."""
