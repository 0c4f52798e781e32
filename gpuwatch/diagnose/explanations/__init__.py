"""The content of `gpuwatch explain` and of the key `i`: topics, rules, conditions and metrics."""
