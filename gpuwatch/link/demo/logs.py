"""The logs of a demo node: the agent's scanner reads generated files, and requests are answered."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import structs

from gpuwatch import wire
from gpuwatch.agent.kernel.xid_lines import bus_id
from gpuwatch.agent.logs.lines.rows import row
from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.link.demo import machines, scenario, texts
from gpuwatch.link.demo.log_files import DemoLine, LogText
from gpuwatch.link.demo.scenario import GPUS_PER_NODE
from gpuwatch.rules.compiling.keep import compiled_or_kept
from gpuwatch.rules.load import load_packs

JOB = "418207"
MAX_LINES = 500
"""Lines per frame."""
STEPS_BEFORE = 200
"""Steps of rank 0 reported at the start; without them curves would take minutes to grow."""
SLICE_LINES = 250
"""Lines per slice of a search."""
_GPU_OF = {machines.bus_id(gpu): gpu for gpu in range(GPUS_PER_NODE)}


@cache
def rules() -> tuple[RuleSet, Prefilter]:
    """Return (rule set, prefilter) of the built-in packs, compiled once for all nodes."""
    ruleset = RuleSet(compiled_or_kept(load_packs().all))
    return ruleset, Prefilter(ruleset)


class NodeLogs:
    """The log files of one demo node, which its agent follows from second `began` on."""

    def __init__(self, seed: int, number: int, name: str, nodes: int, epoch: float, began: float) -> None:
        self._seed, self._number, self._epoch = seed, number, epoch
        self.files: dict[str, LogText] = {}
        self._speakers: dict[str, dict[str, Any]] = {wire.KERNEL_LOG: {}}
        for gpu in range(GPUS_PER_NODE):
            writer = texts.Writer(seed, number, name, gpu, nodes * GPUS_PER_NODE, epoch)
            log = texts.rank_log(writer)
            self.files[log.path] = log
            self._speakers[log.path] = {
                "rank": writer.rank, "rank_from": "process", "local_rank": gpu, "job": JOB,
            }  # fmt: skip
        for log in (texts.launcher_log(seed, number, name, nodes, epoch), texts.kernel_log(number, name)):
            self.files[log.path] = log
        self._speakers[texts.launcher_path(name)] = {"job": JOB}
        self._began = {path: log.count(began) for path, log in self.files.items()}
        self._seen = dict(self._began)
        self._past = number == 0
        """True while `STEPS_BEFORE` are still to be reported."""
        self._numbers = itertools.count(1)
        self._scanners: dict[str, Scanner] = {}
        self._ruled: dict[tuple[str, int], str] = {}
        """(file, offset) of matched lines -> rule id."""
        self._tails: dict[int, tuple[LogText, int]] = {}
        """Request -> file and number of the next line."""
        self._searches: dict[int, Iterator[wire.Lines]] = {}

    # ---- following

    def inventory(self, t: float, seq: int) -> wire.Logs:
        """Return a `Logs` frame with the files that are followed at second `t`."""
        files = [self._file(log, t) for log in self.files.values()]
        return wire.Logs(t=self._epoch + t, seq=seq, files=files, complete=True)

    def _file(self, log: LogText, t: float) -> wire.LogFile:
        speaker = self._speakers[log.path]
        kernel, written = log.path == wire.KERNEL_LOG, log.count(t)
        rank, gpu = speaker.get("rank"), speaker.get("local_rank")
        alive = gpu is None or t < scenario.ends_at(self._seed, self._number, gpu)
        pid = texts.LAUNCHER_PID if gpu is None else texts.FIRST_PID + gpu
        return wire.LogFile(
            path=log.path,
            source="kernel" if kernel else "process",
            size=None if kernel else log.offset(written),
            searched_to=written if kernel else log.offset(written),
            lines=written - self._began[log.path],
            grown_at=self._epoch + log.line(written - 1).second if written else None,
            ranks=[] if rank is None else [rank],
            rank_from=speaker.get("rank_from"),
            local_rank=gpu,
            job=speaker.get("job"),
            pids=[pid] if alive and not kernel else [],
        )

    def follow(self, t: float, seq: int) -> list[wire.AnyFrame]:
        """Return the frames that are new at second `t`: findings, progress, and lines for tails."""
        numbers = itertools.count(seq)
        scanned = [finding for log in self.files.values() for finding in self._scan(log, t)]
        found: list[wire.AnyFrame] = [self._finding(finding, t, next(numbers)) for finding in scanned]
        if self._past:
            found += [self._reported(reported, t, next(numbers)) for reported in self._watched_before()]
            self._past = False
        for scanner in self._scanners.values():
            found += [self._reported(reported, t, next(numbers)) for reported in scanner.progress()]
        for request, (log, first) in self._tails.items():
            stop = max(first, log.count(t))
            if stop > first:
                self._tails[request] = log, stop
                lines = self._lines(request, log, log.lines(first, stop), t)
                found.append(structs.replace(lines, seq=next(numbers)))
        return found

    def _scan(self, log: LogText, t: float) -> list[dict[str, Any]]:
        first, stop = self._seen[log.path], log.count(t)
        scanner = self._scanners.get(log.path)
        if stop <= first:
            return [] if scanner is None else scanner.quiet(self._epoch + t)
        if scanner is None:
            scanner = self._scanners[log.path] = self._scanner(log)
        self._seen[log.path] = stop
        found: list[dict[str, Any]] = []
        for line in log.lines(first, stop):
            arrived = self._epoch + line.second
            found += scanner.feed(line.text.encode() + b"\n", line.offset, arrived)
        return found + scanner.quiet(self._epoch + t)

    def _scanner(self, log: LogText) -> Scanner:
        ruleset, prefilter = rules()
        return Scanner(ruleset, log.path, self._numbers.__next__, lambda: self._speakers[log.path], prefilter)

    def _watched_before(self) -> Iterator[dict[str, Any]]:
        """Yield rank 0's progress in the minutes before the start, as if the job had been monitored then."""
        log = next(iter(self.files.values()))
        scanner, stop = self._scanner(log), self._began[log.path]
        for line in log.lines(max(0, stop - STEPS_BEFORE), stop):
            scanner.feed(line.text.encode() + b"\n", line.offset, self._epoch + line.second)
            yield from scanner.progress()

    def _reported(self, reported: dict[str, Any], t: float, seq: int) -> wire.Progress:
        return msgspec.convert({**reported, "t": self._epoch + t, "seq": seq}, wire.Progress)

    def _finding(self, found: dict[str, Any], t: float, seq: int) -> wire.Finding:
        kernel = found["file"] == wire.KERNEL_LOG
        self._ruled[found["file"], found["offset"]] = found["rule"]
        gpu = _GPU_OF.get(bus_id(found["lines"][found["key"]]) or "") if kernel else None
        more = {"t": self._epoch + t, "seq": seq, "timed": found["timed"] or kernel}
        finding = msgspec.convert({**found, **more}, wire.Finding)
        return finding if gpu is None else structs.replace(finding, gpu=machines.uuid(self._number, gpu))

    # ---- answering

    def answer(self, request: wire.AnyRequest, t: float) -> Iterable[wire.Lines]:
        """Return the lines for a request that are available at once; a search continues in `work`."""
        match request:
            case wire.Tail(id=number, file=path):
                log = self.files.get(path)
                if log is None:
                    return [self._unknown(number, path, t)]
                stop = log.count(t)
                first = stop - request.lines if request.offset is None else log.number(request.offset)
                self._tails[number] = log, stop
                return [self._lines(number, log, log.lines(first, stop), t)]
            case wire.ReadLines(id=number, file=path):
                log = self.files.get(path)
                return [self._unknown(number, path, t)] if log is None else self._read(log, request, t)
            case wire.Search():
                self._searches[request.id] = self._search(request, t)
            case wire.Cancel(of=number):
                if self._tails.pop(number, None) or self._searches.pop(number, None):
                    return [wire.Lines(t=self._epoch + t, seq=0, id=number, done=True)]
        return []

    def work(self) -> wire.Lines | None:
        """Search some more lines for the oldest search and return its hits; None if no search runs."""
        for number, search in self._searches.items():
            frame = next(search, None)
            if frame is None or frame.done:
                del self._searches[number]
            return frame
        return None

    @property
    def searching(self) -> bool:
        """True while a search runs."""
        return bool(self._searches)

    def _read(self, log: LogText, request: wire.ReadLines, t: float) -> Iterator[wire.Lines]:
        written = log.count(t)
        if request.offset is not None:
            at = min(written, log.number(request.offset))
        elif request.time is not None:
            at = min(written, log.count(request.time - self._epoch - 1e-6))
        else:
            at = written
        first, stop = max(0, at - request.before), min(written, at + request.after)
        for begin in range(first, max(stop, first + 1), MAX_LINES):
            end = min(stop, begin + MAX_LINES)
            yield self._lines(request.id, log, log.lines(begin, end), t, done=end == stop)

    def _search(self, request: wire.Search, t: float) -> Iterator[wire.Lines]:
        try:
            pattern = re.compile(request.pattern, re.IGNORECASE if request.ignore_case else 0)
        except re.error as error:
            why = f"the pattern: {error}"
            yield wire.Lines(t=self._epoch + t, seq=0, id=request.id, done=True, error=why)
            return
        wanted = [log for path, log in self.files.items() if not request.files or path in request.files]
        left = request.limit
        slices = [(log, first) for log in wanted for first in range(0, max(1, log.count(t)), SLICE_LINES)]
        if not slices:
            yield wire.Lines(t=self._epoch + t, seq=0, id=request.id, done=True, progress=1.0)
        for searched, (log, first) in enumerate(slices, 1):
            stop = min(log.count(t), first + SLICE_LINES)
            hits = (line for line in log.lines(first, stop) if pattern.search(line.text))
            chosen = list(itertools.islice(hits, left))
            left -= len(chosen)
            done = searched == len(slices) or left <= 0
            yield self._lines(request.id, log, chosen, t, done=done, progress=searched / len(slices))
            if done:
                return

    def _lines(
        self, number: int, log: LogText, lines: Iterable[DemoLine], t: float, *,
        done: bool = False, progress: float | None = None,
    ) -> wire.Lines:  # fmt: skip
        rows = [self._row(log, line) for line in lines]
        size = log.size(t)
        return wire.Lines(
            t=self._epoch + t,
            seq=0,
            id=number,
            file=log.path,
            lines=rows,
            size=size,
            done=done,
            progress=progress,
        )

    def _row(self, log: LogText, line: DemoLine) -> wire.LogLine:
        began = self._began[log.path]
        written = self._epoch + line.second
        arrived = written if log.number(line.offset) >= began else None
        rule = self._ruled.get((log.path, line.offset))
        made = msgspec.convert(row(line.offset, line.end, line.text, arrived, rule), wire.LogLine)
        return structs.replace(made, t=written) if log.path == wire.KERNEL_LOG else made

    def _unknown(self, number: int, path: str, t: float) -> wire.Lines:
        return wire.Lines(t=self._epoch + t, seq=0, id=number, file=path, done=True, error="no such log file")
