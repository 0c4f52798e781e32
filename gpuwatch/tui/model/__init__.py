"""What screens show, without widgets: the view, alerts, node summaries, the session's protocol."""
