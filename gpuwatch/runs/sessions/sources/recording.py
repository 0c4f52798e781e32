"""Reads a gpuwatch recording as a session: the GPUs, steps and ranks of its frames."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.records import StreamRecord, content
from gpuwatch.link.recording.schema import RecordingError
from gpuwatch.link.recording.tee import MICRO
from gpuwatch.runs.files.opening import open_buffered
from gpuwatch.runs.sessions.folders.session_folder import complete_losses, complete_rates
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import SessionGpu, SessionRank, SessionSummary
from gpuwatch.wire import FrameError, GpuFast, Hello, Progress, Ranks, Sample

SOURCE = "recording"
MAGIC = b"SQLite format 3\0"
KINDS = {"sample", "hello", "progress", "ranks"}
CURVES = (
    ("loss", "loss"),
    ("lr", "learning_rate"),
    ("grad_norm", "grad_norm"),
    ("samples_per_s", "samples_per_s"),
    ("tokens_per_s", "tokens_per_s"),
)
"""Field of a progress frame -> curve."""


def is_recording(path: Path) -> bool:
    """Return True if a file is an SQLite database, as recordings are."""
    try:
        with open_buffered(path) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_recording(path: Path) -> TrainingSession:
    """Return a recording as a session; a damaged one as far as possible."""
    session = TrainingSession(path, SOURCE, SessionSummary(id=path.stem))
    try:
        recording = Recording(path)
    except RecordingError as error:
        session.problems.append(str(error))
        return session
    reader = RecordingFrames(session, dict(recording.nodes))
    for block, record in recording.all_records():
        if record.kind in KINDS:
            reader.take(record, (record.at + block.wall) / MICRO)
    if recording.damaged:
        session.problems.append(f"{path.name}: {recording.damaged} parts cannot be read and were left out")
    recording.close()
    reader.finish()
    return session


class RecordingFrames:
    """Fills a session from the frames of a recording: call `take` for each record, then `finish`."""

    def __init__(self, session: TrainingSession, nodes: dict[int, str]) -> None:
        self._session = session
        self._nodes = nodes
        self._gpus: dict[tuple[str, str], SessionGpu] = {}
        self._values: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._ranks: dict[int, SessionRank] = {}
        self._times: list[float] = []
        self._step_times: list[float] = []
        self._leading: tuple[str, int | None] | None = None

    def take(self, record: StreamRecord, time: float) -> None:
        """Process one record; `time` in unix seconds."""
        node = self._nodes.get(record.node, "")
        try:
            frame = content(record)
        except FrameError:
            return
        self._times = [*(self._times or [time])[:1], time]
        if isinstance(frame, Hello):
            for info in frame.gpus:
                self._gpus[node, info.uuid] = SessionGpu(
                    node=node,
                    index=info.index,
                    uuid=info.uuid,
                    name=info.name,
                    memory_total_bytes=info.memory_total_bytes,
                )
        elif isinstance(frame, Sample):
            for gpu in frame.gpus:
                if gpu.fast is not None:
                    self._take_gpu(node, gpu.uuid, gpu.fast, time)
        elif isinstance(frame, Ranks):
            for process in frame.processes:
                if process.rank is not None:
                    self._ranks[process.rank] = SessionRank(
                        rank=process.rank, local_rank=process.local_rank, node=node, pid=process.pid
                    )
                    size = process.world_size
                    self._session.summary.world_size = size or self._session.summary.world_size
        elif isinstance(frame, Progress) and not frame.past:
            self._take_step(frame, time)

    def _take_gpu(self, node: str, uuid: str, fast: GpuFast, time: float) -> None:
        values = self._values[node, uuid]
        memory = None
        if fast.memory_used_bytes is not None and fast.memory_total_bytes:
            memory = 100 * fast.memory_used_bytes / fast.memory_total_bytes
        for name, value in (
            ("utilization", fast.utilization_pct),
            ("memory", memory),
            ("temperature", fast.temperature_c),
            ("power", fast.power_w),
        ):
            if value is not None:
                values[name].append(value)
        gpu = self._gpus.get((node, uuid))
        writer = f"{node} GPU {gpu.index if gpu else '-'}"
        self._session.curves.add("gpu_utilization_pct", None, time, fast.utilization_pct, writer)
        self._session.curves.add("gpu_memory_pct", None, time, memory, writer)

    def _take_step(self, frame: Progress, time: float) -> None:
        """Add a step of the first writer; other writers report the same steps and are ignored."""
        values = {name: value for name, value in frame.fields.items() if isinstance(value, (int, float))}
        if "step" not in values:
            return
        writer = (frame.file, frame.rank)
        self._leading = self._leading or writer
        if writer != self._leading:
            return
        step = int(values["step"])
        summary = self._session.summary
        summary.last_step = step
        if "total_steps" in values:
            summary.total_steps = int(values["total_steps"])
        for field, curve in CURVES:
            self._session.curves.add(curve, step, time, values.get(field))
        if values.get("step_time_s"):
            self._step_times.append(values["step_time_s"])
            self._session.curves.add("steps_per_s", step, time, 1 / values["step_time_s"])

    def finish(self) -> None:
        """Set what needs all frames: times, GPU averages and peaks, ranks, counts, mode, rates and losses."""
        summary = self._session.summary
        if self._times:
            summary.start, summary.end = self._times[0], self._times[-1]
        for key, values in self._values.items():
            gpu = self._gpus.setdefault(key, SessionGpu(node=key[0], uuid=key[1]))
            for name in ("utilization", "memory"):
                if values[name]:
                    setattr(gpu, f"{name}_avg_pct", sum(values[name]) / len(values[name]))
                    setattr(gpu, f"{name}_peak_pct", max(values[name]))
            if values["temperature"]:
                gpu.temperature_avg_c = sum(values["temperature"]) / len(values["temperature"])
                gpu.temperature_max_c = max(values["temperature"])
            if values["power"]:
                gpu.power_avg_w = sum(values["power"]) / len(values["power"])
            gpu.samples = max(map(len, values.values()), default=0)
        summary.gpus = [self._gpus[key] for key in sorted(self._gpus)] or None
        summary.gpu_count = len(self._gpus) or None
        summary.ranks = [self._ranks[rank] for rank in sorted(self._ranks)] or None
        summary.node_count = len({key[0] for key in self._gpus}) or None
        points = [
            point.step for curve in self._session.curves.named("loss") for point in curve.points if point.step
        ]
        if points:
            summary.steps = points[-1] - points[0]
        if summary.gpu_count or summary.world_size:
            several = max(summary.gpu_count or 0, summary.world_size or 0) > 1
            summary.mode = "multi" if several else "single"
        complete_rates(summary, self._step_times)
        complete_losses(self._session)
