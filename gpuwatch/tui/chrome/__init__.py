"""Parts of every screen: status bar, help."""
