"""Session folders as the library writes them."""
