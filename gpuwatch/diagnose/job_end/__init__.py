"""How a job ended, by the steps that its ranks logged."""
