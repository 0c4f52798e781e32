"""The headline of an incident: its facts, the sentence, what followed, and the words without a cause."""
