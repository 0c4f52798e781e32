"""Reads what ended runs left: logs, dumps, traces, sessions; joins them to ranks and nodes."""
