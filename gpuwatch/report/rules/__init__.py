"""`gpuwatch rules`: packs and scores."""
