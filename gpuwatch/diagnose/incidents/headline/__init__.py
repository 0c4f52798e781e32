"""The headline of an incident: its facts, the sentence, what followed, and the text if no cause is known."""
