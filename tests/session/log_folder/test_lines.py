"""Pages, tails and searches over the files of a folder, whatever they are packed in."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.session.log_folder.folders import judged_folder, opened, texts, wait_for

LINES = [
    f"2024-05-03 08:{n // 60:02d}:{n % 60:02d} INFO step {n} loss {8 - n / 1000:.3f}" for n in range(3000)
]
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "rank_3.log": bytes,
    "rank_3.log.gz": gzip.compress,
    "rank_3.log.zst": zstandard.ZstdCompressor().compress,
}


@pytest.fixture(params=PACKINGS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    text = "\n".join(LINES[:3000:2]) + "\n"
    (tmp_path / request.param).write_bytes(PACKINGS[request.param](text.encode()))
    return tmp_path


def test_pages_tail_and_search(folder: Path) -> None:
    with opened(folder) as session:
        [(node, name)] = session.report.log_files
        begin = session.read_lines(node, name, offset=0, after=3)
        tail = session.tail(node, name, 2)
        there = session.read_lines(node, name, time=1714722330.0, after=1)
        hits = session.search(node, r"step 1[02]00 ")
        assert texts(session, begin) == LINES[0:6:2]
        assert texts(session, tail) == LINES[2996::2]
        assert [line.split()[4] for line in texts(session, hits)] == ["1000", "1200"]
        wait_for(session, lambda: there.done)
        assert there.lines[0].t is not None and there.lines[0].t >= 1714722330.0
        offset = hits.lines[0].offset
        page = session.read_lines(node, name, offset=offset, after=1)
        assert texts(session, page) == [LINES[1000]]


def test_growing_file_is_followed_and_judged_again(tmp_path: Path) -> None:
    log = tmp_path / "rank_3.log"
    log.write_text("\n".join(LINES[:10]) + "\n")
    with judged_folder(tmp_path) as session:
        [(node, name)] = session.report.log_files
        assert not session.book.incidents
        tail = session.tail(node, name, 2)
        texts(session, tail)
        with log.open("a") as file:
            file.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
        wait_for(session, lambda: "OutOfMemory" in tail.lines[-1].text)
        wait_for(session, lambda: session.book.incidents)
        assert session.book.incidents[0].rank == 3


@pytest.mark.parametrize("size", ["equal", "larger"])
def test_a_file_that_replaces_the_shown_one_is_shown_from_its_first_line(tmp_path: Path, size: str) -> None:
    log = tmp_path / "rank_3.log"
    log.write_text("\n".join(LINES[:10]) + "\n")
    with opened(tmp_path) as session:
        [(node, name)] = session.report.log_files
        tail = session.tail(node, name, 2)
        texts(session, tail)
        other = [line.replace("INFO", "NEWS") for line in LINES[: 10 if size == "equal" else 400]]
        (tmp_path / "new").write_text("\n".join(other) + "\n")
        (tmp_path / "new").rename(log)
        wait_for(session, lambda: tail.lines[-1].text == other[-1])
        assert [line.text for line in tail.lines if "NEWS" in line.text] == other


def test_one_files_matches_take_no_place_of_the_others(tmp_path: Path) -> None:
    chatty = "".join(f"boom {number}\n" for number in range(3000)).encode()
    for name, packed in PACKINGS.items():
        (tmp_path / name.replace("3", "0")).write_bytes(packed(chatty))
    (tmp_path / "rank_9.log").write_text("quiet\nboom 9\n")
    with opened(tmp_path) as session:
        node = session.report.log_files[0][0]
        found = session.search(node, "boom")
        wait_for(session, lambda: found.done)
        files = Counter(name.rpartition("/")[2] for name in found.files)
    assert files["rank_9.log"] == 1
    assert sum(files.values()) == 2000
    assert max(files.values()) - min(files[name.replace("3", "0")] for name in PACKINGS) < 10
    assert found.error


def test_bad_requests_are_answered(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text("one\ntwo\n")
    with opened(tmp_path) as session:
        [(node, name)] = session.report.log_files
        gone = session.read_lines(node, "elsewhere.log", offset=0, after=1)
        bad = session.search(node, "(")
        wait_for(session, lambda: gone.done and bad.done)
        assert gone.error and bad.error
        (tmp_path / "rank_0.log").unlink()
        lost = session.read_lines(node, name, offset=0, after=1)
        wait_for(session, lambda: lost.done)
        assert lost.error


def test_clock_stands_at_the_end_of_the_logs(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text("\n".join(LINES[:100]) + "\n")
    with judged_folder(tmp_path) as session:
        last = session.tail(*session.report.log_files[0], 1)
        texts(session, last)
        assert last.lines[0].t is not None
        assert session.clock.wall() == pytest.approx(last.lines[0].t, abs=1.0)
        assert [node.state(session.clock.monotonic()) for node in session.fleet.nodes.values()] == ["live"]
