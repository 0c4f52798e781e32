"""What all screens use: line views, styles, keys, charts, the app's protocol."""
