"""Facts from two sources, joined: kernel log and GPU, process and GPU, the driver's files and NVML."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gpuwatch.agent.frame_builder import latest
from gpuwatch.agent.gpu.proc_driver import read, unmet
from gpuwatch.agent.processes.gpu_holders import Holders
from gpuwatch.wire import ProcessGpu, Sample
from tests.agent.conftest import Start
from tests.agent.running import lists, uuid_of
from tests.agent.trees import Kmsg, process, write
from tests.fake_nvml.build import FakeNvml
from tests.parts import need
from tests.sentences import Sentences

GIB = 1 << 30


def information(index: int, uuid: str | None = None) -> str:
    """The driver's file of one GPU; question marks where it could not be started."""
    return (
        f"Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 9{index}\nGPU UUID: \t {uuid or uuid_of(index)}\n"
        f"Bus Type: \t PCIe\nBus Location: \t 0000:{0x10 + index:02x}:00.0\nDevice Minor: \t {index}\n"
        "GPU Excluded:\t No"
    )


def tree(root: Path, gpus: int = 8) -> Path:
    """A /proc with the driver's files and no process."""
    write(root, {"stat": "cpu  1 0 1 1 0 0 0 0\nbtime 1700000000", "meminfo": "MemTotal: 1000 kB"})
    folder = root / "driver/nvidia/gpus"
    write(folder, {f"0000:{0x10 + i:02x}:00.0/information": information(i) for i in range(gpus)})
    return root


def test_an_xid_goes_to_the_gpu_in_its_pci_domain(start: Start, fake: FakeNvml, tmp_path: Path) -> None:
    """On Grace machines every GPU is bus 01 of a domain of its own."""
    fake.set("gpus 2", "set * bus 1", "set 0 domain 8", "set 1 domain 9")
    kmsg = Kmsg(tmp_path / "kmsg")
    agent = start(kmsg=kmsg.path)
    assert [gpu.bus_id for gpu in agent.hello(lists(2)).gpus] == [
        "00000008:01:00.0",
        "00000009:01:00.0",
    ]
    agent.hello(lambda h: h.kernel_log == "/dev/kmsg")
    for code, domain in ((79, 9), (31, 8), (48, 0)):
        kmsg.emit(f"NVRM: Xid (PCI:{domain:04x}:01:00): {code}, pid=7, something")
    reported = {code: next(e.gpu for e in agent.xids(3) if e.code == code) for code in (79, 31, 48)}
    assert reported == {79: uuid_of(1), 31: uuid_of(0), 48: None}
    os.close(kmsg.writer)


def test_an_xid_comes_with_the_next_tick_where_only_nvml_tells(start: Start, fake: FakeNvml) -> None:
    agent = start(kmsg="/none")
    if agent.hello(lists(8)).kernel_log is None:
        agent.until(lambda _: 5 in fake.calls().get("nvmlDeviceRegisterEvents", {}), "registration")
        fake.add("xid 5 79 1")
    event = agent.event("xid")
    before = agent.frames[: agent.frames.index(event)]
    assert not any(isinstance(frame, Sample) and frame.events_held for frame in before)


def test_the_disks_of_the_first_reading_are_not_lost(start: Start) -> None:
    """The host is read once before the first tick and once in it; disks come every 30 s."""
    agent = start()
    agent.sample(lambda s: s.host is not None and s.host.cpu_pct is not None)
    first = next(frame.host for frame in agent.frames if isinstance(frame, Sample) and frame.host)
    assert first.disks
    assert latest({"t": 1, "disks": [1], "cpu_pct": 3}, {"t": 2}) == {"t": 2, "disks": [1]}
    assert latest({"t": 1, "disks": [1]}, {"t": 2, "disks": []}) == {"t": 2, "disks": []}


def test_a_gpu_that_never_answered_is_named_by_the_drivers_files(
    start: Start, fake: FakeNvml, tmp_path: Path, sentences: Sentences
) -> None:
    fake.set("error 7 15 *", "hang 4 nvmlDeviceGetUUID")
    agent = start(proc=str(tree(tmp_path / "proc")))
    hello = agent.hello(lists(8))
    gone = hello.gpus[7]
    assert (gone.uuid, gone.index, gone.bus_id) == (uuid_of(7), 7, "00000000:17:00.0")
    assert gone.name == "NVIDIA H100 80GB HBM3" and gone.memory_total_bytes is None
    assert agent.gpu(7, lambda g: g.state == "lost").reason == "GPU is lost"
    stuck = agent.gpu(4, lambda g: g.state == "stuck")
    assert stuck.stuck_in == "nvmlDeviceGetUUID"
    sentences(stuck.reason)
    assert agent.event("gpu_stuck").gpu == uuid_of(4)
    assert not any(n.code == "gpu_silent" or "GPU 7" in n.text for n in agent.hello().notices)
    fake.set()
    agent.hello(lambda h: len(h.gpus) == 8 and all(gpu.memory_total_bytes for gpu in h.gpus))
    agent.gpu(7, lambda g: g.state == "ok" and g.fast is not None)


def test_the_drivers_files_are_believed_only_where_they_agree(tmp_path: Path) -> None:
    found = read(str(tree(tmp_path)))
    met = {index: uuid_of(index) for index in range(7)}
    assert [(facts["index"], facts["uuid"]) for facts in unmet(found, met, 8).values()] == [(7, uuid_of(7))]
    assert list(unmet(found, met, 7, hidden=False)) == [7]  # NVML does not even list it
    assert unmet(found, met, 7, hidden=True) == {}  # a container: not ours
    assert unmet(found, {index: uuid_of(index + 1) for index in range(7)}, 8) == {}  # another order
    write(tmp_path / "driver/nvidia/gpus/0000:17:00.0", {"information": information(7, "GPU-????????-????")})
    assert unmet(read(str(tmp_path)), met, 8) == {}
    assert read(str(tmp_path / "none")) == []


def test_a_rank_stays_with_its_gpu_when_that_one_is_lost_or_hangs(start: Start, fake: FakeNvml) -> None:
    holder = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE,
                              env={**os.environ, "RANK": "3", "WORLD_SIZE": "8"})  # fmt: skip
    held = ("gpus 3", *(f"process {gpu} {holder.pid} {GIB} compute 50" for gpu in (0, 1)))
    fake.set(*held)
    agent = start()

    def holds(*expected: ProcessGpu, after: int = 0) -> None:
        agent.ranks(
            lambda r: any(p.pid == holder.pid and p.rank == 3 and p.gpus == [*expected] for p in r.processes),
            after,
        )

    try:
        holds(ProcessGpu(uuid_of(0), GIB, 50), ProcessGpu(uuid_of(1), GIB, 50))
        fake.set(*held, "error 0 15 *", "hang 1 *")
        agent.event("gpu_lost", gpu=0)
        agent.event("gpu_stuck", gpu=1)
        seen = len(agent.frames)
        for _ in range(2):  # and it stays so
            holds(ProcessGpu(uuid_of(0)), ProcessGpu(uuid_of(1)), after=seen)
            seen = len(agent.frames)
    finally:
        holder.communicate(b"\n")
    agent.ranks(lambda r: all(p.pid != holder.pid for p in r.processes), len(agent.frames))


def test_a_pid_used_again_does_not_inherit_the_silent_gpu(tmp_path: Path) -> None:
    process(tmp_path, 50, {}, start=5000)
    holders = Holders(str(tmp_path))
    holders.report(0, "GPU-a", {50: {"memory_bytes": 7}, 51: {"memory_bytes": 8}})
    holders.report(1, "GPU-b", {50: {"memory_bytes": 9}})
    assert set(holders.by_pid()) == {50, 51}  # 51 is of another pid namespace
    holders.fall_silent("GPU-a")
    assert holders.by_pid() == {50: [{"uuid": "GPU-a"}, {"uuid": "GPU-b", "memory_bytes": 9}]}
    holders.report(1, "GPU-b", {})
    process(tmp_path, 50, {}, start=9000)
    assert holders.by_pid() == {}


def test_the_gpus_of_a_process_are_in_order_whichever_answered_first(tmp_path: Path) -> None:
    process(tmp_path, 50, {})
    holders = Holders(str(tmp_path))
    holders.report(1, "GPU-b", {50: {}})
    holders.report(0, "GPU-a", {50: {}})
    assert holders.by_pid() == {50: [{"uuid": "GPU-a"}, {"uuid": "GPU-b"}]}
    holders.fall_silent("GPU-a")
    assert holders.by_pid() == {50: [{"uuid": "GPU-a"}, {"uuid": "GPU-b"}]}


def test_ranks_report_a_process_that_cannot_be_read(
    start: Start, fake: FakeNvml, tmp_path: Path, sentences: Sentences
) -> None:
    proc = tree(tmp_path / "proc", gpus=0)
    environ = process(proc, 60, {}) / "environ"
    environ.unlink()
    os.mkfifo(environ)  # a read that does not come back, as of a process in a hung driver call
    fake.set(f"process 0 60 {GIB} compute 50", "hang 6 nvmlDeviceGetPerformanceState")
    both = start(proc=str(proc)).ranks(lambda r: r.partial is not None and ";" in r.partial)
    sentences(both.partial)
    assert [(p.name, [hold.memory_bytes for hold in p.gpus]) for p in both.processes] == [("python", [GIB])]


def test_names_that_are_no_text_leave_every_frame_readable(
    start: Start, fake: FakeNvml, tmp_path: Path
) -> None:
    """A real process with bytes for a name, for arguments and for its log."""
    code = "open('/proc/self/comm','wb').write(b'bad\\xff\\x1b[31m'); print('ready', flush=True); input()"
    script = "exec -a $'bad\\xff\\x1b[31m' \"$0\" -c \"$1\" $'\\xfe' 2>\"$2\"/$'log\\xff.log'"
    with subprocess.Popen(
        [need("bash"), "-c", script, sys.executable, code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "n\udcff"},
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        fake.set("gpus 1", f"process 0 {child.pid} {GIB} compute 5")
        agent = start()
        row = next(
            p
            for p in agent.ranks(
                lambda r: any(p.pid == child.pid and p.command for p in r.processes)
            ).processes
            if p.pid == child.pid
        )
        child.communicate(b"\n")
    assert row.rank == 1 and row.name.startswith("bad") and row.command is not None
    assert all(text.isprintable() for text in (row.name, row.command, row.master or ""))
    assert agent.trouble is None
