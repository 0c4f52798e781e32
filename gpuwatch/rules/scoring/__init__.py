"""`gpuwatch rules test`: how well packs do on labelled excerpts."""
