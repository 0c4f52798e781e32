"""Turns facts into conditions, alerts and incidents.

`alert_book` and the watches keep state; the rest is pure.
"""
