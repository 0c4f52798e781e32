"""The fallback's shell command: constant text that every login shell passes on unchanged.

It reads one line `NONCE MILLISECONDS` from stdin, writes the start marker, then answers every further line (a
ping) with a block of lines about the host, while `nvidia-smi` writes a row per GPU. It has no timer: the
pings are its clock, and it ends at the end of stdin.
"""

from __future__ import annotations

from gpuwatch.link.start.bundle import NO_SMI
from gpuwatch.link.stream.limits import START_MARK

COLUMNS = (
    "timestamp",
    "index",
    "uuid",
    "name",
    "pci.bus_id",
    "driver_version",
    "utilization.gpu",
    "utilization.memory",
    "memory.used",
    "memory.total",
    "temperature.gpu",
    "power.draw",
    "enforced.power.limit",
    "clocks.sm",
    "clocks.mem",
    "pcie.link.gen.current",
    "pcie.link.width.current",
)
"""Basic columns, queried alone if nvidia-smi does not know all of `MORE_COLUMNS`."""
MORE_COLUMNS = (
    *COLUMNS,
    "pstate",
    "fan.speed",
    "clocks_throttle_reasons.active",
    "clocks.max.sm",
    "clocks.max.mem",
    "pcie.link.gen.max",
    "pcie.link.width.max",
    "power.default_limit",
    "power.max_limit",
    "ecc.errors.corrected.volatile.total",
    "ecc.errors.uncorrected.volatile.total",
)
RESTART_PINGS = 30
"""Pings after which an nvidia-smi that exited (driver reload) is restarted."""
FASTEST_MS = 200
_PLACES = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/usr/local/nvidia/bin:/usr/lib/wsl/lib:/opt/bin"
"""Folders of nvidia-smi, for non-interactive shells with a short PATH."""

# No single quote, backslash or newline, as in the loader, and `!` only before a space, where csh leaves it
# alone. SIGPIPE is caught, not ignored: ignored it
# would be ignored by nvidia-smi too, which then would write into a dead connection for ever. stdbuf, where it
# is there, makes every row one write, at once, between which the host's lines cannot fall.
_SCRIPT = f"""
LC_ALL=C; PATH=$PATH:{_PLACES}; export LC_ALL PATH;
command -v nvidia-smi >/dev/null 2>&1 || {{ echo {NO_SMI}; exit 0; }};
read -r nonce ms || exit 0;
by_line=; command -v stdbuf >/dev/null 2>&1 && by_line="stdbuf -oL";
p=; n=0; columns={",".join(MORE_COLUMNS)};
leave() {{ test -n "$p" && kill -9 $p; exit 0; }} 2>/dev/null;
trap leave HUP INT TERM PIPE;
smi() {{ exec nice $by_line nvidia-smi --query-gpu=$columns --format=csv,noheader,nounits
 -lms "$ms" </dev/null 2>&1; }};
echo; echo "{START_MARK} $nonce";
echo "@at $(date +%s.%N)";
echo "@pid $$"; echo "@host $(uname -n)"; echo "@kernel $(uname -r)";
echo "@cpus $(getconf _NPROCESSORS_ONLN 2>/dev/null)";
read -r line </proc/sys/kernel/random/boot_id && echo "@boot $line";
set -- /proc/driver/nvidia/gpus/*; test -d "$1" && echo "@bus $#";
smi & p=$! ;
while read -r request; do
echo "@at $(date +%s.%N)";
read -r line </proc/stat && echo "@cpu $line";
read -r line </proc/loadavg && echo "@load $line";
cat /proc/meminfo;
n=$((n + 1));
if test -n "$p"; then
kill -0 $p 2>/dev/null || {{ p=; n=0; echo "@ended $columns"; }};
elif test $n -ge {RESTART_PINGS} || test $columns = {",".join(MORE_COLUMNS)}; then
columns={",".join(COLUMNS)}; n=0; smi & p=$! ;
fi;
echo "@done $request";
done;
leave
"""
COMMAND = f"exec /bin/sh -c '{' '.join(_SCRIPT.split())}'"


def first_line(nonce: str, interval_s: float) -> bytes:
    """Return the first line of the fallback command's stdin: nonce and interval in milliseconds."""
    return f"{nonce} {max(FASTEST_MS, round(interval_s * 1000))}\n".encode()
