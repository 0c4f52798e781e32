"""Selects the interpreter that will run the ranks: candidates report their torch, which is not imported."""

import glob
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

from gpuwatch.agent.base.procfs import clean
from gpuwatch.agent.masking.secret_masking import masked
from gpuwatch.probe.launcher.connection.lifeline import bound, end_others
from gpuwatch.probe.launcher.connection.lines import MAX_TEXT
from gpuwatch.probe.launcher.inventory.environment import SETTINGS, without_traces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator

OLDEST = (3, 8)
"""The oldest Python for the ranks; the launcher itself runs on 3.6."""
ASK_S = 10.0
"""Seconds that an interpreter may take to answer: a cold network file system is slow."""
ASK_ALL_S = 25.0
MAX_TRIED = 32
_MARK = "GPUWATCHP torch "
_NOTHING_DONE = ":"

_ASK = (
    "import sys\n"
    "sys.path = [p for p in sys.path if p]\n"
    "import json, os, re\n"
    "found = {'version': list(sys.version_info[:2]), 'python': sys.executable}\n"
    "if sys.version_info >= (3, 8):\n"
    "    from importlib.metadata import version\n"
    "    from importlib.util import find_spec\n"
    "    spec = find_spec('torch')\n"
    "    if spec is not None and spec.origin:\n"
    "        try:\n"  # what would be imported, before what the metadata of some folder states
    "            with open(os.path.join(os.path.dirname(spec.origin), 'version.py')) as f:\n"
    "                found['torch'] = re.search('__version__ *= *.([^\\'\\x22]+)', f.read()).group(1)\n"
    "        except Exception:\n"
    "            found['torch'] = version('torch')\n"
    "sys.stdout.write('\\n" + _MARK + "' + json.dumps(found) + '\\n')\n"
)

_PLACES = (
    "~/.venv/bin/python3",
    "~/venv/bin/python3",
    "~/*conda*/bin/python3",
    "~/*forge*/bin/python3",
    "/opt/conda/bin/python3",
    "/opt/*/bin/python3",
    "/usr/local/bin/python3",
    "/usr/local/*conda*/bin/python3",
)


class Interpreter(object):
    """A candidate for the ranks' interpreter: how it is started, and why it is considered."""

    def __init__(
        self, why: str, python: str, activate: "str | None" = None, environ: "dict[str, str] | None" = None
    ) -> None:
        self.why = why
        self.python = python
        self.activate = activate
        """A shell line to run before it, in a login shell."""
        self._environ = environ
        self.real: str | None = None
        """`sys.executable`, after it was queried."""
        self.torch: str | None = None

    @property
    def name(self) -> str:
        """Its path and, in brackets, why it is considered: for messages."""
        return "{} ({})".format(clean(self.python, MAX_TEXT), self.why)

    def environ(self) -> "dict[str, str]":
        """Return the environment to start it with."""
        return without_traces(dict(os.environ) if self._environ is None else self._environ)

    def argv(self, code: str, streams: "tuple[int, int]") -> "list[str]":
        """Return the argv that runs a Python text; `streams` are descriptors for its stdin and stdout.

        The activation line uses the shell's own stdin and stdout. The environment is set again after it, so
        that it cannot change that.
        """
        if self.activate is None:
            return bound([self.python, "-u", "-c", code])
        exports = "".join(
            "export {}={}\n".format(key, shlex.quote(value)) for key, value in sorted(SETTINGS.items())
        )
        # the shell's own copies of the descriptors go on into the interpreter
        closing = "import os;" + "".join("os.close({});".format(each) for each in streams if each > 2)
        script = "{}\n[ $? -eq 0 ] || exit 1\n{}exec {} -u -c {} </dev/fd/{} >/dev/fd/{}\n".format(
            self.activate, exports, shlex.quote(self.python), shlex.quote(closing + code), *streams
        )
        shell = shutil.which("bash")
        # a login shell, because it defines `module`
        return bound([shell, "-lc", script] if shell else ["/bin/sh", "-c", script])

    def same(self) -> "tuple[object, ...]":
        """Return a key that is equal for two candidates that would be started in the same way."""
        environ = self._environ or {}
        # the names of one file in one folder; in another folder the same file may be that of a venv
        return (
            os.path.dirname(self.python),
            os.path.realpath(self.python) if os.path.isabs(self.python) else self.python,
            self.activate,
            environ.get("PYTHONPATH"),
            environ.get("LD_LIBRARY_PATH"),
            environ.get("PYTHONHOME"),
        )


def configured(python: "str | None", activate: "str | None") -> "list[Interpreter]":
    """Return the Python interpreter that the hosts file names for this node, as a list: one, or none."""
    if activate:
        return [Interpreter("activate", python or "python3", activate)]
    return [Interpreter("hosts file", os.path.expanduser(python))] if python else []


def installed() -> "Iterator[Interpreter]":
    """Yield the launcher's own, then those of the environment, PATH, a login shell and the usual places."""
    yield Interpreter("the launcher's own", sys.executable)
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = os.environ.get(variable)
        if folder:
            yield Interpreter(variable, os.path.join(folder, "bin/python3"))
    for name in ["python3", "python"] + ["python3.{}".format(minor) for minor in range(14, 7, -1)]:
        found = shutil.which(name)
        if found is not None:
            yield Interpreter("PATH", found)
    if shutil.which("bash"):
        yield Interpreter("login shell", "python3", _NOTHING_DONE)
    for pattern in _PLACES:
        for path in sorted(glob.glob(os.path.expanduser(pattern)))[:8]:
            yield Interpreter("a usual place", path)


def choose(candidates: "Iterable[Interpreter]") -> "tuple[Interpreter | None, list[str]]":
    """Return the first candidate with torch, and why others were rejected.

    None: none has it of those that were tried, at most MAX_TRIED and for at most ASK_ALL_S.
    """
    tried: list[str] = []
    seen: set[tuple[object, ...]] = set()
    until = time.monotonic() + ASK_ALL_S
    for one in candidates:
        if one.same() in seen:
            continue
        seen.add(one.same())
        left = until - time.monotonic()
        if left <= 0 or len(tried) >= MAX_TRIED:
            tried.append("others were not checked: the time limit was reached")
            break
        reason = ask(one, min(ASK_S, left))
        if reason is None:
            return one, tried
        tried.append("{}: {}".format(one.name, reason)[: 2 * MAX_TEXT])
    return None, tried


def ask(one: "Interpreter", patience_s: float) -> "str | None":
    """Query a candidate, and set its `real` and `torch` if it answers; return why it is rejected, or None."""
    if one.activate is None and shutil.which(one.python) is None:
        return "it does not exist"
    answer, answering = os.pipe()
    try:
        process = subprocess.Popen(
            one.argv(_ASK, (0, answering)),
            env=one.environ(),
            stdin=subprocess.DEVNULL,
            stdout=answering if one.activate is None else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(answering,),
        )
    except OSError as error:
        os.close(answer)
        return os.strerror(error.errno or 0)
    finally:
        os.close(answering)
    with os.fdopen(answer, "rb") as pipe:
        try:
            words = process.communicate(timeout=patience_s)[1]
        except subprocess.TimeoutExpired:
            end_others()  # what a shell line has started, too
            process.wait()
            return "no answer within {:.0f} s".format(patience_s)
        os.set_blocking(pipe.fileno(), False)  # something in the background may hold the other end
        reported = _reported(pipe.read(1 << 16) or b"")
    if reported is None:
        return _no_answer(process.returncode, words)
    one.real, one.torch = str(reported["python"]), reported.get("torch")
    if tuple(reported["version"]) < OLDEST:
        return "Python {}.{}; the ranks need {}.{} or later".format(*(tuple(reported["version"]) + OLDEST))
    return None if one.torch else "no torch"


def _reported(output: bytes) -> "dict[str, Any] | None":
    for line in output.decode("utf-8", "replace").splitlines():
        if line.startswith(_MARK):
            try:
                reported = json.loads(line[len(_MARK) :])
            except ValueError:
                return None
            return reported if isinstance(reported, dict) else None
    return None


def _no_answer(status: int, words: bytes) -> str:
    lines = [line for line in words.decode("utf-8", "replace").splitlines() if line.strip()]
    last = clean(masked(lines[-1]), MAX_TEXT) if lines else "nothing on stderr"
    return "{}: {}".format(ending(status), last)


def ending(status: int) -> str:
    """Return `exit code 3`, or `killed by SIGKILL`."""
    if status >= 0:
        return "exit code {}".format(status)
    try:
        return "killed by {}".format(signal.Signals(-status).name)
    except ValueError:
        return "killed by signal {}".format(-status)
