"""A copy for sharing: no name, path or address of the original stands in it, and it shows the same."""

from __future__ import annotations

import base64
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import zstandard

from gpuwatch.hosts.plan import Allocation, NodeSpec, Plan, ServingEndpoint
from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.schema import RecordingError
from gpuwatch.link.recording.writer import recorded_plan
from gpuwatch.report.recording.packed_text import LEFT_OUT, without_file_piece
from gpuwatch.report.recording.redacted_copy import redact, redacted_plan
from gpuwatch.report.recording.redaction import Redaction
from gpuwatch.session.replay_session import ReplaySession
from gpuwatch.wire import unpacked
from tests.link.recording.recordings import recorded_demo

NAMES = Redaction(["gpu-001", "gpu-001.hpc.example.edu", "gpu-0010"], ["ada", "bo"])


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("rank 3 on gpu-001 at 12:03:11", "rank 3 on node-001 at 12:03:11"),
        ("gpu-001.hpc.example.edu and gpu-0010", "node-001 and node-002"),
        ("gpu-00100 is another", "gpu-00100 is another"),
        ("user ada, not adagrad", "user user-1, not adagrad"),
        ("/home/ada/llama/rank_3.log", "/home/user-1/path-1/rank_3.log"),
        ("in /scratch/llama/run7.out:", "in /scratch/path-1/path-2.out:"),
        ("PYTHONPATH=/home/ada/llama:/data/secret", "PYTHONPATH=/home/user-1/path-1:/data/path-2"),
        ("https://wandb.ai/acme/llama/runs/x1y2", "https://host-1.example.org/path-1/path-2/runs/path-3"),
        ("s3://bucket/llama/a.pt", "s3://path-1/path-2/path-3.pt"),
        (
            "file:///home/ada/x.py and nfs01:/export/llama",
            "file:///home/user-1/path-1.py and nfs01:/path-2/path-3",
        ),
        ("http://127.0.0.1:8080 5/10 it/s N/A", "http://127.0.0.1:8080 5/10 it/s N/A"),
        ("tcp 10.20.30.40:29500, 127.0.0.1", "tcp 10.0.0.1:29500, 127.0.0.1"),
        ("mail ada@lab.org", "mail mail-1@example.org"),
        ("see build.corp", "see host-1.example.org"),
        ("login.hpc.ethz.ch, proxy.acme.co", "host-1.example.org, host-2.example.org"),
        ("at www.uni.ac.at: model.pt np.add", "at host-1.example.org: model.pt np.add"),
        ("wrote private/team.h5, 2/10.5", "wrote path-1/path-2.h5, 2/10.5"),
        ("PCI 0000:c3:00.0 in std::vector 3.14 1.2.3", "PCI 0000:c3:00.0 in std::vector 3.14 1.2.3"),
        ("fe80::1ff:fe23:4567:890a", "ip6-1"),
        ("GPU-001: Xid 79, Gpu-001.HPC.example.edu, gpu_001", "node-001: Xid 79, node-001, node-001"),
        (
            "user Ada, ADA's, user=bo UserId=cy(1000)",
            "user user-1, user-1's, user=user-2 UserId=user-3(1000)",
        ),
        ("NodeList=gpu-[001-004,0010] and x[1]", "NodeList=nodes-1-[001-004,0010] and x[1]"),
        ("ssh ada@login1 root@gpu-001 map@5", "ssh user-1@host-1 root@node-001 map@5"),
        (
            "../llama/x ./run.sh conf/llama/a.yaml 5/10 tokens/s and/or",
            "../path-1/path-2 ./path-3.sh path-4/path-1/path-5.yaml 5/10 tokens/s and/or",
        ),
        ("gpu-001x gpu-0011", "node-001x gpu-0011"),
        ("DB_PASSWORD=Zx9tQ4wLm27RkP", "DB_PASSWORD=[masked]"),
    ],
)
def test_names_in_text(text: str, other: str) -> None:
    assert Redaction(["gpu-001", "gpu-001.hpc.example.edu", "gpu-0010"], ["ada", "bo"]).text(text) == other


def test_a_host_with_a_domain_is_also_found_by_its_first_label() -> None:
    hosts = [
        "g7.hpc.example.edu",
        "gpu7.hpc.example.edu",
        "gpu8.a.lan",
        "gpu8.b.lan",
        "10.0.0.7",
        "data.a.lan",
    ]
    names = Redaction([*hosts, "gpu7"], [])
    assert names.text("gpu7:12:3 [0] NCCL WARN on gpu7.hpc.example.edu") == (
        "node-002:12:3 [0] NCCL WARN on node-002"
    )
    assert names.node("gpu7") == names.node("gpu7.hpc.example.edu") == "node-002"
    assert len({names.text(host) for host in ("gpu8.a.lan", "gpu8.b.lan", "gpu8")}) == 3
    assert "gpu8" not in names.text("gpu8 gpu8.a.lan")
    assert names.text("data 10 step 7") == "data 10 step 7"


def test_keys_and_terms_keep_no_name() -> None:
    value = {
        "variables": {"ada": "1", "HOME": "/home/ada"},
        "fields": {"state": "lost on gpu-001", "kind": "ada"},
        "python": "/home/ada/envs/llama/bin/python",
        "name": "NVIDIA H100",
        "rank": 3,
    }
    assert Redaction(["gpu-001"], ["ada", "rank"]).value(value) == {
        "variables": {"user-1": "1", "HOME": "/home/user-1"},
        "fields": {"state": "lost on node-001", "kind": "user-1"},
        "python": "/home/user-1/envs/path-1/bin/python",
        "name": "NVIDIA H100",
        "rank": 3,
    }


def packed(text: bytes) -> str:
    return base64.b64encode(zlib.compress(text)).decode()


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (b"f (/home/ada/l/a.py:7) 5\non gpu-001 2", b"f (/home/user-1/path-1/path-2.py:7) 5\non node-001 2"),
        (b'{"hosts": [{"host": "gpu-001", "uuid": "0x1"}]}', b'{"hosts":[{"host":"node-001","uuid":"0x1"}]}'),
    ],
)
def test_packed_texts_are_replaced_inside(text: bytes, other: bytes) -> None:
    names = Redaction(["gpu-001"], ["ada"])
    assert unpacked(names.value({"packed": packed(text)})["packed"], 999) == other
    assert names.value({"packed": "/home/ada"}) == {"packed": ""}


def test_a_piece_of_a_file_is_left_out_and_its_answer_says_so() -> None:
    reply = {"id": 3, "data": {"packed": packed(b"ada"), "bytes": 3, "size_bytes": 3}}
    assert without_file_piece(reply) == {"id": 3, "error": LEFT_OUT}
    assert without_file_piece({"id": 3, "data": {"packed": "x"}}) == {"id": 3, "data": {"packed": "x"}}


def test_a_plan_keeps_no_user_and_no_path() -> None:
    allocation = Allocation("4711", "llama", "ada", "RUNNING", None, 0)
    plan = Plan(
        (NodeSpec("gpu-001", user="ada"),), state="/home/ada/marks", allocation=allocation, source="x",
        serving=(ServingEndpoint("llama", "http://ada:pw@gpu-001/metrics"),),
    )  # fmt: skip
    found = msgspec.json.encode(redacted_plan(recorded_plan(plan), NAMES))
    assert b"node-001" in found
    assert not any(word in found for word in (b"ada", b"llama", b"gpu-001", b"/home"))


def test_one_name_has_one_other_name() -> None:
    assert NAMES.text("/a/secret-run/b and /c/secret-run/d").count(NAMES.text("/secret-run").strip("/")) == 2


def content(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as file:
        rows = file.execute("SELECT data FROM block UNION ALL SELECT data FROM key_frame").fetchall()
        texts = file.execute(
            "SELECT id || headline FROM incident UNION ALL SELECT value FROM meta"
        ).fetchall()
    packed = [zstandard.ZstdDecompressor().decompress(row[0], max_output_size=1 << 28) for row in rows]
    return b"".join([*packed, *(row[0].encode() for row in texts)])


@pytest.mark.long
def test_a_redacted_recording_shows_the_same_incident_on_other_nodes(tmp_path: Path) -> None:
    path = tmp_path / "shared.gpw"
    with closing(Recording(recorded_demo().path)) as recording:
        redact(recording, path)
        with pytest.raises(RecordingError, match="file exists"):
            redact(recording, path)
        last = recording.last / 1e6
    found = content(path)
    for name in (b"gpu-0", b"demo-ada", b"helios", b"/scratch/demo"):
        assert name in content(recorded_demo().path)
        assert name not in found
    shown = []
    for each in (recorded_demo().path, path):
        with ReplaySession(each) as replay:
            replay.go_to(last)
            assert not replay.refused
            states = [node.state(replay.clock.monotonic()) for node in replay.fleet.nodes.values()]
            (incident,) = replay.book.incidents
            shown.append((states, incident.code, incident.rank, incident.gpu, len(incident.alerts)))
    assert shown[0] == shown[1]
    assert path.stat().st_mode & 0o777 == 0o600
