"""Whose files hold what ranks print, where the ranks do not write files themselves.

A launcher (torchrun, mpirun, srun, a Python parent) writes how its ranks ended, and all that they print where
it reads them through pipes. The end of a shell's pipeline reads a pipe: `torchrun ... | tee run.log`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable  # noqa: F401 - used in type comments

    from .process_details import Details  # noqa: F401 - used in type comments

LAUNCHERS = frozenset(
    ("torchrun", "pt_elastic", "accelerate", "deepspeed", "composer", "colossalai", "horovodrun")
    + ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "orted", "prterun", "prted", "hydra_pmi_proxy")
    + ("srun", "slurmstepd", "ray", "raylet", "conmon")
)
"""By the kernel's name of the process (15 characters)."""
PIPE_READERS = frozenset(
    ("tee", "ts", "cat", "sed", "grep", "awk", "gawk", "mawk", "rotatelogs", "cronolog", "multilog", "svlogd")
)
MAX_STAGES = 3
"""Programs of a pipeline that are followed: `torchrun | grep | tee` are two."""


def is_launcher(name):
    # type: (str) -> bool
    """Whether a process that started ranks writes about them: a known launcher, or a Python program."""
    return name in LAUNCHERS or name.startswith(("python", "pt_"))


def outlets(readers):
    # type: (Iterable[Details]) -> dict[str, list[str]]
    """Pipe -> the files in which what is written into it ends, of the programs that read pipes."""
    reading = [one for one in readers if 0 in one.pipes]
    found = {}  # type: dict[str, list[str]]
    for _ in range(MAX_STAGES):
        for one in reading:
            paths = found.setdefault(one.pipes[0], [])
            onwards = [path for number in (1, 2) for path in found.get(one.pipes.get(number, ""), ())]
            paths.extend(path for path in one.logs + onwards if path not in paths)
    return found


def written(details, ends):
    # type: (Details, dict[str, list[str]]) -> list[str]
    """The files that a process writes, itself or through pipes; `ends`: as of `outlets`."""
    through = [path for number in (1, 2) for path in ends.get(details.pipes.get(number, ""), ())]
    return details.logs + [path for path in sorted(set(through)) if path not in details.logs]
