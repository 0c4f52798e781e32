"""Parses packs: shapes, checks, problems with their lines."""
