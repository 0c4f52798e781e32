"""Delivery of incidents: Alertmanager, webhooks, chats, commands; kept over a restart, never in the way."""
