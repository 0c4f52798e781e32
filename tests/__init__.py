"""Tests; colours as a modern terminal has them, whatever runs them: textual reads this at its import."""

import os

os.environ["TEXTUAL_COLOR_SYSTEM"] = "truecolor"
