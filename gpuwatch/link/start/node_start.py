"""RUNS ON THE NODE (Python 3.6 and later): the first code of the bundle, sent as text.

It makes the sent sources importable without files, gives the entry module (the agent, or the probe's
launcher) its streams, and exits with its status. Annotations are quoted: 3.6 to 3.8 cannot evaluate them.
"""

import json
import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType

PACKAGE = "gpuwatch_agent"
ITSELF = PACKAGE + ".node_start"
"""The name of this text among the sent sources."""


class ShippedSources:
    """An import finder and loader for modules sent as source texts; each is compiled at its import."""

    def __init__(self, sources: "dict[str, str]") -> None:
        self._sources = sources

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> "ModuleSpec | None":
        """Return the spec of a sent module, which precedes the node's own modules; None for others."""
        if name not in self._sources:
            return None
        spec = ModuleSpec(name, self, origin=self._file(name), is_package=self._is_package(name))  # type: ignore[arg-type]  # the finder has the one method of a loader that is called
        spec.has_location = True
        return spec

    def create_module(self, _spec: object) -> None:
        """Return None: the interpreter makes its default module object."""
        return

    def exec_module(self, module: ModuleType) -> None:
        """Compile the text and run it as the module's body."""
        name = module.__name__
        code = compile(self._sources[name], self._file(name), "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102 - importing is running

    def get_source(self, name: str) -> str:
        """Return the source text of a sent module, which linecache asks for to print a traceback."""
        return self._sources[name]

    def program(self, entry: str, prefixes: "tuple[str, ...]") -> str:
        """Return the source text of a program that starts a sent module in a new interpreter.

        `entry` is the module whose `run` is called. Only modules with one of the name prefixes are included,
        and their packages.
        """
        above = tuple(prefix[:end] for prefix in prefixes for end, sign in enumerate(prefix) if sign == ".")
        part = {n: text for n, text in self._sources.items() if n in above or n.startswith(prefixes)}
        return f"{self._sources[ITSELF]}\n\nstart({part!a}, {entry!a})\n"

    def _is_package(self, name: str) -> bool:
        return any(other.startswith(name + ".") for other in self._sources) or name == PACKAGE

    def _file(self, name: str) -> str:
        return name.replace(".", "/") + ("/__init__.py" if self._is_package(name) else ".py")


def start(sources: "dict[str, str]", entry: str) -> None:
    """Read the config line from stdin, run the entry module, and exit with its status at once.

    Threads that hang do not delay the exit.
    """

    def show(kind: "type[BaseException]", error: BaseException, trace: "TracebackType | None") -> None:
        import traceback  # noqa: PLC0415 - only a failure needs it

        traceback.print_exception(kind, error, trace)

    sys.excepthook = show  # the interpreter's own would look for the shipped files on the node's disk
    stdin = sys.stdin.buffer
    config = json.loads(stdin.readline().decode("utf-8"))
    # Descriptor 1 becomes stderr, so that nothing a library prints can get into the stream of frames.
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.meta_path.insert(0, ShippedSources(sources))
    status = 1
    try:
        status = import_module(entry).run(config, stdin, stdout)
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException as error:  # printed on stderr; the process then exits in any case
        show(type(error), error, error.__traceback__)
    sys.stderr.flush()
    os._exit(status)  # a thread that hangs in the driver must not delay the exit
