"""Adds the facts about a checkpoint's files to lines about saved checkpoints."""

import os
import time
from collections import OrderedDict

from .checkpoint_files import GROWING_S, facts
from .checkpoint_lines import SAVED, checkpoint_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..files.catalog import Catalog

MAX_WAITING = 256
_STEP_FOLDERS = ("iter_{:07d}", "global_step{}", "checkpoint-{}", "step_{}", "step-{}", "{}")


class CheckpointFiles(object):
    """Adds the size, time and completeness of checkpoint files to findings about saved checkpoints.

    Pass every finding to `with_files`, and call `again` at intervals.
    """

    def __init__(self, catalog: "Catalog", enter: "Callable[[str], object]") -> None:
        """Create it; `enter` is called with a path before the file system is accessed."""
        self._catalog = catalog
        self._enter = enter
        self._waiting: OrderedDict[tuple[Any, ...], tuple[float, dict[str, Any]]] = OrderedDict()
        """(log, rank) -> when to check again (monotonic), and the finding."""

    def with_files(self, finding: "dict[str, Any]") -> "dict[str, Any]":
        """Return the finding; if it reports a saved checkpoint, `fields` has the facts about its files."""
        if finding["rule"] != SAVED:
            return finding
        found = self._files_of(finding)
        key = (finding["file"], finding.get("rank"), finding.get("host"))
        if found and "complete" not in found:
            self._waiting[key] = (time.monotonic() + GROWING_S + 1.0, finding)
            while len(self._waiting) > MAX_WAITING:
                self._waiting.popitem(last=False)
        else:
            self._waiting.pop(key, None)
        return dict(finding, fields=dict(finding["fields"], **found))

    def again(self, now: float) -> "list[dict[str, Any]]":
        """Return the findings whose checkpoint was still growing and may be complete now, with new facts."""
        due = [key for key, (at, _) in self._waiting.items() if at <= now]
        found = []
        for key in due:
            finding = self._waiting.pop(key)[1]
            found.append(dict(finding, fields=dict(finding["fields"], **self._files_of(finding))))
        return found

    def _files_of(self, finding: "dict[str, Any]") -> "dict[str, Any]":
        step, path = checkpoint_of(finding["lines"][finding.get("key", 0)])
        if path is None:
            return {}
        place = os.path.join(os.path.dirname(finding["file"]), os.path.expanduser(path))
        if place in self._catalog.blocked:
            return {}
        self._enter(place)
        return facts(_of_step(place, step))


def _of_step(place: str, step: "int | None") -> str:
    """Return the folder of the step if `place`, the path in the line, is its parent (Megatron, Orbax).

    Else return `place`.
    """
    for form in _STEP_FOLDERS if step is not None and os.path.isdir(place) else ():
        below = os.path.join(place, form.format(step))
        if os.path.isdir(below):
            return below
    return place
