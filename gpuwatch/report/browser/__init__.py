"""`gpuwatch serve`: the screens in browsers, each viewer in a process of its own."""
