"""The Xid codes of the NVIDIA driver: class, severity, title and remedy of each, in one table.

The agent's events, the rules of `rules/packs/gpu/xid.yaml` and the classes of alerts are derived from it.
Codes and remedies follow NVIDIA's Xid catalogue ("Analyzing Xid errors with the Xid catalog",
docs.nvidia.com/deploy/xid-errors). An unlisted code is `gpu.xid.unknown`.
"""

_RESTART = "Restart the program; the GPU can stay. If another program fails alike, replace the GPU."
_FOLLOW = (
    "Look at the other Xids of this GPU in the same seconds, from which this one follows; if there are "
    "none, a program on the GPU was ended."
)
_RESET = "End every process on the GPU and reset it (nvidia-smi -r), or reboot; replace it if that repeats."
_RESET_REPORT = (
    "Run nvidia-bug-report.sh first, then reset the GPU or reboot; if it repeats, look for a newer driver."
)
_NOTE = "No action for a single one; report it to NVIDIA's or the vendor's support if they repeat."
_POWER_CYCLE = (
    "Drain the node and power-cycle it; look at temperature, power and PCIe (AER) errors just before. "
    "If it happens again, reseat or replace the GPU."
)
_LINK = (
    "Check both ends of the link that the line names; drain the node if it repeats, and run the link tests."
)
_NVLINK5 = (
    "If it is fatal, drain the node and reset GPUs and switches; if not, watch the link's error counters."
)
_REPLACE = "Drain the node, reset once, and have the GPU replaced if the remapping fails again."
_SUPPORT = "Drain the node when convenient, run dcgmi diag -r 3 and report the GPU to the vendor's support."
_DOUBLE_BIT = (
    "Stop the job and drain the node. With Xid 63 the row was remapped: reset. With 64: replace the GPU."
)
_REMAPPED = "Takes effect at the next GPU reset: drain the node when the job ends, and reset."
_CONTAINED = "Restart the job: only that program is hit. Reset the GPU at the next chance to remap the row."
_UNCONTAINED = "Stop everything on this GPU, drain the node and reset the GPU before its next use."
_PEER = "Usually the consequence of a fault on the peer GPU: look for an Xid 94 or 14x there first."
_RECOVERY = "Do what the line asks for (reset, reboot, drain); the cause is the Xid before it."
_POWER = "Check the power cables and supply, then power-cycle."

_COPY_ENGINES = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85) + tuple(range(126, 136))
_DECODERS = (68, 83, 84, 88, 89, 96, 97, 98)
_JPEG_ENGINES = (82,) + tuple(range(99, 106))
_OPTICAL_FLOW = (86, 139)

_TABLE = (
    ("gpu.xid.app", (
        ((8,), "error", "Channel timed out", _RESTART),
        ((11, 25), "error", "Broken command stream", _RESTART),
        ((13,), "error", "Exception in a GPU program", _RESTART),
        ((31,), "error", "GPU program used an invalid address", _RESTART),
        ((32,), "error", "Corrupt command stream", _RESTART),
        ((43,), "error", "GPU program faulted", _RESTART),
        ((45,), "info", "Channels cleaned up after another fault", _FOLLOW),
        ((60,), "error", "Video processor exception", _RESTART),
        ((69,), "error", "Class error in the graphics engine", _RESTART),
        ((80,), "error", "Corrupt push buffer", _RESTART),
        (_COPY_ENGINES, "error", "Copy engine error", _RESTART),
        (_DECODERS, "error", "Video decoder error", _RESTART),
        (_JPEG_ENGINES, "error", "JPEG engine error", _RESTART),
        (_OPTICAL_FLOW, "error", "Optical-flow engine error", _RESTART),
    )),
    ("gpu.xid.ecc", (
        ((48,), "critical", "Double-bit memory error", _DOUBLE_BIT),
        ((92,), "warning", "Many corrected memory errors", _SUPPORT),
        ((94,), "critical", "Contained memory error", _CONTAINED),
        ((95,), "critical", "Uncontained memory error", _UNCONTAINED),
        ((140,), "critical", "Memory error, not recovered", _RESET),
        ((171,), "critical", "Uncorrectable memory error in DRAM", _RESET),
        ((172,), "critical", "Uncorrectable memory error in SRAM", _RESET),
    )),
    ("gpu.xid.remap", (
        ((63,), "warning", "Memory row remapped or page retired", _REMAPPED),
        ((64,), "critical", "Row remapping or page retirement failed", _REPLACE),
        ((93,), "warning", "Info-ROM wear limit", _SUPPORT),
        ((156,), "warning", "Memory resource retired", _RESET),
        ((157,), "critical", "Memory resource could not be retired", _REPLACE),
        ((160,), "warning", "Memory channel retired", _NOTE),
        ((161,), "critical", "Memory channel could not be retired", _REPLACE),
    )),
    ("gpu.xid.fell_off", (
        ((79,), "critical", "GPU fell off the bus", _POWER_CYCLE),
        ((167,), "critical", "PCIe timed out fatally", _POWER_CYCLE),
    )),
    ("gpu.xid.nvlink", (
        ((74,), "critical", "NVLink error", _LINK),
        ((121,), "warning", "Chip-to-chip link error, corrected", _NOTE),
        ((136,), "critical", "Link training failed", _RESET),
        ((137,), "warning", "NVLink access refused", _PEER),
        ((144,), "critical", "NVLink 5 error (SAW)", _NVLINK5),
        ((145,), "critical", "NVLink 5 error (RLW)", _NVLINK5),
        ((146,), "critical", "NVLink 5 error (TLW)", _NVLINK5),
        ((147,), "critical", "NVLink 5 error (TREX)", _NVLINK5),
        ((148,), "critical", "NVLink 5 error (NVLPW)", _NVLINK5),
        ((149,), "critical", "NVLink 5 error (NETIR)", _NVLINK5),
        ((150,), "critical", "NVLink 5 error (MSE)", _NVLINK5),
        ((155,), "error", "NVLink error flagged by software", _RESET),
    )),
    ("gpu.xid.gsp", (
        ((119,), "critical", "GPU firmware (GSP) does not answer", _RESET_REPORT),
        ((120,), "critical", "GPU firmware (GSP) crashed", _RESET_REPORT),
    )),
    ("gpu.xid.recovery", (
        ((154,), "critical", "GPU recovery action changed", _RECOVERY),
    )),
    ("gpu.xid.driver", (
        ((37,), "warning", "Context firmware error", _NOTE),
        ((38,), "warning", "Context firmware watchdog", _NOTE),
        ((44,), "warning", "Fault during a context switch", _NOTE),
        ((46,), "critical", "GPU stopped processing", _RESET),
        ((54,), "critical", "Auxiliary power is not connected", _POWER),
        ((62,), "critical", "Micro-controller halted", _RESET_REPORT),
        ((66, 67), "error", "Driver made an illegal access", _NOTE),
        ((78,), "error", "vGPU could not start", "Compare the versions of the vGPU host and guest drivers."),
        ((106, 107), "info", "Management bus test", _NOTE),
        ((109,), "critical", "Context switch timed out", _RESET),
        ((110,), "critical", "Security fault", _RESET_REPORT),
        ((141,), "warning", "Fast-path error", _NOTE),
        ((142,), "error", "Video encoder error", _SUPPORT),
        ((143,), "critical", "GPU could not be initialised", _RESET),
        ((151,), "error", "Key rotation failed (confidential computing)", "Restart the virtual machine."),
        ((152,), "warning", "Deep-learning accelerator page fault", _NOTE),
        ((153,), "warning", "Deep-learning accelerator timed out", _NOTE),
        ((158,), "critical", "GPU timed out fatally", _RESET),
        ((159,), "error", "Coherent bus error", _SUPPORT),
        ((162,), "info", "Power smoothing is on again", _NOTE),
        ((163,), "warning", "Power smoothing is off", _NOTE),
        ((164,), "warning", "Power smoothing circuit near its end of life", _SUPPORT),
        ((165,), "warning", "Power smoothing circuit is worn out", _SUPPORT),
        ((166,), "error", "Link traffic before encryption was set up", _SUPPORT),
        ((168,), "warning", "GPU memory capacity reduced", _SUPPORT),
        ((169,), "critical", "Security controller halted", _RESET_REPORT),
        ((170,), "error", "Link interrupt (confidential computing)", _SUPPORT),
    )),
    ("gpu.xid.unknown", (
        ((61,), "warning", "Micro-controller warning", _RESET_REPORT),  # unused today, sent by old drivers
    )),
)  # fmt: skip
"""Classes of Xids, each with its codes and their severity, title and remedy."""

CATALOGUE = {
    code: (name, severity, title, remedy)
    for name, rows in _TABLE
    for codes, severity, title, remedy in rows
    for code in codes
}
"""Xid -> (class, severity, title, remedy)."""

UNKNOWN = (
    "gpu.xid.unknown",
    "warning",
    "Not in the Xid catalogue",
    "Not in the catalogue that gpuwatch knows: look it up in NVIDIA's Xid list, read the kernel log.",
)
"""Class, severity, title and remedy of an Xid that the table does not list."""

FOLLOW_UPS = frozenset((45, 137, 154))
"""Xids that usually follow from another Xid."""

_NVLINK5_CODES = frozenset(range(144, 151))
_NVLINK_TEXT_CODES = frozenset(range(70, 78))
"""Codes near 74 that come with the text of an NVLink error; the text decides."""

_BUCKETS: "dict[str, tuple[int, ...]]" = {
    "RESTART_APP": (8, 11, 13, 25, 31, 32, 60, 69, 80, 94)
    + _COPY_ENGINES
    + _DECODERS
    + _JPEG_ENGINES
    + _OPTICAL_FLOW,
    "RESET_GPU": (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    "IGNORE": (37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 121, 137, 141, 152, 153, 157, 160, 161),
    "RESTART_BM": (79,),
    "RESTART_VM": (151,),
    "CHECK_MECHANICALS": (54,),
    "CHECK_UVM": (159,),
    "CONTACT_SUPPORT": (142,),
    "UPDATE_SWFW": (78,),
    "WORKFLOW_XID_45": (45,),
    "WORKFLOW_XID_48": (48,),
    "WORKFLOW_NVLINK_ERR": (74,),
    "WORKFLOW_NVLINK5_ERR": tuple(sorted(_NVLINK5_CODES)),
    "XID_154": (154,),
}

ACTIONS = {code: bucket for bucket, codes in _BUCKETS.items() for code in codes}
"""Code -> immediate action in NVIDIA's catalogue; the newest codes have none."""


def meaning(code: int, detail: "str | None" = None) -> "tuple[str, str, str, str]":
    """Return (class, severity, title, remedy) of an Xid; severity: info, warning, error or critical.

    The kernel line's text (`detail`), if known, decides what the code leaves open: `Nonfatal` of an NVLink 5
    unit, the recovery action of 154, an NVLink text with a copy engine's code.
    """
    name, severity, title, remedy = CATALOGUE.get(code, UNKNOWN)
    text = (detail or "").lower()
    if code in _NVLINK_TEXT_CODES and "nvlink" in text:
        name, severity, title, remedy = CATALOGUE[74]
    if code in _NVLINK5_CODES and "nonfatal" in text.replace("-", ""):
        severity = "warning"
    if code == 154 and "none" in text.rpartition(" to ")[2]:
        severity = "info"
    if code in ACTIONS:
        remedy += " NVIDIA's catalogue: " + ACTIONS[code] + "."
    return name, severity, title, remedy
