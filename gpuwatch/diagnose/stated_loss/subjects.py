"""Finds the subject of a sentence about a loss, and its failure class. Data and pure functions.

Example: in `node gpu-17 is unreachable and was excluded` the nearest noun before the predicate is `node`, so
the class is that of a member which the job lost.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.stated_loss.noun_places import BEFORE, distances, masked_paths, starts
from gpuwatch.diagnose.stated_loss.predicates import Kind
from gpuwatch.rules.model import rule_ids


class LossSubject(NamedTuple):
    """One kind of subject: its class, its nouns, and the predicates that state its loss."""

    code: str
    nouns: re.Pattern[str]
    kinds: frozenset[Kind]
    states: re.Pattern[str] | None = None
    """Pattern of the predicates of kind `state` or `ended` that fit; None: all fit."""
    omits: re.Pattern[str] | None = None
    """Pattern of the predicates of kind `omitted` that fit; None: all fit."""
    stays_failed: bool = False
    """True for parts that stay failed once they failed; a task, a request or a read is tried again."""
    by_path: bool = False
    """True if the subject may be named by its path: `/mnt/data is gone`."""
    names_far: bool = False
    """True if a bare name (`gpu-17`) counts as farther from the predicate than another noun."""
    of_data: bool = False
    """True for data that is read: a failed attempt is no loss, and written data belongs to a checkpoint."""
    of_checkpoint: bool = False


def _words(text: str) -> re.Pattern[str]:
    return pattern_of(rf"(?i)(?<![\w-])(?:{text})(?![\w(])")


_STATE = frozenset[Kind](("state", "ended", "omitted", "few", "all", "fewer"))
_GONE_WORDS = (
    r"lost|losing|loses|gone|missing|dead|unreachable|excluded|dropped|dropped out|fell off|fallen|vanished"
    r"|disappeared|offline|inactive|down|failed|failing|died|removed|isolated|quarantined|detached"
    r"|ejected|defective"
    r"|broken|unhealthy|unresponsive|not respond\w*|stopped \w+|unavailable|unusable|absent|drained|unplugged"
    r"|degraded|taken \w+.*|dropped out|drops out|stuck|crashed|evicted|fenced|gave up|giving up"
    r"|left (?:out|behind)|disconnected|cut off"
    r"|blacklisted|powered off|shut off|out of service|stopped|frozen|faulty|diverged|detected"
)
_GONE = _words(r".*(?:" + _GONE_WORDS + r").*")
_OFF = _words(r".*(?:" + _GONE_WORDS + r"|disabled|deactivated).*")
_DEVICE_SEEN = _words(
    r".*(?:detect|found|seen|recogni|respond|answer|spin|present|reach|repair|recover|replace|restart"
    r"|restore|join"
    r"|come back|came back)\w*"
)
SUBJECTS: tuple[LossSubject, ...] = (
    LossSubject(rule_ids.GPU_NVLINK_INACTIVE, _words(r"nv-?links?(?:[ #]?\d+)?"
        r"|nv-?switch\w*"), _STATE, _OFF, _DEVICE_SEEN, stays_failed=True),
    LossSubject(
        rule_ids.NET_REPORTED_DOWN,
        _words(
            r"(?:ib |infiniband |roce )?ports?|nics?|hcas?|rails?|links?|pcie lanes?|switch(?:es)?"
            r"|fabric|cables?"
            r"|transceivers?|(?:mlx|bnxt|irdma|hfi1|efa|ens|enp|eno|eth|ib|bond)[\w-]*\d\w*|subnet manager"
            r"|uplinks?|adapters?(?= \d| \w*\d)"
        ),
        _STATE, _OFF, _DEVICE_SEEN,
        stays_failed=True,
    ),
    LossSubject(
        rule_ids.HOST_PART_FAILED,
        _words(
            r"power suppl(?:y|ies)|power feeds?|memory banks?(?: \w+)?|psu ?\d*s?|fans?|pumps?|dimms?\w*"
            r"|coolant|cooling|chassis|backplane"
            r"|riser|bmc"
            r"|redundancy|batter(?:y|ies)|vrm|memory (?:modules?|channels?)|cpu sockets?|pdus?|crac"
            r"|cooling loop"
        ),
        _STATE, _OFF, _DEVICE_SEEN,
        stays_failed=True,
    ),
    LossSubject(
        rule_ids.STORAGE_LOST,
        _words(
            r"disks?|drives?|ssds?|nvmes?\w*|(?:raid )?arrays?|raid\w*|volumes?|mounts?|mount points?"
            r"|file ?systems?|zpool|pool"
            r"|scrub|ost\w*|/dev/\w+|nfs|lustre|gpfs|beegfs|bricks?|object store|buckets?|scratch"
        ),
        _STATE,
        _words(r".*(?:" + _GONE_WORDS + r"|corrupt\w*|damaged|wiped|unreadable|\w+ errors? .*).*"),
        _DEVICE_SEEN,
        stays_failed=True, by_path=True,
    ),
    LossSubject(
        rule_ids.GPU_LOST,
        _words(
            r"gpus?(?:[ #:]?\d+)?(?!-\w)|cuda devices?|accelerators?|npus?|xpus?|tpus?|gcds?|hbm"
        ),
        _STATE, _GONE, _DEVICE_SEEN,
        stays_failed=True,
    ),
    LossSubject(
        rule_ids.CKPT_WRITE_FAIL,
        _words(
            r"checkpoints?|ckpts?|snapshots?|optimi[sz]er states?|state[_ ]?dicts?|saves?|savers?|saving"
            r"|model (?:files?|weights)|\S{1,80}\.(?:ckpt|pt|pth|safetensors|distcp)|lora weights|ema weights"
            r"|rng states?|training states?|(?:lr[- ]?)?schedulers?(?: states?)?"
            r"|global_step\d+|uploaders?(?: threads?)?|(?:save|writer"
            r"|upload) threads?|iter_\d+|last state|resume states?|backups?"
        ),
        _STATE | {"void"},
        _words(
            r"discarded|lost|losing|loses|left (?:out|behind)|incomplete|stale|truncated|corrupt\w*"
            r"|damaged|missing"
            r"|unreadable|failed|failing|died|dead|gave up|gives up|giving up|crashed|stopped.*"
            r"|overwritten|gone|broken"
            r"|unusable|stuck|half[- ]written|thrown away|zeroed|vanished|disappeared|orphaned"
            r"|beyond recovery|(?:not|no longer) re\w+able|un-?recoverable|irrecoverable"
        ),
        _words(
            r".*(?:sav|writ|stor|gather|persist|upload|sync|flush|commit|kept|backed|archiv|copied"
            r"|restor|resum"
            r"|finish"
            r"|complet|finali|read|transmit)\w*"
        ),
        stays_failed=True, by_path=True, of_checkpoint=True,
    ),
    LossSubject(
        rule_ids.METRICS_LOST,
        _words(
            r"metrics?|evals?|evaluations?|validations?|scores?|results?|run data|telemetry|histor(?:y|ies)"
            r"|log (?:records|entries)|benchmarks?|predictions?|test sets?|validation sets?"
        ),
        _STATE,
        _words(r"incomplete|empty|lost|losing|loses|left out|discarded|missing|dropped|stale|overwritten"
            r"|failed|corrupt\w*"
               r"|gave up|gone|unusable"),
        _words(r".*(?:evaluat|validat|arriv|scor|comput|sync|upload|writ|sav|finish|complet|kept|restor"
            r"|includ)\w*"),
        by_path=True,
    ),
    LossSubject(
        rule_ids.DATA_SAMPLES_LOST,
        _words(
            r"samples?|examples?|records?|documents?|shards?|tokens?|rows?(?! re-?map)|datasets?|corpus"
            r"|data ?loaders?|samplers?"
            r"|captions?|images?|clips?|iterators?|training data|data|sequences?|prefetchers?|files?"
        ),
        _STATE,
        _words(r"lost|losing|loses|corrupt\w*|damaged|unreadable|missing|overwritten|gone|truncated|died"
            r"|crashed|gave up"
               r"|garbled|wiped|zeroed|failed|stopped|stuck|\w+ errors? .*"),
        _words(r".*(?:\bread|decod|restor|resum|shuffl|found)\w*"),
        by_path=True, of_data=True,
    ),
    LossSubject(
        rule_ids.NUM_REPLICAS_DIFFER,
        _words(
            r"replicas?|parameters?|params?|weights?|experts?|gradients?|copies|copy|models?|vocab\w*"
            r"|tokenizers?"
            r"|buffers?|ema|optimi[sz]ers?|layers?|states?|batch ?norm\w*|ddp|fsdp|embeddings?"
        ),
        _STATE | {"differ"},
        _words(r"out of (?:sync|step)|desynchroni[sz]ed|stale|diverged|corrupt\w*|garbled|overwritten"
            r"|zeroed"),
        _words(r".*(?:sync|averag|reduc|replicat|shard|wrap|broadcast|exchang)\w*"),
    ),
    LossSubject(
        rule_ids.TRAIN_NO_EFFECT,
        _words(
            r"parameters?|params?|layers?|models?|modules?|losses|loss|gradients?|lora|requires_grad|heads?"
            r"|backbone|weights?|optimi[sz]ers?|experts?|filter|examples?|samples?|tokens?"
        ),
        frozenset(("all", "void", "few", "omitted")),
        None,
        _words(r".*(?:train|updat|learn|appl)\w*"),
    ),
    LossSubject(
        rule_ids.JOB_MEMBERS_LOST,
        _words(
            r"nodes?|hosts?|ranks?|workers?|pods?|tasks?|process(?:es)?|peers?|members?|actors?|engines?"
            r"|daemons?"
            r"|kubelet|instances?|machines?|trainers?|learners?|raylets?|executors?|replicas?"
            r"|containers?|slices?"
            r"|[a-z][a-z-]{1,20}-?\d{1,4}"
        ),
        _STATE, _GONE, _DEVICE_SEEN,
        names_far=True,
    ),
)  # fmt: skip
"""The kinds of subjects, in order of precedence among nouns that are equally near."""
OF_KIND: dict[Kind, str] = {
    "nan": rule_ids.NUM_VALUES_NAN, "differ": rule_ids.NUM_REPLICAS_DIFFER, "alone": rule_ids.LAUNCH_TOO_FEW,
    "fewer": rule_ids.LAUNCH_TOO_FEW, "void": rule_ids.TRAIN_NO_EFFECT, "leak": rule_ids.METRICS_LOST,
    "same": rule_ids.DATA_SAMPLES_LOST,
}  # fmt: skip
"""Kind of predicate -> failure class, for kinds that alone determine the class."""
_WRITES = re.compile(r"(?i)(?:wrote|saved|committed|flushed|uploaded|synced|persisted)\b")
_SAVED_STATE = re.compile(r"(?i)\b(?:optimi[sz]ers?|checkpoints?|ckpts?|moments|master weights)\b")
_WAS_THERE = re.compile(
    r"(?i)corrupt|unreadable|truncated|damaged|half[- ]written|garbled|vanish|disappear|recover"
    r"|\b(?:is|are|was|were) (?:lost|gone)\b"
)
"""Matches predicates of a state that was written before it was lost."""
_LOSING = re.compile(r"(?i)(?:lost|los(?:es|ing)|stopped|(?:has|have) lost)\b")
_ATTEMPT = re.compile(r"(?i)(?:failed to|unable to|could ?n[o']t|cannot|can ?not) (?!be\b)")
"""Matches a failed attempt; the next attempt may succeed."""
_FAILED = re.compile(r"(?i)\bfail(?:s|ed|ing)\b")
SIZED = _words(
    r"world[ _]?size|ranks?|process(?:es)?|gpus?|nodes?|hosts?|workers?|replicas?|devices?"
    r"|global batch(?: size)?"
    r"|batch(?: size)?|tasks?|pods?|shards?|data[- ]parallel size|dp size|members?|links?|lanes?|rails?"
)
"""Matches resources of which a job can have too few."""
TENSORS = _words(
    r"\S{0,60}(?:\.(?:weight|bias)|embedding|weight|param|logit|activation|moment|exp_avg|buffer|running_mean"
    r"|output"
    r"|layer|tensor|master|state|hidden)\S{0,60}"
)
"""Matches objects whose values must be finite."""


def class_of(kind: Kind, sign: str, before: str, behind: str) -> str | None:
    """Return the class of a loss by the noun that is nearest to its predicate, else None.

    Args:
        kind: The kind of its predicate.
        sign: The words of the predicate.
        before: The text before it; a noun there is preferred.
        behind: The text behind it.
    """
    if kind == "fewer":
        return OF_KIND[kind] if SIZED.search(before + sign + behind) else None
    if kind == "nan":
        return OF_KIND[kind] if TENSORS.search(before) else None
    if kind in ("alone", "void", "leak", "same", "differ") and not _seeded(before + behind):
        return rule_ids.CUDA_NO_DEVICE if kind == "alone" and "single" not in sign.lower() else OF_KIND[kind]
    left, right = _nouns_of(before), _nouns_of(sign + behind)
    near = [
        (far, row)
        for row in SUBJECTS
        for far in distances(
            row.nouns,
            left[row.by_path],
            anywhere=kind in ("few", "all") or "error" in sign,
            names_far=row.names_far,
        )
    ]
    if kind not in ("state", "ended") or _LOSING.match(sign):
        near += [
            (2 * BEFORE + start, row) for row in SUBJECTS for start in starts(row.nouns, right[row.by_path])
        ]
    for _, row in sorted(near, key=lambda each: each[0]):
        if kind in row.kinds and _fits(row, kind, sign):
            return _class_of_state(row, sign, before)
    return None


def _nouns_of(text: str) -> tuple[str, str]:
    """Return the text in which classes search their nouns: those of machines, and those that paths name."""
    return masked_paths(text, all_paths=True), masked_paths(text, all_paths=False)


def _class_of_state(row: LossSubject, sign: str, before: str) -> str:
    """Return the class of a row; that of a checkpoint if its data is written, or is a saved state."""
    if row.of_checkpoint or (row.of_data and _WRITES.match(sign)):
        return rule_ids.CKPT_CORRUPT if _WAS_THERE.search(sign) else rule_ids.CKPT_WRITE_FAIL
    return rule_ids.CKPT_CORRUPT if row.of_data and _SAVED_STATE.search(before) else row.code


def _seeded(text: str) -> bool:
    """Return True if the text is about seeds, random states, data order or learning rates.

    These differ between ranks on purpose.
    """
    return (
        re.search(r"(?i)\b(?:seeds?|rng|random states?|sampler|ordering|shuffl\w+|learning rates?)\b", text)
        is not None
    )


def _fits(row: LossSubject, kind: Kind, sign: str) -> bool:
    if kind in ("state", "ended"):
        if _FAILED.search(sign) and not row.stays_failed:
            return False
        return row.states is None or row.states.search(sign) is not None
    if kind == "omitted" and row.of_data and _ATTEMPT.match(sign):
        return False
    return kind != "omitted" or row.omits is None or row.omits.search(sign) is not None
