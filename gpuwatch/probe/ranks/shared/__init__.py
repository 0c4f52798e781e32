"""Shared by the ranks: orders, texts, deadlines, torch's types and the store."""
