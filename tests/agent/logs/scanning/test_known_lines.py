"""Lines that give nothing are left out before they are searched; none that gives something is."""

from __future__ import annotations

from gpuwatch.runs.steps import step_lines
from tests.agent.logs.scan_lines import NOW, found, rule, ruleset, scanner
from tests.counted_calls import calls_of

LINES = 4_000
RULES = ruleset(
    rule("link error on port .* down", name="a.link"),
    rule("link error 802", name="a.code"),
    rule("boom", name="a.fallback", extra="raised: boom"),
)
PLAIN = "12:00:{:02d} [rank3] link error counters of port {} are {:03d}\n"


def log(first: int, count: int) -> bytes:
    return "".join(PLAIN.format(n % 60, n % 8, n % 1000) for n in range(first, first + count)).encode()


def test_lines_of_a_known_form_take_no_call_each() -> None:
    rules = ruleset(rule("link error on port .* down", name="a.link"))
    one, more = scanner(rules), log(100, LINES)
    first = log(0, 100)
    one.feed(first, 0, NOW)
    assert calls_of(lambda: one.feed(more, len(first), NOW + 1)) < LINES / 4


def test_what_digits_decide_is_found_among_known_lines() -> None:
    text = log(0, 3_000).decode()
    for code in (801, 802, 803):
        text += f"12:00:00 [rank3] link error {code}\n" * 3
    text += log(0, 50).decode() + "12:00:01 [rank3] link error on port 7 down\n" + log(0, 50).decode()
    assert {(each["rule"], each["count"]) for each in found(RULES, text)} == {("a.code", 3), ("a.link", 1)}


def test_a_known_line_with_carriage_returns_or_escapes_hides_nothing() -> None:
    text = log(0, 200).replace(b"\n", b"\r") + b"link error on port 2 down\r\n" + log(0, 20)
    assert [each["rule"] for each in found(RULES, text)] == ["a.link"]
    escaped = log(0, 200) + b'{"message": "link error on port \\u0032 down"}\n' + log(0, 20)
    assert [each["rule"] for each in found(RULES, escaped)] == ["a.link"]


def test_the_last_line_of_each_rank_is_found_with_few_searches() -> None:
    lines = [b"[rank%d]: step %d loss 1.5" % (n % 2 if n > 590 else 0, n) for n in range(600)]
    shapes = [line.translate(None, b"0123456789") for line in lines]
    kinds = dict.fromkeys(shapes, b"kind")
    wanted = [599, 598]
    assert list(step_lines.last_of_ranks(lines, shapes, range(len(lines)), kinds, 599).values()) == wanted
    assert calls_of(lambda: step_lines.last_of_ranks(lines, shapes, range(len(lines)), kinds, 599)) < 100
