"""What a scanner finds in the bytes of a file, and how it tells it."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.scanning.dedup import Gatherer
from gpuwatch.agent.logs.scanning.scanner import Scanner, ScanOutputs
from gpuwatch.wire import Finding
from tests.agent.logs.scan_lines import NOW, found, rule, ruleset, scanner
from tests.sentences import Sentences

LOST = ruleset(rule("connection to (?P<peer>\\S+) vanished after (?P<seconds>[\\d.]+) s", name="net.lost"))
LINE = "connection to gpu-7 vanished after 1.5 s"


def test_a_finding_says_where_when_and_what_and_fits_the_wire() -> None:
    text = f"one\ntwo\nthree\n2025-06-15 12:00:00,250Z {LINE}\nafter\n"
    (finding,) = found(LOST, text)
    frame = msgspec.convert({"t": 1.0, "seq": 1, "kind": "finding", **finding}, Finding)
    assert (frame.rule, frame.severity, frame.role) == ("net.lost", "error", "root")
    assert text[frame.offset :].startswith("2025-06-15")
    assert frame.lines == ["two", "three", f"2025-06-15 12:00:00,250Z {LINE}"]
    assert frame.key == 2
    assert frame.fields == {"peer": "gpu-7", "seconds": 1.5}
    assert (frame.at, frame.timed, frame.count) == (1749988800.25, True, 1)


def test_a_line_without_a_time_is_reported_with_its_arrival() -> None:
    (finding,) = found(LOST, LINE + "\n")
    assert (finding["at"], finding["timed"]) == (NOW, False)


def test_what_was_there_before_is_no_younger_than_the_time_below_it() -> None:
    one = scanner(LOST)
    (finding,) = one.feed(f"{LINE}\nnote\n2025-06-15 12:00:00Z next\n".encode(), 0, NOW, True)
    assert (finding["at"], finding["timed"], finding["backlog"]) == (1749988800.0, False, True)


def test_between_two_times_both_bounds_are_reported() -> None:
    """An appended log: the attempt that wrote the line began before the later time."""
    text = f"2025-06-15 11:00:00Z step 1\n{LINE}\n2025-06-15 12:00:00Z step 1\n"
    (finding,) = scanner(LOST).feed(text.encode(), 0, NOW, True)
    assert (finding["at"], finding["not_before"]) == (1749988800.0, 1749988800.0 - 3600)
    assert "bound" not in finding


def test_what_was_there_before_is_bounded_by_the_time_above_it_or_undated() -> None:
    (after,) = scanner(LOST).feed(f"2025-06-15 12:00:00Z begin\n{LINE}\n".encode(), 0, NOW, True)
    assert (after["at"], after["timed"], after["bound"]) == (1749988800.0, False, "after")
    assert after["not_before"] == 1749988800.0
    (undated,) = scanner(LOST).feed(f"begin\n{LINE}\nend\n".encode(), 0, NOW, True)
    assert (undated["timed"], undated["bound"]) == (False, "undated")
    frame = msgspec.convert({"t": 1.0, "seq": 1, "kind": "finding", **undated}, Finding)
    assert frame.bound == "undated"


def test_a_line_in_pieces_is_found_once_and_at_once_when_it_ends() -> None:
    one, data = scanner(LOST), f"before\n{LINE}\n".encode()
    findings = [f for at in range(len(data)) for f in one.feed(data[at : at + 1], at, NOW)]
    assert [(f["offset"], f["count"]) for f in findings] == [(7, 1)]
    assert one.end() == []


def test_an_unterminated_line_is_found_after_a_quiet_while_and_not_again() -> None:
    one, data = scanner(LOST), LINE.encode()
    assert one.feed(data, 0, NOW) == []
    assert one.quiet(NOW + 0.1) == []
    assert [f["rule"] for f in one.quiet(NOW + 0.6)] == ["net.lost"]
    assert one.quiet(NOW + 1.2) == []
    assert one.feed(b" indeed\n", len(data), NOW + 2) == []
    assert one.end() == []


def test_after_a_seam_nothing_half_read_is_left() -> None:
    one = scanner(LOST)
    one.feed(b"connection to gpu-7 vanished ", 0, NOW)
    one.seam()
    assert one.feed(b"after 1.5 s\n", 0, NOW) == []
    assert [f["offset"] for f in one.feed(LINE.encode() + b"\n", 12, NOW)] == [12]


def test_colours_nul_bytes_and_bars_hide_nothing_and_move_no_offset() -> None:
    head = b"\x1b[32mok\x1b[0m\r\n\x00\x00\r 10%|#  | 1/10 [00:01<00:09,  1.0s/it]\r"
    glued = b" 20%|## | 2/10 [00:02<00:08,  1.0s/it]"
    text = b"connection \x1b[1mto\x1b[0m gpu-7 van\x00ished after 1.5 s\n"
    (finding,) = found(LOST, head + glued + text)
    assert finding["offset"] == len(head)
    assert finding["fields"]["peer"] == "gpu-7"
    assert "\x1b" not in finding["lines"][-1]


def test_a_line_of_many_megabytes_is_searched_in_bounded_pieces() -> None:
    one, at, findings = scanner(LOST), 0, []
    for _ in range(64):
        findings += one.feed(b"x" * 100_000, at, NOW)
        at += 100_000
    findings += one.feed(f" {LINE}\n".encode(), at, NOW)
    assert len(one._tail) < 70_000
    assert [f["rule"] for f in findings] == ["net.lost"]


def test_the_rank_of_the_line_wins_over_what_the_path_says_but_not_over_the_process() -> None:
    line = f"[rank3]: {LINE}\n"
    known = {"rank": 5, "rank_from": "path", "job": "77"}
    (finding,) = found(LOST, line, lambda: known)
    assert (finding["rank"], finding["rank_from"], finding["job"]) == (3, "line", "77")
    (finding,) = found(LOST, line, lambda: {**known, "rank_from": "process"})
    assert (finding["rank"], finding["rank_from"]) == (5, "process")
    named = ruleset(rule("lost rank (?P<rank>\\d+) of the job", name="rank.lost"))
    (finding,) = found(named, "lost rank 9 of the job\n", lambda: {**known, "rank_from": "process"})
    assert (finding["rank"], finding["rank_from"]) == (9, "field")


def test_equal_lines_are_one_finding_with_a_count() -> None:
    one = scanner(LOST)
    data = (LINE + "\n").encode()
    first = one.feed(data * 500, 0, NOW)
    assert [f["count"] for f in first] == [1]
    (again,) = one.quiet(NOW + 5)
    assert (again["id"], again["count"]) == (first[0]["id"], 500)
    assert one.quiet(NOW + 6) == []
    assert found(LOST, f"{LINE}\n{LINE.replace('gpu-7', 'gpu-8')}\n")[1]["fields"]["peer"] == "gpu-8"


def test_many_different_findings_of_one_speaker_are_bounded() -> None:
    text = "".join(f"connection to gpu-{number} vanished after 1 s\n" for number in range(1500))
    findings = found(LOST, text)
    assert len(findings) <= 40
    assert sum(f["count"] for f in findings) == 1500


def test_every_rank_of_a_merged_log_is_read() -> None:
    text = "".join(f"[rank{n}]: connection to gpu-{n % 90} vanished after 1 s\n" for n in range(512))
    assert {f["rank"] for f in found(LOST, text)} == set(range(512))


def test_what_a_file_can_hold_is_bounded_and_the_rest_is_counted() -> None:
    gather = Gatherer(itertools.count(1).__next__)
    one = Scanner(LOST, "/logs/all.log", itertools.count(1).__next__, outputs=ScanOutputs(gather))
    for n in range(8_500):
        one.feed(f"[rank{n}]: connection to gpu-7 vanished after 1 s\n".encode(), 60 * n, NOW)
    assert gather.left_out == 8_500 - 8192
    one.feed(b"[rank0]: connection to gpu-8 vanished after 1 s\n", 10**6, NOW + 700)
    one.feed(b"[rank1]: connection to gpu-8 vanished after 1 s\n", 10**6 + 60, NOW + 700)
    assert gather.left_out == 8_500 - 8192, "old findings have made room"


FLOOD = ruleset(
    rule("corrected (?P<kind>\\w+) glitch", name="bus.glitch", extra="flood: {count: 3, seconds: 60}")
)


def test_a_flood_is_reported_once_it_is_one() -> None:
    stamps = ("12:00:00", "12:02:00", "12:02:10", "12:02:30", "12:02:31")
    lines = "".join(f"2025-06-15 {stamp} corrected bus glitch\n" for stamp in stamps)
    assert found(FLOOD, "".join(lines.splitlines(True)[:3])) == []
    (finding,) = found(FLOOD, lines)
    assert finding["count"] == 4
    assert finding["lines"][finding["key"]].startswith("2025-06-15 12:02:00")


RECOVERY = """\
recovery:
  match: 'link (?P<port>\\w+) regained'
  same: [port]"""


def test_a_recovery_line_closes_what_it_is_about() -> None:
    rules = ruleset(rule("link (?P<port>\\w+) dropped", name="link.down", extra=RECOVERY))
    text = "link ib0 dropped\nlink ib1 dropped\nlink ib1 regained\n"
    state = {f["fields"]["port"]: f.get("closed", False) for f in found(rules, text)}
    assert state == {"ib0": False, "ib1": True}
    assert len(found(rules, text + "link ib1 dropped\n")) == 3


def test_a_block_takes_the_lines_below_up_to_its_end_across_chunks(sentences: Sentences) -> None:
    rules = ruleset(rule("summary of failures", extra="block: 5\nuntil: '^=+$'"))
    one = scanner(rules)
    assert one.feed(b"summary of failures\nrank 1\n", 0, NOW) == []
    (finding,) = one.feed(b"rank 2\n====\nnot this\n", 27, NOW)
    sentences(finding["lines"])


def test_a_block_that_never_fills_is_reported_after_a_quiet_while(sentences: Sentences) -> None:
    one = scanner(ruleset(rule("summary of failures", extra="block: 5")))
    assert one.feed(b"summary of failures\nrank 1\n", 0, NOW) == []
    (finding,) = one.quiet(NOW + 1)
    sentences(finding["lines"])


AFTER = "after:\n  match: 'first observed .*rank (?P<rank>\\d+)'\n  lines: 2"


def test_a_condition_above_must_be_near_and_gives_its_fields() -> None:
    rules = ruleset(rule("exitcode: (?P<exit_code>-?\\d+)", extra=AFTER))
    (finding,) = found(rules, "first observed failure, rank 6\n\nsomething\nexitcode: -9\n")
    assert finding["fields"] == {"exit_code": -9, "rank": 6}
    assert found(rules, "first observed failure, rank 6\na\nb\nc\nexitcode: -9\n") == []


def test_unless_and_severity_by_field() -> None:
    extra = "unless: 'glitches: 0'\nseverity_by:\n  kind: {fatal: critical, soft: info}"
    rules = ruleset(rule("(?P<kind>\\w+) glitches: \\d+", extra=extra))
    text = "fatal glitches: 0\nfatal glitches: 2\nsoft glitches: 3\nother glitches: 4\n"
    assert [f["severity"] for f in found(rules, text)] == ["critical", "info", "error"]


TRACEBACK = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 10, in <module>
[rank0]: step 5
[rank1]:     raise KernelPanic("quantum glitch")
[rank1]: KernelPanicError: quantum glitch
"""


@pytest.mark.parametrize(
    "source",
    [
        "    logger.warning('quantum glitch')",
        '    assert calm, "quantum glitch"',
        '    f"quantum glitch at {step}"',
    ],
)
def test_source_that_says_it_is_no_error(source: str) -> None:
    assert found(ruleset(rule("quantum glitch")), source + "\n") == []


@pytest.mark.parametrize(
    "frame", ["<frozen runpy>", "<string>", "<stdin>", "loss.pyx", "app.zip/train.py", "/gone/train.py"]
)
def test_an_exception_below_a_frame_without_source_is_no_quotation(frame: str) -> None:
    rules = ruleset(rule("quantum glitch"))
    head = "Traceback (most recent call last):\n"
    text = f'{head}  File "{frame}", line 3, in f\nGlitchError: quantum glitch\n'
    assert [f["rule"] for f in found(rules, text)] == ["test.rule"]
    ranked = "".join(f"[rank3]: {line}\n" for line in text.splitlines())
    assert [f["rank"] for f in found(rules, ranked)] == [3]
    quoted = text.replace("GlitchError", "    glitch = 1  # GlitchError")
    assert found(rules, quoted) == []


def test_another_rank_between_a_frame_and_its_source_makes_no_error_of_the_source() -> None:
    rules = ruleset(rule("quantum glitch"))
    text = (
        '[rank3]:   File "train.py", line 3, in f\n[rank4]: step 5\n'
        "[rank3]:     note = 'x'  # quantum glitch\n"
    )
    assert found(rules, text) == []


def test_a_traceback_comes_whole_and_its_source_lines_are_no_errors() -> None:
    (finding,) = found(ruleset(rule("quantum glitch")), TRACEBACK)
    assert finding["lines"] == [line for line in TRACEBACK.splitlines() if "rank1" in line]
    assert finding["key"] == 3
    assert finding["rank"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "[rank2]: timed out: WorkNCCL(SeqNum=4, OpType=BROADCAST, NumelIn=1, Timeout(ms)=10) ran for 12 ms\n",
        f"[rank2]: {'x' * 70} timed out: WorkNCCL(SeqNum=4, OpTy\npe=BROADCAST, NumelIn=1) ran for 12 ms\n",
        "[rank2]: timed out: WorkNCCL(SeqNum=4,\nOpType=BROADCAST, NumelIn=1) ran for\n12 ms\n",
    ],
)
def test_a_record_that_was_broken_into_lines_is_joined(text: str) -> None:
    rules = ruleset(
        rule("timed out: WorkNCCL\\(SeqNum=(?P<seq>\\d+), ?OpType=(?P<op>\\w+).* ran for (?P<ms>\\d+)")
    )
    (finding,) = found(rules, text)
    assert finding["fields"] == {"seq": 4, "op": "BROADCAST", "ms": 12}
    assert finding["rank"] == 2


def test_a_broken_record_is_joined_wherever_the_reads_part_it() -> None:
    rules = ruleset(
        rule("timed out: WorkNCCL\\(SeqNum=(?P<seq>\\d+), ?OpType=(?P<op>\\w+).* ran for (?P<ms>\\d+)")
    )
    text = b"[rank2]: timed out: WorkNCCL(SeqNum=4,\nOpType=BROADCAST, NumelIn=1) ran for\n12 ms\nnext\n"
    for cut in range(1, len(text)):
        one = scanner(rules)
        findings = [*one.feed(text[:cut], 0, NOW), *one.feed(text[cut:], cut, NOW), *one.end()]
        assert [each["fields"] for each in findings] == [{"seq": 4, "op": "BROADCAST", "ms": 12}], cut


def test_the_first_part_of_a_broken_record_waits_for_the_others_only_a_moment() -> None:
    one = scanner(ruleset(rule("timed out: WorkNCCL")))
    text = b"[rank2]: timed out: WorkNCCL(SeqNum=4,\n"
    assert one.feed(text, 0, NOW) == []
    assert [each["offset"] for each in one.quiet(NOW + 1)] == [0]
    assert one.feed(b"OpType=BROADCAST) ran for\n12 ms\nnext\n", len(text), NOW + 2) == []
    assert one.end() == []


def test_a_rule_that_takes_too_long_is_suspended_with_the_reason() -> None:
    slow = {"id": "my.slow", "severity": "error", "role": "root", "match": ["trouble: (x+x+)+y"]}
    rules = RuleSet([{**slow, "literals": [{"text": "trouble: x", "lead": "trouble"}]}])
    entered: list[str] = []
    rules.entered = entered.append
    assert found(rules, ("trouble: " + "x" * 22 + "\n") * 3) == []
    assert "my.slow" in rules.suspended
    assert "/logs/a.log" in rules.suspended["my.slow"]
    assert found(rules, "trouble: xxxy\n") == []
    assert 1 <= len(entered) <= 3


@given(st.lists(st.integers(1, 40), max_size=12), st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_chunking_finds_the_same(cuts: list[int], end: str) -> None:
    text = end.join(["start", f"[rank1]: {LINE}", "x" * 30, f"12: {LINE}", ""]).encode()
    whole = [(f["offset"], f.get("rank"), f["fields"]) for f in found(LOST, text)]
    one, at, findings = scanner(LOST), 0, []
    for size in [*cuts, len(text)]:
        findings += one.feed(text[at : at + size], at, NOW)
        at = min(len(text), at + size)
    findings += one.end()
    assert [(f["offset"], f.get("rank"), f["fields"]) for f in findings if f["count"] == 1] == whole


@pytest.mark.parametrize("before", [0, 3_000, 17_000, 90_000, 300_000])
@pytest.mark.parametrize("piece", [1 << 18, 65_537, 30_000])
def test_a_phrase_far_inside_a_long_line_is_found_once(before: int, piece: int) -> None:
    data = ("x " * (before // 2) + LINE + " y" * 40_000 + "\n").encode()
    one, findings = scanner(LOST), []
    for at in range(0, len(data), piece):
        findings += one.feed(data[at : at + piece], at, NOW)
    findings += one.end()
    assert [(each["count"], each["fields"]["peer"]) for each in findings] == [(1, "gpu-7")]
    assert 0 <= before - findings[0]["offset"] < 16_384


def test_a_phrase_on_the_border_of_two_parts_of_a_long_line_is_found_once() -> None:
    for before in range(65_537 - len(LINE) - 4, 65_537 + 4, 2):
        data = ("x " * (before // 2) + LINE + " y" * 70_000 + "\n").encode()
        one = scanner(LOST)
        findings = [*one.feed(data[:65_537], 0, NOW), *one.feed(data[65_537:], 65_537, NOW), *one.end()]
        assert [each["count"] for each in findings] == [1], before


def test_bytes_count_as_searched_when_their_line_is_and_its_block_is_reported() -> None:
    one, data = scanner(ruleset(rule("boom", extra="block: 3"))), b"boom\nfirst\nhalf"
    one.feed(data, 0, NOW)
    assert one.searched_to(len(data)) == 0
    one.quiet(NOW + 1)
    assert one.searched_to(len(data)) == len(data)


@pytest.mark.parametrize("backlog", [True, False])
@pytest.mark.parametrize("below", ["", "2020-01-01 00:00:01Z bye\n"])
def test_a_time_long_before_one_above_it_is_not_believed(backlog: bool, below: str) -> None:
    text = (
        f"2025-06-15 12:00:00Z step 1\n2020-01-01 00:00:00Z Traceback\n2020-01-01 00:00:00Z {LINE}\n{below}"
    )
    (finding,) = scanner(LOST).feed(text.encode(), 0, NOW, backlog)
    assert (finding["at"], finding["timed"]) == (1749988800.0 if backlog else NOW, False)
    assert finding.get("not_before") == (1749988800.0 if backlog else None)
