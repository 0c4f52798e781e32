from __future__ import annotations

import signal

from tests.cli.running import gpuwatch, start


def test_the_demo_streams_every_gpu_and_ends_at_the_count() -> None:
    done = gpuwatch("dmon", "--demo", "-s", "pucvmet", "-c", "2")
    lines = done.stdout.splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    assert done.returncode == 0, done.stderr
    titles = next(line for line in lines if line.startswith("# node"))[1:].split()
    assert titles[:5] == ["node", "gpu", "pwr", "gtemp", "mtemp"]
    full = [row for row in rows if "stale" not in row]  # on a machine that gave the demo no time for 3 s
    assert {len(row) for row in full} == {len(titles)}
    assert len(rows) == 16 * 8 * 2
    assert {(row[0], row[1]) for row in rows} == {
        (f"gpu-{n:03}", str(g)) for n in range(1, 17) for g in range(8)
    }


def test_a_reader_that_leaves_ends_it_without_a_word() -> None:
    running = start("dmon", "--demo")
    try:
        assert running.stdout is not None
        assert any(line.startswith("# node") for line in running.stdout), "states of nodes may come first"
        running.stdout.close()
        assert running.stderr is not None
        assert running.stderr.read() == ""
        assert running.wait(timeout=60) == 0
    finally:
        running.kill()


def test_ctrl_c_ends_it_with_130() -> None:
    running = start("dmon", "--demo")
    try:
        assert running.stdout is not None
        running.stdout.readline()
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    assert "Traceback" not in err
