"""Frames out of an existing Prometheus: dcgm-exporter, node-exporter or gpuwatch's own exporter."""
