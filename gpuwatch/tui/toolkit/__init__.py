"""Shared by all screens: line views, styles, keys, charts, the app's interface."""
