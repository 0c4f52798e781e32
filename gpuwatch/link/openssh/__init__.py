"""Reads OpenSSH's files without paramiko: ssh_config, known_hosts and host certificates."""
