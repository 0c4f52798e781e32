"""Remembers which process uses which GPU, also while a GPU does not respond."""

from .process_table import read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Holders(object):
    """The processes of each GPU, which the emitter sets and the node's thread reads.

    The last processes of a silent GPU stay.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._reported: dict[str, tuple[int, dict[int, dict[str, Any] | None]]] = {}
        """UUID -> index, pid -> hold; None: it held the GPU at its last answer. Replaced as a whole."""
        self._starts: dict[int, int | None] = {}
        self._awaited: frozenset[int] = frozenset()

    @property
    def partial(self) -> "str | None":
        """Return why processes may be missing (GPUs that have not listed theirs yet); None: all have."""
        gpus = ", ".join(map(str, sorted(self._awaited)))
        return "GPU {} has not listed its processes yet".format(gpus) if gpus else None

    def expect(self, index: int, uuid: str, may_answer: bool) -> None:
        """Set whether the first process list of a GPU is awaited.

        `may_answer` is False for a GPU that is stuck or lost: its list is not awaited.
        """
        wait = may_answer and uuid not in self._reported
        self._awaited = self._awaited.union((index,)) if wait else self._awaited.difference((index,))

    def report(self, index: int, uuid: str, holds: "dict[int, dict[str, Any]]") -> None:
        """Set a GPU's processes: pid -> keys of `wire.ProcessGpu` except `uuid`."""
        self._reported = dict(self._reported, **{uuid: (index, holds)})

    def fall_silent(self, uuid: str) -> None:
        """Record that a GPU does not respond: its processes stay, their usage is unknown."""
        if uuid not in self._reported:
            return
        index, before = self._reported[uuid]
        if any(hold is not None for hold in before.values()):
            self._reported = dict(self._reported, **{uuid: (index, dict.fromkeys(before))})

    def by_pid(self) -> "dict[int, list[dict[str, Any]]]":
        """Return pid -> dicts with the keys of `wire.ProcessGpu`, by GPU index.

        The first dict is that of the GPU shown as a rank's own. Processes of a silent GPU are included while
        they live.
        """
        holders: dict[int, list[dict[str, Any]]] = {}
        starts: dict[int, int | None] = {}
        for uuid, (_, holds) in sorted(self._reported.items(), key=lambda reported: reported[1][0]):
            for pid, hold in holds.items():
                if pid not in starts:
                    found = read_stat(self._proc, pid)
                    starts[pid] = None if found is None else found.start_ticks
                if hold is not None:
                    self._starts[pid] = starts[pid]
                elif starts[pid] is None or self._starts.setdefault(pid, starts[pid]) != starts[pid]:
                    continue
                holders.setdefault(pid, []).append(dict(hold or {}, uuid=uuid))
        self._starts = {pid: start for pid, start in self._starts.items() if pid in starts}
        return holders
