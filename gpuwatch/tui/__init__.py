"""The screens: the app, its navigation, and the command palette."""
