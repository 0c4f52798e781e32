"""The ways in which launchers, loggers, collectors and terminals rewrite the same lines.

`python -m tests.corpus.rewritings` prints for each of them the share of the failures that survive it.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gpuwatch.agent.logs.lines.levels import level
from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.rules.scoring.score import ALARMING, ARRIVAL_TIME
from gpuwatch.runs.files.encodings import as_utf8
from tests.corpus.excerpts import Excerpt, read
from tests.packs import built_in_rules

BAR = " 41%|####1     | 410/1000 [06:50<09:50,  1.00s/it]"
EXCEPTION = re.compile(r"(?:\[rank\d+\]: )?(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b")
FRAME = re.compile(r"(\[rank\d+\]: |)(\s+)File ")
NUMBER = re.compile(r"\[rank(\d+)\]")
WIDTH = 80
"""Columns of a terminal."""

Text = list[str]


@dataclass(frozen=True)
class Rewriting:
    """One way; `make` gives None where it cannot happen to an excerpt."""

    name: str
    make: Callable[[Excerpt], bytes | None]
    names_rank: bool = False
    """Of an excerpt without a rank, too, where that is the job's own line."""
    any_class: bool = False
    """What is left of a line may be of another class, or only be marked an error: trouble must be seen."""


def encoded(lines: Text) -> bytes:
    return ("\n".join(lines) + "\n").encode()


def with_level(form: str, excerpt: Excerpt) -> str:
    """The level and program that a logger writes for such lines; L alone is glog's letter."""
    name = "INFO" if excerpt.healthy else "ERROR"
    program = "kernel" if excerpt.kernel else "python3"
    return form.replace("PROGRAM", program).replace("LEVEL", name).replace("L0615", f"{name[0]}0615")


def each_line(name: str, form: str, *, kernel: bool | None = None, names_rank: bool = False) -> Rewriting:
    """`form` around every line; `{}` is the line, `RANK` its rank, 3 where it has none, `LEVEL` its level.

    `kernel`: only kernel lines, or only others.
    """

    def make(excerpt: Excerpt) -> bytes | None:
        if kernel is not None and excerpt.kernel is not kernel:
            return None
        rank = 3 if excerpt.rank is None else excerpt.rank
        around = with_level(form, excerpt).replace("RANK", str(rank))
        return encoded([around.replace("{}", line) for line in excerpt.lines])

    return Rewriting(name, make, names_rank)


def each_record(name: str, **fields: str) -> Rewriting:
    """Every line as a JSON object; `{}` is the line."""

    def make(excerpt: Excerpt) -> bytes:
        around = {key: with_level(value, excerpt) for key, value in fields.items()}
        rows = [{key: value.replace("{}", line) for key, value in around.items()} for line in excerpt.lines]
        return encoded([json.dumps(row) for row in rows])

    return Rewriting(name, make)


def one_record(excerpt: Excerpt) -> bytes:
    """A traceback is one message of a JSON logger."""
    return encoded(
        [
            json.dumps(
                {
                    "level": with_level("LEVEL", excerpt),
                    "ts": 1749988831.5,
                    "message": "\n".join(excerpt.lines),
                }
            )
        ]
    )


def exception_record(excerpt: Excerpt) -> bytes | None:
    if not EXCEPTION.match(excerpt.lines[-1]):
        return None
    record = {"level": "ERROR", "message": "training stopped", "exc_info": "\n".join(excerpt.lines)}
    return encoded([json.dumps(record)])


def without_source(excerpt: Excerpt) -> bytes | None:
    """The frames of a traceback without the lines that they quote."""
    lines = list(excerpt.lines)
    last = next((number for number, line in enumerate(lines) if EXCEPTION.match(line)), None)
    if last is None:
        return None
    if not any(FRAME.match(line) for line in lines):
        found = NUMBER.match(lines[last])
        prefix = f"{found[0]}: " if found else ""
        frame = f'{prefix}  File "<frozen runpy>", line 88, in _run_code'
        head = f"{prefix}Traceback (most recent call last):"
        return encoded([*lines[:last], head, frame, *lines[last:]])
    kept = [line for above, line in itertools.pairwise(["", *lines]) if not FRAME.match(above)]
    return encoded(kept)


def with_tabs(excerpt: Excerpt) -> bytes | None:
    """The frames of a traceback behind tabs; of an exception without frames, those of one above it."""
    if not any(FRAME.match(line) for line in excerpt.lines):
        last = next((number for number, line in enumerate(excerpt.lines) if EXCEPTION.match(line)), None)
        if last is None:
            return None
        found = NUMBER.match(excerpt.lines[last])
        tag = f"{found[0]}: " if found else ""
        head = f"{tag}Traceback (most recent call last):"
        frame = [f'{tag}\tFile "/opt/job/fit.py", line 88, in main', f"{tag}\t\tloop.run(batch)"]
        return encoded([*excerpt.lines[:last], head, *frame, *excerpt.lines[last:]])
    frames = [re.sub(r"  (?=File )", "\t", line) for line in excerpt.lines]
    return encoded([re.sub(r"(?:^|(?<=: ))    ?(?=\S)", "\t\t", line) for line in frames])


def interleaved(excerpt: Excerpt) -> bytes:
    """A line of another rank between any two."""
    other = "[rank29]: step 410/1000 | loss 2.31 | 812 ms"
    lines = [each for line in excerpt.lines for each in (line, other)]
    return encoded(lines[:-1])


def cut(excerpt: Excerpt) -> bytes:
    return encoded([line[:WIDTH] for line in excerpt.lines])


def utf_16(order: str) -> Callable[[Excerpt], bytes]:
    mark = "\ufeff".encode(order)
    return lambda excerpt: b"".join(
        as_utf8(iter([mark + encoded(list(excerpt.lines)).decode().encode(order)]))
    )


def followed_utf_16(excerpt: Excerpt) -> bytes:
    """As an agent reads it, which decodes nothing."""
    return b"\xff\xfe" + encoded(list(excerpt.lines)).decode().encode("utf-16-le")


COLLECTED = "2025-06-15T12:00:31.123456+02:00 gpu-003"
BGL = "- 1749988831 2025.06.15 R02-M1 2025-06-15-12.00.31.675872 R02-M1 RAS KERNEL LEVEL"
THUNDERBIRD = "1749988831 2025.06.15 dn2 Jun 15 12:00:31 dn2/dn2 kernel:"
JOURNAL = {"__REALTIME_TIMESTAMP": "1749988831123456", "SYSLOG_IDENTIFIER": "PROGRAM"}

REWRITINGS = (
    Rewriting("as it is", lambda excerpt: encoded(list(excerpt.lines))),
    Rewriting("traceback without source lines", without_source),
    Rewriting("tab indentation", with_tabs),
    each_line("deeper indentation", "    {}"),
    each_line("[rank3]:", "[rankRANK]: {}", names_rank=True),
    each_line("3:", "RANK: {}"),
    each_line("[1,3]<stderr>:", "[1,RANK]<stderr>:{}", names_rank=True),
    each_line("Ray worker", "(RayTrainWorker pid=7, ip=10.0.0.3) {}"),
    each_line("0: gpu-003:", "0: gpu-003: {}"),
    each_line("pdsh", "gpu-003: {}"),
    each_line("docker logs -t", "2025-06-15T12:00:31.123456789Z {}"),
    each_line("docker compose", "trainer-1  | {}"),
    each_record("docker json-file", log="{}\n", stream="stderr", time="2025-06-15T12:00:31.123456789Z"),
    each_line("containerd", "2025-06-15T12:00:31.123456789+00:00 stderr F {}"),
    each_line("kubectl logs --prefix", "[pod/trainer-0/pytorch] {}"),
    each_line("stern", "trainer-1 pytorch {}"),
    each_line("stern --timestamps", "trainer-1 pytorch 2025-06-15T12:00:31.123456789Z {}"),
    each_line("RFC 5424", "<14>1 2025-06-15T12:00:31.123Z gpu-003 python3 4711 - - {}", kernel=False),
    each_line("journald", "Jun 15 12:00:31 gpu-003 python3[4711]: {}", kernel=False),
    each_line("journald short-iso", "2025-06-15T12:00:31+0200 gpu-003 train.sh[4711]: {}", kernel=False),
    each_line("journald short-precise", "Jun 15 12:00:31.123456 gpu-003 python3[4711]: {}", kernel=False),
    each_record("journald json", **JOURNAL, MESSAGE="{}"),
    each_line("syslog priority", "<14>Jun 15 12:00:31 gpu-003 python3[4711]: {}", kernel=False),
    each_line("ISO stamp with zone", "2025-06-15T12:00:31.123+02:00 {}"),
    each_line("ISO stamp without zone", "2025-06-15 12:00:31,123 {}"),
    each_line("ISO stamp and level", "2025-06-15 12:00:31,123 - trainer - LEVEL - {}"),
    each_line("syslog stamp", "Jun 15 12:00:31 {}"),
    each_line("glog head", "L0615 12:00:31.123456  4711 train.py:88] {}"),
    each_line("epoch stamp", "1749988831.123456 {}"),
    each_line("epoch stamp, milliseconds", "1749988831123 {}"),
    each_line("bracketed stamp", "[2025-06-15 12:00:31,123] {}"),
    each_line("bracketed stamp with zone", "[2025-06-15T12:00:31Z] {}"),
    each_line("bracketed stamp and level", "[2025-06-15 12:00:31,123] [LEVEL] {}"),
    each_line("bracketed epoch stamp", "[1749988831.123456] {}"),
    each_line("US stamp", "06/15/2025 12:00:31 - LEVEL - __main__ - {}"),
    each_line("clock alone", "12:00:31.123 {}"),
    each_line("ANSI colours", "\x1b[31m\x1b[1m{}\x1b[0m"),
    Rewriting("CRLF", lambda excerpt: encoded([f"{line}\r" for line in excerpt.lines])),
    Rewriting("bar glued before", lambda excerpt: encoded([f"{BAR}\r{line}" for line in excerpt.lines])),
    Rewriting("bar on the same line", lambda excerpt: encoded([BAR + excerpt.lines[0], *excerpt.lines[1:]])),
    each_record("JSON message", message="{}"),
    each_record("JSON message with level", level="LEVEL", message="{}"),
    each_record("JSON msg", ts="1749988831.123", msg="{}"),
    each_record("JSON msg with level", level="LEVEL", time="2025-06-15T12:00:31Z", msg="{}"),
    each_record("JSON log", log="{}"),
    each_record("JSON log with level", levelname="LEVEL", log="{}"),
    Rewriting("JSON, all lines in one message", one_record),
    Rewriting("JSON, as an exception", exception_record),
    Rewriting("another rank's lines between", interleaved),
    each_line("dmesg", "[12345.678901] {}", kernel=True),
    each_line("dmesg with context", "[12345.678901][ T1234] {}", kernel=True),
    each_line("dmesg -T", "[Sun Jun 15 12:00:31 2025] {}", kernel=True),
    each_line("dmesg -x", "kern  :err   : [12345.678901] {}", kernel=True),
    each_line("/dev/kmsg", "3,4411,12345678901,-;{}", kernel=True),
    each_line("journalctl -k", "Jun 15 12:00:31 gpu-003 kernel: {}", kernel=True),
    each_line("kern.log", "Jun 15 12:00:31 gpu-003 kernel: [12345.678901] {}", kernel=True),
    each_line("kern.log with ISO stamps", COLLECTED + " kernel: [12345.678901] {}", kernel=True),
    each_line("BGL", BGL + " {}", kernel=True),
    each_line("Thunderbird", f"- {THUNDERBIRD} {{}}", kernel=True),
    each_line("Thunderbird, alert", f"VAPI {THUNDERBIRD} {{}}", kernel=True),
    Rewriting("UTF-8 BOM", lambda excerpt: b"\xef\xbb\xbf" + encoded(list(excerpt.lines))),
    Rewriting("UTF-16 file, little endian", utf_16("utf-16-le")),
    Rewriting("UTF-16 file, big endian", utf_16("utf-16-be")),
    Rewriting("UTF-16, followed live", followed_utf_16),
    each_line("trailing blanks", "{}   \t "),
    Rewriting("cut at 80 columns", cut, any_class=True),
)  # fmt: skip


def marked(line: bytes) -> bool:
    """Whether a line without a finding calls itself a warning, an error or worse."""
    return any(level(text) is not None for text, _ in messages(line)[0])


@dataclass
class Figure:
    """Of one rewriting."""

    pairs: int = 0
    survived: int = 0
    lost: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        return self.survived / self.pairs if self.pairs else 1.0


class Judge:
    """Scans excerpts with the built-in packs; rules and prefilter are made once."""

    def __init__(self) -> None:
        self._ruleset = built_in_rules()
        self._prefilter = Prefilter(self._ruleset)

    def findings(self, data: bytes) -> list[dict[str, Any]]:
        scanner = Scanner(
            self._ruleset, "excerpt.log", itertools.count(1).__next__, prefilter=self._prefilter
        )
        return [*scanner.feed(data, 0, ARRIVAL_TIME), *scanner.end()]

    def survives(self, excerpt: Excerpt, way: Rewriting, data: bytes) -> bool:
        found = self.findings(data)
        if way.any_class:
            return bool(found) or any(marked(line) for line in data.splitlines())
        own = [each for each in found if each["rule"] == excerpt.label]
        ranks = [each.get("index") if each.get("rank") is None else each["rank"] for each in own]
        wanted = 3 if way.names_rank and excerpt.rank is None else excerpt.rank
        return bool(ranks) and (wanted is None or wanted in ranks)

    def figure(self, way: Rewriting) -> Figure:
        """How many excerpts of failures keep their class and rank in one rewriting."""
        figure = Figure()
        for excerpt in read("failures"):
            data = way.make(excerpt)
            if data is None:
                continue
            figure.pairs += 1
            if self.survives(excerpt, way, data):
                figure.survived += 1
            else:
                figure.lost += (f"{excerpt.label}: {excerpt.lines[-1]}",)
        return figure

    def false_alarms(self) -> Iterator[tuple[Rewriting, str, str]]:
        """Findings of severity warning or higher in healthy excerpts, however they are rewritten."""
        for way in REWRITINGS:
            for excerpt in read("healthy"):
                data = way.make(excerpt)
                for each in self.findings(data) if data is not None else ():
                    if each["severity"] in ALARMING:
                        yield way, excerpt.label, each["rule"]


def main() -> None:
    judge = Judge()
    for way in REWRITINGS:
        figure = judge.figure(way)
        print(f"{way.name:34} {figure.survived:4} of {figure.pairs:4}  {figure.share:7.2%}")
        for lost in figure.lost:
            print(f"    lost: {lost[:130]}")


if __name__ == "__main__":
    main()
