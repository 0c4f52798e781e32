"""Names of the programs that start ranks, and commands that can start a training."""

LAUNCHERS = frozenset(
    ("torchrun", "pt_elastic", "accelerate", "deepspeed", "composer", "colossalai", "horovodrun")
    + ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "orted", "prterun", "prted", "hydra_pmi_proxy")
    + ("srun", "slurmstepd", "ray", "raylet", "conmon")
)
"""Names of launchers, as the kernel stores them (15 characters)."""
_PYTHONS = "python", "pt_"
"""Beginnings of the names of Python programs; torch names a rank's main thread `pt_main_thread`."""
_LAUNCHING_MODULES = frozenset(("accelerate", "deepspeed", "horovod", "ray", "composer", "torch"))
"""First parts of modules that start ranks: `python -m torch.distributed.run`."""
_SCRIPTS = ".py", ".sh"
MAX_WORDS = 32
"""Words of a command that are looked at."""


def is_python(name: str) -> bool:
    """Return True if a process has the name of a Python program."""
    return name.startswith(_PYTHONS)


def is_launcher(name: str) -> bool:
    """Return True if a process with this name that started ranks logs about them.

    So do known launchers and Python programs.
    """
    return name in LAUNCHERS or is_python(name)


def starts_training(words: "list[str]") -> bool:
    """Return True if a command can start a training: it names a launcher, a launching module or a script."""
    for number, word in enumerate(words[:MAX_WORDS]):
        module = number > 0 and words[number - 1] == "-m" and word.partition(".")[0] in _LAUNCHING_MODULES
        if module or word.rpartition("/")[2] in LAUNCHERS or word.endswith(_SCRIPTS):
            return True
    return False
