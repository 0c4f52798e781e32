"""Delivers incidents to Alertmanager, webhooks, chats and commands, without delaying the session.

What was delivered is stored, so that a restart repeats nothing.
"""
