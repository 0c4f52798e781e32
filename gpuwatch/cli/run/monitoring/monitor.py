"""The process beside a run: watches this machine, writes the session's logs and, at its end, the summary.

`gpuwatch run` sends it one JSON object per line: first the settings, then `{"pid": N}`, last `{"end": ...}`.
It answers with `{"title": ...}` and `{"final": {"text": ...}}`. The end of its input means that `gpuwatch
run` has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections import deque
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec.structs import replace

from gpuwatch.cli.run.end_state import final_text
from gpuwatch.cli.run.monitoring.library_log import LibraryLog
from gpuwatch.cli.run.monitoring.messages import MonitorInput, say
from gpuwatch.cli.run.monitoring.other_nodes import final_parts
from gpuwatch.cli.run.monitoring.own_rows import OwnRows
from gpuwatch.cli.run.monitoring.samples import NodeSamples
from gpuwatch.cli.run.monitoring.summary import (
    facts_at_start,
    facts_of_alerts,
    facts_of_logs,
    facts_of_samples,
    joined_warnings,
    known_keys,
    list_packages,
    scale_rates,
    with_rates,
)
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.fleet.nodes.readings import memory_pct
from gpuwatch.hosts.builtin import local_plan
from gpuwatch.link.stream.options import LinkOptions
from gpuwatch.report.dmon.json_stream import EMPTY_STEP, JsonStream, Row
from gpuwatch.runs.sessions.folders.parts import read_parts
from gpuwatch.runs.sessions.folders.session_folder import step_time_statistics
from gpuwatch.session import Session
from gpuwatch.telemetry.session.folder import SessionFolder
from gpuwatch.telemetry.session.logs import SessionLogs
from gpuwatch.telemetry.session.summary import merge_parts, write_part, write_summary
from gpuwatch.whole_file import open_in_place

POLL_S, POLL_ALONE_S = 1.0, 2.0
"""Seconds between two readings of the machine with `--output`, and without: half the cost."""
SUMMARY_EVERY_S = 30.0
SNAPSHOT_EVERY_S = 10.0
"""Seconds between GPU readings in the performance log."""
PROCESSES_EVERY_S = 2.0
MAX_PAUSE_S = 20.0
MAX_SHARE_OF_CORE = 0.0005
"""Maximum CPU fraction for listing processes: on a node with thousands of them they are listed less often."""
MAX_STEP_TIMES = 100_000
LAST_LOOK_S = 0.3
"""Seconds of the final poll, before the logs are read to their end."""


class Monitor:
    """The state of one monitored run, and the writing of its logs and summary."""

    def __init__(self, config: dict[str, Any], session: Session, output: IO[str] | None) -> None:
        self.config = config
        self.folder = SessionFolder.existing(Path(config["folder"]))
        self.session = session
        self.samples = NodeSamples()
        self.logs = SessionLogs(self.folder)
        self.child: int | None = None
        self.began = time.monotonic()
        self.known = facts_at_start(config)
        self.step_times: deque[float] = deque(maxlen=MAX_STEP_TIMES)
        """Step times in seconds of the leading writer."""
        self._stream = JsonStream(with_jobs=output is not None)
        self._own = OwnRows(self.folder.path, self.samples, config["start"])
        self._library = LibraryLog(self.folder.main_log, self.node)
        self._output = output
        self._last: Row = {}
        self._leading: tuple[str, int | None] | None = None
        self._due = {"summary": 0.0, "snapshot": 0.0, "processes": 0.0}

    @property
    def node(self) -> str:
        return self.session.plan.nodes[0].name

    def poll(self) -> None:
        """Poll the session once: write new rows, and the GPU readings and the summary when they are due."""
        self.session.poll()
        now, wall = time.monotonic(), time.time()
        node = self.session.fleet.nodes[self.node]
        if not self.logs.is_owner and not self.config["part"]:
            for row in self._library.new_steps(wall):
                self._lead(row)
                self._take(row)
        for row in self._stream.rows(self.session.fleet, self.session.book, now, wall):
            if self._own.takes(row, self.session.book.alerts):
                self._take(row)
        readings = list(self.samples.new_readings(node))
        if self.child is not None and now >= self._due["processes"]:
            began = time.thread_time()
            self.samples.take_processes(node, self.child)
            pause_s = (time.thread_time() - began) / MAX_SHARE_OF_CORE
            self._due["processes"] = now + min(max(PROCESSES_EVERY_S, pause_s), MAX_PAUSE_S)
        if readings and self.logs.is_owner and self._is_due("snapshot", now, SNAPSHOT_EVERY_S):
            for gpu, fast in readings:
                sample = {
                    "index": gpu.info.index,
                    "utilization_pct": fast.utilization_pct,
                    "memory_pct": memory_pct(fast),
                    "temperature_c": fast.temperature_c,
                    "power_w": fast.power_w,
                }
                self.logs.gpu(sample, self.node)
        if self._is_due("summary", now, SUMMARY_EVERY_S):
            with contextlib.suppress(OSError):  # a full disk: the last one counts and is reported
                self.write({"status": "running", "end": wall}, with_logs=False)

    def _is_due(self, what: str, now: float, every_s: float) -> bool:
        if now < self._due[what]:
            return False
        self._due[what] = now + every_s
        return True

    def _lead(self, row: Row) -> None:
        """Make the row's writer the leading one; the steps of another one before it are forgotten.

        The library's steps are exact.
        """
        writer = (row["file"], row["rank"])
        if self._leading != writer:
            self._leading = writer
            self.step_times.clear()

    def _take(self, row: Row) -> None:
        if self._output is not None and self._own.is_first(row):
            try:
                self._output.write(json.dumps(row, allow_nan=False) + "\n")
                self._output.flush()
            except OSError as error:
                self._output = None
                say({"problem": f"--output: {error.strerror}"})
        if row["kind"] == "step":
            self._take_step(row)
        elif row["kind"] == "alert" and self.logs.is_owner:
            self._take_alert(row)

    def _take_alert(self, row: Row) -> None:
        """Write an alert about the run into the main log when it fires for the first time."""
        is_new = row["state"] == "firing" and row["count"] == 1
        if is_new and row["id"] in {alert.id for alert in self.alerts()}:
            self.logs.warning(f"{row['code']}: {row['title']}: {row['text']}", log="main")

    def _take_step(self, row: Row) -> None:
        """Write a step of the leading writer into the main log; steps of other writers are ignored."""
        writer = (row["file"], row["rank"])
        self._leading = self._leading or writer
        if writer != self._leading:
            return
        self._last = row
        if row["step_time_s"]:
            self.step_times.append(row["step_time_s"])
        if not self.logs.is_owner and self.config["part"] == 0 and self._claims():
            self.logs.started(with_rates({**self.known, **facts_of_samples(self.samples, self.node)}, 0.0))
        took = row["step_time_s"]
        left = None if row["total_steps"] is None else row["total_steps"] - row["step"]
        rates = {
            "steps_per_s": 1 / took if took else None,
            "eta_s": left * took if took and left is not None and left >= 0 else None,
        }
        elapsed = None if row["time"] is None else row["time"] - self.config["start"]
        self.logs.step({**row, **rates, "elapsed_s": elapsed})

    def _claims(self) -> bool:
        """Claim the session's logs for this process; return True if it may write them."""
        try:
            return self.logs.claim()
        except OSError:
            return False

    def alerts(self) -> list[Alert]:
        """Return the alerts about the run, active or ended, without remarks (`Alert.is_remark`)."""
        found = self.session.book.alerts.values()
        return [alert for alert in found if not alert.is_remark and self._own.has_alert(alert)]

    def title(self) -> str:
        """Return the text for the terminal's title: `gpuwatch: step 5/100, loss 2.1, GPU 97%, 1 alert`."""
        parts = []
        if self._last:
            total = f"/{self._last['total_steps']}" if self._last["total_steps"] else ""
            parts.append(f"step {self._last['step']}{total}")
            if self._last["loss"] is not None:
                parts.append(f"loss {self._last['loss']:.4g}")
        means = [one.means["utilization"].mean for one in self.samples.used_gpus()]
        known = [value for value in means if value is not None]
        if known:
            parts.append(f"GPU {sum(known) / len(known):.0f}%")
        alerts = sum(alert.state == "firing" for alert in self.alerts())
        if alerts:
            parts.append(f"{alerts} alert{'s' * (alerts > 1)}")
        return "gpuwatch: " + ", ".join(parts or ["recording"])

    def write(self, facts: dict[str, Any], *, with_logs: bool) -> dict[str, Any]:
        """Write and return the summary, or a further node's part.

        `with_logs`: at the end, with the ranks' logs.
        """
        if self.child is not None and not with_logs:
            self.samples.take_processes(self.session.fleet.nodes[self.node], self.child)
        own = {**self.known, **facts, **facts_of_samples(self.samples, self.node)}
        parts = {} if self.config["part"] else self._parts(is_final=with_logs)
        times = step_time_statistics(list(self.step_times))
        if times is not None and not any(part.get("step_time_s") for part in parts.values()):
            own["step_time_s"] = msgspec.to_builtins(times)
            own["steady_steps_per_s"] = times.steady_steps_per_s
        own["warnings"] = facts_of_alerts(self.alerts())
        hello = self.session.fleet.nodes[self.node].hello
        if hello is not None:
            own["system"] = {**own["system"], "driver": hello.driver, "cuda": hello.cuda, "os": hello.os}
        if with_logs:
            own["packages"] = list_packages(self.samples.interpreter)
            logged, steps = facts_of_logs(self.folder)
            if not self._last and self.config["part"] == 0:  # it was over before the log reader had started
                for step in steps:
                    self._take({**EMPTY_STEP, **step})
            own["warnings"] = joined_warnings(own["warnings"], logged.pop("warnings", []))
            if facts["status"] == "completed":
                logged.pop("error", None)  # the script went on after it
        else:
            logged = {}
        duration = facts.get("duration_s") or time.monotonic() - self.began
        if self.config["part"]:
            own["duration_s"] = duration
            write_part(
                self.folder.node_part(self.config["part"]),
                {**own, "node_rank": self.config["part"], "final": with_logs},
            )
            return own
        summary = merge_parts(own, list(parts.values()))
        if summary["non_finite_loss_step"] is not None:
            logged.pop("final_loss", None)
        elif summary["final_loss"] is not None:
            logged.pop("non_finite_loss_step", None)
        summary.update({name: value for name, value in logged.items() if not summary.get(name)})
        summary["parts"] = sorted(parts)
        scale_rates(summary, own, parts.get("rank_0000.json", {}), duration)
        summary = known_keys(with_rates(summary, duration))
        write_summary(self.folder, summary)
        return summary

    def _parts(self, *, is_final: bool) -> dict[str, dict[str, Any]]:
        """Return file name -> part of the summary, from ranks and other nodes.

        With `is_final`, parts that are still being written are left out.
        """
        return (
            final_parts(self.folder.path, platform.node()) if is_final else read_parts(self.folder.path, [])
        )

    def finish(self, end: dict[str, Any]) -> str:
        """Poll for 0.3 s more, write the final summary, close the logs; return the text for the last line."""
        until = time.monotonic() + LAST_LOOK_S
        while time.monotonic() < until:
            self.poll()
            time.sleep(0.2)
        wall = time.time()
        try:
            summary = self.write({**end, "end": wall}, with_logs=True)
            if not self.config["part"] and self.logs.claim():
                if not self._last:
                    self.logs.started(summary)
                self.logs.ended(str(end["status"]))
        except OSError as error:
            return f"{end['status']}; the summary cannot be written: {error.strerror}"
        return final_text(summary, end)


def watched_plan(config: dict[str, Any]) -> Any:  # noqa: ANN401 - a Plan
    """Return the plan: this machine, and the rank logs of the session; no other logs are searched for."""
    logs = f"{config['folder']}/ranks/*.log"
    interval_s = POLL_S if config.get("output") else POLL_ALONE_S
    return replace(local_plan(), discover=False, log_options=(logs,), interval_s=interval_s)


def let_others_run() -> None:
    """Ask the kernel not to interrupt a rank when this process or its agent wakes (Linux: SCHED_BATCH)."""
    with contextlib.suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main() -> None:
    """Read the settings from stdin, monitor the run until its end, and write the summary."""
    let_others_run()
    incoming = MonitorInput()
    config = incoming.first()
    named = config.get("output")
    output = os.fdopen(open_in_place(Path(named)), "w", encoding="utf-8") if named else None
    with Session(watched_plan(config), LinkOptions()) as session:
        monitor = Monitor(config, session, output)
        end, shown = None, ""
        while end is None:
            for facts in incoming.new(session.plan.interval_s):
                monitor.child = facts.get("pid", monitor.child)
                end = facts.get("end", end)
            monitor.poll()
            text = monitor.title()
            if text != shown:
                shown = text
                say({"title": shown})
        text = monitor.finish(end)
        say({"final": {"text": text}})
    if output is not None:
        with contextlib.suppress(OSError):
            output.close()


if __name__ == "__main__":
    main()
