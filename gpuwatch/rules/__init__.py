"""Rules and progress dialects: packs are loaded here."""
