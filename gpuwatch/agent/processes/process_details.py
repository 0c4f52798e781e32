"""Reads details of one process: command, user, container, log files.

Reading these can block: cmdline and environ take the process's memory lock, the user's name may need a
directory service, a log may be on a dead share. They are therefore called through `background.TimedCalls`.
"""

import glob
import os
import pwd
import re
import stat

from ..base.procfs import clean, names, read_bytes, read_link, read_text
from ..masking.secret_masking import masked
from ..masking.secret_names import masked_arguments

MAX_COMMAND = 300
MAX_LOGS = 8
MAX_PATHS = 1024
"""Most remembered paths through /proc/PID/root."""
MAX_DESCRIPTORS = 256

_LOG_NAME = re.compile(r"\.(log|txt|out|err|stdout|stderr|jsonl|ndjson|json|csv)([.-](\d+|old|bak))?$")
_ASSIGNED = re.compile(r"[\w.+-]{1,64}=")
_DELETED = " (deleted)"
_NEVER_NAMED = re.compile(r"/#\d+ \(deleted\)$")
"""A temporary file (O_TMPFILE), which is no log."""
_CONTAINERS = (
    (re.compile(r"docker[/-]([0-9a-f]{12,64})"), "docker"),
    (re.compile(r"cri-containerd[:-]([0-9a-f]{12,64})"), "containerd"),
    (re.compile(r"crio-(?:conmon-)?([0-9a-f]{12,64})"), "cri-o"),
    (re.compile(r"libpod-(?:conmon-)?([0-9a-f]{12,64})"), "podman"),
    (re.compile(r"kubepods\S*/([0-9a-f]{64})"), "kubernetes"),
    (re.compile(r"/lxc(?:\.payload)?[./]([\w.-]+)"), "lxc"),
)
_CONTAINER_ID = re.compile(r"(?<![0-9a-z])[0-9a-f]{64}(?![0-9a-z])")
_USER_SLICE = re.compile(r"/user(?:-\d{1,20})?\.slice/")
"""The control group of a user's sessions; the user chooses the names of the groups below it."""
_RUNTIME_LOGS = (
    "var/log/containers/*-{0}.log",
    "var/lib/docker/containers/{0}/{0}-json.log",
    "var/lib/containers/storage/overlay-containers/{0}/userdata/ctr.log",
)
"""The files to which kubelet, Docker and Podman write what the container with an id prints."""
_SLURM = re.compile(r"slurm\S*?/job_(\d+)(?:/step_(\w+))?")
_GPU_DEVICES = ("/dev/nvidia", "/dev/dxg")


class OpenFiles(object):
    """Notices cheaply that a process has opened a file with the name of a log since its details were read."""

    __slots__ = ("_count", "_folder", "_numbers", "_outputs")

    def __init__(self, folder: str) -> None:
        """Remember which files a process has open now; `folder`: its folder in /proc."""
        self._folder = os.path.join(folder, "fd")
        self._count = open_count(self._folder)
        self._numbers = frozenset(names(self._folder))
        self._outputs = self._output_files()

    def has_new_log(self) -> bool:
        """Return True if the output has changed, or a new descriptor leads to a file with a log's name."""
        if self._output_files() != self._outputs:
            return True
        count = open_count(self._folder)
        if count and count == self._count:
            return False
        before, self._count, self._numbers = self._numbers, count, frozenset(names(self._folder))
        opened = sorted(self._numbers.difference(before))[:MAX_DESCRIPTORS]
        targets = (read_link(os.path.join(self._folder, number)) or "" for number in opened)
        return any(path.startswith("/") and _LOG_NAME.search(path) is not None for path in targets)

    def _output_files(self) -> "list[str | None]":
        return [read_link(os.path.join(self._folder, number)) for number in ("1", "2")]


def open_count(folder: str) -> int:
    """Return the number of files in /proc/PID/fd; 0: unknown, as before Linux 6.2."""
    try:
        return os.stat(folder).st_size
    except OSError:
        return 0


class Details(object):
    """Details of one process; unreadable ones are None or empty.

    `holds_gpu`: it has an NVIDIA device open; None where its descriptors cannot be listed. `pipes`: those of
    its descriptors 0, 1 and 2 that are pipes, as `pipe:[INODE]`. `inner_pid`: its pid in its own namespace (a
    container's), if different.
    """

    __slots__ = (
        "command",
        "container",
        "holds_gpu",
        "inner_pid",
        "job",
        "logs",
        "open_files",
        "pipes",
        "step",
        "user",
    )

    def __init__(
        self,
        proc: str,
        pid: int,
        users: "dict[int, str]",
        all_files: bool = False,
        paths: "dict[tuple[int, int], str] | None" = None,
    ) -> None:
        """Read the details of process `pid` under `proc`.

        `all_files`: every regular file that it writes counts as a log, whatever its name.

        `users` (uid -> name) and `paths` ((device, inode) -> path) are shared by all processes.
        """
        folder = os.path.join(proc, str(pid))
        self.open_files = OpenFiles(folder)
        self.command = command_line(read_bytes(os.path.join(folder, "cmdline"), 16384) or b"")
        status = read_text(os.path.join(folder, "status"), 4096) or ""
        self.user = _user(status, users)
        self.inner_pid = inner_pid(status)
        cgroup = read_text(os.path.join(folder, "cgroup"), 16384) or ""
        self.container = container(cgroup)
        self.job, self.step = slurm_step(cgroup)
        targets = _descriptors(folder)
        self.logs = log_files(folder, targets, all_files, paths)
        self.pipes = _pipes(folder)
        if not self.logs and set(self.pipes) & {1, 2}:
            self.logs = runtime_logs(cgroup)
        self.holds_gpu = any(path.startswith(_GPU_DEVICES) for path in targets.values()) if targets else None


def command_line(cmdline: bytes) -> "str | None":
    """Return a process's arguments on one line, secrets masked, cut at `MAX_COMMAND`; None if empty."""
    arguments = cmdline.rstrip(b"\0").decode("utf-8", "replace").split("\0")
    return clean(masked(" ".join(map(_quoted, masked_arguments(arguments)))), MAX_COMMAND) or None


def _quoted(argument: str) -> str:
    """Return an argument, in quotes if it has blanks, so that a secret in it is masked as a whole."""
    name, equals, value = argument.partition("=") if _ASSIGNED.match(argument) else ("", "", argument)
    if not any(each.isspace() for each in value):
        return argument
    value = " ".join(value.replace("\\", "\\\\").replace('"', '\\"').splitlines())
    return '{}{}"{}"'.format(name, equals, value)


def inner_pid(status: str) -> "int | None":
    """Return the innermost pid in the NSpid line of /proc/PID/status; None if there is only one."""
    match = re.search(r"^NSpid:\s+\d+(?:\s+\d+)*\s+(\d+)$", status, re.MULTILINE)
    return int(match.group(1)) if match else None


def container(cgroup: str) -> "str | None":
    """Return `runtime:short id` from /proc/PID/cgroup; None outside of a container."""
    for pattern, runtime in _CONTAINERS:
        match = pattern.search(cgroup)
        if match:
            return runtime + ":" + clean(match.group(1)[:12] if runtime != "lxc" else match.group(1), 64)
    return None


def _is_of_user(path: str) -> bool:
    """Return True if a word of /proc/PID/cgroup (`0::/user.slice/...`) is in a slice that a user manages."""
    begin = path.find(":/")
    return begin >= 0 and _USER_SLICE.search(path, begin) is not None


def runtime_logs(cgroup: str, root: str = "/") -> "list[str]":
    """Return [the file to which a container's runtime writes its output], links resolved; [] if unreadable.

    [] also for a control group that a user can have named.

    A process of the container prints into a pipe that another one reads than the writer of this file, so only
    the container's id connects them.
    """
    if container(cgroup) is None or any(map(_is_of_user, cgroup.split())):
        return []
    for number in _CONTAINER_ID.findall(cgroup)[-1:]:
        for pattern in _RUNTIME_LOGS:
            for path in map(os.path.realpath, glob.glob(os.path.join(root, pattern.format(number)))):
                if os.path.isfile(path) and os.access(path, os.R_OK):
                    return [path]
    return []


def slurm_step(cgroup: str) -> "tuple[str | None, str | None]":
    """Return (job, step) of a process from Slurm's cgroup (both hierarchies), or (None, None)."""
    match = _SLURM.search(cgroup)
    return (match.group(1), match.group(2)) if match else (None, None)


def log_files(
    folder: str,
    targets: "dict[int, str]",
    all_files: bool = False,
    paths: "dict[tuple[int, int], str] | None" = None,
) -> "list[str]":
    """Return up to `MAX_LOGS` regular files that the process writes: at descriptors 1 and 2, logs by name.

    The path of a process in a container is not valid here, so it is given through /proc/PID/root: by the
    first PID alone for all processes that write the file. `paths`: (device, inode) -> that path.
    """
    found: list[str] = []
    for descriptor in sorted(targets):
        target = targets[descriptor]
        standard = descriptor in (1, 2)
        name = target[: -len(_DELETED)] if target.endswith(_DELETED) else target
        if _NEVER_NAMED.search(target) or not (standard or all_files or _LOG_NAME.search(name)):
            continue
        if clean(target, 4096) != target or not _written(folder, descriptor, standard):
            continue
        path = _path_here(folder, descriptor, target, {} if paths is None else paths)
        if path is not None and not any(path == each or _is_same(path, each) for each in found):
            found.append(path)
            if len(found) == MAX_LOGS:
                break
    return found


def _descriptors(folder: str) -> "dict[int, str]":
    """Return descriptor -> path of a process's first open files; empty for other users' processes."""
    numbers = sorted(int(name) for name in names(os.path.join(folder, "fd")) if name.isdecimal())
    targets: dict[int, str] = {}
    for number in numbers[:MAX_DESCRIPTORS]:
        target = read_link(os.path.join(folder, "fd", str(number)))
        if target is not None and target.startswith("/"):
            targets[number] = target
    return targets


def _pipes(folder: str) -> "dict[int, str]":
    targets = {number: read_link(os.path.join(folder, "fd", str(number))) for number in (0, 1, 2)}
    return {number: target for number, target in targets.items() if target and target.startswith("pipe:[")}


def _written(folder: str, descriptor: int, standard: bool) -> bool:
    """Return True if a descriptor was opened for writing only.

    `standard`: it is 1 or 2, which count if opened for reading and writing too.
    """
    text = read_text(os.path.join(folder, "fdinfo", str(descriptor)), 4096) or ""
    match = re.search(r"^flags:\s*([0-7]+)", text, re.MULTILINE)
    access = int(match.group(1), 8) & os.O_ACCMODE if match else os.O_RDONLY
    return access == os.O_WRONLY or (standard and access == os.O_RDWR)


def _path_here(
    folder: str, descriptor: int, target: str, paths: "dict[tuple[int, int], str]"
) -> "str | None":
    """Return the path by which this machine finds an open file; None if not regular or not found.

    A deleted file is reachable only through its writer's descriptor.
    """
    through = os.path.join(folder, "fd", str(descriptor))
    try:
        opened = os.stat(through)
    except OSError:
        return None
    if not stat.S_ISREG(opened.st_mode):
        return None
    if _same_file(target, opened):
        return target
    key = opened.st_dev, opened.st_ino
    for path in (paths.get(key), os.path.join(folder, "root") + target):
        if path is not None and _same_file(path, opened):
            if len(paths) >= MAX_PATHS:
                paths.clear()
            paths[key] = path
            return path
    return through if target.endswith(_DELETED) else None


def _is_same(path: str, other: str) -> bool:
    """Return True if `path` is a process's descriptor 1 or 2 and leads to the file `other`."""
    try:
        return path.endswith(("/fd/1", "/fd/2")) and _same_file(path, os.stat(other))
    except OSError:
        return False


def _same_file(path: str, opened: "os.stat_result") -> bool:
    try:
        return os.path.samestat(os.stat(path), opened)
    except OSError:
        return False


def _user(status: str, users: "dict[int, str]") -> "str | None":
    """Return the name of the process's effective user, or the number without one; None: unknown.

    Cached in `users`.
    """
    match = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    if match is None:
        return None
    uid = int(match.group(1))
    if uid not in users:
        try:
            users[uid] = clean(pwd.getpwuid(uid).pw_name, 64)
        except KeyError:
            users[uid] = str(uid)
    return users[uid]
