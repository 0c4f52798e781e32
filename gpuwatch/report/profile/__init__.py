"""`gpuwatch profile`: profiles of running ranks as text, flame graphs, SVG and JSON."""
