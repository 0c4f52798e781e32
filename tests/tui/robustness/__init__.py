"""Screens that survive faults, races, random keys and hostile nodes."""
