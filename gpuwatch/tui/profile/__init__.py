"""The screen of `ctrl+t`: a sampled profile of a rank."""
