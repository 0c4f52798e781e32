"""Reports and charts of sessions: complete, self-contained, and inert whatever a session is called."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpuwatch.blocks.html import html
from gpuwatch.blocks.markdown import escaped, markdown
from gpuwatch.blocks.plot import Plot, PlotSeries, ticks
from gpuwatch.report.output.terminal_plot import plot_lines
from gpuwatch.report.sessions.charts import MAX_BUCKETS, MAX_SERIES, charts_of, thinned
from gpuwatch.report.sessions.document import build_document
from gpuwatch.runs.sessions.find import find_sessions
from gpuwatch.runs.sessions.model.session import TrainingSession
from tests.runs.sessions.written import (
    MAIN,
    MULTI,
    MULTIGPU,
    PERFORMANCE,
    SINGLE,
    write_documented_pair,
    write_session,
)

VOID = {"meta", "br", "line", "polyline", "circle"}


class Page(HTMLParser):
    """What a page holds: tags, whether they nest, and everything that would be loaded."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.crossed: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [
            f"{name}={value}" for name, value in attrs if name in {"src", "href", "data", "action"}
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.crossed.append(tag)


@pytest.fixture
def sessions(tmp_path: Path) -> list[TrainingSession]:
    write_documented_pair(tmp_path)
    write_session(tmp_path, MULTI, None, main=MAIN, multigpu=MULTIGPU, performance=PERFORMANCE)
    return find_sessions((), tmp_path).sessions


def test_the_page_is_one_file_that_loads_nothing(sessions: list[TrainingSession]) -> None:
    """Document 002, line 134: analyze_logs.py --report."""
    page = Page(html(build_document(sessions)))
    assert (page.loaded, page.crossed, page.open) == ([], [], [])
    assert "script" not in page.tags
    assert page.tags.count("svg") == len(charts_of(sessions))


def test_every_session_and_figure_is_in_each_form(sessions: list[TrainingSession]) -> None:
    document = build_document(sessions)
    for text in (html(document), markdown(document).replace("\\", "")):
        assert all(
            value in text for value in (SINGLE, MULTI, "1200.5s", "650.2s", "1.85x", "92.3%", "gradient_sync")
        )
        assert all(value in text for value in ("eval_perplexity", "perf.slow_step", "85.2%", "3025.35MB"))


def test_a_hostile_name_is_text(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>|[x](http://y)`"
    facts = {"name": hostile, "model": {"name": hostile}, "configuration": {hostile: hostile}}
    write_session(tmp_path, SINGLE, {"mode": "single", "gpu_count": 1, **facts}, main=MAIN)
    document = build_document(find_sessions((), tmp_path).sessions)
    page = Page(html(document))
    assert (page.loaded, page.crossed) == ([], [])
    assert "script" not in page.tags
    bare = "".join(markdown(document).split("`")[::2])
    assert "<script" not in bare
    assert "[x](" not in bare


def test_every_quantity_of_the_logs_is_a_chart(sessions: list[TrainingSession]) -> None:
    """Document 002, line 137: analyze_logs.py --plot."""
    charts = {chart.name: chart for chart in charts_of(sessions)}
    assert charts.keys() == {
        "loss", "learning_rate", "steps_per_s", "samples_per_s", "gpu_utilization_pct", "gpu_memory_pct",
        "communication_s", "eval_loss",
    }  # fmt: skip
    assert charts["loss"].series[0].points == ((50, 2.1234), (100, 1.9876))
    assert charts["gpu_utilization_pct"].x_label == "s"


def test_plots_of_characters_keep_their_width(sessions: list[TrainingSession]) -> None:
    for has_unicode in (True, False):
        for chart in charts_of(sessions):
            for width in (30, 80, 200):
                lines = [*plot_lines(chart, width, has_unicode=has_unicode, has_colour=False)]
                assert len(lines) > 10
                plotted = [line.plain for line in lines if not line.plain.startswith(chart.title)]
                assert max(map(len, plotted)) <= width
                assert has_unicode or all(line.isascii() for line in plotted)


def test_a_long_line_keeps_its_peaks() -> None:
    points = [(float(at), 0.0) for at in range(100_000)]
    points[77_777] = (77_777.0, 9.0)
    drawn = thinned(points)
    assert len(drawn) <= 2 * MAX_BUCKETS
    assert (77_777.0, 9.0) in drawn


def test_of_very_many_lines_the_outermost_are_drawn() -> None:
    session = TrainingSession(Path("x"), "session folder")
    for rank in range(512):
        session.curves.add("communication_s", 1, None, float(rank), f"rank {rank}")
    chart = charts_of([session])[0]
    assert (len(chart.series), chart.omitted) == (MAX_SERIES, 512 - MAX_SERIES)
    assert {chart.series[0].label, chart.series[-1].label} == {"rank 0", "rank 511"}


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (0.8, 3.4, [1, 2, 3]), (1, 1, [1]), (-1, 1, [-1, -0.5, 0, 0.5, 1])],
)
def test_ticks_are_round_numbers(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == expected


@pytest.mark.parametrize("text", ["https://evil.example", "WWW.evil.example", "@everyone", "$x^2$", "#12"])
def test_markdown_links_names_and_computes_nothing(text: str) -> None:
    """GitHub makes links, mentions, references and formulas of these."""
    made = escaped(text)
    assert made in (f"`{text}`", text.replace("$", r"\$"))


@pytest.mark.parametrize(
    "values",
    [(0.0, 5e-324), (5e-324, 5e-324), (1.0, 1.0 + 2e-16), (-1e18, 1e18), (1e-310, 0.0), (-1e-320, 0.0)],
)
def test_a_plot_of_the_least_and_largest_numbers_is_drawn(values: tuple[float, float]) -> None:
    chart = Plot("loss", "Loss", "step", (PlotSeries("run", tuple(enumerate(values, 0))),))
    page = html([chart])
    assert "nan" not in page
    assert "inf" not in page.split("<svg")[1]
    assert list(plot_lines(chart, 80, has_unicode=True, has_colour=True))
