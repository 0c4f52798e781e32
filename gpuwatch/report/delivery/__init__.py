"""Delivers incidents to Alertmanager, webhooks, chats and commands, without delaying the session.

Survives restarts.
"""
