"""Login shells may be anything and say anything: the launcher and its worker start all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.probe.protocol import Died, Leaving, Ready, Stop
from tests.end_to_end.shell_noise import NOISE, RC_FILES
from tests.parts import need
from tests.probe.launcher.driving import Driven, dial, fake_torch, one_rank

BASH = (".bash_profile", NOISE + "; exec 2>/dev/null; set -u; unset PATH_EXTRA; trap 'echo bye' EXIT")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("shell", "option", "activate"),
    [
        ("bash", "-lc", None),
        ("bash", "-lc", "echo loading modules; export LOADED=1"),
        ("fish", "-c", None),
        ("tcsh", "-c", None),
        ("zsh", "-c", "true"),
    ],
)
def test_a_noisy_login_shell(tmp_path: Path, shell: str, option: str, activate: str | None) -> None:
    name, text = BASH if shell == "bash" else RC_FILES[shell]
    for file, message in ((name, text), BASH):  # what is activated runs in a login shell of its own
        rc = tmp_path / "home" / file
        rc.parent.mkdir(parents=True, exist_ok=True)
        rc.write_text(message + "\n")
    environ = {"HOME": str(tmp_path / "home"), "PYTHONPATH": str(fake_torch(tmp_path / "torch"))}
    with Driven(dial(environ, (need(shell), option)), activate=activate) as driven:
        assert driven.inventory().torch == "2.9.1+fake"
        driven.send(one_rank())
        assert driven.until(Ready).rank == 0
        driven.send(Stop())
        assert driven.until(Leaving).reason == "stopped"
        assert not any(isinstance(message, Died) for message in driven.message)
