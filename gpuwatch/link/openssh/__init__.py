"""The files of OpenSSH, read without paramiko: ssh_config, known_hosts and host certificates."""
