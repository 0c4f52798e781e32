"""The content of an incident is one in text, Markdown and on the screens."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from gpuwatch.blocks.lines import text_lines
from gpuwatch.blocks.markdown import markdown
from gpuwatch.diagnose.incidents import content
from gpuwatch.diagnose.incidents.markdown import as_markdown
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.report.incidents.text import incident_lines
from gpuwatch.tui.toolkit.lines.block_rows import painted
from gpuwatch.tui.toolkit.lines.item_page import PageItem
from gpuwatch.tui.toolkit.lines.rows import text_of
from gpuwatch.tui.toolkit.styles import build_styles
from gpuwatch.wire.logs import TimeBound
from tests.tui.scripted_alerts import demo_incident


@pytest.fixture
def undated() -> Incident:
    """An incident none of whose lines has a timestamp; `first` is when it was read."""
    incident = demo_incident()
    alerts = tuple(structs.replace(each, timed=False, bound="undated") for each in incident.alerts)
    timeline = tuple(structs.replace(each, at=0.0, bound="undated") for each in incident.timeline)
    return structs.replace(incident, cause=alerts[0], alerts=alerts, timeline=timeline, headline="x")


def test_an_undated_incident_has_no_time_in_any_output(undated: Incident) -> None:
    text = "\n".join(line.text for line in incident_lines(undated, lambda _: "file"))
    events, look = content.events(undated), build_styles()
    items = [part for part in painted(events, 120, look) if isinstance(part, PageItem)]
    copied = "\n".join(item.text for item in items)
    page = as_markdown(undated)
    for shown in (
        text.partition("   evidence")[0],
        page.partition("### E")[0],
        page.rpartition("### ")[2],
        copied,
    ):
        assert "undated" in shown
        assert not re.search(r"\d\d:\d\d", shown)


def test_every_output_quotes_the_same_evidence() -> None:
    incident = demo_incident()
    quotes, look = content.quotes(incident), build_styles()
    rows = [part.rows[0] for part in painted(quotes, 400, look) if isinstance(part, PageItem)]
    assert [text_of(row).strip() for row in rows] == [quote.text for quote in quotes]
    for quote in quotes:
        assert quote.text in markdown([quote])
        assert any(quote.text in line.text for line in text_lines([quote]))
    assert [quote.code for quote in quotes] == ["gpu.xid.fell_off", "nccl.watchdog_timeout"]
    assert quotes[1].more == 126


@pytest.mark.parametrize(
    ("bound", "since"), [("after", ["-55.0s", "after", "+57.0s"]), ("before", ["-2m", "before", "+0.0s"])]
)
def test_the_timeline_counts_from_the_cause_and_not_from_an_earlier_warning(
    bound: TimeBound, since: list[str]
) -> None:
    """The cause has no timestamp: it was logged at or after, or before, second 1,000 of an hour."""
    incident = demo_incident()
    at = float(incident.first // 3600 * 3600 + 1000)
    cause = structs.replace(
        incident.alerts[0], timed=False, bound=bound, first=at, not_before=at if bound == "after" else None
    )
    hint, own, echo = (
        structs.replace(incident.timeline[0], at=at - 55, role="hint", bound=None),
        structs.replace(incident.timeline[0], at=at, bound=bound),
        structs.replace(incident.timeline[0], at=at + 57, role="echo", bound=None),
    )
    shown = structs.replace(incident, cause=cause, first=at, timeline=(hint, own, echo))
    assert [event.since for event in content.events(shown)] == since
