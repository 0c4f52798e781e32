"""Classifies NVML return codes (nvmlReturn_t of nvml.h)."""

OK = 0
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
MISMATCH = 18
GPU_NOT_FOUND = 28
UNKNOWN = 999

NEVER = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, 25, 26)
"""Not supported, unknown function, argument version mismatch, deprecated: not called again this session."""

NOTHING = (OK, 6, TIMEOUT, 21, 27)
"""Success, not found, timeout, no data, not ready: none is a reason to report a field as missing."""

LOST = (14, GPU_IS_LOST, 16, GPU_NOT_FOUND)
"""Corrupted infoROM, GPU lost, reset required, GPU not found: the GPU counts as lost until it responds."""

NODE = (UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, MISMATCH)
"""Codes that mean a problem of the node's driver."""

AGAIN = (INVALID_ARGUMENT, UNKNOWN)
"""NVML codes for which a call is repeated once at once."""

WORDS = {
    14: "Corrupted infoROM",
    GPU_IS_LOST: "GPU is lost",
    16: "GPU requires restart",
    GPU_NOT_FOUND: "GPU not found",
    UNINITIALIZED: "Uninitialized",
    DRIVER_NOT_LOADED: "Driver Not Loaded",
    LIBRARY_NOT_FOUND: "NVML Shared Library Not Found",
    MISMATCH: "RM has detected an NVML/RM version mismatch",
    UNKNOWN: "Unknown Error",
}
"""Texts of nvmlErrorString, which people search for."""


class GpuLost(Exception):  # noqa: N818 - it is a state that is reported, not a mistake
    """Raised if NVML reports that the GPU or the driver is gone; `code`: what `call` returned."""

    def __init__(self, code: int, call: str) -> None:
        Exception.__init__(self, "{} (in {})".format(words(code), call))
        self.code = code
        self.call = call


def words(code: int) -> str:
    """Return a short text for an NVML return code: `NVML error N` for codes that stop no GPU or node."""
    return WORDS.get(code, "NVML error {}".format(code))
