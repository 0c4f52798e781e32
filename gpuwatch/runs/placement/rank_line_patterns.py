"""Patterns for ranks, processes and hosts in the lines of launchers and programs."""

from __future__ import annotations

import re

from gpuwatch.agent.ranks.rank_environment import LAUNCHER_RANKS

PID = re.compile(r"(?<![A-Za-z0-9_])pid['\"]?[ :=]{1,4}['\"]?(\d{2,10})\b", re.IGNORECASE)
HOST = re.compile(
    r"(?<!Pool\()\b(?:host|node|hostname|nodename|node_?id|(?:node|host|instance|machine|vm)_name)['\"]?"
    r"[ =:]{1,3}['\"]?(?!(?:[0-9a-f]{8,}|0x[0-9a-f]+)(?![\w.-]))([A-Za-z](?=[\w.-]{0,80}\d)[\w.-]{0,80}\w)"
    r"(?=[\s,;)\]}\"']|$)"
)
"""Matches the host of the process that wrote a line."""
OF_ANOTHER_HOST = re.compile(
    r"(?i)\b(?:connect\w{0,4}|master|store|server|from|to|at) (?:the )?host|peer|remote|lost|unreachable"
)
"""Words of lines whose host is another one than that of the rank."""
HOST_PID = re.compile(r"\[([A-Za-z][\w.-]{0,80}):(\d{2,10})\] \D{0,40}\brank (\d{1,6})\b")
"""Matches Open MPI's binding report for each rank."""
PID_OF_RANK = re.compile(
    r"\b(?:pid|process|proc)[ =:]{1,2}(\d{2,10})(?: ?(?:->|=>|=|:|is) ?| ?\()"
    r"(?:global )?rank[ =:]{0,2}(\d{1,6})\b",
    re.IGNORECASE,
)
"""Matches a pid with its rank: `pid 4022 -> rank 1`, `proc 3311 (rank 2)`."""
HOST_WORDS = ("host", "node", "instance_name", "machine_name", "vm_name")
"""Texts of which each match of `HOST` has one, in lower case."""
ON_HOST = re.compile(
    r"\b[Oo]n (?:(?:host|node|machine|instance|vm|VM) )?"
    r"(?!(?:gpu|cuda|npu|device|dev|card|hip|rank|port|step|socket|stream|queue|core|cpu)[_:=-]?\d{1,3}\b)"
    r"(?P<host>(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80}\w|[a-z][a-z-]{1,60}-[a-z]{1,20}(?=\s*$))"
    r"(?=[,;.)\]]?(?:\s|$))"
)
"""Matches the host in a process's banner: `starting on jwb0344, local rank 3`, `device 0 on blade-c1`."""
STARTS = re.compile(
    r"(?i)\b(?:start(?:ing|ed|s)?|launch(?:ing|ed)?|runs?|running|up|ready|alive|initiali[sz]\w+|joined|here)\b"
)
"""Words of a process that introduces itself."""
OWN = re.compile(
    r"(?:\b(?:this process|this is|my|own|I am|I'm|running as|start(?:ing|ed)(?: as)?|launched(?: as)?"
    r"|process)"
    r"(?: is)?[\s:,-]{0,3}"
    r"|[^\x00-\x7f][\s:,]{0,2})(?:global[ _-]?)?$",
    re.IGNORECASE,
)
"""Matches the text before the rank in a process's own banner: `process rank: 5, device: cuda`."""
HOST_AFTER_RANK = re.compile(
    r"(?:\)?[ ,]{1,2}(?:\((?:(?:host|node)(?:name)?[ =:]{1,2})?|@ ?|on (?:(?:host|node) )?)|\] ?\[)"
    r"(?!(?:gpu|cuda|npu|device|dev|card|pid|tid|tp|pp|dp|stage|step|node|local_rank|port|line|epoch|phase|round"
    r"|[EWIF])[ _:=-]?\d{0,9}[),:\] ])"
    r"(?P<host>(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80})(?=[),:\] ]|$)"
)
"""Matches the host after a rank: `rank 29 (gx-14) states`, `rank 3 on gpu-004: lost`."""
RANK_OF_HOST = re.compile(
    r"(?:\bhost(?:name)?[ =:]{1,2}|^)(?P<host>(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80}\w)"
    r"(?:[ ,;:]{1,3}(?:global[ _-]?)?"
    r"(?=rank[ =:#]{1,2}\d{1,6}[ ,;]{1,2}"
    r"(?:local(?:[ _-]?rank)?|cuda|gpu|npu|device|pid)[ =:#]{1,2}\d{1,10}\b)"
    r"| as (?=rank \d))"
    r"rank[ =:#]{1,2}(?P<n>\d{1,6})\b",
    re.IGNORECASE,
)
"""Matches a process's banner: `hostname hgx05 global rank 13 local rank 5`, `n17 rank 3 local 3`."""
HOST_AFTER_PID = re.compile(
    r"(?i)\bpid['\"]?[ :=]{1,4}\d{2,10}\)?,? (?:on|@|at) (?:(?:host|node) )?"
    r"(?P<host>(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80}\w)(?=[\s,;)\]]|$)"
)
"""Matches a process and its host: `pid 17866 on gpu-07`."""
BANNER_KEYS = re.compile(r"(?i)\b(?:local[ _-]?rank|device|gpu|npu|cuda|pid)\b")
"""Matches what a process states of itself in a banner, beside its host."""
HOST_OF_WRITER = re.compile(
    r"\bhost(?:name)?=(?P<host>[A-Za-z](?=[\w.-]{0,80}\d)[\w.-]{0,80}\w)[ ,;]{1,2}(?:local_rank|device"
    r"|gpu|pid)="
)
"""Matches a banner of the process whose rank is at the head of the line.

Example: `[rank18]: host=n3 local_rank=2`.
"""
ONE_PROCESS = re.compile(r"'--local_rank=0'.{0,4000}exits with return code")
"""Matches DeepSpeed's line for the last process on a node; with local rank 0 it is the only process."""
LAUNCHER = re.compile(
    r"\btorch\.distributed\.(?:elastic|run|launch)|\btorchrun\b|ChildFailedError|\baccelerate\.commands"
    r"|\blaunch\.py:|\[launcher"
)
LAUNCHER_WORDS = ("torch.distributed.", "torchrun", "ChildFailed", "accelerate.c", "launch.py", "[launcher")
"""Texts of which each match of `LAUNCHER` has one."""
VARIABLE = re.compile(
    r"\b(?:"
    + "|".join(LAUNCHER_RANKS)
    + r"|PALS_RANKID|HOROVOD_RANK|FLUX_TASK_RANK|PADDLE_TRAINER_ID|GLOBAL_RANK)=['\"]?(\d{1,6})\b"
)
"""Matches a launcher variable with the rank of the process that prints it."""
NODE_VARIABLE = re.compile(
    r"\b(?:SLURMD_NODENAME|HOROVOD_HOSTNAME|HOSTNAME|NODENAME|K8S_NODE_NAME)=['\"]?([A-Za-z][\w.-]{0,80})"
)
OWN_HOST = re.compile(
    r"^\W{0,3}(?:rank ?\d{1,6}\W{1,3})?"
    r"(?:(?:host ?name|SLURMD_NODENAME|running on (?:host|node))['\"]?[ =:]{1,3}"
    r"['\"]?(?P<named>[A-Za-z][\w.-]{0,80}\w)"
    r"|(?:host|node|machine|instance|vm)[ =:]{1,3}(?P<alone>[A-Za-z][\w-]{1,80}[\w-](?:\.[\w.-]{1,80}\w)?)"
    r"(?:[ ,:]{1,3}(?:is )?(?:up|ready|started|online|alive|here))?\W{0,2}$)",
    re.IGNORECASE,
)
"""Matches a line that begins with the host of the log."""
OWN_ADDRESS = re.compile(
    r"(?i)\b(?:started server with target: ?grpc://"
    r"|(?:my|own|local|this|node|host|pod|worker|self)(?:'s|[ _-](?:node|host))?[ _-]?"
    r"(?:ip|address|addr)(?:[ _-]address)?"
    r"['\"]?(?: is|:|=)? {0,3}['\"]?(?:grpc://|tcp://)?)"
    r"(?!127\.|0\.0\.|169\.254\.)((?:\d{1,3}\.){3}\d{1,3})(?![\d.])"
)
"""Matches the address that a process states as its own, at its start."""
LOG_HOST = re.compile(
    r"^(?:Running on machine: |Job was executed on host\(s\) <(?:\d{1,5}\*)?(?![^,]{0,400}<)"
    r"|\d{3} \(\S{1,40}\) .{0,40}Job executing on host: <[^>]{0,160}?alias="
    r"|[Ee]xec(?:ution)?[ _]host *[=:] ?|\s{0,8}SlotName: slot\w{1,20}@"
    r"|\s{0,8}Host {2,20}= )"
    r"([A-Za-z0-9][\w.-]{0,80}\w)(?=\s*$|[>&/,])"
)
"""Matches the header of a glog file (one process), or of a batch system's report (LSF, HTCondor, PBS)."""
WORKER_TABLE = re.compile(
    r"\((?:node_id=\w{1,64}, )?ip=(?P<host>[\d.]{7,15}), pid=(?P<pid>\d{1,10})\) "
    r"world_rank=(?P<rank>\d{1,6})\b"
)
"""Matches a row of Ray Train's worker table, which its driver prints."""
NCCL_CHANNEL = re.compile(
    r"\bNCCL INFO Channel \S{1,12}(?: :)? (?P<sender>\d{1,6})\[(?P<sender_device>\w{1,12})\] -> "
    r"(?P<receiver>\d{1,6})\[(?P<receiver_device>\w{1,12})\]"
    r"(?P<receives> \[receive\])?"
)
"""Matches NCCL's channel line: the rank that sends or receives."""
STATED = re.compile(r"(?i)\brank['\"]?\s?[=:]\s?['\"]?\d")
STEP = re.compile(r"(?i)\b(?:step|iter(?:ation)?|epoch)s?[ :=#\[]{1,3}\d")
PROCESS_OF = re.compile(
    r"\b[Pp]rocess(?:[ _](?:index|id))?['\"]?[ =:#]{1,3}(?P<n>\d{1,5})"
    r"(?: ?(?:/|of) ?|,? (?:num_processes|process[ _]count)['\"]?[ =:]{1,3})(?P<world>\d{1,6})(?! ?[%/]|\d)"
    r"(?:,? (?:(?:on|at) (?:host |node )?|host(?:name)?[=:] ?)"
    r"(?P<host>(?:(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80}\w|[a-z][a-z-]{1,60}-[a-z]{1,20}(?=\s*$))"
    r"(?=[\s,;:)\]]|$)))?"
)
"""Matches a process's number out of how many, perhaps with its host."""
GLOBAL_RANKS = re.compile(r"\bglobal_ranks=\[(\d{1,6}(?:, ?\d{1,6}){0,63})\]")
"""Matches the ranks that torchrun assigns to its node's processes, by local rank."""
PER_NODE = re.compile(r"--nproc[_-]per[_-]node[= ](\d{1,3})\b")
"""Matches a launcher's option for its own node; a file with it and `NODE_RANK` belongs to that node."""
SPAWNED = re.compile(r"\bprocess (\d{1,10}) spawned with command: .{1,4000}--local_rank=(\d{1,3})\b")
"""Matches DeepSpeed's launcher message about a started process."""
ASSIGNED = re.compile(
    r"\b(?:assign|given|gets|has|as|is|->)(?:ed)?:? (?:the )?(?:global )?rank[ =:#]{1,2}(\d{1,6})\b",
    re.IGNORECASE,
)
"""Matches the assignment of a rank to an address: `start signal from 10.1.6.7; assign rank 2`."""
ADDRESS = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])")
LETTER = re.compile(r"(?<![\w.-])r(?P<letter_n>\d{1,5})(?![\w.-])")
WORLD_RANK = re.compile(r"\bworld_rank=\d")
"""Matches world ranks in Ray Train's worker table."""
ONE_PER_HOST = re.compile(r"\b(?:jax_worker|coordination_service|jax\.distributed|JAX distributed)\b")
SRUN_TASKS = re.compile(r"\bsrun: error: (?P<host>[\w.-]{1,120}): tasks? (?P<tasks>[\d,-]{1,400}): ")
TASKS_ON_HOST = re.compile(
    r"\btasks? (?P<tasks>\d[\d,-]{0,200}) \((?:on )?(?:host|node) (?P<host>[A-Za-z][\w.-]{0,120})\)"
)
"""Matches the tasks that other launchers name, with their node: `task 5 (host tioga21) Killed`."""
LOSS = re.compile(
    r"(?:[A-Za-z_][\w.]{0,80}\.)?[A-Z]\w{0,60}(?:Error|Exception): "
    r".{0,200}?(?:remote process exited|(?:closed|reset) by (?:remote )?peer|peer closed|lost connection to)",
    re.IGNORECASE,
)
"""Matches the last line of an exception about a lost peer."""
