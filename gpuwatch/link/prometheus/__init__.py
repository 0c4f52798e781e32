"""Frames from an existing Prometheus: dcgm-exporter, node-exporter or gpuwatch's exporter."""
