"""The supported exporters: their series, and the labels of nodes and GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from gpuwatch.link.prometheus.client import SeriesLabels
from gpuwatch.link.prometheus.tier_values import DCGM_COLUMNS, OWN_COLUMNS, Columns, label_text

OWN_GPUS, OWN_NODES, DCGM_GPUS, NODE_EXPORTER = (
    "gpuwatch_gpu_up",
    "gpuwatch_node_up",
    "DCGM_FI_DEV_GPU_TEMP",
    "node_uname_info",
)


class Vocabulary(Struct, frozen=True):
    """The metric and label names of one GPU exporter."""

    name: Literal["gpuwatch", "dcgm-exporter"]
    present: str
    """A metric that every GPU has."""
    columns: Mapping[str, Columns]
    by_gpu: str
    """The labels of a series that distinguish GPUs."""

    def node_of(self, labels: SeriesLabels) -> str:
        """Return the node that a series' labels name, else the host of its scrape target."""
        stated = labels.node if self.name == "gpuwatch" else labels.hostname or host_of(labels.instance)
        return label_text(stated)

    def uuid_of(self, labels: SeriesLabels) -> str:
        """Return the UUID of the GPU that a series' labels name."""
        return label_text(labels.uuid if self.name == "gpuwatch" else labels.dcgm_uuid)


OWN = Vocabulary("gpuwatch", OWN_GPUS, OWN_COLUMNS, "node, gpu, uuid")
DCGM = Vocabulary(
    "dcgm-exporter", DCGM_GPUS, DCGM_COLUMNS, "Hostname, instance, gpu, UUID, modelName, pci_bus_id"
)


def host_of(instance: str) -> str:
    """Return the host name of a scrape target `host:port`."""
    host, colon, port = instance.rpartition(":")
    return host.strip("[]") if colon and port.isdecimal() else instance
