"""A simulated healthy week of 64 ranks: `python -m tests.bench.log_reading.healthy_week [SEED] [whole]`.

With an event of every job in each half hour; looked at every 5 s around those, or with `whole` all the time
(20 minutes of CPU). tests/diagnose/health/test_healthy_week.py does the same with two events a day.
"""

from __future__ import annotations

import sys
import time

from tests.diagnose.healthy import HealthyWeek
from tests.diagnose.simulated_jobs import DAY_S

EVENT_EVERY_S = 1800.0


def main(seed: int, *, whole: bool) -> int:
    """Print what happened and what was reported, by day; the exit status is the number of false alarms."""
    week, began = HealthyWeek(seed, EVENT_EVERY_S, whole=whole), time.process_time()
    for day in range(7):
        week.run(DAY_S, day)
        spent = time.process_time() - began
        print(
            f"day {day + 1}: {week.ticks} looks, {spent:.0f} s CPU, reported {dict(week.reported)}",
            flush=True,
        )
    print(f"events: {dict(week.happened)}")
    print(f"false alarms: {dict(week.alarms) or 0}")
    for alert in week.book.alerts.values():
        if alert.code in week.alarms:
            print(alert.id, alert.severity, alert.text)
    return sum(week.alarms.values())


if __name__ == "__main__":
    options = sys.argv[1:]
    sys.exit(main(int(next(iter(options), "1")), whole="whole" in options))
