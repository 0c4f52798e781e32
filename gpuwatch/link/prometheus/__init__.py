"""Links whose frames are made from an existing Prometheus: dcgm-, node- or gpuwatch's exporter."""
