"""`serving` of a hosts file: real servers are read by a real session, and reported."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpuwatch.hosts.load import load_source
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.report.once.jobs import server_lines, servers_as_facts
from gpuwatch.session import Session
from tests.link.serving.endpoint import served
from tests.link.serving.pages import SGLANG, TRITON

HOSTS = """hosts:
  - {{name: nowhere, command: [/bin/false]}}
serving:
  - {{name: chat, url: "{chat}"}}
  - {vision}
"""


def test_the_servers_of_a_hosts_file_are_read(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    with served(SGLANG.encode()) as chat, served(TRITON.encode()) as vision:
        file.write_text(HOSTS.format(chat=chat, vision=vision))
        with Session(load_source(str(file))) as session:
            deadline = time.monotonic() + 60
            while session.fleet.servers.is_waiting:
                assert time.monotonic() < deadline
                session.poll()
                time.sleep(0.02)
            now = session.clock.monotonic()
            found = {each["name"]: each for each in servers_as_facts(session.fleet, now)}
            lines = server_lines(session.fleet, now)
    address = vision.split("/")[2]
    assert (found["chat"]["engine"], found["chat"]["waiting"], found["chat"]["error_pct"]) == (
        "SGLang",
        2826,
        None,
    )
    assert found[address]["latency_s"]["p95"] == pytest.approx(0.009)
    assert [line.style for line in lines] == ["plain", "plain"]


@pytest.mark.parametrize("serving", ["ftp://x/metrics", "[]", "{url: http://x}", "[{name: x}]", "[{url: 3}]"])
def test_what_is_no_server_is_refused_without_showing_it(tmp_path: Path, serving: str) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text(f"hosts: [a]\nserving: {serving}\n")
    with pytest.raises(HostsError) as refused:
        load_source(str(file))
    assert "ftp://x" not in str(refused.value)
