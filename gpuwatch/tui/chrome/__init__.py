"""The status bar and key hints of every screen, and dialogs such as help."""
