"""Stores the rates of a healthy run in a JSON file, and compares a later run with them."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import get_args

import msgspec
from msgspec import Struct

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.number_text import plural, rate_with_unit, size_text, some
from gpuwatch.probe.judging.links.links import graded
from gpuwatch.probe.judging.links.peer_reference import best_tenth
from gpuwatch.probe.results import LinkClass, Results
from gpuwatch.whole_file import read_bounded, write_whole

MAX_BASELINE_BYTES = 64 << 20
"""Maximum size of a baseline file, enough for a thousand nodes."""
FORMAT = "gpuwatch-probe-baseline"
VERSION = 1
REGRESSION_SHARE = 0.05
"""SuperBench's rule: a node that deviates by more than 5 % from its baseline is defective."""


class BaselineError(Exception):
    """Raised if a baseline cannot be read or written; states the file, the reason, and the remedy."""


class BaselineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The rate of one collective or class of links, and the kind of run that reached it."""

    what: str
    """A collective, or a class of links."""
    bytes: int
    """Size of a collective's buffer; 0 for a class of links."""
    nodes: int
    ranks: int
    backend: str
    torch: str | None
    nccl: str | None
    gb_per_s: float
    """busbw of a collective; the 90th percentile of a class of links."""
    spread: float
    """The variation of this rate, as a fraction of `gb_per_s`."""
    made: float
    """Time of the measurement (unix seconds)."""

    @property
    def shape(self) -> tuple[str, int, int, int, str]:
        """(what, bytes, nodes, ranks, backend), which must be equal for a comparison."""
        return self.what, self.bytes, self.nodes, self.ranks, self.backend

    @property
    def versions(self) -> tuple[str | None, str | None]:
        """(torch, NCCL) versions of the measurement, None if unknown; those of both should be equal."""
        return self.torch, self.nccl


class _BaselineFile(msgspec.Struct, frozen=True, kw_only=True):
    format: str
    version: int
    entries: list[BaselineEntry]


class Baseline(Struct, frozen=True):
    """The entries of one baseline file."""

    path: str
    entries: tuple[BaselineEntry, ...]

    def of(self, entry: BaselineEntry) -> BaselineEntry | None:
        """Return the newest entry of the same shape, preferably of the same torch and NCCL.

        None: no such entry.
        """
        alike = [each for each in self.entries if each.shape == entry.shape]
        return max(alike, key=lambda each: (each.versions == entry.versions, each.made), default=None)


def entries_of(results: Results) -> list[BaselineEntry]:
    """Return the entries of a run: the rate of each collective and size, and of each class of links."""
    found = [
        _entry(results, each.op, each.bytes, each.busbw_gb_per_s, 2 * (each.cv or 0.0))
        for each in results.collectives
        if each.busbw_gb_per_s is not None and each.error is None and each.correct is not False
    ]
    classes: dict[LinkClass, list[float]] = {}
    for link in graded(results):
        if link.rate is not None:
            classes.setdefault(link.link, []).append(link.rate)
    for name, rates in classes.items():
        best, middle = best_tenth(rates), median(rates)
        found.append(_entry(results, name, 0, best, (best - middle) / best if best else 0.0))
    return found


def _entry(results: Results, what: str, size: int, gb_per_s: float, spread: float) -> BaselineEntry:
    return BaselineEntry(
        what=what,
        bytes=size,
        nodes=len({slot.node for slot in results.slots}),
        ranks=len(results.slots),
        backend=results.backend or "unknown",
        torch=results.torch,
        nccl=results.nccl,
        gb_per_s=gb_per_s,
        spread=spread,
        made=results.started,
    )


def load(path: str | Path) -> Baseline:
    """Return the baseline in a file.

    Raises:
        BaselineError: it does not exist, cannot be read, is not a baseline, or is of a newer version.
    """
    remedy = "make one with --save-baseline on a healthy cluster"
    try:
        kept = msgspec.json.decode(read_bounded(Path(path), MAX_BASELINE_BYTES), type=_BaselineFile)
    except FileNotFoundError:
        raise BaselineError(f"there is no baseline {path}; {remedy}") from None
    except OSError as error:
        raise BaselineError(f"the baseline {path} cannot be read: {error.strerror}") from None
    except DECODE_ERRORS as error:
        raise BaselineError(f"{path} is not a baseline of gpuwatch ({error}); {remedy}") from None
    if kept.format != FORMAT:
        raise BaselineError(f"{path} is not a baseline of gpuwatch; {remedy}")
    if kept.version > VERSION:
        raise BaselineError(
            f"{path} was written by a newer gpuwatch (version {kept.version}); update this one"
        )
    return Baseline(str(path), tuple(kept.entries))


def save(path: str | Path, results: Results) -> None:
    """Write the rates of this run; the file's entries of other shapes or versions are kept.

    Raises:
        BaselineError: the run measured nothing to store, the file has another content or cannot be written.
    """
    path, fresh = Path(path), entries_of(results)
    if not fresh:
        raise BaselineError(f"this run has no valid result to save in {path}; let the probe run to its end")
    replaced = {(each.shape, each.versions) for each in fresh}
    old = load(path).entries if path.exists() else ()
    kept = [each for each in old if (each.shape, each.versions) not in replaced]
    _write(path, _BaselineFile(format=FORMAT, version=VERSION, entries=[*kept, *fresh]))


def _write(path: Path, content: _BaselineFile) -> None:
    """Write the file atomically.

    Raises:
        BaselineError: it cannot be written.
    """
    text = msgspec.json.format(msgspec.json.encode(content), indent=2)
    try:
        write_whole(path, text + b"\n")
    except OSError as error:
        remedy = "name a file in a folder that you may write to"
        raise BaselineError(f"the baseline {path} cannot be written: {error.strerror}; {remedy}") from None


class Change(Struct, frozen=True):
    """The rate of a collective or link class in this run, and in the baseline."""

    now: BaselineEntry
    before: BaselineEntry

    @property
    def delta(self) -> float:
        """The change of a rate relative to the baseline: -0.12 is 12 % slower; 0.0 if the baseline is 0."""
        return self.now.gb_per_s / self.before.gb_per_s - 1.0 if self.before.gb_per_s else 0.0

    @property
    def regressed(self) -> bool:
        """True if slower by more than 5 % and by more than the variation of either run."""
        return -self.delta > max(REGRESSION_SHARE, self.now.spread, self.before.spread)

    @property
    def text(self) -> str:
        """Text for reports: `all_reduce of 64 MB -12 % (40.1 GB/s, baseline 45.6 GB/s)`."""
        what = self.now.what.replace("_", " ") + " links"
        if self.now.bytes:
            what = f"{self.now.what} of {size_text(self.now.bytes)}"
        rates = f"{rate_with_unit(self.now.gb_per_s)}, baseline {rate_with_unit(self.before.gb_per_s)}"
        return f"{what} {self.delta * 100:+.0f} % ({rates})"


class Comparison(Struct, frozen=True):
    """The comparison of a run with a baseline."""

    changes: tuple[Change, ...] = ()
    remarks: tuple[str, ...] = ()
    """Remarks on the comparison: a different torch or NCCL, or nothing to compare with."""

    @property
    def floors(self) -> dict[LinkClass, float]:
        """Class of links -> its rate in the baseline (GB/s)."""
        before = {change.now.what: change.before.gb_per_s for change in self.changes}
        return {each: before[each] for each in get_args(LinkClass) if each in before}

    def regressions(self, *, explained: bool = False) -> list[str]:
        """Return the regressions as sentences, the worst first; a single one if `explained` by a culprit."""
        worse = sorted((change for change in self.changes if change.regressed), key=lambda each: each.delta)
        if not explained or len(worse) < 2:
            return [f"slower than the baseline: {change.text}" for change in worse]
        rates = some(len(worse), len(self.changes), "rate")
        return [f"slower than the baseline too: {rates}; the worst {worse[0].text}"]


def compare(results: Results, baseline: Baseline | None) -> Comparison:
    """Return the comparison of every rate of this run that the baseline contains too.

    Without baseline, or if this run has no valid rate, it is empty; if the baseline holds no such rate, it
    has only a remark that says so.
    """
    fresh = entries_of(results) if baseline is not None else []
    if baseline is None or not fresh:
        return Comparison()
    pairs = ((now, baseline.of(now)) for now in fresh)
    changes = [Change(now, before) for now, before in pairs if before is not None]
    if not changes:
        run = f"{plural(fresh[0].ranks, 'rank')} on {plural(fresh[0].nodes, 'node')} over {fresh[0].backend}"
        return Comparison(
            (), (f"the baseline {baseline.path} holds no run of {run}; add one with --save-baseline",)
        )
    others = sorted({_versions(each.before) for each in changes if each.before.versions != each.now.versions})
    remark = f"the baseline was made with {', '.join(others)}, this run with {_versions(fresh[0])}"
    return Comparison(tuple(changes), (remark,) if others else ())


def _versions(entry: BaselineEntry) -> str:
    return f"torch {entry.torch or '?'}" + (f" and NCCL {entry.nccl}" if entry.nccl else "")
