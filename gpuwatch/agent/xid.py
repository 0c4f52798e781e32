"""What an Xid code means, how bad it is, and what to do about it.

Codes and what to do follow NVIDIA's Xid catalogue ("Analyzing Xid errors with the Xid catalog",
docs.nvidia.com/deploy/xid-errors); the words are ours.
"""

_RESTART = "Restart the program; the GPU can stay. If it does the same with another program, take it out."
_FOLLOW = "Look at the other Xids of this GPU in the same seconds: this one follows from them."
_RESET = "End every process on the GPU and reset it (nvidia-smi -r), or reboot; replace it if that repeats."
_RESET_REPORT = (
    "Run nvidia-bug-report.sh first, then reset the GPU or reboot; if it repeats, look for a newer driver."
)
_NOTE = "Nothing to do for one of these; report it to NVIDIA's or the vendor's support if they repeat."
_POWER_CYCLE = (
    "Drain the node and power-cycle it; look for PCIe (AER) errors just before, at temperature and power. "
    "A second time: reseat or replace the GPU."
)
_LINK = (
    "Check both ends of the link that the line names; drain the node if it repeats, and run the link tests."
)
_NVLINK5 = (
    "Fatal in the line: drain the node, reset GPUs and switches. Nonfatal: watch the link's error counters."
)
_REPLACE = "Drain the node, reset once, and have the GPU replaced if the remapping fails again."
_SUPPORT = "Drain the node when convenient, run dcgmi diag -r 3 and report the GPU to the vendor's support."

_KNOWN = {
    8: ("Channel timed out", "warning", _RESTART),
    11: ("Broken command stream", "warning", _RESTART),
    13: ("Exception in a kernel", "warning", _RESTART),
    25: ("Broken command stream", "warning", _RESTART),
    31: ("Page fault in GPU memory", "warning", _RESTART),
    32: ("Corrupt command stream", "warning", _RESTART),
    37: ("Context firmware error", "warning", _NOTE),
    38: ("Context firmware watchdog", "warning", _NOTE),
    43: ("Program faulted, its channel was reset", "warning", _RESTART),
    44: ("Fault during a context switch", "warning", _NOTE),
    45: ("Channels cleaned up after another fault", "info", _FOLLOW),
    46: ("GPU stopped processing", "critical", _RESET),
    48: (
        "Uncorrectable memory error (double bit)",
        "critical",
        "Stop the job and drain the node. With Xid 63 the row was remapped: reset. With 64: replace the GPU.",
    ),
    54: (
        "Auxiliary power is not connected",
        "critical",
        "Check the power cables and supply, then power-cycle.",
    ),
    60: ("Video processor exception", "warning", _RESTART),
    61: ("Micro-controller warning", "warning", _RESET_REPORT),
    62: ("Micro-controller halted", "critical", _RESET_REPORT),
    63: (
        "Memory row remapped or page retired",
        "warning",
        "Takes effect at the next GPU reset: drain the node when the job ends, and reset.",
    ),
    64: ("Row remapping or page retirement failed", "critical", _REPLACE),
    66: ("Driver made an illegal access", "warning", _NOTE),
    67: ("Driver made an illegal access", "warning", _NOTE),
    69: ("Class error in the graphics engine", "warning", _RESTART),
    74: ("NVLink error", "critical", _LINK),
    78: ("vGPU could not start", "warning", "Compare the versions of the vGPU host and guest drivers."),
    79: ("GPU has fallen off the bus", "critical", _POWER_CYCLE),
    80: ("Corrupt push buffer", "warning", _RESTART),
    92: ("Many corrected memory errors", "warning", _SUPPORT),
    93: ("Info-ROM wear limit", "warning", _SUPPORT),
    94: (
        "Uncorrectable memory error, contained to one program",
        "critical",
        "Restart the job: only that program is hit. Reset the GPU at the next chance to remap the row.",
    ),
    95: (
        "Uncorrectable memory error, not contained",
        "critical",
        "Stop everything on this GPU, drain the node and reset the GPU before it works again.",
    ),
    106: ("Management bus test", "info", _NOTE),
    107: ("Management bus test", "info", _NOTE),
    109: ("Context switch timed out", "critical", _RESET),
    110: ("Security fault", "critical", _RESET_REPORT),
    119: ("GPU firmware (GSP) does not answer", "critical", _RESET_REPORT),
    120: ("GPU firmware (GSP) crashed", "critical", _RESET_REPORT),
    121: ("Chip-to-chip link error, corrected", "warning", _NOTE),
    136: ("Link training failed", "critical", _RESET),
    137: (
        "NVLink access refused",
        "warning",
        "Mostly the echo of a fault on the peer GPU: look for an Xid 94 or 14x there first.",
    ),
    140: ("Uncorrectable memory error, not recovered", "critical", _RESET),
    141: ("Fast-path error", "warning", _NOTE),
    142: ("Video encoder error", "warning", _SUPPORT),
    143: ("GPU could not be initialised", "critical", _RESET),
    151: ("Key rotation failed (confidential computing)", "warning", "Restart the virtual machine."),
    152: ("Deep-learning accelerator page fault", "warning", _NOTE),
    153: ("Deep-learning accelerator timed out", "warning", _NOTE),
    154: (
        "GPU recovery action changed",
        "critical",
        "Do what the line says (reset, reboot, drain); the cause is the Xid before it.",
    ),
    155: ("NVLink error flagged by software", "warning", _RESET),
    156: ("Memory resource retired", "warning", _RESET),
    157: ("Memory resource could not be retired", "critical", _REPLACE),
    158: ("GPU timed out fatally", "critical", _RESET),
    159: ("Coherent bus error", "warning", _SUPPORT),
    160: ("Memory channel retired", "warning", _NOTE),
    161: ("Memory channel could not be retired", "critical", _REPLACE),
    162: ("Power smoothing is on again", "info", _NOTE),
    163: ("Power smoothing is off", "warning", _NOTE),
    164: ("Power smoothing circuit near its end of life", "warning", _SUPPORT),
    165: ("Power smoothing circuit is worn out", "warning", _SUPPORT),
    166: ("Link traffic before encryption was set up", "warning", _SUPPORT),
    167: ("PCIe timed out fatally", "critical", _POWER_CYCLE),
    168: ("GPU memory capacity reduced", "warning", _SUPPORT),
    169: ("Security controller halted", "critical", _RESET_REPORT),
    170: ("Link interrupt (confidential computing)", "warning", _SUPPORT),
    171: ("Uncorrectable memory error in DRAM", "critical", _RESET),
    172: ("Uncorrectable memory error in SRAM", "critical", _RESET),
}  # type: dict[int, tuple[str, str, str]]

_FAMILIES = (
    (
        "Copy engine error",
        "warning",
        _RESTART,
        (39, 40, 41, 70, 71, 72, 75, 76, 77, 85) + tuple(range(126, 136)),
    ),
    ("Video decoder error", "warning", _RESTART, (68, 83, 84, 88, 89, 96, 97, 98)),
    ("JPEG engine error", "warning", _RESTART, (82,) + tuple(range(99, 106))),
    ("Optical-flow engine error", "warning", _RESTART, (86, 139)),
)

_NVLINK5_UNITS = {144: "SAW", 145: "RLW", 146: "TLW", 147: "TREX", 148: "NVLPW", 149: "NETIR", 150: "MSE"}

_BUCKETS = {
    "RESTART_APP": (8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 80, 94)  # engines of all kinds:
    + (70, 71, 72, 75, 76, 77, 82, 83, 84, 85, 86, 88, 89, 139)
    + tuple(range(96, 106))
    + tuple(range(126, 136)),
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
    "WORKFLOW_NVLINK5_ERR": tuple(_NVLINK5_UNITS),
    "XID_154": (154,),
}  # type: dict[str, tuple[int, ...]]

ACTIONS = {code: bucket for bucket, codes in _BUCKETS.items() for code in codes}
"""Code -> the immediate action that NVIDIA's catalogue files it under; the newest codes have none there."""

_UNKNOWN_REMEDY = (
    "Not in the catalogue that gpuwatch knows: look it up in NVIDIA's Xid list, read the kernel log."
)


def _catalogue():
    # type: () -> dict[int, tuple[str, str, str]]
    table = dict(_KNOWN)
    for title, severity, remedy, codes in _FAMILIES:
        table.update((code, (title, severity, remedy)) for code in codes)
    for code, unit in _NVLINK5_UNITS.items():
        table[code] = ("NVLink 5 error (" + unit + ")", "critical", _NVLINK5)
    return table


CATALOGUE = _catalogue()
"""Code -> (title, severity, remedy)."""


def meaning(code, detail=None):
    # type: (int, str | None) -> tuple[str, str, str]
    """Title, severity (info, warning, critical) and remedy of an Xid; a code nobody knows is a warning.

    The severity of some codes stands in the kernel's own line (`detail`): `Nonfatal` of an NVLink 5 unit.
    """
    title, severity, remedy = CATALOGUE.get(code, ("Xid {}".format(code), "warning", _UNKNOWN_REMEDY))
    if code in _NVLINK5_UNITS and "nonfatal" in (detail or "").lower():
        severity = "warning"
    if code in ACTIONS:
        remedy += " NVIDIA's catalogue: " + ACTIONS[code] + "."
    return title, severity, remedy
