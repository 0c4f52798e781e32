"""The benchmark's table: parts that fail or hang, the file with the figures, the ratios to another run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
import pytest

from tests.agent.running import RunningAgent
from tests.bench.__main__ import main
from tests.bench.figures import commit
from tests.bench.parts import PARTS, ROOT, quiet_machine
from tests.kernel_log import VARIABLE

PLAYED = {
    "good": "def rows(folder):\n    return [Row('waiting', '20 ms', '<= 30 ms', True, 0.02)]",
    "bad": "def rows(folder):\n    raise AssertionError('an old Xid')",
    "without": "def rows(folder):\n    need('no-such-program')",
    "killed": "def rows(folder):\n    os.kill(os.getpid(), 9)",
    "endless": "def rows(folder):\n    time.sleep(300)",
    "last": "def rows(folder):\n    return [Row('size', '8 bytes', '', None, 8), Row('note', '', '', None)]",
}


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Parts that are modules of the test's own folder."""
    names = (("tests.bench.cpu", "Row"), ("tests.parts", "need"))
    head = "import os, time\n" + "".join(f"from {module} import {name}\n" for module, name in names)
    for name, source in PLAYED.items():
        (tmp_path / f"played_{name}.py").write_text(head + source + "\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return {name: f"played_{name}" for name in PLAYED}


def test_a_part_that_fails_costs_its_own_rows_only(
    known: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    chosen = ["good", "bad", "without", "killed", "last"]
    assert main(["--json", str(file), *chosen], known) == 1
    shown = capfd.readouterr().out
    assert shown.index("waiting") < shown.index("bad failed: AssertionError") < shown.index("size")
    assert "bad, without, killed" in shown
    facts = json.loads(file.read_text())
    assert facts["commit"] == commit()  # null without git
    assert [part for part, one in facts["parts"].items() if one["failed"]] == ["bad", "without", "killed"]
    assert "no-such-program" in facts["parts"]["without"]["failed"]
    (row,) = facts["parts"]["good"]["rows"]
    assert (row["what"], row["value"], row["holds"]) == ("waiting", 0.02, True)


def test_a_part_that_hangs_is_ended(known: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["endless", "last"], known, limit_s=3.0) == 1
    shown = capfd.readouterr().out
    assert shown.index("endless failed: not done within 3 s") < shown.index("size")
    running = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not [argv for argv in running if known["endless"] in argv]


def test_ratios_to_an_earlier_run(
    known: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    assert main(["--json", str(file), "good", "last"], known) == 0
    facts = json.loads(file.read_text())
    facts["parts"]["good"]["rows"][0]["value"] = 0.04
    facts["commit"] = "a1b2c3d4"
    file.write_text(json.dumps(facts))
    capfd.readouterr()
    assert main(["--against", str(file), "good", "last"], known) == 0
    shown = capfd.readouterr().out
    assert "ratios to a1b2c3d4" in shown
    assert [line.split()[-2] for line in shown.splitlines() if " bytes " in line or " ms " in line] == [
        "0.50x",
        "1.00x",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_a_file_without_figures_is_wrong_usage(tmp_path: Path, text: str) -> None:
    file = tmp_path / "figures.json"
    file.write_text(text)
    for argv in (["--against", str(file)], ["--against", str(tmp_path / "none")], ["no-such-part"]):
        with pytest.raises(SystemExit) as ended:
            main(argv)
        assert ended.value.code == 2


def test_every_part_is_a_module_with_rows() -> None:
    for module in PARTS.values():
        source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text()
        assert "\ndef rows(" in source


def test_kernel_log_of_the_machine_is_not_read(tmp_path: Path) -> None:
    """An agent in the environment of the bench reads a log that is open and empty, so nothing is reported."""
    with quiet_machine() as env:
        held = Path(env[VARIABLE])
        assert held.is_fifo()
        agent = RunningAgent(env, proc=str(tmp_path))
        try:
            assert agent.hello(lambda hello: hello.kernel_log is not None).kernel_log == "/dev/kmsg"
            opened = Path(f"/proc/{agent.process.pid}/fd")
            assert held in {fd.resolve() for fd in opened.iterdir()}
            assert Path("/dev/kmsg") not in {fd.resolve() for fd in opened.iterdir()}
        finally:
            agent.end()
