"""Names for torch's types, which are not imported: they differ from torch 2.1 to 2.15."""

from typing import Any

Torch = Any
"""The module `torch`, with `torch.distributed` imported."""
Tensor = Any
Device = Any
"""A `torch.device`, or the name of one."""
Store = Any
"""A `torch.distributed.Store`."""
Group = Any
"""A process group of one backend."""
Work = Any
"""A pending send or receive."""
Event = Any
"""A CUDA event."""
