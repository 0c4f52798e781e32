"""The ssh link's transport; only this package imports paramiko."""

from __future__ import annotations

import logging

# paramiko logs host and user names, and without a handler its errors would be printed over the screen
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").propagate = False
