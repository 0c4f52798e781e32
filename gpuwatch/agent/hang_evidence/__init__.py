"""Evidence of hangs, collected on request: stacks, system calls, NCCL RAS, dumps; profiles by py-spy."""
