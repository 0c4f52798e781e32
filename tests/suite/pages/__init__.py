"""Documentation that tests keep true."""
