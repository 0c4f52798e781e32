"""Folders of ended launches, from records of the system: process accounting and the journal."""
