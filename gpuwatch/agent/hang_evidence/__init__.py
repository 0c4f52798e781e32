"""Evidence of hangs, collected on request: stacks, system calls, NCCL RAS, flight-recorder dumps."""
