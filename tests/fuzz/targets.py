"""The readers: each takes bytes, and returns what a person would see of them."""

from __future__ import annotations

import base64
import json
import pickle
import tempfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuwatch.diagnose.hang.flight_recorder.verdict import judge_flight
from gpuwatch.diagnose.hang.ras.model import RasError
from gpuwatch.diagnose.hang.ras.reader import read_ras
from gpuwatch.diagnose.hang.ras.verdict import judge_ras
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.hosts.load import parse_plan
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.link.openssh.known_hosts_file import HostKeyListError, lines_about
from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.schema import RecordingError
from gpuwatch.link.stream.frame_stream import FrameStream
from gpuwatch.link.stream.inbox import Refused
from gpuwatch.link.stream.limits import StreamError
from gpuwatch.rules.model.errors import RulesError
from gpuwatch.rules.parsing.parse import read_packs
from gpuwatch.runs.flight.dumps import read_dump
from gpuwatch.runs.flight.pickle_reader import NoDumpError
from gpuwatch.runs.sessions.folders.session_folder import read_session_folder
from gpuwatch.runs.traces.chrome_trace import read_chrome_trace
from gpuwatch.runs.traces.event_stream import NoTraceError
from gpuwatch.runs.traces.nccl_dump import read_nccl_dump
from gpuwatch.runs.traces.rank_profile import measure
from gpuwatch.wire import RasAnswer
from tests.bench.live.simulated_agent import fast
from tests.bench.parts import ROOT
from tests.diagnose.dumps import content, steps
from tests.fuzz.log_folders import changed_folder, folders, place_ranks, scan_folder
from tests.fuzz.mutations import Mutation, as_json, as_json_lines, as_pickle, changed_bytes
from tests.link.recording.recordings import recorded_demo
from tests.runs.sessions.written import MAIN
from tests.runs.traces.gpu_traces import training
from tests.runs.traces.nccl_dumps import GRAPHS, topology
from tests.servers.ras_server import answer, missing, rank, text

WORLD = {"0": range(4)}


@dataclass(frozen=True)
class Target:
    """A reader, valid inputs, how they are changed, and what it may raise."""

    read: Callable[[bytes], Iterable[str]]
    seeds: Callable[[], Sequence[bytes]]
    mutation: Mutation
    errors: tuple[type[Exception], ...] = ()
    examples: int = 60
    """In `make test`."""


@cache
def scratch() -> Path:
    """A folder for readers of files."""
    return Path(tempfile.mkdtemp(prefix="gpuwatch-fuzz-"))


def file_of(data: bytes, name: str) -> Path:
    """A file with these bytes, new each time: readers keep what they know of a file."""
    path = scratch() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return path


def words_of(verdict: Verdict) -> list[str]:
    """What a verdict states."""
    return [verdict.sentence, *verdict.evidence, *verdict.settle, verdict.note]


def ras(data: bytes, form: str) -> list[str]:
    packed = base64.b64encode(zlib.compress(data)).decode()
    found = read_ras(RasAnswer(address="localhost:28028", format=form, packed=packed), "gpu-001")
    return words_of(judge_ras([found], lambda _host, pid: pid and pid - 1000))


def flight(data: bytes) -> list[str]:
    whole = read_dump(pickle.dumps(content(steps(5, "started"), WORLD), 2), 1, "dump_1")
    return words_of(judge_flight([read_dump(data, 0, "dump_0"), whole]).verdict)


def known_hosts(data: bytes) -> list[str]:
    path = file_of(data, "known_hosts")
    return [str(each.place) for name in ("node-1", "[10.0.0.1]:2222") for each in lines_about(path, name)]


def recording(data: bytes) -> list[str]:
    found = Recording(file_of(data, "fuzz.gpw"))
    try:
        for number, _ in enumerate(found.all_records()):
            if number > 2_000:
                break
        return [*found.nodes.values()]
    finally:
        found.close()


def session(data: bytes) -> list[str]:
    name = "training_20241206_143022"
    path = file_of(data, f"{name}/{name}_summary.json")
    file_of(MAIN.encode(), f"{name}/{name}_main.log")
    return read_session_folder(path.parent, name).problems


def session_log(data: bytes) -> list[str]:
    name = "training_20241206_150000"
    return read_session_folder(file_of(data, f"{name}/{name}_main.log").parent, name).problems


def trace(data: bytes) -> list[str]:
    found = read_chrome_trace([data[:1000], data[1000:]], "trace.json", 0)
    return [str(measure(one)) for one in found]


def topology_dump(data: bytes) -> list[str]:
    found = read_nccl_dump(data, "topology.xml")
    return [str(found.devices), str(found.graphs)]


def frames(data: bytes) -> list[str]:
    stream = FrameStream("n")
    packed = b"\nGPUWATCH1 n\n" + zlib.compress(data)
    return [each.reason for each in stream.feed(packed, 0.0) if isinstance(each, Refused)]


def broken_stream(data: bytes) -> list[str]:
    return [
        each.reason
        for each in FrameStream("n").feed(b"\nGPUWATCH1 n\n" + data, 0.0)
        if isinstance(each, Refused)
    ]


def hosts(data: bytes) -> list[str]:
    return [spec.name for spec in parse_plan(data.decode("utf-8", "replace"), "hosts.yaml").nodes]


def rules(data: bytes) -> list[str]:
    return [*read_packs([file_of(data, "own.yaml")], frozenset())[1]]


HOSTS = ROOT / "hosts.example.yaml"
RULES = ROOT / "gpuwatch" / "rules" / "packs"
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIJv1c0m7hJrW0XK6sXSp5Q8S0oBzYH9q5V2m0wN7YxkU"
KNOWN = f"""\
node-1,10.0.0.1 ssh-ed25519 {KEY} comment
|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= ssh-rsa {KEY}
@cert-authority *.cluster,!bad* ssh-ed25519 {KEY}
@revoked node-? ssh-ed25519 {KEY}
[10.0.0.1]:2222 ssh-ed25519 {KEY}
""".encode()


def samples() -> list[bytes]:
    """Frames of an agent, one a line."""
    gpus = [{"uuid": f"GPU-{index}", "fast": fast(index)} for index in range(2)]
    hello = {"host": "n", "agent": "1", "python": "3", "pid": 1, "interval_s": 1.0, "gpus": []}
    whole = [
        {"v": 1, "t": 1.5, "seq": 1, "kind": "hello", **hello},
        {"v": 1, "t": 2.5, "seq": 2, "kind": "sample", "gpus": gpus},
        {"v": 1, "t": 2.5, "seq": 3, "kind": "reply", "id": 4},
    ]
    return [b"".join(json.dumps(each).encode() + b"\n" for each in whole)]


def ras_answers() -> list[bytes]:
    """JSON answers with dead, silent and failed ranks."""
    ranks = [rank(n, 41 if n == 3 else 42, async_error=1 if n == 5 else 0) for n in range(14)]
    return [answer(ranks, [missing(14, dead=True), missing(15)], timeouts=1).encode()]


def ras_texts() -> list[bytes]:
    """Text answers."""
    lost = "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 job process\n"
    lost += "  Process 1007 on node 10.0.0.1 managing GPU 7\n"
    apart = (
        "#0-0 (cf264af53edbe986) MISMATCH\n  Communicator ranks have different collective operation counts\n"
    )
    apart += "  15 ranks have launched up to operation 42\n  1 ranks have launched up to operation 41\n"
    apart += "  Rank 13 -- GPU 5 managed by process 1013 on node 10.0.0.2\n"
    return [text(lost, apart, "INCOMPLETE").encode(), text().encode()]


def rule_packs() -> list[bytes]:
    """The smallest packs that are built in."""
    return [path.read_bytes() for path in sorted(RULES.rglob("*.yaml"), key=lambda p: p.stat().st_size)[:3]]


def traces() -> list[bytes]:
    """A trace of one rank."""
    return [training(0, steps=1).text("one line").encode()]


TARGETS = {
    "ras_json": Target(lambda data: ras(data, "json"), ras_answers, as_json, (RasError,)),
    "ras_text": Target(lambda data: ras(data, "text"), ras_texts, changed_bytes, (RasError,)),
    "flight_pickle": Target(
        flight, lambda: [pickle.dumps(content(steps(4), WORLD), 2)], as_pickle, (NoDumpError,)
    ),
    "flight_json": Target(
        flight, lambda: [json.dumps(content(steps(4), {})).encode()], as_json, (NoDumpError,)
    ),
    "known_hosts": Target(known_hosts, lambda: [KNOWN], changed_bytes, (HostKeyListError,)),
    "recording": Target(
        recording, lambda: [recorded_demo().path.read_bytes()], changed_bytes, (RecordingError,), examples=3
    ),
    "session_summary": Target(session, lambda: [b'{"mode": "multi", "steps": 5, "world_size": 2}'], as_json),
    "session_log": Target(session_log, lambda: [MAIN.encode()], changed_bytes),
    "trace": Target(trace, traces, as_json, (NoTraceError,)),
    "nccl_dump": Target(
        topology_dump, lambda: [topology().encode(), GRAPHS.encode()], changed_bytes, (NoTraceError,)
    ),
    "frames": Target(frames, samples, as_json_lines, (StreamError,)),
    "stream": Target(
        broken_stream, lambda: [zlib.compress(each) for each in samples()], changed_bytes, (StreamError,)
    ),
    "hosts": Target(hosts, lambda: [HOSTS.read_bytes()], changed_bytes, (HostsError,)),
    "rules": Target(rules, rule_packs, changed_bytes, (RulesError,), examples=20),
    "placement": Target(place_ranks, folders, changed_folder, examples=25),
    "scan": Target(lambda data: scan_folder(scratch() / "logs", data), folders, changed_folder, examples=4),
}
"""By name."""
