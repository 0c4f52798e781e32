"""What the faults act on: nodes with a network and a clock of their own, a job, and a cockpit."""
