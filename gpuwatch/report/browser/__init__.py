"""`gpuwatch serve`: the screens in browsers, with one process per viewer."""
