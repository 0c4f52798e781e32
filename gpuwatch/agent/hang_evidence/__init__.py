"""Evidence collected on request: stacks, system calls, NCCL RAS, dumps, files beside logs, profiles."""
