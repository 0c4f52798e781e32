"""The screen with a sampled profile of a rank."""
