"""A real Alertmanager: one notification for each incident, across restarts of ours and of it."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuwatch.hosts.receivers import ReceiverSpec
from tests.parts import need
from tests.report.delivery.receivers import QUICK, Receiver, delivery, incident, over, receiver, until

PACE = replace(QUICK, repeat_s=1.0, firing_s=5.0)
QUIET_S = 6.0
"""Three rounds of the Alertmanager's group_interval."""


@contextlib.contextmanager
def alertmanager(folder: Path, chat: Receiver, port: int) -> Iterator[str]:
    """One that tells `chat` of each group, the labels by which our incidents are grouped."""
    program = need("prometheus-alertmanager")
    config = {
        "route": {
            "receiver": "chat",
            "group_by": ["incident"],
            "group_wait": "1s",
            "group_interval": "2s",
            "repeat_interval": "1h",
        },
        "receivers": [{"name": "chat", "webhook_configs": [{"url": chat.url, "send_resolved": True}]}],
    }
    (folder / "am.yml").write_text(json.dumps(config))
    argv = [program, f"--config.file={folder / 'am.yml'}", f"--storage.path={folder / 'am'}"]
    argv += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def messages(chat: Receiver) -> list[tuple[str, str]]:
    """(status, incident) of each notification."""
    groups: list[dict[str, Any]] = chat.json()
    return [(each["status"], each["groupLabels"]["incident"]) for each in groups]


@pytest.mark.long
def test_once_for_each_incident_across_restarts_of_both(tmp_path: Path) -> None:
    first, second = incident(1), incident(2, severity="error")
    state, port = tmp_path / "state", free_port()
    with receiver() as chat:
        with alertmanager(tmp_path, chat, port) as url:
            with delivery(state, ReceiverSpec("alertmanager", url), pace=PACE) as made:
                until(made, [first, second], lambda: len(chat.bodies) == 2)
                names = {name for _, name in messages(chat)}
                assert len(names) == 2
                assert all(len(each["alerts"]) == 1 for each in chat.json())
            end = time.monotonic() + QUIET_S
            with delivery(state, ReceiverSpec("alertmanager", url), pace=PACE) as made:  # ours is new
                until(made, [first, second], lambda: time.monotonic() > end)
        assert len(chat.bodies) == 2
        with (
            alertmanager(tmp_path, chat, port) as url,
            delivery(state, ReceiverSpec("alertmanager", url), pace=PACE) as made,
        ):
            end = time.monotonic() + QUIET_S  # it is new, too
            until(made, [first, second], lambda: time.monotonic() > end)
            assert len(chat.bodies) == 2
            until(made, [over(first), second], lambda: len(chat.bodies) == 3)
            end = time.monotonic() + QUIET_S
            until(made, [over(first), second], lambda: time.monotonic() > end)
        assert sorted(status for status, _ in messages(chat)) == ["firing", "firing", "resolved"]
        assert {name for _, name in messages(chat)} == names


@pytest.mark.long
def test_an_escalation_comes_in_the_same_group(tmp_path: Path) -> None:
    with (
        receiver() as chat,
        alertmanager(tmp_path, chat, free_port()) as url,
        delivery(tmp_path / "state", ReceiverSpec("alertmanager", url), pace=PACE) as made,
    ):
        until(made, [incident(1, severity="warning")], lambda: len(chat.bodies) == 1)
        until(made, [incident(1)], lambda: len(chat.bodies) == 2)
        group = chat.json()[1]
        states = {each["labels"]["severity"]: each["status"] for each in group["alerts"]}
        assert states == {"warning": "resolved", "critical": "firing"}
