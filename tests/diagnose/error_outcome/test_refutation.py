"""One example of each row of the table of refutations: what later steps and the end of the job leave."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch.diagnose.error_outcome.recovery_by_steps import Recovery, lasts, softened
from gpuwatch.diagnose.error_outcome.refutation import REFUTATIONS, refutation_of, remains
from gpuwatch.diagnose.model.alert import Alert, Proof
from tests.diagnose.finding import T0

SIGNED = {"sign": "lost"}
READ = {"line": "could not read shard-00881.tar (Errno 5), reading the replica instead"}
EXAMPLES: dict[str, tuple[str, dict[str, str], str, str]] = {
    # row: (class, fields, severity after steps, severity after the end), of an error
    "loss that stays": ("job.members_lost", SIGNED, "warning", "warning"),
    "part of the machine, in the job's own words": ("gpu.lost", SIGNED, "warning", "warning"),
    "broken hardware, kernel, or verdict on the steps": ("gpu.xid.fell_off", {}, "error", "error"),
    "replicas that differ, in the job's own words": ("num.replicas_differ", SIGNED, "warning", "warning"),
    "result that a second run does not give": ("num.transient_fault", {}, "warning", "warning"),
    "damage without an error": ("num.replicas_differ", {}, "error", "error"),
    "node whose loss the job outlived": ("ray.node_dead", {}, "warning", "warning"),
    "lasting fault of a device, node or file": ("cuda.ecc", {}, "error", "error"),
    "loss in the job's own words": ("launch.too_few", SIGNED, "warning", "warning"),
    "port that another one stands in for": ("net.reported_down", SIGNED, "warning", "info"),
    "damaged checkpoint": ("ckpt.corrupt", {}, "warning", "info"),
    "data that another copy or attempt gave": ("storage.io_error", READ, "info", "info"),
    "state that was not saved": ("ckpt.write_fail", {}, "warning", "warning"),
    "process that was started again": ("rank.exit_error", {}, "warning", "info"),
    "error that the program outlived": ("oom.cuda", {}, "info", "info"),
}


def error(code: str, fields: dict[str, str]) -> Alert:
    proof = Proof(
        "line", fields.get("line", "words"), T0, file="/logs/rank_3.log", offset=1000, lines=("words",)
    )
    alert = Alert(code, code, "error", code, code, (proof,), rank=3, first=T0, last=T0)
    return structs.replace(alert, fields=fields)


def test_each_row_has_an_example() -> None:
    assert list(EXAMPLES) == [row.name for row in REFUTATIONS]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_row_leaves_what_its_example_states(name: str) -> None:
    code, fields, steps, end = EXAMPLES[name]
    alert = error(code, fields)
    assert refutation_of(alert).name == name
    assert lasts(alert) is (steps == end == "error")
    if lasts(alert):
        return
    assert softened(alert, Recovery(T0 + 9, 41, finished=False)).severity == steps
    assert softened(alert, Recovery(T0 + 9, 41, finished=True)).severity == end


def test_a_warning_becomes_no_error() -> None:
    alert = structs.replace(error("data.samples_lost", SIGNED), severity="warning")
    assert softened(alert, Recovery(T0 + 9, 41, finished=False)).severity == "warning"


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("ssh: connect to host gpu-09 port 22: timed out; its 8 workers are dropped", "warning"),
        ("ssh: connect to host gpu-09 port 22: timed out; its 8 workers are restarted", "info"),
        ("RuntimeError: worker 3 is lost", "info"),
    ],
)
def test_the_words_of_a_line_can_show_that_steps_do_not_refute_it(line: str, left: str) -> None:
    alert = error("launch.ssh_unreachable", {"line": line})
    outlived = softened(alert, Recovery(T0 + 9, 41, finished=True))
    assert outlived.severity == left
    assert remains(outlived) is (left == "warning")
