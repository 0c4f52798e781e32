"""A session over a plan; see `gpuwatch.session.session`."""

from gpuwatch.session.session import Session

__all__ = ["Session"]
