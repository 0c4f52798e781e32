"""The widgets of the log screen."""
