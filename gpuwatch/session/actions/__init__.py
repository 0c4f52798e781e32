"""Actions that a person has confirmed: each runs once, and its result goes into the notes of the incident."""
