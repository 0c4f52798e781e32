"""Parts of every screen: status bar, key hints, help."""
