"""Defines the words of status documents: keys by what they contain, and states by their meaning.

Keys are compared in lower case without `_`, `-` and blanks: `stoppedReason`, `stopped_reason` and `Stopped
Reason` are one word.
"""

from __future__ import annotations

from collections.abc import KeysView, Mapping
from typing import Any

from gpuwatch.agent.patterns.module_pattern import pattern_of


def _words(text: str) -> KeysView[str]:
    """Return the words of a text as a set that keeps their order; a text lists keys, best first."""
    return dict.fromkeys(text.split()).keys()


def stated(keys: KeysView[str], record: Mapping[str, Any]) -> list[str]:
    """Return the keys of `keys` that a record has, best first (`keys & record.keys()` has no order)."""
    return [key for key in keys if key in record]


STATE = _words(
    "status state phase laststatus jobstate jobstatus trainingjobstatus processingjobstatus"
    " transformjobstatus trainjobstatus clientstatus stat containerstatus runstatus taskstatus"
    " replicastate provisioningstate lifecyclestate resultstate instancestate podphase statename statusname"
    " currentstatus currentstate result conclusion"
)
REASON = _words(
    "reason secondarystatus statusreason"
    " stoppedreason stopcode failurereason holdreason exitreason statereason failedreason"
    " terminationreason killreason stopreason errorreason exceptionreason pendingreason drainreason"
)
"""Keys whose text states a reason, in whatever record they stand."""
GRAVE_REASON = _words(
    "holdreason failurereason failedreason killreason errorreason failureinfo failuremessage stoppedreason"
    " stopcode statusreason exitreason exceptionreason"
)
"""Keys that only a status document has; a text in the first seven of them is a failure by itself."""
FAILURE_REASON = GRAVE_REASON - _words("stoppedreason stopcode statusreason exitreason exceptionreason")
OF_JOB = _words(
    "jobid jobname taskid taskarn taskname podname containername trainingjobname runid clusterid"
    " jobdefinition submissionid allocid clientstatus laststatus apiversion metadata containerstatuses"
    " taskstates arn instanceid statetransitionreason reasonchangedat nextstateafterreboot"
    " ownerreferences restartcount returncode exitcode exitstatus driverexitcode finishedat stoppedat endtime"
)
"""Keys of a record of a job, pod, task or container; records of test results and data have none."""
DETAIL = _words(
    "message statusmessage statemessage errormessage failuremessage error err exception cause details detail"
    " description displaymessage comment comments statedescription statusdescription statusdetails"
    " info lasterror rawerror exitdiagnostics containerexitdiagnostics diagnostics"
)
"""Keys whose text counts in a record that failed by its state, exit code or reason."""
EXIT = _words(
    "exitcode exitstatus returncode driverexitcode rc containerexitcode processexitcode jobexitcode"
)
SIGNAL = _words("signal exitsignal termsignal exitbysignal killedbysignal")
NODE = _words(
    "nodename node hostname host nodelist nodes exechost execnode exechosts instanceid ec2instanceid hostip"
    " machine machineid workernode containerhost batchhost drivernode lastremotehost remotehost involvednode"
)
NAME = _words(
    "name jobname taskname podname taskrolename containername trainingjobname displayname jobid taskid"
    " taskarn id clusterid runid allocid"
)
TIME = (
    "finishedat", "stoppedat", "endtime", "trainingendtime", "completiontime", "endedat", "end", "finishtime",
    "exittime", "completedat", "terminatedat", "stoppingat", "executionstoppedat", "timefinished", "enddate",
    "lasttransitiontime", "lasttimestamp", "eventtime", "timestamp", "time", "modifytime", "updatetime",
)  # fmt: skip
"""Keys of the time of the end, best first."""
RANK_KEYS = ("global_rank", "globalRank", "world_rank", "worldRank", "process_index", "processIndex")
"""Keys of the global rank of a process."""
OUT_OF_MEMORY = _words("oomkilled oomkill outofmemory")
"""Keys that are true if the kernel killed a process for lack of memory."""
OPERATION = _words(
    "operationtype methodname eventtype detailtype event action notice eventname instanceaction"
)
"""Keys that name the operation of a cloud."""
OPERATION_NAMES = {"instanceaction": "instance-action", "eventtype": "EventType", "detailtype": "detail-type"}
TAKEN = pattern_of(
    r"(?i)preempt|host_?error|spot .{0,20}(?:interrupt|terminat)|terminate_?on_?host_?maintenance"
    r"|^(?:terminate|stop|hibernate)$"
)
"""Matches names of operations by which a machine is taken away."""
CRASH_LOOP = pattern_of(r"(?i)crashloopbackoff|imagepullbackoff|errimage\w*|create\w*error|runcontainererror")
"""Matches reasons of a waiting container that has failed."""

FAILED = pattern_of(
    r"(?i)(?:(?:job|run|trial|task)?_?(?:state|status)_)?(?:fail(?:ed|ure|ing)?(?:_\w{1,40})?|(?:internal_?)?error(?:ed)?|dead|lost|crash(?:ed)?|out_?of_?me\w*|oom\w*"
    r"|node_?fail(?:ed)?|boot_?fail|evicted|time_?(?:d_?)?out|deadline|preempted|unhealthy|exit|aborted|killed"
    r"|stopped_with_error|terminated_with_errors|systemfailed|unknownfailure|down|hang|interrupted|nodelost"
    r"|imagepullbackoff|errimagepull|crashloopbackoff|createcontainer\w*error|containercannotrun|not_?responding)$"
)
"""States of a failure."""
ENDED = pattern_of(r"(?i)(?:job_?state_)?(?:complet(?:e|ed)|finished|done|ended|terminated)$")
"""Matches states of an end that may be a failure; a result inside the record decides."""
EARLIER = _words("attempts retries history events previousattempts taskinstances jobhistory tries")
"""Keys of earlier attempts, whose failures a later attempt has made good."""
GOOD = pattern_of(
    r"(?i)(?:job_?state_)?(?:succe\w{0,20}|complet(?:e|ed|ing)|finished|done|running|active|ready|in_?service"
    r"|healthy|ok|passed|success|idle|allocated|mixed|up|online|starting|in_?progress)$"
)
"""Matches states of an end without failure, or of a job that runs."""
WAITING = pattern_of(
    r"(?i)(?:job_?state_)?(?:pend(?:ing)?|queued?|waiting|unschedulable|held|hold|suspended|requeue_?hold)$"
)
CONDITIONS_OF_FAILURE = _words("failed failuretarget disruptiontarget evicted outofdisk")
CONDITIONS_OF_SUCCESS = _words("complete succeeded successcriteriamet finished")
"""Types of a Kubernetes condition that is `True` if the job succeeded."""
CONDITIONS_OF_NODE = _words("ready")
"""Types of a condition of a Kubernetes node that is `True` if the node works."""
CONDITIONS_OF_START = _words("podscheduled quotareserved")
"""Types of a condition of a pod or workload that is `False` while it waits to start."""
NO_REASON = pattern_of(
    r"(?i)(?:none|null|n/?a|unknown|-|completed?|ok|success\w*|not set|"
    r"essential ?container ?(?:in task )?exited|error|failed|task failed to start"
    r"|terminated?|stopped|stopping|training|interrupted)?\.?"
)
"""Matches reasons that state no more than the state itself."""
ON_PURPOSE = pattern_of(
    r"(?i)\b(?:cancell?ed|stopped|terminated|deleted|aborted|killed) by "
    r"(?:the )?(?:user|admin|owner|caller|request)"
    r"|\buser[- ]?initiated|\buser ?requested\b|\bscaling activity\b|\bservice ?scheduler ?initiated\b"
    r"|\bscaled? (?:in|down)\b"
)
"""Matches reasons of an end that a person asked for."""
MARK = pattern_of(
    rb'(?i)"?\b(?:stopped_?reason|status_?reason|failure_?reason|exit_?code|exit_?status|exitreason|stopcode'
    rb"|training_?job_?status|container_?exit_?code|processing_?job_?status|last_?status|job_?state|jobstatus|containerstatuses|clientstatus|holdreason"
    rb"|driver_?exit_?code|return_?code|taskstates|state_?reason|instance-action|operationtype|methodname|event_?type|conditions|provisioning_?state"
    rb'|status|state|phase|stat)"?\s{0,4}:'
)
"""Matches a key of a status document: a file without one in its first bytes is not parsed."""
