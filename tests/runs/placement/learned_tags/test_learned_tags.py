"""Tags of writers that no table knows: what all lines of a folder show names the ranks."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gpuwatch.agent.logs.lines.normalise import known_messages
from gpuwatch.agent.ranks.learned_tags import learned
from gpuwatch.runs.placement.learned_tags.learn import learned_tags
from tests.runs.placement.culprits import OOM, first_incident

LOST = "RuntimeError: Connection closed by peer [10.0.0.7]:40123"
CAUSE = "KeyError: 'input_ids'"


def lines(tags: Sequence[str], bad: int, *, cause: str = CAUSE) -> Iterator[str]:
    """Lines of a job whose writer `bad` fails; each line begins with its writer's tag."""
    yield from (f"{tag}model built" for tag in tags)
    for step in range(1, 7):
        yield from (f"{tag}step {step}/900 loss {4 / step:.3f}" for tag in tags)
    yield from (f"{tags[bad]}{text}" for text in ("Traceback (most recent call last):", cause))
    yield from (f"{tag}{LOST}" for at, tag in enumerate(tags) if at != bad)


def ranks_of(files: dict[str, Iterator[str]]) -> list[dict[str, int]]:
    return [
        tag.ranks for tag in learned_tags([(file, [x.encode() for x in ls]) for file, ls in files.items()])
    ]


@pytest.mark.parametrize(
    "form",
    [
        "P%03d INFO ",
        "<%d> ",
        "unit-%d | ",
        "2026-11-18 04:00:00 seat %d: ",
        "[%d] ",
        "w=%d/4 ",
    ],
)
def test_numbers_from_0_of_processes_that_write_the_same_are_ranks(form: str) -> None:
    tags = [form % n for n in range(4)]
    assert list(ranks_of({"all.log": lines(tags, 2)})[0].values()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "word", ["layer", "expert", "fold", "trial", "step", "tp rank", "local_rank", "stage"]
)
def test_numbers_of_other_things_are_no_ranks(word: str) -> None:
    tags = [f"{word} {n}: " for n in range(4)]
    assert not ranks_of({"all.log": lines(tags, 2)})


def in_step(tags: Sequence[str]) -> Iterator[str]:
    """Lines of writers that only log the same steps, in turn."""
    yield from (f"{tag}2026-11-18 04:00:{step:02} step {step} loss 2.5" for step in range(20) for tag in tags)


def test_replicas_that_log_the_same_steps_in_turn_are_ranks() -> None:
    assert list(ranks_of({"all.log": in_step([f"trainer/{n} " for n in range(4)])})[0].values()) == [
        0,
        1,
        2,
        3,
    ]


@pytest.mark.parametrize("form", ["job7 {n}: ", "fold{host} {n}: ", "{n}: "])
def test_numbers_behind_no_hosts_of_several_processes_are_none(form: str) -> None:
    tags = [form.format(n=n, host=n) for n in range(4)]
    assert not ranks_of({"all.log": in_step(tags)})


def by_file(form: str, hosts: int, each: int, bad: int, *, failed: str = LOST) -> dict[str, Iterator[str]]:
    """Files of hosts, of which the first of several processes logs the steps; `form`: the tag of each."""
    files: dict[str, Iterator[str]] = {}
    for host in range(hosts):
        tags = [form.format(n=n, host=f"k{host:02}") for n in range(host * each, (host + 1) * each)]
        said = [f"{tag}device {at} ready" for at, tag in enumerate(tags)]
        said += [f"{tags[0]}sweep {step} cost {9 - step / 10:.1f}" for step in range(12)]
        ends = [CAUSE if n + host * each == bad else failed for n in range(each)]
        files[f"h{host}.log"] = iter([*said, *(tag + end for tag, end in zip(tags, ends, strict=True))])
    return files


@pytest.mark.parametrize(
    ("form", "hosts", "each"), [("<{n}> ", 3, 4), ("{n:02d}| ", 2, 2), ("{host}/{n}: ", 5, 1)]
)
def test_numbers_that_files_have_of_their_own_are_ranks(form: str, hosts: int, each: int) -> None:
    (ranks,) = ranks_of(by_file(form, hosts, each, 2))
    assert sorted(ranks.values()) == list(range(hosts * each))


def test_a_host_before_the_number_is_that_of_the_rank() -> None:
    files = by_file("{host}/{n}: ", 3, 1, 2)
    (tag,) = learned_tags([(file, [x.encode() for x in ls]) for file, ls in files.items()])
    assert tag.hosts == {0: "k00", 1: "k01", 2: "k02"}


def test_numbers_of_runs_that_do_not_depend_on_each_other_are_no_ranks() -> None:
    assert not ranks_of(by_file("[{n}] ", 4, 1, 2, failed="done"))


def test_processes_that_call_themselves_by_their_number_are_ranks() -> None:
    said = [f"<{n}> communicator was aborted on rank {n}." for n in range(4)]
    said += [f"<0> sweep {step} cost {9 - step / 10:.1f}" for step in range(12)]
    assert list(ranks_of({"all.log": iter([*said, *(f"<{n}> bye" for n in range(4))])})[0].values()) == [
        *range(4)
    ]


def test_some_of_all_numbers_are_ranks_where_each_file_has_its_own() -> None:
    own = {f"h{n}.log": [f"[{n * 8}/32] pass {step} err 2.5" for step in range(12)] for n in range(4)}
    own["h1.log"].append("[13/32] " + CAUSE)
    (ranks,) = ranks_of({file: iter(said) for file, said in own.items()})
    assert ranks["13"] == 13
    assert ranks["31"] == 31


def test_a_list_of_hosts_by_number_tells_the_ranks_and_their_hosts() -> None:
    said = [f"{n} gpu-r{n + 5:02} up" for n in range(4)]
    said += [f"2026-11-18 04:00:{step:02} {n}: it {step}" for step in range(20) for n in range(4)]
    (tag, *_) = learned_tags([("all.log", [line.encode() for line in said])])
    assert tag.hosts == {n: f"gpu-r{n + 5:02}" for n in range(4)}


def test_the_numbers_of_nodes_with_several_processes_each_are_no_ranks() -> None:
    tags = [f"trainer/{n} " for n in range(4)]
    starts = [f"{tag}torchrun --nproc_per_node=8 --node_rank={n} t.py" for n, tag in enumerate(tags)]
    assert not ranks_of({"all.log": iter([*starts, *in_step(tags)])})


def test_levels_of_different_width_are_at_one_place() -> None:
    tags = [f"INFO     | job - [node {n // 2} / gpu {n % 2}] " for n in range(4)]
    last = tags[3].replace("INFO    ", "CRITICAL") + "ValueError: 7"
    (tag, *_) = learned_tags([("all.log", [line.encode() for line in lines(tags, 2)])])
    with learned([(tag.pattern, tag.ranks, tag.is_head)]):
        assert known_messages(last.encode())[0][0][1].rank == 3


def test_numbers_of_hosts_with_several_processes_each_are_no_ranks() -> None:
    tags = [f"cn{n // 2}: " for n in range(4)]
    assert not ranks_of({"all.log": lines(tags, 2)})


def test_numbers_that_begin_again_on_each_host_are_no_ranks() -> None:
    tags = [f"gpu-00{n // 2} seat {n % 2}: " for n in range(4)]
    assert not ranks_of({"all.log": lines(tags, 2)})


def test_numbers_of_node_and_process_together_are_a_rank() -> None:
    tags = [f"[node {n // 2}][gpu {n % 2}] " for n in range(4)]
    assert ranks_of({"all.log": lines(tags, 2)})[0] == {"0/0": 0, "0/1": 1, "1/0": 2, "1/1": 3}


def test_numbers_of_processes_in_files_numbered_by_node_are_ranks() -> None:
    files = {f"node-{node}.log": lines(["[gpu 0] ", "[gpu 1] "], 1) for node in range(2)}
    assert ranks_of(files) == [{"0": 0, "1": 1}, {"0": 2, "1": 3}]


def test_numbers_whose_lines_state_other_ranks_are_no_ranks() -> None:
    said = [f"worker-{n // 4}: [ERROR] (RankID:{n}) step {step}/900" for step in range(9) for n in range(8)]
    assert {"0": 0, "1": 1} not in ranks_of({"all.log": iter(said)})


def test_steps_of_one_process_are_no_ranks() -> None:
    assert not ranks_of(
        {"all.log": iter(f"[{n}/30] loss: {4 / (n + 1):.3f}" for _ in range(3) for n in range(30))}
    )


def test_batches_of_all_in_each_epoch_are_no_ranks() -> None:
    said = [f"[{n}/400] epoch {epoch} loss 2.5" for epoch in range(9) for n in range(0, 400, 50)]
    assert not ranks_of({"all.log": iter(said)})


def test_a_number_in_a_field_of_records_is_a_rank() -> None:
    said = [(tag, "model built") for tag in range(4)]
    said += [(tag, f"step {step}/900 done") for step in range(6) for tag in range(4)]
    form = '{{"t": "2026-11-18T04:00:{:02}", "msg": "{}", "lane": {}}}'
    rows = [form.format(n, text, tag) for n, (tag, text) in enumerate(said)]
    assert ranks_of({"all.jsonl": iter(rows)})[0] == {"0": 0, "1": 1, "2": 2, "3": 3}


PODS = ("llm-a", "llm-b", "llm-c")


@pytest.mark.parametrize(
    "rows",
    [
        ["llm-b RANK=0 up", "llm-a RANK=2 up", "llm-c RANK=1 up"],
        ["rank pod node", "0 llm-b n1", "1 llm-c n1", "2 llm-a n1"],
        ["| rank | pod |", "|------|-----|", "| 0 | llm-b |", "| 1 | llm-c |", "| 2 | llm-a |"],
        ["rank to pod:", "  0: llm-b", "  1: llm-c", "  2: llm-a"],
    ],
)
def test_names_that_a_table_states_beside_ranks_name_the_writers(rows: list[str]) -> None:
    files = {"all.log": lines([f"{pod} | " for pod in PODS], 1), "start.txt": iter(rows)}
    assert {"llm-a": 2, "llm-b": 0, "llm-c": 1} in ranks_of(files)


def test_a_tag_that_introduces_itself_names_its_rank() -> None:
    tags = [f"[pod {name} x{n}] " for n, name in enumerate("cab")]
    said = [f"{tag}global rank {rank} ready" for tag, rank in zip(tags, (2, 0, 1), strict=True)]
    assert dict(zip((tag.strip() for tag in tags), (2, 0, 1), strict=True)) in ranks_of(
        {"all.log": iter([*said, *lines(tags, 1)])}
    )


def test_a_scan_names_the_rank(tmp_path: Path) -> None:
    tags = [f"2026-11-18 04:00:0{n} | kite #{n:02} | " for n in range(6)]
    assert first_incident(tmp_path, {"all.log": "\n".join(lines(tags, 4, cause=OOM))}).rank == 4


def test_the_process_out_of_all_is_the_rank_and_not_its_host() -> None:
    """Rank 0 logs the steps, each of the others one line at the start, and some one at the end."""
    tags = [f"proc {n}/8 @ hx-{n // 2} | 2026-10-17 03:00:{n:02} " for n in range(8)]
    text = [f"{tag}setup done" for tag in tags]
    text += [f"proc 0/8 @ hx-0 | 2026-10-17 03:01:{step:02} iter {step} loss 4.{step}" for step in range(10)]
    for lost in (tags, tags[:3]):
        lines = iter([*text, *(f"{tag}{LOST}" for tag in lost)])
        assert ranks_of({"all.log": lines}) == [{str(n): n for n in range(8)}]


def test_a_line_is_read_anew_when_other_tags_are_learned() -> None:
    line = b"<3> RuntimeError: unexpected end of the shard"
    with learned([(r"<(\d)> ", {"3": 3}, True)]):
        assert [who.rank for _, who in known_messages(line)[0]] == [3]
    assert [who.rank for _, who in known_messages(line)[0]] == [None]
    with learned([(r"<(\d)> ", {"3": 7}, True)]):
        assert [who.rank for _, who in known_messages(line)[0]] == [7]
