"""The screens, without a terminal; coloured, whatever runs the tests."""

import os

os.environ.pop("NO_COLOR", None)
