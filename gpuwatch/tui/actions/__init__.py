"""The dialogs of the key for actions: the list of actions, and the confirmation with the result."""
