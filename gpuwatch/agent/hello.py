"""The hello frame: what this node and its GPUs are, and what is wrong with the whole of it."""

from . import notices, topology
from .returns import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Container  # noqa: F401 - used in type comments

    from .driver import Driver  # noqa: F401 - used in type comments
    from .gpu import Gpu  # noqa: F401 - used in type comments
    from .node import Node  # noqa: F401 - used in type comments


def describe(driver, node, stuck, papers):
    # type: (Driver, Node, Container[int], dict[int, dict[str, Any]]) -> dict[str, Any]
    """The keys of `wire.Hello` that the node decides.

    `stuck` holds the indices of GPUs that hang, `papers` what is known of those that have never answered.
    """
    met = [(gpu, gpu.info) for gpu in driver.gpus if gpu.info is not None]
    rows = {info["uuid"]: gpu.topology or {} for gpu, info in met}
    hello = {
        "gpus": sorted([info for _, info in met] + list(papers.values()), key=_index),
        "gpus_expected": driver.on_bus,
        "driver": driver.version,
        "cuda": driver.cuda,
        "nvml": driver.nvml_version,
        "addresses": node.addresses or None,
        "kernel_log": node.kernel_source,
        "notices": _notices(driver, node, stuck, papers),
        "topology": topology.matrix(rows) if any(rows.values()) else None,
    }  # type: dict[str, Any]
    hello.update(node.facts)
    return {name: value for name, value in hello.items() if value is not None}


def _index(info):
    # type: (dict[str, Any]) -> int
    return int(info["index"])


def _notices(driver, node, stuck, papers):
    # type: (Driver, Node, Container[int], Container[int]) -> list[dict[str, Any]]
    found = [driver.notice, node.kernel_notice]
    if not driver.opened:
        found.append(notices.starting(_call(driver.slot)))
    for gpu in driver.gpus:
        if gpu.info is not None or gpu.index in papers:
            continue
        if gpu.lost is not None:
            found.append(notices.unknown(gpu.index, words(gpu.lost.code)))
        elif gpu.index in stuck:
            found.append(notices.unanswered(gpu.index, _call(gpu.asker.slot)))
    if driver.settled():
        found.append(notices.fewer_than_on_bus(driver.listed, driver.on_bus))
    return [notice for notice in found if notice is not None]


def _call(slot):
    # type: (Any) -> str
    now = slot.now
    return now[0] if now else "loading"
