from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from gpuwatch import wire
from gpuwatch.agent.host.host_reader import HostReader
from gpuwatch.agent.host.infiniband import PortReader
from gpuwatch.agent.host.net import NicReader
from tests.agent.trees import Clock, wait_until, write


def nic(
    sys: Path,
    name: str,
    *,
    rx: int = 0,
    tx: int = 0,
    state: str = "up",
    speed: str = "100000",
    real: bool = True,
) -> None:
    folder = sys / "class/net" / name
    write(folder, {"operstate": state, "speed": speed})
    counts = {
        "rx_bytes": rx,
        "tx_bytes": tx,
        "rx_errors": 3,
        "tx_errors": 4,
        "rx_dropped": 0,
        "tx_dropped": 9,
    }
    write(folder / "statistics", {key: str(value) for key, value in counts.items()})
    if real:
        (folder / "device").mkdir(exist_ok=True)


def port(sys: Path, received: int, sent: int) -> Path:
    folder = sys / "class/infiniband/mlx5_0/ports/1"
    write(
        folder,
        {
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "link_layer": "InfiniBand",
            "rate": "400 Gb/sec (4X NDR)",
            "counters/port_rcv_data": str(received),
            "counters/port_xmit_data": str(sent),
            "counters/symbol_error": "7",
            "hw_counters/out_of_sequence": "2",
        },
    )
    return folder


def test_bytes_become_rates_on_our_own_clock(tmp_path: Path) -> None:
    clock = Clock()
    reader = NicReader(str(tmp_path), clock)
    nic(tmp_path, "eth0", rx=1000, tx=5000)
    first = (reader.read() or [])[0]
    assert "rx_bps" not in first
    nic(tmp_path, "eth0", rx=3000, tx=5000)
    clock.now += 2.0
    row = msgspec.convert((reader.read() or [])[0], wire.Nic)
    assert row == wire.Nic("eth0", "up", 12.5e9, 1000.0, 0.0, 7, 9)


def test_a_reset_counter_is_no_rate(tmp_path: Path) -> None:
    clock = Clock()
    reader = NicReader(str(tmp_path), clock)
    nic(tmp_path, "eth0", rx=1 << 40)
    reader.read()
    nic(tmp_path, "eth0", rx=10)
    clock.now += 1.0
    assert "rx_bps" not in (reader.read() or [])[0]


def test_the_speed_of_a_link_that_is_down_is_unknown(tmp_path: Path) -> None:
    nic(tmp_path, "eth1", state="down", speed="-1")
    row = (NicReader(str(tmp_path), Clock()).read() or [])[0]
    assert row["state"] == "down"
    assert "speed_bps" not in row


def test_plumbing_is_shown_only_where_there_is_nothing_else(tmp_path: Path) -> None:
    for name in ("lo", "veth12ab", "docker0", "br-99"):
        nic(tmp_path, name, real=False)
    reader = NicReader(str(tmp_path), Clock())
    assert [row["name"] for row in reader.read() or []] == ["br-99", "docker0", "veth12ab"]
    nic(tmp_path, "eth0", real=False)  # a pod's own end
    assert [row["name"] for row in reader.read() or []] == ["eth0"]
    nic(tmp_path, "enp1s0")
    assert [row["name"] for row in reader.read() or []] == ["enp1s0"]


def test_an_infiniband_port_counts_words(tmp_path: Path) -> None:
    clock = Clock()
    reader = PortReader(str(tmp_path), clock)
    assert reader.read() is None
    port(tmp_path, 100, 1000)
    reader.read()
    port(tmp_path, 100 + 500, 1000)
    clock.now += 2.0
    row = msgspec.convert((reader.read() or [])[0], wire.IbPort)
    errors = {"symbol_error": 7, "out_of_sequence": 2}
    assert row == wire.IbPort("mlx5_0", 1, "ACTIVE", "LinkUp", "InfiniBand", 400.0, 1000.0, 0.0, errors)


def test_a_full_32_bit_counter_says_nothing(tmp_path: Path) -> None:
    clock = Clock()
    reader = PortReader(str(tmp_path), clock)
    port(tmp_path, 0xFFFFFFFF, 5)
    reader.read()
    clock.now += 1.0
    row = (reader.read() or [])[0]
    assert "rx_bps" not in row
    assert row["tx_bps"] == 0.0


def test_a_wedged_card_costs_the_tick_only_its_own_ports(tmp_path: Path) -> None:
    write(tmp_path, {"stat": "cpu  1 0 1 1 0 0 0 0"})
    nic(tmp_path, "eth0")
    state = port(tmp_path, 1, 1) / "state"
    state.unlink()
    os.mkfifo(state)  # a read that does not come back
    reader = HostReader(proc=str(tmp_path), sys=str(tmp_path))
    for _ in range(2):
        sample = reader.read()
        assert "ib" not in sample
        assert "nics" in sample
    with state.open("w") as writer:
        writer.write("4: ACTIVE\n")
    state.unlink()
    write(tmp_path, {"class/infiniband/mlx5_0/ports/1/state": "1: DOWN"})
    assert wait_until(lambda: _state(reader) == "DOWN", lambda _: None)


def _state(reader: HostReader) -> object:
    ports = reader.read().get("ib")
    return ports[0]["state"] if isinstance(ports, list) else None


@pytest.mark.parametrize("text", ["40 Gb/sec (4X QDR)", "2.5 Gb/sec (1X SDR)"])
def test_rates_as_the_kernel_writes_them(tmp_path: Path, text: str) -> None:
    write(port(tmp_path, 1, 1), {"rate": text})
    row = (PortReader(str(tmp_path), Clock()).read() or [])[0]
    assert row["rate_gbps"] == float(text.partition(" ")[0])
