"""Builds the hello frame: what this node and its GPUs are, and problems of the whole node."""

from .base import notices
from .gpu import topology

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .gpu.driver import Driver
    from .node_reader import NodeReader


def describe(
    driver: "Driver", node: "NodeReader", static_info: "dict[int, dict[str, Any]]"
) -> "dict[str, Any]":
    """Return the part of the hello frame that the node determines: keys of `wire.Hello`.

    `static_info`: data from the driver's files about GPUs that have never answered NVML.
    """
    gpus = driver.gpus
    indices = {gpu.index for gpu in gpus}
    infos = [driver.describe(gpu, static_info) for gpu in gpus]
    infos += [info for index, info in static_info.items() if index not in indices]
    rows = {gpu.info["uuid"]: gpu.topology or {} for gpu in gpus if gpu.info is not None}
    hello: dict[str, Any] = {
        "gpus": sorted(infos, key=_index),
        "gpus_expected": driver.on_bus,
        "driver": driver.version,
        "cuda": driver.cuda,
        "nvml": driver.nvml_version,
        "addresses": node.addresses or None,
        "kernel_log": node.kernel_source,
        "notices": _notices(driver, node),
        "topology": topology.matrix(rows) if any(rows.values()) else None,
    }
    hello.update(node.facts)
    return {name: value for name, value in hello.items() if value is not None}


def _index(info: "dict[str, Any]") -> int:
    return int(info["index"])


def _notices(driver: "Driver", node: "NodeReader") -> "list[dict[str, Any]]":
    found = [driver.notice, node.kernel_notice, node.processes_notice]
    if not driver.opened:
        call = driver.slot.now
        found.append(notices.starting(call[0] if call else "loading", late=driver.late))
    if driver.settled():
        found.append(notices.fewer_than_on_bus(driver.listed, driver.on_bus))
    return [notice for notice in found if notice is not None]
