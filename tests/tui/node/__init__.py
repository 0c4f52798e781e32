"""The screens of a node and of its GPUs."""
