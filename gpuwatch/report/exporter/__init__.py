"""`gpuwatch exporter`: the facts of a session as Prometheus metrics over HTTP."""
