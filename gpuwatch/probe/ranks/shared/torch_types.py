"""Names for what torch hands over. Their types are not imported: from torch 2.1 to 2.15 they differ."""

from typing import Any

Torch = Any
"""The module `torch`, with `torch.distributed` imported."""
Tensor = Any
Device = Any
"""A `torch.device`, or its name."""
Store = Any
"""A client of the TCPStore."""
Group = Any
"""A process group of one backend."""
Work = Any
"""A send or receive under way."""
Event = Any
"""A CUDA event."""
