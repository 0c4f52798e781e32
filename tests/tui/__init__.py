"""The screens, without a terminal; colours as a modern terminal has them, whatever runs the tests."""

import os

os.environ["TEXTUAL_COLOR_SYSTEM"] = "truecolor"
os.environ.pop("NO_COLOR", None)
