"""Composes layouts: where the number of a process stands, in which words and signs, beside which times."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from random import Random

from tests.layouts.stories import Job, Line

Folder = dict[str, list[str]]
"""File -> its lines."""

WORDS = (
    *(
        "rank",
        "RANK",
        "global_rank",
        "WorldRank",
        "process_index",
        "proc",
        "worker",
        "replica",
        "task",
        "member",
    ),
    *(
        "trainer",
        "R",
        "w",
        "P",
        "mpi_rank",
        "actor",
        "peer",
        "gpu",
        "unit",
        "lane",
        "pe",
        "id",
        "rang",
        "ранг",
        "",
    ),
)
AROUND = ("[{}] ", "({}) ", "<{}> ", "{{{}}} ", "{}: ", "{}> ", "{} - ", "{} | ")
JOINTS = ("", " ", "=", ":", "-", "_", "#", ": ", ".")
NUMBERS = ("{}", "{}", "{:02}", "{:03}")
FILES = (
    "{n}.log", "out.{n}", "{n}/stdout", "{word}{joint}{n}.log", "job-4711-{n}.err",
    "train_{n}_of_{world}.txt",
    "{host}.{n}.log", "logs/{host}/rank_{n}.txt", "{n}-{host}.out", "node{node}/local{local}.err",
)  # fmt: skip
ROWS = (
    ("", "rank {n}: pod {name}"),
    ("", "{name} -> rank {n}"),
    ("", "RANK={n} POD={name}"),
    ("rank\tpod\thost", "{n}\t{name}\t{host}"),
    ("| rank | pod | host |", "| {n} | {name} | {host} |"),
    ("rank to pod:", "  {n}: {name}"),
)
COLUMNS = (
    ("time", "rank", "message"),
    ("rank", "host", "level", "message"),
    ("timestamp", "process", "event"),
    ("host", "rank", "ts", "text"),
)
KEYS = ("rank", "global_rank", "process_index", "world_rank", "proc", "worker", "dist_rank")


def _stamp(kind: str, line: Line) -> str:
    form = {"": "", "clock": "%H:%M:%S ", "iso": "%Y-%m-%d %H:%M:%S,000 ", "bracket": "[%Y-%m-%d %H:%M:%S] "}
    form |= {"level": f"%Y-%m-%d %H:%M:%S {line.level} ", "pipe": f"%Y-%m-%d %H:%M:%S | {line.level} | "}
    form |= {"glog": f"{line.level[0]}%m%d %H:%M:%S.000000 4411 loop.cc:12] "}
    return line.at.strftime(form[kind])


STAMPS = ("", "clock", "iso", "bracket", "level", "pipe", "glog")


def merged(draw: Random, job: Job) -> Folder:
    """One file; each line begins with a tag."""
    word, number, around = draw.choice(WORDS), draw.choice(NUMBERS), draw.choice(AROUND)
    joint, of = draw.choice(JOINTS) if word else "", draw.choice(("", "", f"/{job.world}"))
    stamp, tag_first, host = draw.choice(STAMPS), draw.random() < 0.3, draw.random() < 0.3
    rows = []
    for line in job.lines():
        tag = around.format(word + joint + number.format(line.rank) + of)
        at, node = _stamp(stamp, line), f"{job.host(line.rank)}: " if host else ""
        rows.append(node + (tag + at if tag_first else at + tag) + line.text)
    return {"train.log": rows}


def files(draw: Random, job: Job) -> Folder:
    """A file of each process."""
    form, number = draw.choice(FILES), draw.choice(NUMBERS)
    word, joint, stamp = (
        draw.choice([word for word in WORDS if word.isascii() and word]),
        draw.choice("-_."),
        draw.choice(STAMPS),
    )
    found: Folder = defaultdict(list)
    for line in job.lines():
        where = {
            "host": job.host(line.rank),
            "node": line.rank // job.per_node,
            "local": job.local(line.rank),
        }
        name = form.format(n=number.format(line.rank), word=word, joint=joint, world=job.world, **where)
        found[name].append(_stamp(stamp, line) + line.text)
    return found


def table(draw: Random, job: Job) -> Folder:
    """One file whose tags are names, and a table of names beside ranks."""
    heading, row = draw.choice(ROWS)
    around, stamp = draw.choice(("[{}] ", "{} | ", "{}: ")), draw.choice(STAMPS)
    names = [f"llm-{chr(97 + rank % 26)}{rank // 26 or ''}" for rank in range(job.world)]
    rows = [row.format(n=rank, name=names[rank], host=job.host(rank)) for rank in range(job.world)]
    lines = [_stamp(stamp, line) + around.format(names[line.rank]) + line.text for line in job.lines()]
    return {draw.choice(("map.txt", "train.log")): [heading, *rows], "all.log": lines}


def records(draw: Random, job: Job) -> Folder:
    """JSON lines."""
    key, message = draw.choice(KEYS), draw.choice(("message", "msg", "text", "event"))
    rows = [
        {"ts": line.at.isoformat() + "Z", "level": line.level.lower(), message: line.text, key: line.rank}
        for line in job.lines()
    ]
    return {"train.jsonl": [json.dumps(row) for row in rows]}


def columns(draw: Random, job: Job) -> Folder:
    """A table of lines."""
    names, sign = draw.choice(COLUMNS), draw.choice(",;\t")
    rows = [sign.join(names)]
    for line in job.lines():
        at, text = line.at.isoformat(), line.text.replace('"', '""')
        values = {"time": at, "timestamp": at, "ts": at + "Z", "rank": line.rank, "process": line.rank}
        values |= {"host": job.host(line.rank), "level": line.level}
        rows.append(sign.join(str(values.get(name, f'"{text}"')) for name in names))
    return {"events.csv": rows}


KINDS: tuple[Callable[[Random, Job], Folder], ...] = (
    merged,
    merged,
    merged,
    files,
    files,
    table,
    records,
    columns,
)


def composed(seed: int) -> tuple[Folder, int, str]:
    """Return a folder, the rank that failed, and the kind of its layout."""
    draw = Random(seed)
    job = Job.drawn(draw)
    kind = draw.choice(KINDS)
    return kind(draw, job), job.failed, kind.__name__
