"""Reads a file, or a part of a large one, through the agent's scanner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from gpuwatch.agent.logs.files.holes import data_from
from gpuwatch.agent.logs.files.packing_magic import packed_inside
from gpuwatch.agent.logs.lines.timestamps import day_first
from gpuwatch.agent.logs.matching.matcher import LineMatcher
from gpuwatch.agent.logs.matching.ruleset import CompiledRule, RuleSet
from gpuwatch.agent.logs.progress.metrics_table import HEADER_BYTES
from gpuwatch.agent.logs.scanning.metrics_table_reader import TableReader
from gpuwatch.agent.logs.scanning.progress_reader import ProgressReader
from gpuwatch.agent.logs.scanning.scanner import Scanner, ScanOutputs
from gpuwatch.agent.logs.scanning.table_prefilter import TableFile, TablePrefilter, is_table_name
from gpuwatch.agent.ranks.learned_tags import learned
from gpuwatch.agent.ranks.path_ranks import ranks_of_path
from gpuwatch.runs.files.encodings import is_unknown_encoding
from gpuwatch.runs.files.excerpts.samples import sample_of
from gpuwatch.runs.files.file_kinds import unpacked_name
from gpuwatch.runs.files.files import reason
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import Contents
from gpuwatch.runs.files.times import Times, TimesAround, needs_time, stretches
from gpuwatch.runs.model.containment import contained
from gpuwatch.runs.model.record import Match, Recorder, RecoveryLine, Row
from gpuwatch.runs.placement.owners import path_places
from gpuwatch.runs.placement.rank_census import census
from gpuwatch.runs.placement.rank_facts import Census
from gpuwatch.runs.prefilter.piece_prefilter import PiecePrefilter
from gpuwatch.runs.saved_outputs.rows import host_clue, number_gpus, tool_matches
from gpuwatch.runs.saved_outputs.sections import MARKS, ToolSections
from gpuwatch.runs.scan.bounded_scan import BoundedScan, TooManySkippedError
from gpuwatch.runs.scan.cut_lines.partial_lines import PARTIAL_MARKS, joined_partials
from gpuwatch.runs.scan.cut_lines.split_records import without_split_words
from gpuwatch.runs.scan.file_parts import FilePart
from gpuwatch.runs.scan.workers import Dial
from gpuwatch.runs.steps.step_series import StepRecorder, StepSeries, last_lines

AROUND_BYTES = 1 << 18
"""Bytes read before a part (context of its first lines) and after it (rest of its last block)."""
FEED_BYTES = 1 << 19
FIRST_BYTES = 1 << 16
"""Bytes of the first piece: it shows the forms of ordinary lines, which later pieces need not search."""
TAIL_BYTES = 1 << 16
MAX_DATED_BYTES = 1 << 20
"""Number of bytes that are read at a time to find the timestamps of findings."""
LAST_LINES = 12


@dataclass
class PartRead:
    """The result of one part."""

    events: list[Match | RecoveryLine] = field(default_factory=list)
    clues: list[Row] = field(default_factory=list)
    left_out: int = 0
    """Number of matches over the limit, which no finding counts."""
    bytes: int = 0
    """Bytes of text searched."""
    first_time: float | None = None
    """The first timestamp near the beginning of the file (unix seconds)."""
    last_time: float | None = None
    """The last timestamp (unix seconds), if the part contains the end of the file."""
    times: dict[int, Times] = field(default_factory=dict)
    """Line offset -> nearest timestamps, for lines without a nearby one."""
    series: dict[tuple[Any, ...], StepSeries] = field(default_factory=dict)
    """The steps of each rank in the part."""
    last_lines: list[str] = field(default_factory=list)
    """The last lines of the file, if the part contains its end."""
    trouble: str | None = None
    """Why the part is incomplete: damaged, unreadable, stopped."""
    suspended: dict[str, str] = field(default_factory=dict)
    """Rule that took too long -> the reason for its suspension."""
    census: Census | None = None
    """The census of the file's sample lines, if the part is its first."""
    gpus: dict[str, int] = field(default_factory=dict)
    """PCI address as of `bus_key` -> GPU index, as tool outputs in the part list them."""


@dataclass
class PieceReaders:
    """The readers of a part's pieces; the first two pass on the text to search."""

    sections: ToolSections
    joined: Callable[[bytes], bytes]
    """Joins the lines or words which the writer of the log cut."""
    scan: BoundedScan
    recorder: Recorder
    steps: StepRecorder


def reader(ruleset: RuleSet, prefilter: PiecePrefilter) -> Callable[[FilePart, Dial], PartRead]:
    """Return the function with which a worker reads each part."""
    holds_mark = prefilter.finder_of(MARKS)
    rules = {rule.id: rule for rule in ruleset.rules}

    def read(part: FilePart, dial: Dial) -> PartRead:
        result, fault = contained(read_as_learned, part, dial)
        return result or PartRead(trouble=fault)

    def read_as_learned(part: FilePart, dial: Dial) -> PartRead:
        tags = [tag for tag in part.tags if tag.file in (None, part.log.name)]
        with (
            day_first(part.day_first),
            learned([(tag.pattern, tag.ranks, tag.is_head) for tag in tags]),
        ):
            return read_tagged(part, dial)

    def read_tagged(part: FilePart, dial: Dial) -> PartRead:
        result, fault = contained(read_lines, part, dial)
        result = result or PartRead()
        if part.start == 0:
            result.census, unsure = contained(census_of, part)
            fault = fault or unsure
        result.trouble = "; ".join(filter(None, (result.trouble, fault))) or None
        return result

    def read_lines(part: FilePart, dial: Dial) -> PartRead:
        recorder = Recorder()
        name, speaker = part.log.name, speaker_of(part.log)
        lines, searched = progress_of(part.log, ruleset, prefilter, speaker)
        steps = StepRecorder(lines, part.first_lines)
        outputs = ScanOutputs(recorder, steps, counts_all=False)
        scanner = Scanner(ruleset, name, count(1).__next__, speaker, searched, outputs)
        sections = ToolSections(holds_mark)
        bounded = BoundedScan(scanner, ruleset, name, prefilter.prepare)
        joined = joiner_of(part.log, prefilter)
        result = read_part(part, PieceReaders(sections, joined, bounded, recorder, steps), dial)
        take_tools(part, result, sections, rules)
        result.suspended = dict(ruleset.suspended)
        return result

    return read


def census_of(part: FilePart) -> Census:
    """Return the census of a file's sample lines, with the hosts that learned tags name beside ranks."""
    found = census([(part.log.name, sample_of(part.log, part.files))])
    for tag in part.tags:
        for rank, host in tag.hosts.items():
            found.hosts["rank", rank].add(host)
    return found


def joiner_of(log: LogPath, prefilter: PiecePrefilter) -> Callable[[bytes], bytes]:
    """Return the function that joins the lines or words which the writer of a log cut."""
    if path_places(log.inner).kernel:
        return without_split_words
    return lambda text: text if prefilter.surely_lacks(text, PARTIAL_MARKS) else joined_partials(text)


def progress_of(
    log: LogPath,
    ruleset: RuleSet,
    prefilter: Any,  # noqa: ANN401 - either prefilter
    speaker: Callable[[], dict[str, Any]] | None,
) -> tuple[ProgressReader, Any]:
    """Return the progress reader and the prefilter for a file; the rows of a table are read by its header."""
    search = LineMatcher(ruleset, log.name)
    if not is_table_name(unpacked_name(log.path.name)):
        return ProgressReader(log.name, search, prefilter, speaker), prefilter
    table = TableFile(ruleset, lambda: header_of(log))
    rows = TablePrefilter(prefilter, table)
    return TableReader(log.name, search, rows, speaker, table), rows


def header_of(log: LogPath) -> bytes:
    """Return the unpacked beginning of a file; empty if unreadable (the reader of its lines reports why)."""
    try:
        return next(Contents(log.path, log.packing).pieces(), b"")[:HEADER_BYTES]
    except OSError:
        return b""


def speaker_of(log: LogPath) -> Callable[[], dict[str, Any]] | None:
    """Return a function that returns the rank of a file by its path; None if the path names none."""
    rank, local_rank = ranks_of_path(f"/{log.inner}")
    if rank is None and local_rank is None:
        return None
    stated = {"rank": rank, "local_rank": local_rank, "rank_from": "path" if rank is not None else None}
    speaker = {name: value for name, value in stated.items() if value is not None}
    return lambda: speaker


def read_part(part: FilePart, readers: PieceReaders, dial: Dial) -> PartRead:
    """Read a part and return its matches, steps, times and last lines.

    A read error is stated in the result, and what was read before the error counts.
    """
    sections, scan = readers.sections, readers.scan
    recorder, steps = readers.recorder, readers.steps
    read = PartRead()
    tail, tail_at = b"", 0
    packed: str | None = None
    foreign: int | None = None
    try:
        for data, offset, size in fed(part):
            own = part.start <= offset and (part.end is None or offset < part.end)
            if own != recorder.own:
                scan.search_held()
            recorder.own = steps.own = own
            text, at = sections.feed(data, offset)
            scan.feed(readers.joined(text), at, part.log.until)
            dial.read(size)
            if recorder.own:
                read.bytes += len(data)
                packed = packed or packed_inside(data)
                foreign = offset if foreign is None and is_unknown_encoding(data) else foreign
            if not offset:
                read.first_time = TimesAround(b"\n" + data[:TAIL_BYTES], part.log.until).of(0).below
            tail = ((tail if tail_at + len(tail) == offset else b"") + data)[-TAIL_BYTES:]
            tail_at = offset + len(data) - len(tail)
            if dial.stopping:
                read.trouble = "stopped"
                break
    except OSError as error:
        read.trouble = reason(error)
    except DamageError as damage:
        read.trouble = str(damage)
    except TooManySkippedError:
        read.trouble = "the rest is not read"
    else:
        scan.feed(*sections.end(), part.log.until)
    steps.take_deferred()
    scan.finish()
    read.series = steps.series
    if part.end is None:
        read.last_lines = last_lines(tail, LAST_LINES)
    read.events, read.clues, read.left_out = recorder.events, recorder.clues, recorder.left_out
    unread = packed and f"{packed} data inside of text is not read"
    unknown = ""
    if foreign is not None:
        unknown = (
            f"text in an unknown encoding, from about byte {foreign:,} on, is not read; convert it with iconv"
        )
    undated = date(part, read, tail, tail_at)
    troubles = [scan.trouble, read.trouble, unread, unknown, undated]
    read.trouble = "; ".join(dict.fromkeys(each for each in troubles if each)) or None
    return read


def take_tools(
    part: FilePart, read: PartRead, sections: ToolSections, rules: Mapping[str, CompiledRule]
) -> None:
    """Add the findings of tool outputs in a part to `read`, with the node and GPUs that they name."""
    number_gpus(read.events, sections.gpus)
    read.gpus = sections.gpus
    mine = [
        each
        for each in tool_matches(sections, rules, part.log.name, part.log.until)
        if part.start <= each.row["offset"] and (part.end is None or each.row["offset"] < part.end)
    ]
    read.events += mine
    if sections.node is not None:
        read.clues.append(host_clue(sections.node))
    if sections.rank_clue is not None:
        read.clues.append(sections.rank_clue)


def date(part: FilePart, read: PartRead, tail: bytes, tail_at: int) -> str | None:
    """Find the timestamps around undated lines and the file's last timestamp, and set them in `read`.

    Return the reason if that fails, else None.
    """
    arrived = part.log.until
    ending = TimesAround(tail, arrived)
    if part.end is None:
        read.last_time = ending.of(len(tail)).above
    undated = {
        row["offset"]
        for event in read.events
        if isinstance(event, Match)
        for row in event.rows
        if needs_time(row, arrived)
    }
    if part.log.packing is not None:
        read.times = {offset: ending.of(offset - tail_at) for offset in undated if offset >= tail_at}
    elif undated:
        try:
            with open_file(part.log.path) as file:
                for together in stretches(sorted(undated), TAIL_BYTES, MAX_DATED_BYTES):
                    low = max(0, together[0] - TAIL_BYTES)
                    file.seek(low)
                    around = TimesAround(file.read(together[-1] + TAIL_BYTES - low), arrived)
                    read.times.update((offset, around.of(offset - low)) for offset in together)
        except OSError as error:  # it was replaced since its lines were read
            return reason(error)
    return None


class DamageError(Exception):
    """Raised if a file's compressed data is damaged or cut off."""


def fed(part: FilePart) -> Iterator[tuple[bytes, int, int]]:
    """Yield consecutive bytes of a part, their offset, and how much of the file's size they represent.

    Raises:
        OSError: the file cannot be read (further).
        DamageError: the compressed data cannot be unpacked further.
    """
    if part.log.packing is None:
        yield from plain_part(part)
        return
    contents = Contents(part.log.path, part.log.packing)
    offset = reported = 0
    for piece in contents.pieces():
        for at in range(0, len(piece), FEED_BYTES):
            data = piece[at : at + FEED_BYTES]
            yield data, offset, contents.read - reported
            offset, reported = offset + len(data), contents.read
    if contents.damage is not None:
        raise DamageError(contents.damage)


def plain_part(part: FilePart) -> Iterator[tuple[bytes, int, int]]:
    """Yield a part of a plain file with its surroundings; no piece crosses the part's borders.

    Data beyond the size at listing time is left out; `has_grown` reports it.
    """
    at = max(0, part.start - AROUND_BYTES)
    size = part.log.size
    borders = [part.start, *([size] if part.end is None else [part.end, min(size, part.end + AROUND_BYTES)])]
    with open_file(part.log.path) as file:
        file.seek(at)
        first = at > 0
        while True:
            stored = data_from(file.fileno(), at, size)
            if stored > at:
                yield b"\n", at, 0  # an unfinished line before a hole ends there
                at, first = stored, False
            file.seek(at)
            border = next((each for each in borders if each > at), None)
            most = FIRST_BYTES if at == part.start else FEED_BYTES
            data = b"" if border is None else file.read(min(most, border - at))
            if not data:
                return
            own = part.start <= at and (part.end is None or at < part.end)
            cut = data.find(b"\n") + 1 if first else 0  # from the first whole line on
            first = False
            yield data[cut:], at + cut, len(data) if own else 0
            at += len(data)
