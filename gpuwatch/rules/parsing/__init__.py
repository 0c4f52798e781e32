"""Packs as people write them: shapes, checks, problems with their lines."""
