"""The screens, without a terminal."""
