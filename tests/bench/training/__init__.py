"""Benchmarks of a training: the library inside of it, `gpuwatch run` beside it."""
