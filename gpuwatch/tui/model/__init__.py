"""The data that screens show, without widgets.

The view state, alerts, node summaries, the session's protocol.
"""
