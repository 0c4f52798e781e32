from __future__ import annotations

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.hosts.names import MAX_NODES, RangeError, expand, fold


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[001-003]", ["node001", "node002", "node003"]),
        ("gpu-[1-2]-[01-02]", ["gpu-1-01", "gpu-1-02", "gpu-2-01", "gpu-2-02"]),
        ("n[1-10/3]", ["n1", "n4", "n7", "n10"]),
        ("b,a c", ["b", "a", "c"]),
        ("n[1-4]!n[2-3]", ["n1", "n4"]),
        ("n[1-4]&n[3-9]", ["n3", "n4"]),
        ("a^b^a", ["b"]),
        ("10.0.0.[9-11]", ["10.0.0.9", "10.0.0.10", "10.0.0.11"]),
        ("n[1-2].dc1.example", ["n1.dc1.example", "n2.dc1.example"]),
    ],
)
def test_ranges_are_expanded_in_the_order_written(text: str, names: list[str]) -> None:
    assert expand(text) == names


def test_digits_before_a_bracket_stay_as_they_are() -> None:
    assert expand("n1[9-10]") == ["n19", "n110"]
    assert len(expand("rack9[1-9999]")) == 9999


@pytest.mark.parametrize(
    ("text", "offset", "part"),
    [
        ("n[3-1]", 2, "contains no number"),
        ("n[1,5-a]", 4, "not a number"),
        ("n[1-3", 1, "not closed"),
        ("n1]", 2, "without a '['"),
        ("n[01-100]", 2, "same number of digits"),
        ("n[]", 2, "empty range"),
        ("n[1-5/0]", 2, "contains no number"),
        ("a,,b", 2, "missing"),
        ("host{1..3}", 4, "[1-3]"),
        ("@racks", 0, "cannot be part"),
        ("-oProxyCommand=x", 0, "cannot begin with '-'"),
        ("a\x1b[2J", 1, r"'\x1b'"),
        ("", 0, "missing"),
        ("a&b", 0, "no node"),
    ],
)
def test_a_bad_range_says_where_and_why(text: str, offset: int, part: str) -> None:
    with pytest.raises(RangeError) as caught:
        expand(text)
    assert caught.value.offset == offset
    assert part in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "n[1-999999999]",
        "n[1-999999999999999999]",
        "n[1-200][1-200]",
        "n9[1-99999]",
        "x" * 250_000 + "[1-9999]",
    ],
)
def test_a_bomb_is_refused_before_it_is_expanded(text: str) -> None:
    with pytest.raises(RangeError, match=r"nodes, more than|characters, at most"):
        expand(text)


def test_the_largest_allowed_range_is_expanded() -> None:
    assert len(expand(f"n[1-{MAX_NODES}]")) == MAX_NODES


prefixes = st.from_regex(r"[a-z][a-z-]{0,6}[a-z]", fullmatch=True)
numbers = st.integers(0, 400)


@settings(deadline=None)
@given(
    st.dictionaries(prefixes, st.sets(numbers, min_size=1, max_size=30), min_size=1, max_size=4),
    st.booleans(),
)
def test_expanding_what_clustershell_folded_gives_the_same_names(
    wanted: dict[str, set[int]], pad: bool
) -> None:
    names = {f"{prefix}{number:0{4 if pad else 1}}" for prefix, chosen in wanted.items() for number in chosen}
    folded = str(NodeSet.fromlist(sorted(names), resolver=RESOLVER_NOGROUP))
    assert set(expand(folded)) == names
    assert set(expand(fold(names))) == names


def bracket(ranges: list[tuple[int, int, int]]) -> str:
    return "[" + ",".join(f"{first}-{first + more}/{step}" for first, more, step in ranges) + "]"


brackets = st.lists(st.tuples(numbers, st.integers(1, 12), st.integers(1, 5)), min_size=1, max_size=3).map(
    bracket
)


@settings(deadline=None)
@given(prefixes, brackets, st.from_regex(r"-[a-z]{1,4}", fullmatch=True), brackets)
def test_clustershell_reads_the_same_range_in_the_same_way(
    one: str, first: str, two: str, second: str
) -> None:
    text = f"{one}{first}{two}{second}"
    assert set(expand(text)) == set(NodeSet(text, resolver=RESOLVER_NOGROUP))


@settings(deadline=None)
@given(st.text(alphabet="n-[]0129,/!&^ @*\u0663\x1b", max_size=24))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        names = expand(text)
    except RangeError as error:
        assert 0 <= error.offset <= len(text)
        assert str(error).isprintable()
    else:
        assert 0 < len(names) <= MAX_NODES
        assert set(expand(fold(names))) == set(names)
