"""The life cycle of one link: login, start, heartbeat, back-off, reconnect."""
