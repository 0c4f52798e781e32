"""One entry of the problem list: an incident, a condition, an ended job or an event."""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Struct
from rich.segment import Segment

from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.styles import StyleSet, clean


class ProblemItem(Struct, frozen=True):
    """An incident, condition, ended job or event in the list: one line, expanded under the cursor."""

    key: Hashable
    severity: Severity
    """Decides the colour, and the sign if `sign` is None."""
    node: str
    gpu: Gpu | None
    text: str
    detail: str
    remedy: str
    clock: str = ""
    incident: str = ""
    """The id of the incident, or of the ended job's active incident; "": none."""
    nodes: str = ""
    """Names of several nodes that share it, folded; `node` is the first of them."""
    opens: str = ""
    """The node that Enter opens if the text names it and `node` is empty."""
    code: str = ""
    """The id of its explanation: of a rule, a condition or an alert; "": none."""

    sign: Severity | None = None
    """The severity whose sign is shown: that of an acknowledged incident, whose colour is muted."""

    def mark(self, look: StyleSet) -> Segment:
        """Return the segment with the item's sign in its colour."""
        return Segment(look.glyph(self.sign or self.severity), look.severity[self.severity])

    @property
    def place(self) -> str:
        """The folded names of the nodes that share the item, else node and GPU; "" without a node."""
        if self.nodes:
            return clean(self.nodes)
        return clean(self.node if self.gpu is None else f"{self.node} GPU {self.gpu.info.index}")


def gpu_of(view: NodeView, index: int | None) -> Gpu | None:
    """Return the GPU of a node with this index; None if there is none."""
    return next((gpu for gpu in view.gpus if gpu.info.index == index), None)
