"""Orders, texts, deadlines, torch's types and the store of the ranks."""
