"""Reads the host: CPU, memory, disks, network ports, InfiniBand, addresses, kernel and distribution."""
