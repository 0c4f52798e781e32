"""What the people who watch a cluster share: acknowledgements, silences and notes, with who and when."""
