"""The whole of gpuwatch over real sshd, real agents, a fake NVML library and a real terminal."""
