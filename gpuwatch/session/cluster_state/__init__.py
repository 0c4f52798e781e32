"""Marks that all operators of a cluster share: acknowledgements, silences and notes, with author and time."""
