"""RUNS ON THE NODE: standard library and pynvml, Python 3.6 and later; imports nothing else of gpuwatch."""
