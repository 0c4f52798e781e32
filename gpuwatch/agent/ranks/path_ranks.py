"""Parses the rank from a log file's path.

Layouts: torchrun `--log-dir` (`attempt_0/3/stdout.log`, a local rank), DeepSpeed (`..._rank3.log`), NeMo
(`..._globalrank-3_localrank-1.txt`), composer (`logs-rank3.txt`), Open MPI (`rank.3/stdout`), Slurm's `%t`
(`slurm-123.3.out`), submitit (`123_3_log.err`), and folders or files called `rank_3`.
`slurm-123_3.out` is Slurm's own name for the output of task 3 of an array, which is a job by itself.
"""

import re

_GLOBAL = (
    re.compile(r"(?<![a-z])global[-_.]?rank[-_.=]?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(r"(?<![a-z])(?<!local[-_.])(?<!group[-_.])(?<!node[-_.])rank[-_.=]?(\d{1,6})(?!\d)", re.I),
    re.compile(r"/slurm-\d+[.-](\d{1,6})\.(?:out|err|log)$"),
    re.compile(r"/\d{2,12}(?:_\d{1,8})?_(\d{1,6})_log\.(?:out|err)$"),
    re.compile(r"(?<![a-z])task[-_.=]?(\d{1,6})\.(?:out|err|log|txt)$", re.IGNORECASE),
)
_LOCAL = (
    re.compile(r"/attempt_\d+/(\d{1,4})/[^/]{1,80}$"),
    re.compile(r"(?<![a-z])local[-_.]?rank[-_.=]?(\d{1,4})(?!\d)", re.IGNORECASE),
)


def ranks_of_path(path: str) -> "tuple[int | None, int | None]":
    """Return (rank, local rank) from a log file's path, innermost part first; None for each it lacks."""
    return _last(_GLOBAL, path), _last(_LOCAL, path)


def _last(patterns: "tuple[re.Pattern[str], ...]", path: str) -> "int | None":
    for pattern in patterns:
        found = pattern.findall(path)
        if found:
            return int(found[-1])
    return None
