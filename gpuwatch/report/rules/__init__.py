"""`gpuwatch rules`: rule packs and their scores as text and JSON."""
