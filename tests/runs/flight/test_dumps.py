"""Dumps of a flight recorder read from files: whole, torn, hostile, packed, in any number."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.runs.flight.dump_files import FoundDumps, gather_dumps, rank_of
from gpuwatch.runs.flight.dumps import MAX_ENTRIES, read_dump
from gpuwatch.runs.flight.pickle_reader import NoDumpError, UnreadableDumpError
from tests.diagnose.dumps import content, entry, steps
from tests.runs.flight.writing import WORLD, write
from tests.sentences import Sentences


def why(found: FoundDumps, name: str) -> str:
    return next(each.why for each in found.skipped if each.name.endswith(name))


def test_a_folder_of_dumps_with_logs_beside_them(tmp_path: Path) -> None:
    for rank in range(4):
        write(tmp_path, rank)
    (tmp_path / "rank_0.log").write_text("step 1\n")
    found = gather_dumps([tmp_path])
    assert [dump.rank for dump in found.dumps] == [0, 1, 2, 3]
    assert found.skipped == []
    assert found.dumps[0].histories["0"].last == 3
    assert found.dumps[0].histories["0"].collectives[3].frame == "train_step (train.py:42)"


def test_json_and_packed_dumps_are_dumps_too(tmp_path: Path) -> None:
    held = content(steps(3), WORLD)
    words = {**held, "pg_status": {"0": {"last_enqueued_collective": "3"}}}
    (tmp_path / "dump_1.json").write_text(json.dumps(words))
    (tmp_path / "dump_2.gz").write_bytes(gzip.compress(pickle.dumps(held, 2)))
    found = gather_dumps([tmp_path])
    assert [(dump.rank, dump.histories["0"].open) for dump in found.dumps] == [(1, 3), (2, 3)]


def test_an_older_format_counts_its_collectives_in_another_field() -> None:
    old = []
    for each in steps(3):
        kept = {key: value for key, value in each.items() if key not in ("collective_seq_id", "is_p2p")}
        old.append({**kept, "seq_id": each["collective_seq_id"], "process_group": "0"})
    data = pickle.dumps({"version": "1.5", "entries": old}, 2)
    dump = read_dump(data, 0, "x")
    assert (dump.version, dump.histories["0"].last, dump.histories["0"].open) == ("1.5", 3, 3)


def test_broken_files_are_listed_with_the_reason_and_do_not_hide_the_others(
    tmp_path: Path, sentences: Sentences
) -> None:
    whole = write(tmp_path, 0).read_bytes()
    (tmp_path / "nccl_trace_rank_1").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "nccl_trace_rank_2").write_bytes(b"")
    (tmp_path / "nccl_trace_rank_3").write_bytes(pickle.dumps({"something": "else"}, 2))
    (tmp_path / "nccl_trace_rank_4").write_bytes(b"\x80\x02}q\x00X\xff\xff\xff\xffabc.")
    (tmp_path / "nccl_trace_rank_5").write_text('{"entries": [{"profiling_name"')
    (tmp_path / "nccl_trace_rank_6").write_bytes(pickle.dumps({"entries": [{"profiling_name": 7}]}, 2))
    found = gather_dumps([tmp_path])
    assert [dump.rank for dump in found.dumps] == [0]
    sentences(why(found, "_1"))
    assert "empty" in why(found, "_2")
    sentences(why(found, "_3"))
    assert "damaged" in why(found, "_4")
    sentences(why(found, "_5"))
    sentences(why(found, "_6"))
    assert all(each.unreadable for each in found.skipped)


def test_a_file_that_cannot_be_read_says_nothing_of_its_rank(tmp_path: Path) -> None:
    """Another user's, or on a dead mount; one that ends in the middle does: its rank was ended meanwhile."""
    for rank in range(3):
        write(tmp_path, rank)
    (tmp_path / "nccl_trace_rank_1").write_bytes(b"")
    (tmp_path / "nccl_trace_rank_3").symlink_to("/proc/self/mem")  # its first bytes are nobody's to read
    found = gather_dumps([tmp_path / f"nccl_trace_rank_{rank}" for rank in range(4)])
    assert [dump.rank for dump in found.dumps] == [0, 2]
    assert found.closed == {3}


class Harm:
    """A pickle of this runs a command where it is loaded by `pickle.load`."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.mark}",)


def test_nothing_in_a_pickle_is_ever_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    held = {**content(steps(2), WORLD), "extra": Harm(mark)}
    path = tmp_path / "nccl_trace_rank_7"
    path.write_bytes(pickle.dumps(held, 2))
    found = gather_dumps([path])
    assert found.dumps == []
    assert "refused" in why(found, "_7")
    assert not mark.exists()


def test_a_pickle_that_asks_for_all_memory_costs_only_its_reader(tmp_path: Path) -> None:
    write(tmp_path, 0)
    memo = b"\x80\x02Nr\xff\xff\xff\x7f."  # LONG_BINPUT into a memo of 2**31 places
    (tmp_path / "nccl_trace_rank_1").write_bytes(memo)
    (tmp_path / "nccl_trace_rank_2").write_bytes(b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\x00\x00.")
    found = gather_dumps([tmp_path])
    assert [dump.rank for dump in found.dumps] == [0]
    assert len(found.skipped) == 2


def test_a_dump_that_takes_for_ever_is_given_up_and_the_others_are_kept(tmp_path: Path) -> None:
    """A tuple of two equal tuples, 60 deep, as the key of a dict: its hash takes 2**60 steps."""
    for rank in (0, 2):
        write(tmp_path, rank)
    key = b"()" + b"2\x86" * 60
    (tmp_path / "nccl_trace_rank_1").write_bytes(b"\x80\x02}" + key.replace(b"()", b")") + b"K\x01s.")
    found = gather_dumps([tmp_path], file_cpu_s=1)
    assert [dump.rank for dump in found.dumps] == [0, 2]
    assert "CPU" in why(found, "nccl_trace_rank_1")


def test_a_small_file_cannot_take_much_memory(tmp_path: Path) -> None:
    """4 MB of empty lists: 56 bytes of memory for each byte."""
    (tmp_path / "nccl_trace_rank_1").write_bytes(b"\x80\x02}X\x07\0\0\0entries(" + b"]" * (12 << 20) + b"ls.")
    found = gather_dumps([tmp_path])
    assert not found.dumps
    assert "memory" in why(found, "nccl_trace_rank_1")


def test_deep_json_is_refused() -> None:
    with pytest.raises(NoDumpError, match="deeper"):
        read_dump(b'{"entries":' + b"[" * 100_000, 0, "x")


def test_brackets_in_a_string_hide_no_nesting() -> None:
    with pytest.raises(UnreadableDumpError, match="deeper"):
        read_dump(b'{"a": "%s", "entries": %s}' % (b"]" * 500, b"[" * 100 + b"]" * 100), 0, "x")
    text = json.dumps({**content(steps(3), WORLD), "note": '\\"' + "[" * 500})
    assert read_dump(text.encode(), 0, "x").count == 3


def test_words_of_a_dump_cannot_steer_the_terminal() -> None:
    evil = entry(1, "all_reduce\x1b]0;x\x07", group="0")
    dump = read_dump(pickle.dumps(content([evil], WORLD), 2), 0, "x")
    assert dump.newest is not None
    assert "\x1b" not in dump.newest.name


def test_of_two_dumps_of_one_rank_the_younger_counts(tmp_path: Path) -> None:
    old = write(tmp_path, 1, last=3).rename(tmp_path / "nccl_trace_rank_1.bin")
    new = write(tmp_path, 1, last=9)
    os.utime(old, (1000, 1000))
    found = gather_dumps([tmp_path])
    assert found.twice == {1: 2}
    assert [(dump.file, dump.histories["0"].last) for dump in found.dumps] == [(str(new), 9)]


@pytest.mark.parametrize("names", [("job_a/trace_", "job_b/trace_"), ("attempt0_rank_", "attempt1_rank_")])
def test_dumps_of_two_jobs_are_never_judged_together(
    tmp_path: Path, names: tuple[str, str], sentences: Sentences
) -> None:
    (tmp_path / "job_a").mkdir()
    (tmp_path / "job_b").mkdir()
    for rank in range(4):
        os.utime(write(tmp_path, rank, names[0], last=99), (1000, 1000))
    for rank in range(2):
        write(tmp_path, rank, names[1], last=9)
    found = gather_dumps([tmp_path])
    assert [(dump.rank, dump.histories["0"].last) for dump in found.dumps] == [(0, 9), (1, 9)]
    (words,) = found.apart
    assert names[0] in words
    sentences(words)


@pytest.mark.parametrize("stray", ["copy of nccl_trace_rank_1", "nccl_trace_rank_7"])
def test_a_single_dump_that_strayed_in_does_not_outweigh_the_others(tmp_path: Path, stray: str) -> None:
    for rank in range(4):
        os.utime(write(tmp_path, rank), (1000, 1000))
    later = [{**each, "time_created_ns": each["time_created_ns"] + 7200 * 10**9} for each in steps(900)]
    (tmp_path / stray).write_bytes(pickle.dumps(content(later, WORLD), 2))
    found = gather_dumps([tmp_path])
    assert [dump.rank for dump in found.dumps] == [0, 1, 2, 3]
    (words,) = found.apart
    assert stray.rstrip("17") in words
    assert "left out" in words


def test_nodes_may_have_folders_of_their_own(tmp_path: Path) -> None:
    for rank in range(4):
        folder = tmp_path / f"node{rank // 2}"
        folder.mkdir(exist_ok=True)
        write(folder, rank)
    found = gather_dumps([tmp_path])
    assert [dump.rank for dump in found.dumps] == [0, 1, 2, 3]
    assert found.apart == []


def test_a_dump_that_an_earlier_attempt_left_is_not_this_ones(tmp_path: Path, sentences: Sentences) -> None:
    """Rank 3 could not write the second time: its old dump would make all ranks stand together."""
    write(tmp_path, 3, last=500)
    for rank in range(3):
        later = [{**each, "time_created_ns": each["time_created_ns"] + 7200 * 10**9} for each in steps(40)]
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content(later, WORLD), 2))
    found = gather_dumps([tmp_path])
    assert [dump.rank for dump in found.dumps] == [0, 1, 2]
    sentences(found.apart)


def test_a_rank_that_came_hours_late_to_the_first_collective_is_of_the_same_attempt(tmp_path: Path) -> None:
    for rank in range(4):
        at_s = 1_790_000_000.0 + (7200 if rank == 3 else 0)
        held = content(steps(1, at_s=at_s), WORLD)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(held, 2))
    assert len(gather_dumps([tmp_path]).dumps) == 4


def test_numbers_and_lists_without_end_cost_only_their_file(tmp_path: Path) -> None:
    endless: list[object] = [1]
    for _ in range(60):
        endless = [endless, endless]
    write(tmp_path, 0)
    held = content(steps(3), WORLD)
    held["pg_config"]["0"]["desc"] = held["pg_status"]["0"]["last_enqueued_collective"] = endless
    (tmp_path / "nccl_trace_rank_1").write_bytes(pickle.dumps(held, 2))
    changes: tuple[dict[str, Any], ...] = ({"collective_seq_id": 10**5000}, {"input_sizes": [[2**60] * 999]})
    for rank, change in enumerate(changes, 2):
        held = content([{**entry(1), **change}], WORLD)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(held, 2))
    found = gather_dumps([tmp_path])
    assert [dump.rank for dump in found.dumps] == [0, 1]
    assert "Expected `int`" in why(found, "rank_2")
    assert "Expected `array`" in why(found, "rank_3")


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_12", 12),
        ("dump_003.json", 3),
        ("comm_lib_trace_rank_7.pkl.gz", 7),
        ("node2/trace", 2),
        ("trace", None),
        ("node2/nccl_trace_rank_99999999999", None),
    ],
)
def test_the_rank_stands_at_the_end_of_the_name(name: str, rank: int | None) -> None:
    assert rank_of(Path("dumps") / name) == rank


def test_a_number_that_no_rank_can_have_is_no_member_of_a_group(tmp_path: Path) -> None:
    write(tmp_path, 1)
    held = content(steps(3), WORLD)
    held["pg_config"]["0"]["ranks"] = f"[0, 1, 999999999999, -3, {1 << 20}, {'7' * 5000}]"
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps(held, 2))
    found = gather_dumps([tmp_path])
    assert [dump.groups["0"].ranks for dump in found.dumps] == [(0, 1), (0, 1, 2, 3)]


def test_a_dump_that_is_refused_says_nothing_of_its_rank(tmp_path: Path) -> None:
    for rank in range(8):
        write(tmp_path, rank)
    place = str(tmp_path / "nccl_trace_rank_")
    Path(f"{place}0").write_bytes(pickle.dumps({"entries": Harm(tmp_path / "mark")}, 2))
    Path(f"{place}1").write_bytes(pickle.dumps({"entries": [{"profiling_name": 7}]}, 2))
    Path(f"{place}2").write_bytes(b"\x80\x04" + b"]" * 3_000_000 + b"a" * 2_999_999 + b".")
    Path(f"{place}3").write_text('{"entries":' + "[" * 5000)
    Path(f"{place}4").write_text("{a}")
    for rank in (5, 6):
        Path(f"{place}{rank}").unlink()
    os.mkfifo(f"{place}5")
    Path(f"{place}6").symlink_to("/dev/zero")
    found = gather_dumps([tmp_path])
    assert [dump.rank for dump in found.dumps] == [7]
    assert found.closed | {2} == set(range(7))  # with memory enough rank 2's lists are read, and are no dump
    assert [each.unreadable for each in found.skipped] == [True] * 7


def test_more_entries_than_a_ring_holds_are_refused_before_they_take_memory() -> None:
    data = b'{"entries":[' + b",".join([b'{"profiling_name":"x"}'] * (MAX_ENTRIES + 1)) + b"]}"
    tracemalloc.start()
    try:
        with pytest.raises(UnreadableDumpError, match="entries"):
            read_dump(data, 0, "x")
        assert tracemalloc.get_traced_memory()[1] < len(data)
    finally:
        tracemalloc.stop()


def test_json_takes_a_bounded_multiple_of_its_size() -> None:
    frames = [{"name": "step", "filename": "/home/u/train.py", "line": 42}]
    entry = {"profiling_name": "nccl:all_reduce", "input_sizes": [[1024]], "frames": frames, "x": [{}] * 40}
    data = json.dumps({"entries": [entry | {"collective_seq_id": n} for n in range(1, 2_001)]}).encode()
    tracemalloc.start()
    try:
        assert read_dump(data, 0, "x").count == 2_000
        assert tracemalloc.get_traced_memory()[1] < 8 * len(data)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "text", [b"{}", b'{"version": "2.4"}', b'{"entries": null}', b'{"entries": [1]}', b"[]"]
)
def test_json_of_another_kind_is_no_dump(text: bytes) -> None:
    with pytest.raises(NoDumpError):
        read_dump(text, 0, "x")
