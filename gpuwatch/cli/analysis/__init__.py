"""Commands that explain a failure or a hang (`scan`, `stacks`, `evidence`, ...) or open ended jobs."""
