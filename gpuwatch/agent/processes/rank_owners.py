"""Decides which processes without a GPU are ranks, and which only inherited a rank's variables."""

from ..ranks.rank_environment import identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable

_NOT_RANKS = frozenset(
    (
        "bash",
        "sh",
        "dash",
        "zsh",
        "fish",
        "tcsh",
        "ksh",
        "csh",
        "srun",
        "sbatch",
        "slurmstepd",
        "mpirun",
        "mpiexec",
    )
    + (
        "mpiexec.hydra",
        "orted",
        "prted",
        "prterun",
        "orterun",
        "hydra_pmi_proxy",
        "torchrun",
        "starter",
        "tee",
        "cat",
    )
    + (
        "sleep",
        "time",
        "timeout",
        "tail",
        "less",
        "vim",
        "nvim",
        "emacs",
        "htop",
        "top",
        "tmux",
        "screen",
        "ssh",
    )
    + ("sshd", "git", "su", "sudo", "nsys", "ncu", "journalctl")
    + ("tini", "dumb-init", "catatonit", "unshare", "nsenter", "bwrap", "apptainer", "singularity", "strace")
)
"""Shells, launchers and users' tools: they have the variables of a rank that they start or inspect."""


def carries_rank(name: str, variables: "dict[str, str]") -> bool:
    """Return True if a process's own environment makes it a rank, by its name and whitelisted variables.

    RANK alone is too common a word to count without WORLD_SIZE. SLURM_PROCID is inherited by everything in an
    interactive job, so with nothing else only a Python process counts.
    """
    if name in _NOT_RANKS or "rank" not in identity(variables):
        return False
    if "RANK" in variables:
        return "WORLD_SIZE" in variables
    if any(key.endswith("_RANK") and key not in ("LOCAL_RANK", "GROUP_RANK") for key in variables):
        return True
    return name.startswith(("python", "pt_"))


def owners(
    candidates: "dict[int, dict[str, object]]",
    holders: "dict[int, dict[str, object]]",
    ancestors: "Callable[[int], Iterable[int]]",
) -> "list[int]":
    """Return the pids of the candidates that are ranks themselves.

    `candidates` (no GPU) and `holders` (on a GPU) map a pid to its identity. A child with an ancestor's
    identity is a helper (a data loader); a candidate above another rank is a launcher.
    """
    known = dict(candidates)
    known.update(holders)
    dropped: set[int] = set()
    for pid, facts in known.items():
        place = place_of(facts)
        for above in ancestors(pid):
            if above not in known:
                continue
            if pid in candidates and place_of(known[above]) == place:
                dropped.add(pid)
            elif above in candidates:
                dropped.add(above)
    return sorted(pid for pid in candidates if pid not in dropped)


def place_of(facts: "dict[str, object]") -> "tuple[object, ...]":
    """Return (rank, local rank, world size) of rank facts, which all processes of one rank have in common."""
    return tuple(facts.get(key) for key in ("rank", "local_rank", "world_size"))
