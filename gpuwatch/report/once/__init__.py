"""`gpuwatch once`: text, tables, JSON, CSV and the health verdict."""
