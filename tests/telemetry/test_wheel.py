"""The wheel `gpuwatch-telemetry`: what is in it, and a training with it where nothing else is installed."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import venv
import zipfile
from contextlib import closing
from importlib import metadata
from pathlib import Path

import pytest

import gpuwatch
from gpuwatch.telemetry.base.settings import LIBRARY_VERSION
from tests.end_to_end.cluster import ROOT
from tests.parts import need_torch

PACKAGING = ROOT / "packaging" / "telemetry"
LIBRARY = ROOT / "gpuwatch" / "telemetry"
TRAINING = """
import json, os, sys
from gpuwatch.telemetry import TelemetrySettings, TelemetryTracker, setup_rank_logging
if "torch" in sys.argv:
    import torch
    model = torch.nn.Linear(4, 2)
    torch.distributed.init_process_group("gloo")
else:
    model = None
setup_rank_logging("ranks")
with TelemetryTracker(TelemetrySettings(log_interval_steps=5)) as tracker:
    tracker.start(model, total_steps=10)
    for step in range(10):
        with tracker.cuda_timer("forward"): loss = model(torch.ones(3, 4)).sum() if model else 1.0
        if model: loss.backward(); tracker.check_gradients(model)
        tracker.step(loss=loss)
    assert len(tracker.get_summaries_from_all_ranks()) == int(os.environ["WORLD_SIZE"])
if os.environ["RANK"] == "1": sys.exit()
summary = json.loads(tracker.recorder.folder.summary_json.read_text())
modules = sorted({name.partition(".")[0] for name in sys.modules})
print(json.dumps([summary["steps"], summary["packages"], "torch" in modules, "textual" in modules]))
"""


def test_the_wheel_has_every_folder_of_the_library_and_its_version() -> None:
    project = (PACKAGING / "pyproject.toml").read_text()
    folders = {file.parent.relative_to(ROOT) for file in LIBRARY.rglob("*.py")}
    listed = re.findall(r'^    "(gpuwatch[\w.]*)",$', project, re.MULTILINE)
    assert sorted(listed) == sorted(".".join(each.parts) for each in folders)
    assert gpuwatch.__version__ == LIBRARY_VERSION
    assert "dependencies = []" in project


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools leaves its working files beside the sources."""
    copy = tmp_path_factory.mktemp("checkout")
    shutil.copytree(PACKAGING, copy / "packaging" / "telemetry")
    shutil.copytree(LIBRARY, copy / "gpuwatch" / "telemetry", ignore=shutil.ignore_patterns("__pycache__"))
    argv = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*argv, "-w", str(copy / "dist"), str(copy / "packaging" / "telemetry")],
        check=True,
        capture_output=True,
    )
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.mark.long
def test_the_wheel_needs_nothing(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("METADATA"))
        text = archive.read(metadata).decode()
    assert wheel.name == f"gpuwatch_telemetry-{LIBRARY_VERSION}-py3-none-any.whl"
    assert re.search(r"^Requires-Python: >=3\.8$", text, re.MULTILINE)
    assert "Requires-Dist" not in text
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0] for name in names} == {"gpuwatch", metadata.split("/")[0]}
    assert "gpuwatch/__init__.py" not in names


@pytest.mark.long
@pytest.mark.parametrize("with_torch", [False, True], ids=["without torch", "with torch"])
def test_a_training_in_a_clean_environment(wheel: Path, tmp_path: Path, with_torch: bool) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    argv = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*argv, str(wheel)], check=True, capture_output=True)
    if with_torch:
        need_torch()
        (site,) = place.glob("lib/python*/site-packages")
        for package in requirements_of("torch"):
            link_package(package, site)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        rendezvous = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.getsockname()[1])}
    world = 2 if with_torch else 1
    ranks = [
        subprocess.Popen(
            [str(python), "-c", TRAINING, *(["torch"] if with_torch else [])], cwd=tmp_path, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={"RANK": str(rank), "WORLD_SIZE": str(world), **rendezvous},
        )
        for rank in range(world)
    ]  # fmt: skip
    try:
        printed = [rank.communicate(timeout=100) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * world, printed
    steps, packages, has_torch, has_textual = json.loads(printed[0][0])
    assert (steps, has_torch, has_textual) == (10, with_torch, False)
    assert packages["gpuwatch-telemetry"] == LIBRARY_VERSION
    assert "numpy" not in packages
    assert with_torch or set(packages) == {"python", "gpuwatch-telemetry"}


def requirements_of(name: str) -> set[str]:
    """The installed distributions that one needs, itself included; without its extras."""
    found, open_names = set(), {name}
    while open_names:
        each = open_names.pop()
        try:
            needed = metadata.requires(each) or []
        except metadata.PackageNotFoundError:  # of another platform
            continue
        found.add(each)
        names = {re.split(r"[^\w.-]", line)[0] for line in needed if "extra ==" not in line}
        open_names |= names - found
    return found


def link_package(name: str, site: Path) -> None:
    """Links to what a distribution has in the folder of packages of these tests."""
    packages = Path(sysconfig.get_paths()["purelib"])
    for top in {file.parts[0] for file in metadata.files(name) or () if file.parts[0] != ".."}:
        if top != "__pycache__" and not (site / top).exists():
            (site / top).symlink_to(packages / top)
