"""Tests of `gpuwatch.session.relay`."""
