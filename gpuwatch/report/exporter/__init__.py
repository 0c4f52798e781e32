"""`gpuwatch exporter`: the state of a session as Prometheus metrics over HTTP."""
