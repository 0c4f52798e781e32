"""The session: watches the nodes of a plan, or plays a recording or logs; see `gpuwatch.session.session`."""

from gpuwatch.session.session import Session

__all__ = ["Session"]
