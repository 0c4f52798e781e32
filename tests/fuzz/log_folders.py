"""Folders of logs with changed tables, documents, dates, headings and names, for what places their ranks.

A folder is a JSON document: a list of file names and texts, in Latin-1.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from random import Random

from gpuwatch.agent.logs.lines.timestamps import day_first
from gpuwatch.agent.ranks.learned_tags import learned
from gpuwatch.agent.ranks.path_ranks import ranks_of_path
from gpuwatch.report.scan.report import judged, scan_json
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.byte_samples import last_year_time
from gpuwatch.runs.files.excerpts.date_order import files_with_day_first
from gpuwatch.runs.files.files import form_of_text, gather
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.pasted_sections import headings, is_pasted
from gpuwatch.runs.placement.learned_tags.learn import learned_tags
from gpuwatch.runs.placement.owners import path_places
from gpuwatch.runs.placement.rank_census import census
from gpuwatch.runs.scan.assembly import is_syslog
from gpuwatch.runs.scan.placing import FileEvidence, placed
from gpuwatch.runs.scan.reading import PartRead
from gpuwatch.runs.scan.scan import scan
from gpuwatch.runs.scan.scan_file import ScanFile
from gpuwatch.runs.steps.unfinished import unfinished
from tests.corpus.score import CORPUS, NOW
from tests.fuzz.mutations import changed_bytes

MAX_FOLDER_BYTES = 60_000
MAX_SAMPLE_LINES = 600
BLOCKS = tuple(Path(__file__).with_name("known_texts.txt").read_text("utf-8").rstrip("\n").split("\n%\n"))
"""Texts that a reader of places knows: tables, documents, banners, stamps, headings."""
NAMES = (
    "rank_3.log", "global_rank-3.log", "attempt_0/3/stdout.log", "n1/l2.err", "workerlog.3", "2.log",
    "dmesg-gpu-004.log", "slurm-123_4.out", "train.gpu-004.root.log.ERROR.20261109-030405.4471",
    "llm-worker-3_ml_train-0.log", "nvidia-smi.txt", "pods.yaml", "pod.json", "trainer_state.json",
    "metrics.csv", "log.ipynb", "ps.txt", "checkpoint-500/trainer_state.json", "gpu-004/var/log/messages",
    "a b\x1b[2J.log", "rank_\u0663.log", "rank_" + "9" * 200 + ".log", "=.log", "-.log", "x" * 200,
)  # fmt: skip
NUMBERS = (
    "0", "-1", "00", "3", "4471", "65535", "65536", "999999", "4294967296", "1" * 20, "9" * 400,
    "9" * 5000, "1e999", "0.5", "nan", "\u0663", "\u00b2", "\u2460", "31", "13", "99", "0x1f", "1_000",
    "", " ", "None", "3,", ",3", "3-", "-3", "[3]", "3:3", "1.2.3.4",
)  # fmt: skip
DATES = (
    "00/00/0000 00:00:00", "31/02/2026 03:04:05", "29/02/2023 24:00:60", "99/99/9999 99:99:99",
    "12/13/2026 03:04:05", "13/13/2026 03:04:05", "01/01/2000 00:00:00", "2026-13-45T99:99:99Z",
    "9999-12-31T23:59:59+23:59", "0001-01-01 00:00:00", "2026-11-09T03:04:05.999999999999999999999Z",
    "Feb 30 03:04:05", "Xxx 00 99:99:99", "[Mon Nov 31 03:04:05 2099]", "I1109 03:04:05.1", "1762657445",
    "1762657445000000000000", "-1762657445", "[ 9999999999.999999]", "20261109-030405",
)  # fmt: skip


@cache
def folders() -> Sequence[bytes]:
    """A few small folders of the corpus, and one with a file for each known text."""
    every = [each for kind in ("failures", "harmless") for each in sorted((CORPUS / kind).iterdir())]
    found = [held for folder in every[::50] if (held := _held(folder)) is not None]
    names = (f"{number}/{name}" for number, name in enumerate(NAMES))
    return [*found, json.dumps(dict(zip(names, BLOCKS, strict=False))).encode()]


def _held(folder: Path) -> bytes | None:
    """Return the files of a folder as one JSON document; None: no content, or too much."""
    files = sorted(each for each in folder.rglob("*") if each.is_file())
    if not 0 < sum(file.stat().st_size for file in files) <= MAX_FOLDER_BYTES:
        return None
    texts = {str(file.relative_to(folder)): file.read_bytes().decode("latin-1") for file in files}
    return json.dumps(texts).encode()


def changed_folder(data: bytes, chance: Random) -> bytes:
    """A few changes of names, numbers, dates and lines, with known texts between them."""
    files: dict[str, str] = json.loads(data)
    for _ in range(chance.randint(1, 8)):
        name = chance.choice([*files])
        if chance.random() < 0.15:
            files[_changed_name(name, chance)] = files.pop(name)
        elif chance.random() < 0.1:
            files[chance.choice(NAMES)] = files[name] if chance.random() < 0.5 else chance.choice(BLOCKS)
        else:
            files[name] = _changed_text(files[name], chance)
    return json.dumps(files).encode()


def _changed_name(name: str, chance: Random) -> str:
    if chance.random() < 0.5:
        return chance.choice(NAMES)
    return _with_number(name, chance) or "0"


def _changed_text(text: str, chance: Random) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    match chance.randrange(8):
        case 0:
            lines[at:at] = chance.choice(BLOCKS).split("\n") * chance.choice((1, 1, 2, 30))
        case 1 | 2:
            lines[at] = _with_number(lines[at], chance)
        case 3:
            lines[at] = f"{chance.choice(DATES)} {lines[at]}"
        case 4:
            words = lines[at].split(" ")
            words[chance.randrange(len(words))] = chance.choice((*NUMBERS, *DATES))
            lines[at] = " ".join(words)
        case 5:
            to = at + chance.randint(1, 30)
            lines[at:to] = chance.sample(lines[at:to], len(lines[at:to]))
        case 6:
            block = chance.choice(BLOCKS).split("\n")
            lines[at] = chance.choice((lines[at][: chance.randint(0, 60)], "")) + _with_number(
                chance.choice(block), chance
            )
        case _:
            return changed_bytes(text.encode("latin-1", "replace"), chance).decode("latin-1")
    return "\n".join(lines)


def _with_number(text: str, chance: Random) -> str:
    """Return the text with one of its numbers replaced, or with one added if it has none."""
    digits = [at for at, char in enumerate(text) if char.isdecimal()]
    if not digits:
        return text + chance.choice(NUMBERS)
    begin = end = chance.choice(digits)
    while begin and text[begin - 1].isdecimal():
        begin -= 1
    while end < len(text) and text[end].isdecimal():
        end += 1
    return text[:begin] + chance.choice(NUMBERS) + text[end:]


def place_ranks(data: bytes) -> list[str]:
    """Do what places the ranks of a folder, and classifies its files, without reading it from the disk."""
    files = {name: text.encode("latin-1", "replace") for name, text in json.loads(data).items()}
    samples = [(name, text.splitlines()[:MAX_SAMPLE_LINES]) for name, text in files.items()]
    columns = load_packs().column_words
    for name, text in files.items():
        _classify(name, text, columns)
    tags = learned_tags(samples)
    files_with_day_first(samples, dict.fromkeys(files, NOW))
    evidence = []
    for name, lines in samples:
        file = ScanFile(LogPath(Path(name), name, name, len(files[name]), NOW))
        with learned([(tag.pattern, tag.ranks, tag.is_head) for tag in tags]), day_first(True):
            file.reads[0] = PartRead(census=census([(name, lines)]))
        evidence.append(FileEvidence(file, lines, []))
        is_syslog(lines)
    unfinished(samples)
    placed(evidence)
    return []


def _classify(name: str, text: bytes, columns: Mapping[str, str]) -> None:
    path_places(name)
    ranks_of_path(f"/{name}")
    if "\0" not in name:
        form_of_text(Path(name), text[:32_768], columns)
    last_year_time(text[:32_768], NOW)
    is_pasted(list(headings(text)), text, LogPath(Path(name), name, name, len(text), NOW))


def scan_folder(folder: Path, data: bytes) -> list[str]:
    """Scan a folder and return its report; an error over one file is raised."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in json.loads(data).items():
        parts = [part[:80] for part in PurePath(name.replace("\0", "0")).parts if part not in ("/", "..")]
        path = folder.joinpath(*parts or ["0"])
        if not path.is_dir() and not any(above.is_file() for above in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("latin-1", "replace"))
    folder.mkdir(exist_ok=True)
    packs = load_packs()
    found = scan(gather([folder], packs.column_words), packs.all, "agent")
    troubles = [*(file.trouble for file in found.files), *(each.why for each in found.skipped)]
    assert not [each for each in troubles if each is not None and "please report" in each], troubles
    return [scan_json(judged(found, packs, NOW, 1.0))]
