"""Reads the main log of a session: header, steps and evaluations."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from gpuwatch.runs.sessions.folders.log_text import CLOCK, DayClock, log_lines, time_of_id
from gpuwatch.runs.sessions.model.session import CurveSet
from gpuwatch.runs.sessions.model.summary import (
    EvaluationResults,
    SessionGpu,
    SessionModel,
    SessionSummary,
)
from gpuwatch.whole_number import whole_number

NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan|[-+]?inf"
STEP = re.compile(r"\bStep\s+(?P<step>\d{1,15})(?:/(?P<total>\d{1,15}))?[^|]*\|(?P<parts>.*)", re.IGNORECASE)
PART = re.compile(rf"(?P<name>Loss|LR|Speed|ETA):\s*(?P<value>{NUMBER})", re.IGNORECASE)
METRICS = re.compile(r"\bMetrics:\s*(?P<pairs>.*)")
PAIR = re.compile(rf"(?P<name>[A-Za-z_][\w./@-]{{0,80}}):\s*(?P<value>{NUMBER})(?=[,;\s]|$)", re.IGNORECASE)
EVALUATION = re.compile(r"\bEVALUATION RESULTS\b")
ITEM = re.compile(r"^\s{1,8}\S{0,4}\s+(?P<name>[A-Za-z][\w ./@-]{0,60}):\s*(?P<value>.*\S)")
GPU = re.compile(r"GPU (\d{1,4})")
GPU_NAME = re.compile(r"(?P<name>.{0,200}?)\s{0,8}\((?P<gb>\d{1,6}(?:\.\d{1,6})?)\s?GB\)")
FORCED = re.compile(r"\bFORCED SINGLE[- ]GPU MODE\b", re.IGNORECASE)
FACT = re.compile(
    r"^[^A-Za-z]{0,8}(?P<name>Session ID|Run ID|Mode|GPU Count|Model|World size):\s*(?P<value>.*\S)"
)
ENDED = re.compile(r"TRAINING SESSION ENDED: (completed|failed|interrupted)")
BYTES_PER_GB = 10**9
CURVE_OF = {
    "loss": "loss",
    "learning_rate": "learning_rate",
    "lr": "learning_rate",
    "grad_norm": "grad_norm",
    "samples_per_second": "samples_per_s",
    "tokens_per_second": "tokens_per_s",
    "steps_per_second": "steps_per_s",
    "communication_s": "communication_s",
}
"""Metric name in a `Metrics:` line or another log -> curve."""


@dataclass
class StepLine:
    """A logged step with the values of its line and of the metric lines below it."""

    step: int
    values: dict[str, float] = field(default_factory=dict)


@dataclass
class MainLog:
    """What the lines of a session's main log state: summary, curves, begin, end and seconds per step."""

    summary: SessionSummary = field(default_factory=SessionSummary)
    curves: CurveSet = field(default_factory=CurveSet)
    begin: float | None = None
    """Start of the session (unix seconds), from its id or first record."""
    end: float | None = None
    """Time of the last record or step (unix seconds)."""
    step_times: list[float] = field(default_factory=list)
    """Seconds per step, one for each step line."""


def read_main_log(path: Path, session: str, problems: list[str]) -> MainLog:
    """Return the content of the main log of a session."""
    reader = MainLogReader(MainLog(begin=time_of_id(session)))
    count = 0
    for count, line in enumerate(log_lines(path, problems), 1):  # noqa: B007 - the number of lines
        reader.take(line)
    reader.close()
    found = reader.found
    if count and found.end is None and found.summary == SessionSummary() and not found.curves.by_name:
        problems.append(f"{path.name}: has no line of a main log; damaged?")
    return found


class MainLogReader:
    """Reads the lines of a main log in order: call `take` for each line, then `close`."""

    def __init__(self, found: MainLog) -> None:
        self.found = found
        self._clock = DayClock(found.begin)
        self._open: StepLine | None = None
        self._section = ""
        self._results: dict[str, float | None] = {}

    def take(self, line: str) -> None:
        """Process one line."""
        step, metrics = STEP.search(line), METRICS.search(line)
        if step:
            self.close()
            self._begin_step(step)
        elif metrics and self._open is not None:
            pairs = PAIR.finditer(metrics["pairs"])
            self._open.values.update({pair["name"].lower(): float(pair["value"]) for pair in pairs})
        elif EVALUATION.search(line):
            self._section = "evaluation"
        elif item := ITEM.match(line):
            self._item(item["name"].strip(), item["value"])
        else:
            self._record(line)

    def close(self) -> None:
        """Complete the open step and evaluation."""
        summary = self.found.summary
        if self._results:
            number = self._open.step if self._open else summary.last_step
            results = EvaluationResults(step=number, results=self._results)
            summary.evaluations = [*(summary.evaluations or ()), results]
            summary.evaluation = dict(self._results)
            self.found.curves.add("eval_loss", number, self.found.end, self._results.get("eval_loss"))
            self._results = {}
        self._section = ""
        if self._open is not None:
            self._note(self._open)
        self._open = None

    def _begin_step(self, found: re.Match[str]) -> None:
        self._open = StepLine(int(found["step"]))
        if found["total"]:
            self.found.summary.total_steps = int(found["total"])
        for part in PART.finditer(found["parts"]):
            name = {"lr": "learning_rate", "speed": "steps_per_second"}.get(
                part["name"].lower(), part["name"].lower()
            )
            self._open.values[name] = float(part["value"])

    def _note(self, line: StepLine) -> None:
        elapsed = line.values.get("elapsed_s")
        begin = self.found.begin
        time = None if elapsed is None or begin is None else begin + elapsed
        if time is not None:
            self.found.end = max(time, self.found.end or time)
        if line.values.get("step_duration", 0.0) > 0:
            line.values["steps_per_second"] = 1 / line.values["step_duration"]  # not rounded to one digit
        for name, value in line.values.items():
            if name in CURVE_OF:
                self.found.curves.add(CURVE_OF[name], line.step, time, value)
        if line.values.get("step_duration", 0.0) > 0:
            self.found.step_times.append(line.values["step_duration"])
        self.found.summary.last_step = line.step

    def _item(self, name: str, value: str) -> None:
        """Process a list line: a result of an evaluation, or a configuration value."""
        summary = self.found.summary
        if self._section == "evaluation":
            number = re.match(NUMBER, value, re.IGNORECASE)
            if number:
                self._results[name] = float(number.group())
        elif name == "Accelerator processes":
            summary.world_size = whole_number(value) or summary.world_size
        elif name == "Mixed precision":
            summary.mixed_precision = value
        elif gpu := GPU.fullmatch(name):
            named = GPU_NAME.match(value)
            memory = round(float(named["gb"]) * BYTES_PER_GB) if named else None
            one = SessionGpu(
                index=int(gpu[1]), name=named["name"] if named else value, memory_total_bytes=memory
            )
            summary.gpus = [*(summary.gpus or ()), one]

    def _record(self, line: str) -> None:
        stamped = CLOCK.search(line)
        text = stamped["text"] if stamped else line
        if stamped:
            self.found.end = self._clock.at(stamped["clock"]) or self.found.end
        summary = self.found.summary
        if FORCED.search(text):
            summary.forced_single_gpu = True
        if ended := ENDED.search(text):
            summary.status = ended[1]  # type: ignore[assignment]  # the pattern has these words only
        if fact := FACT.match(text):
            self._fact(fact["name"], fact["value"])

    def _fact(self, name: str, value: str) -> None:
        summary = self.found.summary
        count = re.match(r"\d{1,9}", value)
        if name == "Session ID":
            summary.id = value
        elif name == "Run ID":
            summary.run_id = value
        elif name == "Mode":
            summary.mode = "multi" if value.upper().startswith("MULTI") else "single"
        elif name == "GPU Count" and count:
            summary.gpu_count = int(count.group())
        elif name == "World size" and count:
            summary.world_size = int(count.group())
        elif name == "Model":
            summary.model = SessionModel(name=value)
