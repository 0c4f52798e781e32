"""Folders of the system or of all users, in which no search for logs starts."""

_SYSTEM = (
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/usr",
    "/etc",
    "/var",
    "/boot",
    "/lib",
    "/lib64",
    "/bin",
    "/sbin",
)
_TOO_WIDE = ("/", "/tmp", "/home", "/mnt", "/opt", "/srv", "/var/tmp")  # noqa: S108 - not written to


def is_system(folder: str) -> bool:
    """Return True if a folder contains system files, or files of all users."""
    return folder in _TOO_WIDE or any(folder == one or folder.startswith(one + "/") for one in _SYSTEM)
