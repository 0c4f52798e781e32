"""`gpuwatch dmon`: a line a GPU and tick."""
