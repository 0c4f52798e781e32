"""`gpuwatch exporter` as a process."""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.request

from tests.cli.running import COMMAND, environment, gpuwatch
from tests.parts import need


def test_the_demo_as_promtool_reads_it() -> None:
    promtool = need("promtool")
    argv = [*COMMAND, "exporter", "--demo", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(argv, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+/metrics", process.stderr.readline())
        assert found
        with urllib.request.urlopen(found[0], timeout=60) as answer:  # noqa: S310 - loopback
            page = answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    checked = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")
    assert page.count(b"\ngpuwatch_node_up{") == 16


def test_an_address_that_is_not_ours_is_exit_2() -> None:
    assert gpuwatch("exporter", "--demo", "--listen", "192.0.2.1:9480").returncode == 2
