"""The dialogs of the actions key: the list of actions, and the confirmation with the result."""
