"""The links of a probe as arrays: the grade of each link, and the worst one between any two nodes.

A job of 1,024 GPUs has 137,000 links, and some change in every frame during a measurement; so changes are
read once, and everything that depends on all links is array arithmetic.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import compress
from operator import is_not
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuwatch.probe.judging.links.links import (
    BAD_RATIO,
    ENOUGH_NODES,
    NOISY_SPREAD,
    OK_RATIO,
    Grade,
    grade_of,
)
from gpuwatch.probe.judging.links.peer_reference import confirmed_best_tenth
from gpuwatch.probe.results import PairResult, RankSlot, Results, Unreachable

View: TypeAlias = Literal["nodes", "ranks"]
GRADES: tuple[Grade, ...] = ("ok", "low", "noisy", "bad", "dead")
"""All grades, from the best to the worst; `codes` has indices into this tuple."""
CODES = {grade: code for code, grade in enumerate(GRADES)}
NOT_MEASURED = -1
"""No link was measured there."""
UNREACHED = -2
"""Nothing can be measured there: the nodes cannot connect."""
NAN = float("nan")
STEP, UNKNOWN_PERCENT = 1024, 1023
FEW_CHANGES = 256
"""Up to this many changes, each is read separately."""


def kind_of(kind: int) -> tuple[Grade, float]:
    """Return the grade and the ratio (NaN: unknown) that a number of `LinkBoard.kinds` encodes."""
    code, percent = divmod(kind, STEP)
    return GRADES[code], NAN if percent == UNKNOWN_PERCENT else percent / 100


class Peers(Struct, frozen=True):
    """A link, the rate that links of its class reach, and the grade from comparing both."""

    pair: PairResult
    grade: Grade
    ratio: float | None
    reference: float | None
    """The 90th percentile of its class, 10^9 bytes per second."""


class LinkBoard:
    """The links of one probe with their grades; `take` updates them."""

    def __init__(self) -> None:
        self.slots: list[RankSlot] = []
        self.nodes: list[str] = []
        self.pairs: list[PairResult] = []
        self.version = 0
        """Increases with every change."""
        self.unreached: dict[tuple[int, int], Unreachable] = {}
        """(node, node) -> why the first cannot connect to the second."""
        self._clear()

    def _clear(self) -> None:
        self._place: dict[int, int] = {}
        """Rank -> its index among the slots."""
        self._groups: dict[object, int] = {}
        self._src, self._dst, self._group = array("i"), array("i"), array("i")
        self._rate, self._dead = array("d"), array("b")
        self._varies, self._own_cores = array("b"), array("b")
        """Whether a link's repeats vary widely; whether its ranks share the cores of a machine."""
        self._references: list[float | None] = []
        self._codes: NDArray[np.int8] = np.zeros(0, np.int8)
        self._ratios: NDArray[np.float64] = np.zeros(0)
        self._cells: dict[View, NDArray[np.int32]] = {}
        self._kinds: dict[View, NDArray[np.int32]] = {}

    # ---- what is new

    def take(self, results: Results) -> bool:
        """Read what changed in the results since the last call, and grade all links.

        Returns True if anything changed.
        """
        moved = self._take_slots(results)
        pairs = list(results.pairs.values())
        if len(pairs) < len(self.pairs):
            self._reset(self.slots)
            moved = True
        known = len(self.pairs)
        changed = list(compress(range(known), map(is_not, pairs, self.pairs)))
        moved |= bool(changed) or len(pairs) > known
        if not moved:
            return False
        for pair in pairs[known:]:
            self._append(pair)
        self.pairs = pairs
        if len(changed) > FEW_CHANGES:
            self._read_all()
        else:
            for index in changed:
                self._read(index, pairs[index])
        self.version += 1
        self._judge()
        self._cells.clear()
        self._kinds.clear()
        return True

    def _take_slots(self, results: Results) -> bool:
        slots = list(results.slots)
        moved = slots != self.slots
        if moved:
            self._reset(slots)
        at = {node: number for number, node in enumerate(self.nodes)}
        unreached = {
            (at[each.src], at[each.dst]): each
            for each in list(results.unreachable)
            if each.src in at and each.dst in at
        }
        moved |= unreached != self.unreached
        self.unreached = unreached
        return moved

    def _reset(self, slots: list[RankSlot]) -> None:
        self._clear()
        self.pairs = []
        self.slots = slots
        self.nodes = list(dict.fromkeys(slot.node for slot in slots))
        self._place = {slot.rank: place for place, slot in enumerate(slots)}
        number = {node: at for at, node in enumerate(self.nodes)}
        self._node_of = np.array([number[slot.node] for slot in slots], np.int32)

    def _append(self, pair: PairResult) -> None:
        place = self._place
        self._src.append(place.get(pair.src, NOT_MEASURED))
        self._dst.append(place.get(pair.dst, NOT_MEASURED))
        self._group.append(self._group_of(pair))
        src = self._place.get(pair.src)
        own_cores = pair.link == "same_node" and src is not None and self.slots[src].device == "cpu"
        self._own_cores.append(own_cores)
        self._rate.append(NAN)
        self._dead.append(0)
        self._varies.append(0)
        self._read(len(self._rate) - 1, pair)

    def _read(self, index: int, pair: PairResult) -> None:
        rate = pair.bandwidth_gb_per_s
        self._dead[index] = not pair.ok
        self._rate[index] = rate if pair.ok and rate is not None else NAN
        self._varies[index] = pair.spread is not None and pair.spread > NOISY_SPREAD

    def _read_all(self) -> None:
        pairs = self.pairs
        rates = np.array([pair.bandwidth_gb_per_s for pair in pairs], np.float64)  # None becomes NaN
        dead = np.array([not pair.ok for pair in pairs], np.int8)
        rates[dead != 0] = NAN
        varies = np.array([pair.spread for pair in pairs], np.float64) > NOISY_SPREAD
        self._rate = array("d", rates.tobytes())
        self._dead = array("b", dead.tobytes())
        self._varies = array("b", varies.astype(np.int8).tobytes())

    def _group_of(self, pair: PairResult) -> int:
        """Return the index of the group whose links a link is compared with: its class.

        With enough nodes, links inside a node are compared only with those of the same two local ranks.
        """
        key: object = pair.link
        if pair.link == "same_node" and len(self.nodes) >= ENOUGH_NODES:
            ends = (self._place.get(pair.src), self._place.get(pair.dst))
            key = frozenset(self.slots[end].local for end in ends if end is not None)
        return self._groups.setdefault(key, len(self._groups))

    # ---- what comes of it

    def _judge(self) -> None:
        rate, group = np.frombuffer(self._rate), np.frombuffer(self._group, np.int32)
        receiver = np.frombuffer(self._dst, np.int32)
        reference = np.full(len(self._groups), np.nan)
        for number in range(len(self._groups)):
            known = (group == number) & ~np.isnan(rate) & (receiver >= 0)
            if known.any():
                reference[number] = confirmed_best_tenth(rate[known], self._node_of[receiver[known]])
        self._references = [None if np.isnan(each) else float(each) for each in reference]
        self._ratios = rate / reference[group] if len(rate) else np.zeros(0)
        codes = np.where(self._ratios < BAD_RATIO, CODES["bad"], CODES["low"]).astype(np.int8)
        codes[~(self._ratios < OK_RATIO)] = CODES["ok"]
        varies = np.frombuffer(self._varies, np.int8) != 0
        for index in np.nonzero(varies & (codes != CODES["ok"]))[0].tolist():
            codes[index] = CODES[grade_of(float(self._ratios[index]), self.pairs[index].spread)]
        own_cores = np.frombuffer(self._own_cores, np.int8) != 0
        codes[own_cores & (codes == CODES["bad"])] = CODES["noisy"]  # as `probe.links` has it
        codes[np.frombuffer(self._dead, np.int8) != 0] = CODES["dead"]
        self._codes = codes

    def cells(self, view: View) -> NDArray[np.int32]:
        """Return the matrix (source, destination) with the index in `pairs` of the worst link.

        NOT_MEASURED or UNREACHED where there is none. Shape (n, n), n nodes or ranks by `view`.
        """
        found = self._cells.get(view)
        if found is None:
            found = self._cells[view] = self._worst(view)
        return found

    def _worst(self, view: View) -> NDArray[np.int32]:
        size = self.size(view)
        flat = np.full(size * size, NOT_MEASURED, np.int32)
        src, dst = np.frombuffer(self._src, np.int32), np.frombuffer(self._dst, np.int32)
        known = np.nonzero((src >= 0) & (dst >= 0))[0]
        src, dst = src[known], dst[known]
        if view == "nodes" and len(known):
            src, dst = self._node_of[src], self._node_of[dst]
        order = np.argsort(
            self._gravity()[known], kind="stable"
        )  # where two meet in one cell, the one assigned last stays
        flat[(src * size + dst)[order]] = known[order]
        cells: NDArray[np.int32] = flat.reshape(size, size)
        if view == "nodes":
            for a, b in self.unreached:
                if cells[a, b] == NOT_MEASURED:
                    cells[a, b] = UNREACHED
        return cells

    # ---- what painters ask

    def size(self, view: View) -> int:
        """Return the number of rows, which is also that of columns."""
        return len(self.nodes) if view == "nodes" else len(self.slots)

    def kinds(self, view: View, number: int, columns: slice) -> list[int]:
        """Return `columns` of row `number` as numbers for `kind_of`, NOT_MEASURED or UNREACHED."""
        found: list[int] = self._all_kinds(view)[number, columns].tolist()
        return found

    def places(self, view: View, number: int, columns: slice) -> list[int]:
        """Return `columns` of row `number` as indices in `pairs`, NOT_MEASURED or UNREACHED."""
        found: list[int] = self.cells(view)[number, columns].tolist()
        return found

    def _all_kinds(self, view: View) -> NDArray[np.int32]:
        kinds = self._kinds.get(view)
        if kinds is None:
            cells = self.cells(view)
            percent = np.nan_to_num(np.rint(self._ratios * 100), nan=UNKNOWN_PERCENT).clip(0, UNKNOWN_PERCENT)
            looks = (self._codes * np.int32(STEP) + percent).astype(np.int32)
            kinds = cells if not len(looks) else np.where(cells >= 0, looks[np.maximum(cells, 0)], cells)
            self._kinds[view] = kinds
        return kinds

    def peers(self, place: int) -> Peers:
        """Return the graded link with the index `place` in `pairs`."""
        ratio = float(self._ratios[place])
        return Peers(
            self.pairs[place],
            GRADES[self._codes[place]],
            None if np.isnan(ratio) or self._dead[place] else ratio,
            self._references[self._group[place]],
        )

    def between(self, view: View, source: int, target: int) -> list[Peers]:
        """Return all links from one node (or rank, by `view`) to another, sorted by ranks; may be empty."""
        if not self.pairs:
            return []
        src, dst = np.frombuffer(self._src, np.int32), np.frombuffer(self._dst, np.int32)
        known = (src >= 0) & (dst >= 0)
        if view == "nodes":
            src, dst = self._node_of[src], self._node_of[dst]
        found: list[int] = np.nonzero(known & (src == source) & (dst == target))[0].tolist()
        return sorted((self.peers(place) for place in found), key=lambda each: (each.pair.src, each.pair.dst))

    def worst(self) -> Peers | None:
        """Return the worst link of the probe; None if none is measured."""
        return None if not self.pairs else self.peers(int(np.argmax(self._gravity())))

    def worst_of(self, name: str) -> Peers | None:
        """Return the worst link from or to the node that `name` is or begins with; None if there is none."""
        nodes = [node for node in self.nodes if name == node or name.startswith(f"{node} ")]
        if not nodes or not self.pairs:
            return None
        node = self.nodes.index(max(nodes, key=len))
        src, dst = np.frombuffer(self._src, np.int32), np.frombuffer(self._dst, np.int32)
        touches = ((src >= 0) & (self._node_of[src] == node)) | ((dst >= 0) & (self._node_of[dst] == node))
        return (
            self.peers(int(np.argmax(np.where(touches, self._gravity(), -np.inf)))) if touches.any() else None
        )

    def _gravity(self) -> NDArray[np.float64]:
        """Return how bad each link is, by grade, and within a grade by ratio: larger is worse."""
        return np.asarray(self._codes * 10.0 - np.nan_to_num(self._ratios, nan=9.0), np.float64)

    def counts(self) -> dict[Grade, int]:
        """Return grade -> number of links."""
        numbers: Sequence[int] = np.bincount(self._codes, minlength=len(GRADES)).tolist()
        return dict(zip(GRADES, numbers, strict=True))
