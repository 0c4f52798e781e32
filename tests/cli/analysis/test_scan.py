from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpuwatch.cli.analysis.scan import is_regular
from tests.cli.running import gpuwatch, on_a_terminal, start
from tests.runs import jobs
from tests.sentences import Sentences, line_of

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def rules(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(jobs.pack(tmp_path_factory.mktemp("pack")))


def scanned(rules: str, *paths: Path, status: int = 1) -> dict[str, Any]:
    done = gpuwatch("scan", *map(str, paths), "--rules", rules, "--json")
    assert done.returncode == status, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def test_an_output_that_a_job_names_is_a_file_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / "slurm-41.out").write_text("x")
    os.mkfifo(tmp_path / "fifo")
    paths = (
        Path("/"),
        tmp_path,
        Path("/dev/zero"),
        tmp_path / "fifo",
        Path("/" + "a" * 6_000),
        Path("/a\0b"),
    )
    assert not any(map(is_regular, paths))
    assert is_regular(tmp_path / "slurm-41.out")


def test_the_json_of_a_jobs_folder(tmp_path: Path, rules: str, sentences: Sentences) -> None:
    jobs.torchrun(tmp_path)
    (tmp_path / "ckpt.pt").write_bytes(b"x")
    facts = scanned(rules, tmp_path)
    (incident,) = facts["incidents"]
    assert f"rank {jobs.VICTIM} (gpu-002 GPU 3)" in incident["sentence"]
    assert {name: incident[name] for name in ("class", "rank", "node", "gpu", "followers", "confidence")} == {
        "class": "oom.cuda",
        "rank": jobs.VICTIM,
        "node": "gpu-002",
        "gpu": 3,
        "followers": jobs.RANKS - 1,
        "confidence": incident["confidence"],
    }
    assert incident["confidence"] in ("high", "medium", "low")
    evidence = incident["evidence"][0]
    path = Path(evidence["file"])
    assert path.parts[-2:] == (str(jobs.VICTIM % jobs.PER_NODE), "stderr.log")
    assert path.read_text().splitlines()[evidence["line"] - 1] == evidence["text"]
    assert path.read_bytes()[evidence["offset"] :].startswith(b"torch.OutOfMemoryError")
    assert incident["timeline"]
    sentences(incident["do"])
    assert len(facts["files"]) == 2 * jobs.RANKS
    sentences([each["why"] for each in facts["skipped"]])
    assert {rank["rank"]: rank["node"] for rank in facts["ranks"]} == {
        rank: jobs.node_of(rank) for rank in range(jobs.RANKS)
    }


def test_incidents_stand_in_the_order_of_their_first_cause(tmp_path: Path, rules: str) -> None:
    later = jobs.xid("[Sun Mar  2 17:40:00 2025]")
    (tmp_path / "dmesg-gpu-007.log").write_text(later)
    (tmp_path / "zz-dmesg-gpu-004.log").write_text(jobs.xid("[Sun Mar  2 03:40:00 2025]"))
    incidents = scanned(rules, tmp_path)["incidents"]
    assert [incident["node"] for incident in incidents] == ["gpu-004", "gpu-007"]
    assert incidents[0]["first_seen"] < incidents[1]["first_seen"]


def test_the_sentences_are_the_last_lines_before_the_verdict(
    tmp_path: Path, rules: str, sentences: Sentences
) -> None:
    jobs.flat(tmp_path)
    (tmp_path / "dmesg-gpu-007.log").write_text(jobs.xid("[Sun Mar  2 17:40:00 2025]"))
    for option in ([], ["-v"]):
        done = gpuwatch("scan", str(tmp_path), "--rules", rules, *option)
        assert (done.returncode, done.stderr) == (1, "")
        *_, first, second, last = done.stdout.splitlines()
        assert first.startswith("1  CRITICAL  rank 11 (gpu-002 GPU 3)")
        assert second.startswith("2  CRITICAL  gpu-007")
        assert re.findall(r"\d+ [a-z]+", last)[:2] == ["2 incidents", "17 files"]
        sentences(last, but=r"[\d.]+ s")
        assert done.stdout.count("rank 11 (gpu-002 GPU 3)") == 1


def test_the_text_names_the_key_line_and_the_evidence_only_when_asked(tmp_path: Path, rules: str) -> None:
    jobs.flat(tmp_path)
    key = jobs.rank_text(jobs.VICTIM).splitlines().index(jobs.oom().splitlines()[-1])
    place = f"{tmp_path}/rank_{jobs.VICTIM}.log:{1 + key}"
    brief, whole = (
        gpuwatch("scan", str(tmp_path), "--rules", rules, *option).stdout for option in ([], ["-v"])
    )
    for text in (brief, whole):
        assert place in text
        assert jobs.oom().splitlines()[-1] in text
        assert re.search(r"\b1\. Make\b", text)
    assert "timeline" in whole
    assert "timeline" not in brief
    assert len(brief.splitlines()) < 15 < len(whole.splitlines())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("columns", [80, 120])
def test_long_lines_are_broken_between_words_and_indented(tmp_path: Path, rules: str, columns: int) -> None:
    jobs.flat(tmp_path)
    _, text = on_a_terminal("scan", str(tmp_path), "--rules", rules, columns=columns)
    shown = ESCAPES.sub("", text).replace("\r", "").rstrip().split("\n")
    at = next(number for number, line in enumerate(shown) if line.startswith("1  CRITICAL"))
    sentence: list[str] = []
    for line in shown[at:]:
        if sentence and not line.startswith("   "):
            break
        sentence.append(line)
    assert max(map(len, sentence)) <= columns
    assert " ".join(line.strip() for line in sentence).count("rank 11 (gpu-002 GPU 3)") == 1


def test_a_healthy_job_gives_nothing_and_0(tmp_path: Path, rules: str, sentences: Sentences) -> None:
    (tmp_path / "rank_0.log").write_text(jobs.nccl_lines(0) + jobs.steps())
    done = gpuwatch("scan", str(tmp_path), "--rules", rules)
    assert (done.returncode, done.stderr) == (0, "")
    sentences(done.stdout.splitlines()[-1], but=r"[\d.]+ s")
    assert scanned(rules, tmp_path, status=0)["incidents"] == []


def test_a_folder_without_a_log_is_no_all_clear(tmp_path: Path, sentences: Sentences) -> None:
    done = gpuwatch("scan", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    sentences(line_of(done.stderr, "readable"))
    (tmp_path / "model.pt").write_bytes(b"x")
    sentences(line_of(gpuwatch("scan", str(tmp_path)).stderr, "checkpoint"))


def test_a_path_that_is_not_there_is_wrong_usage(tmp_path: Path, sentences: Sentences) -> None:
    done = gpuwatch("scan", str(tmp_path / "nowhere"), str(tmp_path))
    assert done.returncode == 2
    sentences(line_of(done.stderr, "nowhere"))
    assert done.stdout == ""
    assert gpuwatch("scan").returncode == 2


def test_a_broken_pack_is_refused_with_its_place(tmp_path: Path) -> None:
    pack = tmp_path / "mine.yaml"
    pack.write_text(
        "- {id: my.rule, severity: warning, title: x, match: '(', explain: x, do: x, examples: x}\n"
    )
    done = gpuwatch("scan", str(tmp_path), "--rules", str(pack))
    assert done.returncode == 2
    assert f"{pack}:1:" in done.stderr


def test_files_that_cannot_be_read_are_reported_and_the_rest_is_read(
    tmp_path: Path, rules: str, sentences: Sentences
) -> None:
    jobs.flat(tmp_path)
    broken = gzip.compress(jobs.rank_text(3).encode() * 50)
    (tmp_path / "old_rank_3.log.gz").write_bytes(broken[: len(broken) // 2])
    (tmp_path / "secret.log").symlink_to("/proc/self/mem")
    facts = scanned(rules, tmp_path)
    trouble = {Path(file["name"]).name: file["trouble"] for file in facts["files"] if file["trouble"]}
    assert list(trouble) == ["old_rank_3.log.gz"]
    sentences(trouble)
    (skipped,) = facts["skipped"]
    assert (Path(skipped["name"]).name, skipped["unreadable"]) == ("secret.log", True)
    done = gpuwatch("scan", str(tmp_path), "--rules", rules)
    assert done.returncode == 1
    assert "secret.log" in done.stderr
    sentences(line_of(done.stdout, "old_rank_3.log.gz"))
    assert "rank 11 (gpu-002 GPU 3)" in done.stdout


def test_hostile_names_and_lines_cannot_steer_the_terminal(tmp_path: Path, rules: str) -> None:
    name = b"rank_3\n\x1b]0;owned\x07\xff\xe2\x80\xae.log"
    hostile = "\x1b]52;c;b3duZWQ=\x07\x1b[2J" + jobs.oom().replace("6.50 GiB", "6.50 GiB\x1b[31m\u202e\x9b2J")
    path = os.path.join(os.fsencode(tmp_path), name)  # noqa: PTH118  a name that is no text
    with open(path, "wb") as file:  # noqa: PTH123 - as a user opens it
        file.write(hostile.encode())
    for form in ([], ["--json"]):
        done = gpuwatch("scan", str(tmp_path), "--rules", rules, *form)
        assert done.returncode == 1, done.stderr
        text = json.dumps(json.loads(done.stdout), ensure_ascii=False) if form else done.stdout
        assert "OutOfMemoryError" in text
        assert not set("\x1b\x07\u202e\x9b") & set(text)
    assert scanned(rules, tmp_path)["incidents"][0]["evidence"][0]["line"] == 4


def test_the_engines_agree(tmp_path: Path, rules: str) -> None:
    pytest.importorskip("hyperscan", reason="the extra hyperscan is not installed")
    jobs.flat(tmp_path)
    outputs = [
        json.loads(gpuwatch("scan", str(tmp_path), "--rules", rules, "--json", "--engine", engine).stdout)
        for engine in ("agent", "hyperscan")
    ]
    assert outputs[0]["incidents"] == outputs[1]["incidents"]
    assert [each["engine"] for each in outputs] == ["agent", "hyperscan"]


def test_a_progress_bar_is_shown_on_a_terminal_and_gone_afterwards(tmp_path: Path, rules: str) -> None:
    jobs.flat(tmp_path)
    status, text = on_a_terminal("scan", str(tmp_path), "--rules", rules, columns=120)
    assert status == 1
    assert "of 16 files" in text
    assert text.index("of 16 files") < text.index("rank 11 (gpu-002 GPU 3)")


def wait_until_read(pid: int, path: Path, count: int) -> None:
    """Until this process or one of its children stands behind so many bytes of the file."""
    limit = time.monotonic() + 60
    while not any(at >= count for at in positions(pid, path)):
        assert time.monotonic() < limit, f"{path} was not read"
        time.sleep(0.05)


def positions(pid: int, path: Path) -> Iterator[int]:
    family = [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    for folder in (Path(f"/proc/{each}") for each in family):
        with contextlib.suppress(OSError):
            for link in (folder / "fd").iterdir():
                if link.exists() and link.samefile(path):
                    yield int((folder / "fdinfo" / link.name).read_text().split()[1])


def test_ctrl_c_prints_what_was_found_so_far(tmp_path: Path, rules: str) -> None:
    (tmp_path / "a.log").write_text(jobs.xid() * 40_000)
    endless = tmp_path / "b.log"
    with endless.open("wb") as file:
        file.write(jobs.oom().encode())
        for _ in range(300):
            file.write(b"2026-11-22 20:00:00 step 1/600 loss 2.0\n" * 26_214)  # 1 MB
    running = start("scan", str(tmp_path), "--rules", rules, "--json", "--engine", "agent")
    try:
        wait_until_read(running.pid, endless, 16 << 20)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
    facts = json.loads(out)
    assert running.returncode == 130
    assert facts["stopped"] is True
    assert facts["incidents"]
    assert "interrupted" in err
    assert "Traceback" not in err


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "content", "status", "why"),
    [
        ("empty.log", b"", 2, "empty"),
        ("packed.log.gz", gzip.compress(b"", mtime=0), 2, "empty"),
        ("broken.gz", b"\x1f\x8b\x08junk", 2, "gzip"),
        ("junk.gz", b"hello\n", 0, "not gzip data"),
    ],
    ids=["empty", "packed", "broken", "plain"],
)
def test_a_file_without_text_is_no_good_news(
    tmp_path: Path, name: str, content: bytes, status: int, why: str
) -> None:
    (tmp_path / name).write_bytes(content)
    done = gpuwatch("scan", str(tmp_path / name))
    assert (done.returncode, why in done.stderr, name in done.stderr) == (status, True, True)


FINISHED = (
    "".join(f"2026-11-22 10:00:{step:02} step {step}/20 loss 1.0\n" for step in range(21))
    + "Training finished\n"
)


def test_a_log_that_was_not_read_to_its_end_is_no_good_news(tmp_path: Path) -> None:
    """Damaged, or binary at its beginning: what stands behind that is not searched."""
    (tmp_path / "rank0.log").write_text(FINISHED)
    assert gpuwatch("scan", str(tmp_path)).returncode == 0
    for number, data in enumerate(
        (gzip.compress(b"step 1\n" * 5000)[:-20], os.urandom(40_000) + b"\nstep 1\n")
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "rank0.log").write_text(FINISHED)
        (folder / "rank3.log").write_bytes(data)
        done = gpuwatch("scan", str(folder))
        assert done.returncode == 1
        assert "rank3.log: " in done.stdout


def test_lines_in_a_file_that_is_named_as_json_are_a_log(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text(FINISHED)
    (tmp_path / "rank3.json").write_text(
        "rank 3: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    (tmp_path / "config.json").write_text('{"lr": 1}\n')
    done = gpuwatch("scan", str(tmp_path), "--json")
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["incidents"][0]["class"]) == (1, "oom.cuda")
    assert [each["name"] for each in facts["skipped"]] == [str(tmp_path / "config.json")]


def test_a_name_that_is_reported_as_missing_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """As a shell expands `*`, of a link that its owner takes away."""
    for arguments in (
        ("scan",),
        ("flight",),
        ("once", "--local", "-F"),
        ("rules", "test"),
        ("rules", "show"),
    ):
        done = gpuwatch(*arguments, f"{tmp_path}/\x1b]0;x\x07\u202e\x9b2J")
        assert done.returncode == 2
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.stderr)
