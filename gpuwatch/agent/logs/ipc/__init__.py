"""Connects agent and log reader: process, pipes, messages, activity marker."""
