"""Serves several viewers from one session: the relay in the process with the links, and their sessions."""
