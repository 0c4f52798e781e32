"""A stream of lines as the fleet fills it."""

from __future__ import annotations

from gpuwatch.fleet.logs.log_stream import KEPT_CHARACTERS, KEPT_SEAMS, LogStream
from gpuwatch.wire import Lines, LogLine


def tail(*rows: LogLine) -> LogStream:
    stream = LogStream("gpu-001", "/log", 1, kind="tail")
    stream.take(frame(*rows))
    return stream


def frame(*rows: LogLine, seam: str | None = None) -> Lines:
    return Lines(t=1.0, seq=1, id=1, file="/log", lines=list(rows), seam=seam)


def texts(stream: LogStream) -> list[str]:
    return [line.text for line in stream.lines]


def test_a_line_that_grows_keeps_its_place() -> None:
    stream = tail(LogLine(0, 4, "one"), LogLine(4, 6, "tw"))
    stream.take(frame(LogLine(4, 8, "two"), LogLine(8, 14, "three")))
    assert (texts(stream), stream.came, stream.replaced) == (["one", "two", "three"], 3, 1)


def test_the_first_line_of_a_new_file_takes_nobodys_place() -> None:
    stream = tail(LogLine(0, 4, "old"))
    stream.take(frame(LogLine(0, 4, "new"), seam="truncated"))
    assert (texts(stream), stream.came) == (["old", "new"], 2)


def test_after_a_break_the_last_line_comes_again() -> None:
    stream = tail(LogLine(0, 4, "one"), LogLine(4, 6, "tw"))
    assert stream.resume() == 4
    stream.take(frame(LogLine(4, 8, "two"), LogLine(8, 14, "three")))
    assert (texts(stream), list(stream.seams)) == (["one", "two", "three"], [])


def test_after_a_break_another_line_is_there() -> None:
    stream = tail(LogLine(0, 4, "one"), LogLine(4, 8, "two"))
    stream.resume()
    stream.take(frame(LogLine(4, 9, "else")))
    assert (texts(stream), [seam.index for seam in stream.seams]) == (["one", "two", "else"], [2])


def test_after_a_break_a_bar_has_gone_on() -> None:
    stream = tail(LogLine(0, 40, "10%|#   | 1/10 [00:01<00:09]"))
    stream.resume()
    stream.take(frame(LogLine(0, 90, "30%|### | 3/10 [00:03<00:07]")))
    assert (len(stream.lines), list(stream.seams)) == (1, [])


def test_a_bar_of_an_hour_is_not_read_again() -> None:
    stream = tail(LogLine(0, 1 << 20, "10%|#   | 1/10 [00:01<00:09]"))
    assert stream.resume() == 1 << 20


def test_long_lines_and_seams_without_an_end_take_bounded_room() -> None:
    stream, taken, seen = tail(LogLine(0, 4, "one")), 0, 0
    size = KEPT_CHARACTERS // 1_500
    for number in range(1, 2 * KEPT_SEAMS):
        row = LogLine(number * size, number * size + size, f"{number} ".ljust(size, "x"))
        stream.take(frame(row, seam="truncated"))
        seen += len(stream.new_seams(taken))
        taken = stream.seams_came
    assert sum(map(len, texts(stream))) <= KEPT_CHARACTERS
    assert len(stream.seams) == KEPT_SEAMS
    assert (stream.came, seen) == (2 * KEPT_SEAMS, 2 * KEPT_SEAMS - 1)
    assert texts(stream)[-1].startswith(f"{2 * KEPT_SEAMS - 1} ")


def test_a_search_keeps_the_file_of_each_line_that_it_keeps() -> None:
    stream = LogStream("gpu-001", "/log", 1, kind="search")
    size = KEPT_CHARACTERS // 10
    for number in range(30):
        stream.take(
            Lines(
                t=1.0, seq=1, id=1, file=f"/log{number}", lines=[LogLine(0, size, f"{number} ".ljust(size))]
            )
        )
    assert [file.removeprefix("/log") for file in stream.files] == [text.strip() for text in texts(stream)]
    assert stream.files[-1] == "/log29"
