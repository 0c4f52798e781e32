"""Dialogs over every screen: columns, jobs, notes, times, explanations."""
