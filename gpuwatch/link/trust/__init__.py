"""Host keys, host certificates and ssh_config, without paramiko."""
