"""`gpuwatch rules test`: the accuracy of packs on labelled excerpts."""
