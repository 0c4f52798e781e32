"""Whatever stands in answers of kubectl and Slurm: facts without control bytes, or a refusal."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import astuple

from gpuwatch.hosts.kube.events import read_ends, read_events
from gpuwatch.hosts.kube.plan import kube_plan
from gpuwatch.hosts.slurm.plan import job_plan
from gpuwatch.hosts.slurm.reports import read_account, read_jobs, read_nodes, read_queue
from gpuwatch.hosts.validation.errors import HostsError
from tests.hosts.kube.fake_kubectl import pod
from tests.hosts.slurm.printed import JOB, NODES

ESCAPES = "\x1b]0;own\x07\n\x1b[2J\x0cNodeList=evil\u2028NodeList=evil\x85\u202e"
DIGITS = "9" * 5000
VALUES: tuple[object, ...] = (
    ESCAPES,
    DIGITS,
    "",
    None,
    True,
    -1,
    10**30,
    1.5,
    [],
    {},
    [None],
    [{}],
    {"x": ESCAPES},
)
QUEUE = "41|RUNNING|ann|2|1:00|2:00|gres:gpu:4|node[001-002]|my run\n"
ACCOUNT = "41|my run|ann|FAILED|1:0|node[001-002]|/home/ann|2026-11-26T14:26:50\n"
EVENT = {
    "metadata": {"uid": "u1"},
    "type": "Warning",
    "reason": "Evicted",
    "involvedObject": {"kind": "Pod", "name": "run7-worker-1"},
    "message": "The node was low on resource: memory.",
    "lastTimestamp": "2026-11-26T14:26:50Z",
    "count": 3,
}
ENDED = pod("run7-worker-0", gpus=8, terminated={"reason": "OOMKilled", "finishedAt": "2026-11-26T14:26:50Z"})
Places = list[str | int]


def texts(facts: object) -> Iterator[str]:
    """Every string in structures of facts."""
    if isinstance(facts, str):
        yield facts
    elif isinstance(facts, Struct):
        yield from texts(astuple(facts))
    elif isinstance(facts, dict):
        yield from texts(list(facts.items()))
    elif isinstance(facts, (list, tuple)):
        for each in facts:
            yield from texts(each)


def places(value: object, at: Places) -> Iterator[Places]:
    """Where something stands in a JSON value, the value itself included."""
    yield at
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, [*at, key])
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from places(each, [*at, number])


def changed(value: object, at: Places, new: object) -> object:
    """A copy with another value at a place, and with it as a key beside it."""
    made: Any = copy.deepcopy({"": value})
    holder: Any = made
    for step in ["", *at][:-1]:
        holder = holder[step]
    holder[["", *at][-1]] = new
    if isinstance(new, str) and isinstance(holder, dict) and at:
        holder[new] = new
    return made[""]


def check(facts: object) -> None:
    for text in texts(facts):
        assert text.isprintable(), repr(text)[:200]
        assert "evil" not in text.split(), text[:200]
        assert len(text) < 20_000


def planned(text: str) -> object:
    try:
        return kube_plan("app=x", None, lambda _: text)
    except HostsError as error:
        return str(error).replace("\n", " ")


READERS: dict[str, tuple[object, Callable[[str], object]]] = {
    "pods": ({"items": [pod("run7-worker-1"), ENDED]}, planned),
    "ends": ({"items": [ENDED]}, read_ends),
    "events": ({"items": [EVENT]}, read_events),
}


@pytest.mark.parametrize("kind", READERS)
def test_any_value_anywhere_in_an_answer_of_kubectl(kind: str) -> None:
    usual, read = READERS[kind]
    assert list(texts(read(json.dumps(usual))))
    for at in places(usual, []):
        for new in VALUES:
            check(read(json.dumps(changed(usual, at, new))))


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    "text", ["", "[", "[" * 200_000, '{"items":' + "[" * 200_000, '{"items": [1e999]}', "\udc1b"]
)
def test_answers_that_are_no_lists(kind: str, text: str) -> None:
    check(READERS[kind][1](text))


def test_two_pods_of_one_name_are_refused() -> None:
    with pytest.raises(HostsError, match="run7-worker-1"):
        kube_plan("app=x", None, lambda _: json.dumps({"items": [pod("run7-worker-1")] * 2}))


SLURM: dict[str, tuple[str, Callable[[str], object]]] = {
    "job": (JOB, read_jobs),
    "nodes": (NODES, read_nodes),
    "queue": (QUEUE, lambda text: read_queue(text, "|")),
    "account": (ACCOUNT, lambda text: read_account(text, "40", "|")),
}


@pytest.mark.parametrize("kind", SLURM)
@pytest.mark.parametrize("new", [ESCAPES.replace("\n", ""), DIGITS, "(", "[1-", "="])
def test_any_text_anywhere_in_an_answer_of_slurm(kind: str, new: str) -> None:
    text, read = SLURM[kind]
    assert list(texts(read(text)))
    for word in re.finditer(r"[\w.-]+", text):
        for begin, end in ((word.start(), word.end()), (word.end(), word.end())):
            facts = read(text[:begin] + new + text[end:])
            check(facts)
            for job in facts if kind == "job" and isinstance(facts, list) else ():
                assert "evil" not in job.nodes
                if job.nodes:
                    check(job_plan(job, read_nodes(NODES) if set(job.nodes) & {"node001"} else {}))
