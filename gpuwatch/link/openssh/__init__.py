"""Reads OpenSSH's settings and trust files without paramiko: ssh_config, known_hosts, host certificates."""
