"""Logins to a real sshd."""
