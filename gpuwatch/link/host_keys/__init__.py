"""Host keys and host certificates by the rules of OpenSSH, without paramiko."""
