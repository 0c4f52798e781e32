"""Reads the owner of a log file from its path: candidates for the node, and the number of the attempt.

The rank in a path is parsed by the agent's code. A node in a path is only a candidate, because `run-7` looks
like a host too; the hosts that lines name decide (`runs.placement.rank_map`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import PurePath

from msgspec import Struct

from gpuwatch.agent.patterns.module_pattern import pattern_of

ATTEMPT = pattern_of(r"(?:^|/)attempt[_-](\d+)(?:/|$)|(?:^|[/_.-])restart[_-]?(\d+)(?=[/_.-]|$)")
RUN = pattern_of(r"(?<![^/])[^/]*(?=/attempt_\d+/)")
"""Matches torchrun's folder of run id and eight random letters, which names no host."""
ENDINGS = pattern_of(
    r"\.(?:gz|zst|xz|bz2|log|txt|out|err|json|jsonl|dmesg|stdout|stderr|\d+|old|mom|o|e|p?[oe]\d{3,12})$",
    re.IGNORECASE,
)

KERNEL_WORDS = {"dmesg", "kern", "kernel", "syslog", "messages", "journal", "journalctl", "kmsg"}
TOOL_WORDS = {
    *("smi", "nvsmi", "dcgmi", "dcgm", "ibstat", "ibstatus", "ibdiagnet", "sacct", "scontrol", "sinfo"),
    *("squeue", "kubectl", "events", "describe", "top", "lspci", "ethtool", "mlxlink", "fabricmanager"),
    *(
        "bugreport",
        "report",
        "diag",
        "topo",
        "sol",
        "ipmi",
        "bmc",
        "serial",
        "idrac",
        "ilo",
        "tty",
        "status",
        "health",
        "stacks",
        "pystack",
        "sel",
        "ipmitool",
        "cloudwatch",
    ),
}
LOG_WORDS = (
    KERNEL_WORDS
    | TOOL_WORDS
    | {
        *(
            "log",
            "logs",
            "out",
            "err",
            "stdout",
            "stderr",
            "output",
            "error",
            "console",
            "debug",
            "of",
            "from",
        ),
        *("train", "training", "trainer", "nccl", "slurm", "srun", "torchrun", "launcher", "boot"),
        *("ps", "pstree", "free", "df", "env", "printenv", "quota", "lsof", "mount", "mounts", "uptime"),
        *("ulimit", "iostat", "vmstat", "numactl", "lscpu", "strace", "gdb"),
    }
)
"""Words in a file's name that are not part of a host name."""
TOOLS = pattern_of(
    r"(?<![A-Za-z0-9])(?:nvidia-(?:smi|bug-report)|rocm-smi|amd-smi|xpu-smi|py-spy)(?![A-Za-z0-9])"
    r"(?:[-_][a-z](?![A-Za-z0-9])){0,3}(?:[-_](?:i|gpu)[-_]?\d{1,2}(?![A-Za-z0-9]))?",
    re.IGNORECASE,
)
"""Matches tool names with a hyphen, and their options: `nvidia-smi-q-i5`."""
LABELS = {"node", "host", "hostname", "worker", "app", "main", "system", "sys"}
"""Words before a host name or at its start: `node-cn12`, `node-b03`."""
HOST_WORDS = LABELS | {"gpu", "nv", "nvidia"}
WHOLE_NAME = pattern_of(r"[A-Za-z]{2}")
"""Matches the start of a name after a label if the name is a host name by itself."""
NOT_HOSTS = pattern_of(
    r"(?:rank|global_?rank|local_?rank|attempt|run|job|jobid|step|steps|epoch|exp|experiment|trial|version|v|seed|"
    r"try|restart|ckpt|checkpoint|iter|part|shard|chunk|stage|tp|pp|dp|pid|task|array|world|cuda|gpu|dev|device|"
    r"client|fold|split|config|cfg|variant|arm|ablation|phase|round|g(?!0\d)|proc|process|slurm|log|logs|out|err|test|day|week|date|layer|model|p(?=\d{4})|python|\d+)[-_.]?\d*b?"
    r"|(?:lr|wd|bs|mbs|gbs|eps|beta\d?|alpha|gamma|temp|tau|drop(?:out)?|warmup|ctx|seq(?:len)?|kl|rank)"
    r"[-_.]?\d+(?:[.p]\d+)?(?:e-?\d+)?k?",
    re.IGNORECASE,
)
"""Matches words with a number that are no hosts; `gpu-003` is one, as indexes have no leading zero."""
MODELS = pattern_of(
    r"(?:m?t5|(?:gpt|llama|qwen|phi|gemma|mi[sx]tral|bert|vit|resnet|unet|yolo|whisper|wav2vec|sd|sdxl|flux|deepseek"
    r"|pythia|(?:chat)?glm|internlm|swin|bf|fp|int|zero|fsdp|ddp|lora)[-_.]?v?\d{1,3})(?:[-.][\w.-]{0,40})?",
    re.IGNORECASE,
)
"""Matches names of models, number formats and methods with a number, which are no hosts."""
WEAK = pattern_of(r"[A-Za-z]\d|[abhv][1-9]00|[alpt][1-9]\d?s?|g[bh][1-9]00|mi\d{3}x?", re.IGNORECASE)
"""Matches a letter with a digit, or an accelerator model; such a name alone identifies no host."""
RUN_LEVELS = {"r1", "r2", "r3", "r4"}
RUN_LEVEL = pattern_of(r"(?i)(?:dcgmi|diag)[a-z_.-]{0,12}?[-_.]?r[1-4](?!\d)")
"""Matches the name of a file with the output of `dcgmi diag -r 3`."""
NUMBERED_WORK = pattern_of(
    r"[a-z][\w.-]{0,80}[-.][1-9]\d{4,11}|(?:ci|exp|job|test|trial|build|sweep|ablation|finetune|sft)[-.][\w.-]{0,80}\d"
    r"|(?:[a-z0-9]{1,40}[-.]){1,6}"
    r"(?:job|run|task|build|pipeline|test|trial|exp|experiment|attempt|step|stage|ckpt|pr|rank)[-_]?\d{1,12}",
    re.IGNORECASE,
)
"""Matches numbered runs: `ci-job-4471`, `nightly-build-12`, `exp-mamba-3`, `train-44120`."""
OF_A_FLEET = pattern_of(r"[-.](?:node|host|nid|gpu)-?\d{1,5}$", re.IGNORECASE)
"""Matches the end of a host name that may begin like the name of a run: `test-node5`."""
GLOG_FILE = pattern_of(
    r"[\w-]{1,80}\.(?P<host>\S{1,160}?)(?:\.[\w-]{1,40}\.log)?\.(?:INFO|WARNING|ERROR|FATAL)(?:\.[\d.-]{1,40})?"
)
"""Matches a glog file name: `PROGRAM.HOST.USER.log.LEVEL.DATE.PID`."""
POD_FILE = pattern_of(
    r"[a-z0-9](?:[a-z0-9.-]{0,200}-)?(?:worker|master|launcher|chief|head|ps|trainer|server)-\d{1,5}"
    r"(?:-[a-z0-9]{1,10})?_[a-z0-9][a-z0-9-]{0,62}_[a-z0-9][a-z0-9-]{0,128}\.log"
    r"|[a-z0-9][a-z0-9.-]{0,250}_[a-z0-9][a-z0-9-]{0,62}_[a-z0-9][a-z0-9-]{0,62}-[0-9a-f]{64}\.log"
)
"""Matches kubelet's container log: `POD_NAMESPACE_CONTAINER-ID.log`; a pod is not a node."""
MIN_FAMILY_FILES = 2
"""Least files of one name with different numbers for the numbers to be nodes: `n1.log`, `n2.log`."""
LETTERED = pattern_of(r"(?:node|host|ws|srv|server|box|rig|machine|dgx|hgx)-[A-Za-z]|(?:node|host)[A-Z]")
"""Matches names of nodes that differ by a letter."""
PADDED = pattern_of(r"gpu[-_]?(?:0\d+|\d{3,})", re.IGNORECASE)
HOST = pattern_of(
    r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*?-?\d+(?:-[A-Za-z0-9]+)*(?:\.[A-Za-z][A-Za-z0-9-]*)*"
)
ADDRESS = pattern_of(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)")
NUMBERED = pattern_of(r"(?:global|local)?_?rank[-_]?\d+[-.]?|slurm-\d+-?", re.IGNORECASE)
"""Matches a rank or a Slurm job; their numbers are not part of a host name."""
STAMP = pattern_of(r"\d{4}-?\d\d-?\d\d(?:[T_-]?\d\d[-:]?\d\d(?:[-:]?\d\d)?)?Z?")


class PathPlaces(Struct, frozen=True):
    """What a path alone shows."""

    hosts: tuple[str, ...] = ()
    """Possible node names, most likely first."""
    attempt: int | None = None
    """Number of the attempt, from 0."""
    kernel: bool = False
    """True if the file has the name of a kernel log."""


@lru_cache(maxsize=1 << 14)
def path_places(path: str) -> PathPlaces:
    """Return the possible hosts and the attempt that a path shows, and whether it is of a kernel log."""
    found = ATTEMPT.search(path)
    attempt = None if found is None else int(found.group(1) or found.group(2))
    parts = PurePath(RUN.sub("", path)).parts
    hosts: list[str] = []
    for part in reversed(parts):
        hosts += [host for host in hosts_in(part) if host not in hosts]
    words = re.split(r"[^a-z]+", parts[-1].lower()) if parts else []
    return PathPlaces(tuple(hosts), attempt, not KERNEL_WORDS.isdisjoint(words))


def hosts_in(part: str) -> list[str]:
    """Return the possible host names in the name of a file or folder; none in the name of a pod's file."""
    if POD_FILE.fullmatch(part):
        return []
    glog = GLOG_FILE.fullmatch(part)
    part = part if glog is None else glog["host"]
    addresses = ADDRESS.findall(part)
    name = TOOLS.sub("_", STAMP.sub("_", NUMBERED.sub("_", part)))
    while ENDINGS.search(name):
        name = ENDINGS.sub("", name)
    hosts: list[str] = []
    for piece in re.split(r"[_,@+=:\s]+", name):
        inside = hosts_in_piece(piece)
        hosts += inside or [host for each in piece.split(".")[1:] for host in hosts_in_piece(each)]
    if RUN_LEVEL.search(part):
        hosts = [host for host in hosts if host not in RUN_LEVELS]
    return addresses + hosts


def hosts_in_piece(piece: str) -> list[str]:
    """Return the parts of `piece` that may be host names.

    `piece`: a part of a file name, between word separators.
    """
    return [host for host in names_in(without_log_words(piece.strip("-."))) if may_be_host(host)]


def without_weak(files: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return the hosts of each file without ambiguous names, such as `e6` of `e6.log` without an `e7.log`.

    Also without those that several folders have: `a/p2.log` and `b/p2.log` count processes.

    Args:
        files: Path -> its possible hosts.
    """
    bare = {path: hosts[0] for path, hosts in files.items() if hosts and stem(path) == hosts[0]}
    families = Counter(name[0].lower() for name in set(bare.values()))
    again = Counter(bare.values())
    alone = {
        path for path, name in bare.items() if families[name[0].lower()] < MIN_FAMILY_FILES or again[name] > 1
    }
    weak = {path for path in alone if WEAK.fullmatch(bare[path])}
    return {path: tuple(hosts[1:] if path in weak else hosts) for path, hosts in files.items()}


def stem(path: str) -> str:
    """Return a file's name without any suffixes."""
    name = PurePath(path).name
    while ENDINGS.search(name):
        name = ENDINGS.sub("", name)
    return name


def may_be_host(name: str) -> bool:
    """Return True if a word may be a host name; numbered words of other kinds are excluded."""
    if LETTERED.fullmatch(name):
        return True
    work = NUMBERED_WORK.fullmatch(name) is not None and OF_A_FLEET.search(name) is None
    counted = NOT_HOSTS.fullmatch(name) or work or MODELS.fullmatch(name)
    return bool(HOST.fullmatch(name) and (PADDED.fullmatch(name) or not counted))


def names_in(piece: str) -> list[str]:
    """Return the possible host names in a piece, likelier first: `gpu-b03` before `b03`.

    But `cn12` comes before `node-cn12`.
    """
    label, _, rest = piece.partition("-")
    if not rest or rest.isdecimal() or label.lower() not in HOST_WORDS:
        return [piece]
    if label.lower() in LABELS and WHOLE_NAME.match(rest):
        return [rest, piece]
    return [piece, rest]


def without_log_words(piece: str) -> str:
    """Return the piece without log words: `dmesg-gpu-002` and `gpu-002.kern` become `gpu-002`."""
    words = re.split(r"([-.])", piece)
    kernel = [at for at, word in enumerate(words) if word.lower() in KERNEL_WORDS]
    if kernel and kernel[-1] < len(words) - 2:  # old-dmesg-gpu-002
        words = words[kernel[-1] + 2 :]
    tool = next((at for at, word in enumerate(words) if at > 1 and word.lower() in TOOL_WORDS), None)
    if tool is not None and HOST.fullmatch("".join(words[: tool - 1])):
        words = words[: tool - 1]  # gpu-a07.smi-q
    while len(words) > 2 and is_log_word(words[0], words[2]):
        option = (
            words[0].lower() in TOOL_WORDS and len(words) > 4 and words[2].isalpha() and len(words[2]) == 1
        )
        words = words[4:] if option else words[2:]
    while len(words) > 2 and words[-1].lower() in LOG_WORDS | HOST_WORDS:
        words = words[:-2]
    return "".join(words)


def is_log_word(word: str, following: str) -> bool:
    """Return True for a log word, unless a bare number follows: the word is then part of a host name.

    Words for kernel logs and tools are log words before a number too.
    """
    word = word.lower()
    if following.isdecimal() and word not in KERNEL_WORDS | TOOL_WORDS:
        return False
    return word in LOG_WORDS
