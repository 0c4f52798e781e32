"""`gpuwatch scan`: the report of an ended job."""
