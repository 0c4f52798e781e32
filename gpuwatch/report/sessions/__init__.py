"""`gpuwatch runs`: sessions as lists, comparisons, reports, plots and JSON."""
