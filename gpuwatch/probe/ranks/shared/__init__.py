"""Parts that the ranks' modules share: orders, texts, deadlines, torch's types and the store."""
