"""Evidence of hangs, collected on request: stacks, system calls, NCCL RAS, dumps, py-spy profiles."""
