"""A poll in steps, while further frames arrive, comes to the same alerts and figures as a whole one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs

from gpuwatch.clock import SessionClock
from gpuwatch.fleet.stepwise import complete
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.link.opening import Links
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.session import Session
from gpuwatch.tui.model.node_summary import Overview
from tests.link.demo.story import frames_until

SECONDS = 95
PLAN = demo_plan()


def judged(story: Sequence[Arrival], *, in_steps: bool) -> tuple[object, ...]:
    """Alerts, incidents and sums at the end of a story; half of the frames come after a poll's first step."""
    now = [0.0]
    clock = SessionClock(lambda: now[0], lambda: EPOCH + now[0])
    session, overview = Session(PLAN, clock=clock, links=lambda _inbox: Links(())), Overview()
    for second in range(SECONDS + 1):
        now[0] = float(second)
        new = [each for each in story if second - 1 < each.at <= second]
        for each in new[::2]:
            session.inbox.put(each)
        steps = session.polling()
        if in_steps:
            next(steps, None)
        else:
            complete(steps)
        for each in new[1::2]:
            session.inbox.put(each)
        if in_steps:
            for _ in steps:
                overview.refresh(session.fleet, now[0])
        session.poll()
        overview.refresh(session.fleet, now[0])
    alerts = sorted((each.id, each.severity, each.state, each.count) for each in session.book.alerts.values())
    incidents = [(each.headline, each.severity, each.rank, each.gpu) for each in session.book.incidents]
    return alerts, incidents, structs.replace(overview.totals(), worst=[]), session.fleet.version


@pytest.mark.long
def test_steps_come_to_the_same_as_whole_polls() -> None:
    story = list(frames_until(float(SECONDS), float(SECONDS)))
    whole = judged(story, in_steps=False)
    assert whole[1]
    assert judged(story, in_steps=True) == whole
