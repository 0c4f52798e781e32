"""Commands that explain a failure or a hang: `scan`, `stacks`, `flight`."""
