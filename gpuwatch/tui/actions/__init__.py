"""The boxes of the key for actions: what can be done here, and the confirmation with its result."""
