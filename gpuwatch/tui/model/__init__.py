"""The data that screens show, without widgets: view state, alerts, node summaries, protocols."""
