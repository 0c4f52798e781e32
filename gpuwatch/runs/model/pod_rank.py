"""Determines the rank of a pod with one process from its labels, variables and limits. Pure.

An operator numbers the pods of a job. A pod's number is a rank only if each pod runs one process.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec import Struct, field

from gpuwatch.whole_number import whole_number

INDEXES: Final = (
    "batch.kubernetes.io/job-completion-index",
    "volcano.sh/task-index",
    "apps.kubernetes.io/pod-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
)
"""Labels (or annotations) with the number of a pod."""
KUBEFLOW: Final = "training.kubeflow.org/"
GPU_LIMITS: Final = ("nvidia.com/gpu", "amd.com/gpu", "huawei.com/Ascend910", "gpu.intel.com/i915")
NODE_RANKS: Final = ("PET_NODE_RANK", "NODE_RANK", "MACHINE_RANK", "GROUP_RANK")
PER_NODE: Final = ("PET_NPROC_PER_NODE", "NPROC_PER_NODE", "LOCAL_WORLD_SIZE")
OF_PROCESS: Final = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "JAX_PROCESS_ID")
KEYS: Final = frozenset((*INDEXES, *GPU_LIMITS, *NODE_RANKS, *PER_NODE, *OF_PROCESS, "RANK", "WORLD_SIZE"))
"""Labels, limits and variables that count."""


class PodFacts(Struct):
    """The labels, limits and variables of one pod that are about its rank."""

    values: dict[str, str] = field(default_factory=dict)

    def take(self, key: str, value: str) -> None:
        """Add a label, limit or variable, if it is one that may determine a rank."""
        if key in KEYS or key.startswith(KUBEFLOW):
            self.values.setdefault(key, value)

    def number(self, keys: Collection[str]) -> int | None:
        """Return the whole number that the first of these keys with one has; None: none has one."""
        numbers = (whole_number(self.values.get(key, "")) for key in keys)
        return next((each for each in numbers if each is not None), None)

    @property
    def has_several(self) -> bool:
        """Return True if the pod runs several processes, as far as its limits and variables show."""
        return (self.number(PER_NODE) or 1) > 1 or (self.number(GPU_LIMITS) or 1) > 1

    @property
    def rank(self) -> int | None:
        """The rank of its only process; None: several, or unknown."""
        own = self.number(OF_PROCESS)
        if own is not None:
            return own
        if self.has_several:
            return None
        for keys in (("RANK",), NODE_RANKS):
            if (stated := self.number(keys)) is not None:
                return stated
        return self._of_kubeflow()

    @property
    def index(self) -> int | None:
        """The number of the pod in its job; a rank if the numbers of all pods are complete. None: unknown."""
        return None if self.has_several else self.number(INDEXES)

    def _of_kubeflow(self) -> int | None:
        """Return the rank that Kubeflow's labels give a pod; None: the labels give none.

        Workers of a TFJob have the ranks of its tasks; those of a PyTorchJob follow its master, which is
        rank 0.
        """
        labels = self.values
        index = whole_number(labels.get(f"{KUBEFLOW}replica-index", ""))
        kind = labels.get(f"{KUBEFLOW}replica-type", "").lower()
        operator = labels.get(f"{KUBEFLOW}operator-name", "").lower()
        if index is None or kind not in ("worker", "master"):
            return None
        if operator.startswith("tfjob"):
            return index if kind == "worker" else None
        if operator.startswith("pytorchjob"):
            return index + (kind == "worker")
        return None


def ranks_by_index(indexes: Collection[int | None]) -> bool:
    """Return True if the numbers of several pods are all from 0 on, each once."""
    known = [each for each in indexes if each is not None]
    return len(known) == len(indexes) > 1 and sorted(known) == list(range(len(known)))
