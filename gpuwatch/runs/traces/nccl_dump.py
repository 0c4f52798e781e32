"""Reads NCCL's XML dumps of a node's topology and of the communication graphs.

`NCCL_TOPO_DUMP_FILE` has the buses with GPUs and NICs, `NCCL_GRAPH_DUMP_FILE` the rings and trees that NCCL
chose; elements and attributes are those of NCCL's src/graph/xml.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from msgspec import Struct

from gpuwatch.number_text import limit_text
from gpuwatch.plain import plain
from gpuwatch.runs.traces.event_stream import NoTraceError

MAX_XML_BYTES = 32 << 20
"""Largest dump in bytes; one of a node has kilobytes, one of a multi-node NVLink domain megabytes."""
MAX_LISTED_CHANNELS = 64
MAX_DEPTH = 64
GRAPH_NAMES = {0: "ring", 1: "tree", 2: "collnet chain", 3: "nvls", 4: "collnet direct"}
TRANSFER_RATE = re.compile(r"(?<![\d.])([\d.]{1,12}) ?GT/s")


class NcclGraph(Struct, frozen=True):
    """The channels of one algorithm, as NCCL chose them."""

    name: str
    channels: tuple[tuple[str, ...], ...]
    """Each channel is a path through `GPU 0`, `NET 0`, ...; it continues alike on other nodes."""
    speed_intra: float | None
    """Speed of a channel within the node in GB/s, by NCCL's own model."""
    speed_inter: float | None
    type_intra: str | None
    """Type of the worst link on the path: NVL, PIX, PXB, PHB, SYS."""
    type_inter: str | None


class BusDevice(Struct, frozen=True):
    """A GPU or NIC with its position on the buses."""

    kind: str
    """`GPU` or `NET`."""
    dev: int
    name: str
    rank: int | None
    host: str
    numa: str
    path: tuple[str, ...]
    """Bus ids from the root to the device."""
    pcie_gtps: float | None
    pcie_width: int | None
    nvlinks: int | None
    """Number of NVLinks of a GPU, to all targets."""
    speed_gbps: float | None
    """Speed of a NIC in Gbit/s."""
    gdr: bool | None
    """True if GPUDirect RDMA is available."""

    @property
    def label(self) -> str:
        """`GPU 3`, `NIC mlx5_0`."""
        return f"GPU {self.dev}" if self.kind == "GPU" else f"NIC {self.name or self.dev}"


@dataclass
class NcclDump:
    """The content of one dump."""

    file: str
    graphs: list[NcclGraph] = field(default_factory=list)
    devices: list[BusDevice] = field(default_factory=list)

    def nics_of(self, gpu: BusDevice) -> tuple[list[BusDevice], str]:
        """Return the nearest NICs of a GPU on its host, and their distance.

        PIX (one switch), PXB, PHB (one CPU) or SYS.
        """
        nics = [each for each in self.devices if each.kind == "NET" and each.host == gpu.host]
        shared = {id(nic): _shared(gpu.path, nic.path) for nic in nics}
        most = max(shared.values(), default=0)
        if most > 0:
            return [nic for nic in nics if shared[id(nic)] == most], "PIX" if most == len(
                gpu.path
            ) - 1 else "PXB"
        same = [nic for nic in nics if nic.numa == gpu.numa]
        return (same, "PHB") if same else (nics, "SYS")


def read_nccl_dump(data: bytes, file: str) -> NcclDump:
    """Return the content of a dump.

    Raises:
        NoTraceError: the data is not a dump, is too large, or declares entities.
    """
    if len(data) > MAX_XML_BYTES:
        raise NoTraceError(f"more than {limit_text(MAX_XML_BYTES)} of XML")
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise NoTraceError("XML with a document type, which NCCL does not write: refused")
    root = _parsed(data)
    dump = NcclDump(file)
    if root.tag == "graphs":
        dump.graphs = [_graph(each) for each in root.iter("graph")]
    elif root.tag == "system":
        for cpu in root.iter("cpu"):
            numa, host = _text(cpu, "numaid") or "", _text(cpu, "host_hash") or ""
            dump.devices += _devices(cpu, (), host, numa, None)
    else:
        raise NoTraceError("XML, but no dump of NCCL's topology or graphs")
    if not dump.graphs and not dump.devices:
        raise NoTraceError("a dump of NCCL without a graph, a GPU or a NIC")
    return dump


def _parsed(data: bytes) -> Element:
    """Parse the XML with limited depth; return the root element.

    Raises:
        NoTraceError: it is damaged, empty or nested too deep.
    """
    parser: XMLPullParser[Element] = XMLPullParser(("start", "end"))
    depth, root = 0, None
    try:
        for at in range(0, len(data), 1 << 16):
            parser.feed(data[at : at + (1 << 16)])
            for event, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
                root = element if root is None else root
                depth += 1 if event == "start" else -1
                if depth > MAX_DEPTH:
                    raise NoTraceError("XML nested deeper than any topology")
        parser.close()
    except ParseError as error:
        raise NoTraceError(f"damaged XML: {error}") from error
    if root is None:
        raise NoTraceError("empty XML")
    return root


def _graph(element: Element) -> NcclGraph:
    number = _integer(element, "id")
    channels = [
        tuple(
            f"{'GPU' if each.tag == 'gpu' else 'NET'} {plain(each.get('dev', '?'))[:12]}"
            for each in channel
            if each.tag in ("gpu", "net")
        )
        for channel in list(element.iter("channel"))[:MAX_LISTED_CHANNELS]
    ]
    return NcclGraph(
        name=GRAPH_NAMES.get(-1 if number is None else number, f"graph {number}"),
        channels=tuple(channels),
        speed_intra=_number(element, "speedintra"),
        speed_inter=_number(element, "speedinter"),
        type_intra=_text(element, "typeintra"),
        type_inter=_text(element, "typeinter"),
    )


def _devices(
    element: Element, path: tuple[str, ...], host: str, numa: str, bus: Element | None
) -> Iterator[BusDevice]:
    for child in element:
        if child.tag == "pci":
            yield from _devices(child, (*path, plain(child.get("busid", ""))), host, numa, child)
        elif child.tag == "nic":
            yield from _devices(child, path, host, numa, bus)
        elif child.tag in ("gpu", "net"):
            yield _device(child, path, host, numa, bus)


def _device(element: Element, path: tuple[str, ...], host: str, numa: str, bus: Element | None) -> BusDevice:
    links = [_integer(each, "count") or 0 for each in element.iter("nvlink")]
    speed = _number(element, "speed")
    rate = TRANSFER_RATE.search(bus.get("link_speed", "")) if bus is not None else None
    gdr = element.get("gdr")
    return BusDevice(
        kind="GPU" if element.tag == "gpu" else "NET",
        dev=_integer(element, "dev") or 0,
        name=_text(element, "name") or "",
        rank=_integer(element, "rank"),
        host=host,
        numa=numa,
        path=path,
        pcie_gtps=None if rate is None else _float(rate[1]),
        pcie_width=(_integer(bus, "link_width") or None) if bus is not None else None,
        nvlinks=sum(links) if element.tag == "gpu" else None,
        speed_gbps=None if speed is None else speed / 1e3,
        gdr=None if gdr is None else gdr == "1",
    )


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def _text(element: Element, name: str) -> str | None:
    value = element.get(name)
    return plain(value)[:64] if value else None


def _integer(element: Element, name: str) -> int | None:
    value = element.get(name, "")
    return int(value) if re.fullmatch(r"-?\d{1,9}", value) else None


def _number(element: Element, name: str) -> float | None:
    return _float(element.get(name, ""))


def _float(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text) else None
