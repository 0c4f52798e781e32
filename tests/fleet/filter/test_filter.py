"""Filter expressions on the demo fleet, and whatever a person could type."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuwatch.fleet.filter.columns import COLUMNS
from gpuwatch.fleet.filter.filter import FilterError, parse
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.wire import GpuFast, GpuInfo
from tests.link.demo.story import frames_until

NOW = 1000.0


@functools.cache
def demo(seconds: float) -> Fleet:
    names = [f"gpu-{n:03}" for n in range(1, 17)]
    rack = {name: {"rack": f"r{1 + index // 8}"} for index, name in enumerate(names)}
    fleet = Fleet(Plan(tuple(NodeSpec(name, link="demo", labels=rack[name]) for name in names)))
    for arrival in frames_until(seconds, ends_at=NOW):
        fleet.apply(arrival)
    return fleet


def shown(expression: str, seconds: float = 44.0) -> list[tuple[str, int]]:
    chosen = parse(expression)
    pairs = [(node, gpu) for node in demo(seconds).nodes.values() for gpu in node.gpu_list()]
    return [(node.name, gpu.info.index) for node, gpu in pairs if chosen.matches(node, gpu, NOW)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("temp>82 & host~=gpu", [("gpu-006", 2)]),
        ("temp>82 host=gpu-006", [("gpu-006", 2)]),
        ("throttle>10%", [("gpu-006", 2)]),
        ("throttle=sw_thermal", [("gpu-006", 2)]),
        ("reason=sw_thermal and not gpu!=2", [("gpu-006", 2)]),
        ("rank=85", [("gpu-011", 5)]),
        ("rank>=126", [("gpu-016", 6), ("gpu-016", 7)]),
        ("gpu=0 & (gpu-002 | gpu-003)", [("gpu-002", 0), ("gpu-003", 0)]),
        ("gpu=0 and host~=0(02|15)$", [("gpu-002", 0), ("gpu-015", 0)]),
        ('gpu=0 host~="00[12]|016"', [("gpu-001", 0), ("gpu-002", 0), ("gpu-016", 0)]),
        ("gpu==7 label.rack=R2 node!=gpu-016 host!~01[0-4]", [("gpu-009", 7), ("gpu-015", 7)]),
        ("smclk<1.5GHz", [("gpu-006", 2)]),
        ("GPU-004 gpu<1", [("gpu-004", 0)]),
        ("temp>84 or rank=0", [("gpu-001", 0), ("gpu-006", 2)]),
        ("!temp<82", [("gpu-006", 2)]),
    ],
)
def test_expressions_choose(expression: str, expected: list[tuple[str, int]]) -> None:
    assert shown(expression) == expected


@pytest.mark.parametrize(
    "expression",
    ["", "memused>60G", "memused<70000000000000", "power<0.7k", "power% < 100%", "user=demo-ada job=418207",
     "name~='h100'", "cpu>5 & hostmem>10%", "gpus=8", "state=ok", "state!=lost", "age<5s", "nvlinks=18",
     "command~=pretrain.py.*helios", "recovery=none", "label.rack~=^r", "ecc=0", "nvltx<1T"],
)  # fmt: skip
def test_expressions_that_hold_for_every_gpu(expression: str) -> None:
    assert len(shown(expression)) == 128


@pytest.mark.parametrize(
    "expression",
    ["memused>80G", "fan>0", "fan<=0", "fan=0", "fan!=0", "label.row=1", "label.row!=1", "container=x"],
)
def test_unknown_and_absent_match_no_comparison(expression: str) -> None:
    assert shown(expression) == []


def test_a_lost_gpu_is_found_as_lost_and_never_by_its_last_values() -> None:
    assert shown("state=lost", 60.0) == [("gpu-011", 5)]
    assert shown("age>10", 60.0) == shown("age > 0.1m", 60.0) == [("gpu-011", 5)]
    assert ("gpu-011", 5) not in shown("temp>0", 60.0)
    assert len(shown("gpus=7", 60.0)) == 8
    assert shown("gpu-011 rank=85 state=lost", 60.0) == [("gpu-011", 5)]


def test_a_silent_node_is_stale_and_a_node_without_gpus_is_asked_as_a_whole() -> None:
    node = demo(44.0).nodes["gpu-002"]
    gpu = node.gpu_list()[0]
    assert parse("state=stale").matches(node, gpu, NOW + 60)
    assert not parse("state=ok").matches(node, gpu, NOW + 60)
    fresh = Fleet(Plan((NodeSpec("cpu-1"),)))
    fresh.apply(Arrival("cpu-1", NOW, LinkStatus("connecting")))
    empty = fresh.nodes["cpu-1"]
    assert parse("cpu-1 state=connecting !temp>5").matches(empty, None, NOW)
    assert not parse("temp<5 | user!=ada | cpu>=0").matches(empty, None, NOW)


@pytest.mark.parametrize(
    ("expression", "position", "words"),
    [
        ("tmep>85", 0, "unknown column 'tmep', did you mean 'temp'"),
        ("util>5 & hots~=x", 9, "did you mean 'host'"),
        ("temp>warm", 5, "temp takes a number in C, not 'warm'"),
        ("temp>70G", 5, "takes a number"),
        ("host>3", 0, "host is text"),
        ("temp~=8", 0, "temp is a number"),
        ("temp>", 5, "a value is missing after temp>"),
        ("temp> & util<3", 6, "a value is missing"),
        ("(temp>3", 0, "never closed"),
        ("temp>3)", 6, "this ')' closes nothing"),
        ("temp>3 &", 8, "unexpected end: a column or a word is missing"),
        ("| temp>3", 0, "missing before '|'"),
        ("state=losst", 6, "did you mean 'lost'"),
        ("reason=hw_termal", 7, "did you mean 'hw_thermal'"),
        ("host~=[a", 6, "not a regular expression"),
        ('host~="(a+)+$"', 7, "may never end"),
        ('host~="(a|a?b)*$"', 7, "may never end"),
        (f'host~="{"a?" * 20}"', 7, "choices"),
        ('host~="a.*b.*c.*d.*e.*f"', 7, "repeats"),
        ("host~=" + "x" * 201, 6, "at most 200"),
        ("(" * 60 + "a" + ")" * 60, 41, "nested"),
        ("a" * 1001, 1000, "at most 1000"),
        ('host="x', 5, "cannot read"),
    ],
)
def test_mistakes_name_the_place_and_a_remedy(expression: str, position: int, words: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(expression)
    assert words in str(caught.value)
    assert caught.value.position == position


def test_a_number_means_what_is_shown() -> None:
    node = Node(NodeSpec("n"), 1.0)
    gpu = Gpu(
        GpuInfo("u", 0, "x"), "n", fast=GpuFast(0.0, power_w=699.7, memory_used_bytes=int(70.3 * 2**30))
    )
    holds: Callable[[str], bool] = lambda text: parse(text).matches(node, gpu, 0.0)  # noqa: E731  short on purpose
    assert holds("power=700") and holds("power=699.7") and not holds("power=699") and not holds("power!=700")
    assert (
        holds("memused=70G")
        and holds("memused=70GiB")
        and not holds("memused=70.0GB")
        and holds("memused>70GB")
    )


SIGNS = ["(", ")", "&", "|", "!", "and", "or", "not", ">", ">=", "=", "!=", "~=", "!~", "~"]
VALUES = ["85", "70G", "2m", "'a b'", '"x\\"y"', "gpu-0(1|2)", "[a-", "(", "\\", "{2,}", "lost", "label.x"]
ATOMS = st.one_of(*map(st.sampled_from, (sorted(COLUMNS), SIGNS, VALUES)), st.text(max_size=5))


@settings(deadline=None)
@given(st.lists(ATOMS, max_size=14).map(" ".join) | st.lists(ATOMS, max_size=8).map("".join) | st.text())
@example('host~="' + "\\" * 80)
@example("host~=" + "(" * 150)
@example("host~=a{1,99999999999}")
@example("temp>" + "9" * 400)
@example("!" * 500)
def test_whatever_is_typed_is_read_or_refused_and_prints_as_itself(text: str) -> None:
    try:
        chosen = parse(text)
    except FilterError as error:
        assert 0 <= error.position <= len(text)
        return
    again = parse(str(chosen))
    assert again == chosen
    node = demo(44.0).nodes["gpu-006"]
    for gpu in (*node.gpu_list()[:3], None):
        assert chosen.matches(node, gpu, NOW) == again.matches(node, gpu, NOW)
