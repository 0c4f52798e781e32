"""`gpuwatch dmon`: one line per GPU and tick."""
