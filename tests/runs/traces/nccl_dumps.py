"""NCCL's dumps, with the elements and attributes that NCCL 2.2x writes (src/graph/xml.cc, search.cc)."""

from __future__ import annotations


def topology(
    gpus: int = 8, nvlinks: dict[int, int] | None = None, widths: dict[int, int] | None = None
) -> str:
    """A node of two CPUs; behind each PCIe switch a GPU (18 NVLinks, x16) and a NIC of 400 Gb/s."""
    cpus = []
    for numa in range(2):
        switches = []
        for gpu in range(numa * gpus // 2, (numa + 1) * gpus // 2):
            links, width = (nvlinks or {}).get(gpu, 18), (widths or {}).get(gpu, 16)
            edge = f'<nvlink target="0000:07:00.0" count="{links}" tclass="0x068000"/>' if links else ""
            switches.append(
                f'<pci busid="0000:{gpu}0:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">'
                f'<pci busid="0000:{gpu}1:00.0" class="0x030200" link_speed="32.0 GT/s PCIe"'
                f' link_width="{width}"><gpu dev="{gpu}" sm="90" rank="{gpu}" gdr="1">{edge}</gpu></pci>'
                f'<pci busid="0000:{gpu}2:00.0" class="0x020000" link_speed="32.0 GT/s PCIe" link_width="16">'
                f'<nic><net name="mlx5_{gpu}" dev="{gpu}" speed="400000" port="1" latency="0.000000"'
                ' guid="0xa87cb10003e1a258" maxconn="131072" gdr="1"/></nic></pci></pci>'
            )
        cpus.append(f'<cpu host_hash="0x16fe" numaid="{numa}" arch="x86_64">{"".join(switches)}</cpu>')
    return f'<system version="1">{"".join(cpus)}</system>'


GRAPHS = """\
<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="20" speedinter="20" latencyinter="0"
   typeintra="NVL" typeinter="PIX" samechannels="0">
    <channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/><gpu dev="2"/><gpu dev="3"/><net dev="0"/></channel>
    <channel><net dev="1"/><gpu dev="1"/><gpu dev="0"/><gpu dev="3"/><gpu dev="2"/><net dev="1"/></channel>
  </graph>
  <graph id="1" pattern="1" crossnic="0" nchannels="1" speedintra="12" speedinter="12" typeintra="NVL"
   typeinter="PIX" samechannels="1">
    <channel><net dev="0"/><gpu dev="0"/><gpu dev="1"/><net dev="0"/></channel>
  </graph>
</graphs>
"""


def virtual_machine() -> tuple[str, str]:
    """Topology and graph that NCCL wrote on an Azure NC96ads A100 v4 (/opt/microsoft/ncv4 of its images).

    Four GPUs in pairs of NVLinks, each on a CPU of its own; one virtual NIC, beside GPU 0; unknown PCI links.
    """
    net = '<nic><net name="eth0" dev="0" speed="100000" port="0" guid="0x0" gdr="0"/></nic>'
    cpus = []
    for gpu, peer in ((0, 1), (1, 0), (2, 3), (3, 2)):
        link = f'<nvlink target="000{peer + 1}:00:00.0" count="12" tclass="0x030200"/>'
        cpus.append(
            f'<cpu numaid="{gpu}" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">'
            f'<pci busid="000{gpu + 1}:00:00.0" class="0x030200" link_speed="" link_width="0">'
            f'<gpu dev="{gpu}" sm="80" rank="{gpu}" gdr="1">{link}</gpu></pci>{"" if gpu else net}</cpu>'
        )
    orders = ("0123", "1032", "3210", "2301")
    graphs = _graph(0, 4, ("0123", "0321")) + _graph(1, 1, orders) + _graph(2, 3, orders)
    return f'<system version="1">{"".join(cpus)}</system>', f'<graphs version="1">{graphs}</graphs>'


def _graph(number: int, pattern: int, orders: tuple[str, ...]) -> str:
    inside = ""
    for order in orders:
        inside += "<channel>" + "".join(f'<gpu dev="{gpu}"/>' for gpu in order) + "</channel>"
    return (
        f'<graph id="{number}" pattern="{pattern}" crossnic="0" nchannels="{len(orders)}" speedintra="12" '
        'speedinter="12" latencyinter="0" typeintra="SYS" typeinter="PIX" samechannels="0">'
        f"{inside}</graph>"
    )
