"""A session over a plan of nodes; see `gpuwatch.session.session`."""

from gpuwatch.session.session import Session

__all__ = ["Session"]
