"""The life of one link: login, start, heartbeat, back-off, redial."""
