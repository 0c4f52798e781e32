"""Two jobs append to one log; one has ended, and the file is known as the other's, which trains on."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL, rank

LOG = "/runs/both/train.log"


@pytest.mark.parametrize("restarted", [False, True])
def test_the_end_of_another_process_is_not_given_to_a_job_that_runs(*, restarted: bool) -> None:
    reported = Watched()
    start = WALL + 19.5 if restarted else WALL - 90
    ranks = [rank(number, 900 + number, 2, start=start, logs=[LOG], job="healthy") for number in range(2)]
    reported.run("n1", *ranks)
    reported.list_files("n1", wire.LogFile(LOG, pids=[900, 901], job="healthy"))
    reported.look(2.0)
    fields = {"rank": 1, "local_rank": 1, "table_entry": 0, "exitcode": 1, "pid": 1175}
    reported.find("n1", LOG, "rank.exit_error", 20.0, role="first", severity="critical", fields=fields)
    sent = {"pid": 1174, "signal": "SIGTERM"}
    reported.find("n1", LOG, "launch.siblings_killed", 20.1, role="echo", severity="info", fields=sent)
    for second in range(4):
        reported.look(26.0 + 5 * second)
    ends = [each for each in reported.book.incidents if each.code == "rank.exit_error"]
    assert [each.job for each in ends] == ["healthy" if restarted else None]


@pytest.mark.parametrize("pid", [700, 901])
def test_a_shell_reports_the_end_of_a_launcher_with_its_pid(pid: int) -> None:
    """`train.sh: line 3: 700 Killed torchrun ...`; a pid that is no launcher's is a rank's."""
    reported = Watched()
    ranks = [
        rank(number, 900 + number, 2, start=WALL - 90, logs=[LOG], job="run7", launcher=700)
        for number in range(2)
    ]
    reported.run("n1", *ranks)
    reported.list_files("n1", wire.LogFile(LOG, pids=[900, 901], job="run7"))
    reported.look(2.0)
    reported.find("n1", LOG, "rank.killed", 20.0, role="root", severity="critical", fields={"pid": pid})
    codes: set[str] = set()
    for second in range(4):
        reported.look(26.0 + 5 * second)
        codes |= {each.code for each in reported.book.incidents}
    assert codes == {"launcher_killed" if pid == 700 else "rank.killed"}
