"""RUNS ON THE NODE: needs Python 3.6 or later and pynvml only; imports nothing else of gpuwatch."""
