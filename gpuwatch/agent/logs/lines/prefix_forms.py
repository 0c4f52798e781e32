"""Defines prefix patterns by their first character; each is anchored and bounded.

Named groups give the writer: `rank`, `caps` (a rank), `local` (a local rank), `task`, `pid`, `host`,
`program`. After a time a log collector may write host and program.

A tag names a process and its host: `[rank 3@gpu-004]`, `<13@h2>`, `R7/zs02: `, `(gpu-004 | worker 3)`. The
number after `rank` or `r` is a rank; after other words, or none, a task.
"""

import re

from ...patterns.module_pattern import pattern_of

HOST = r"[A-Za-z0-9][\w.-]{0,80}"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ZONE = r"(?:Z| ?[+-]\d\d:?\d\d| UTC)?"
_DAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_ANY_MONTH = r"[^\W\d_]{3,5}\.?"  # of another language
_COLLECTED = r" {0,2}(?P<host>[A-Za-z0-9][\w.@-]{0,80})(?:/[\w.@-]{1,80})?"
_DEVICE = (  # kernel and RDMA messages begin so; none of these is a host
    r"(?!(?:mlx|bnxt|irdma|eth|en[ops]|ibp?|ibs|bond|nvme|nvidia|sd|md|dm|amdgpu|i40e|ixgbe|ice|hfi|qp|cpu|"
    r"rank|worker|line|step|epoch|iter|cuda|CUDA|node|np|v|q|h)[\d_-]*:|gpu\d{1,2}:|python[\d.]{1,5}:|nvidia-nvswitch\d)"
)
_END = r"(?=[ \t\[:|,]|$)[:| ]?"


def _forms(*patterns: str) -> "list[re.Pattern[str]]":
    return [pattern_of(each) for each in patterns]


_OUT_OF = r"(?:/\d{1,6})?"
_RANK = r"(?:(?:global[ _-]?)?ran(?:k|g[oa]?)|rk?)[ :=#_-]{0,2}(?P<caps>\d{1,6})" + _OUT_OF
_WORD = r"(?:w|p|pe|worker|task|proc|process|member|trainer|replica)[ :=#_-]{0,2}"
_TASK = r"(?P<task>\d{1,6})" + _OUT_OF
_NO_HOST = (
    r"(?!(?:epoch|step|it|iter|gpu(?![_:-]?(?:0\d|\d{3}))|cuda|npu|xpu|dev|device|tp|pp|dp|cp|ep|mp|stage|layer|v|lr|pid|tid|job|run"
    r"|exp|attempt|seed|fold|batch|mb|group|pg|rank|local_rank|[\w.-]{1,80}\.py)[_:-]?\d{0,9}(?![\w.-]))"
)
_AT = r" ?(?:@ ?|on )" + _NO_HOST + r"(?P<host>[A-Za-z][\w.-]{0,80})"
_HOST_AFTER_MARK = r" ?[/|] ?" + _NO_HOST + r"(?P<host>(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80})"
_OF_HOST = _NO_HOST + r"(?P<host>(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80}?)(?: ?[/@|,:] ?| )"


def _tags(begin: str, end: str, bare: str) -> "tuple[str, ...]":
    """Return regular expressions for a tag with a host and a rank or task between two delimiters.

    `bare`: `?` if a number without a word is a task too.
    """
    whose = [_RANK + _AT, _RANK + _HOST_AFTER_MARK, r"(?:" + _WORD + r")" + bare + _TASK + _AT]
    whose += [_WORD + _TASK + _HOST_AFTER_MARK, _OF_HOST + _RANK, _OF_HOST + _WORD + _TASK]
    return tuple(r"(?i:" + begin + each + end + r")" for each in whose)


TAGS = _forms(
    *_tags(r"[\[(<{] ?", r" ?[\])>}](?=[\s:|-])[:|-]? ?", "?"),
    r"[\[(<{]"
    + _TASK
    + r"/\d{1,6}[ ,@|]{1,3}"
    + _NO_HOST
    + r"(?P<host>(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80})[\])>}](?=[\s:|-])[:|-]? ?",
)
NAMED_TAGS = _forms(*_tags("", r" ?(?:[:|>] |[:|>]$)", ""))
BRACKETED = _forms(
    r"\[cli_(?P<caps>\d{1,6})\]: ?",  # MPICH
    r"[\[(<{]g(?P<caps>\d{1,6})[/ ,|]{1,2}l(?P<local>\d{1,4})[\])>}](?=[\s:|])[:|]? ?",
    r"\["
    + _NO_HOST
    + r"(?P<host>(?=[\w.]{1,80}-)(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80}):(?P<local>\d{1,2})\]: ?(?=\S)",
    r"\[rank(?P<rank>\d{1,6})\[?\]?\]:",
    r"\[RANK (?P<caps>\d{1,6})\] (?=\S)",
    r"\[(?:default|worker|trainer|actor|role)(?P<local>\d{1,4})\]:",
    r"\[[a-z]{3,20}\d{1,6}\|\d{1,4}\]:",
    r"\[\d{1,8}\] (?=\[rank\d)",
    r"\[(?P<host>[A-Za-z][\w.-]{0,80}):(?P<pid>\d{2,10})\] ?"  # Open MPI
    r"(?=\*\*\* |Signal|\[ ?\d{1,3}\] |Failing at|MCW |mca_|\[\[|(?:[A-Z]{2,5}X? )?ERROR)",
    r"\[(?P<host>algo-\d{1,4}|(?:[a-z0-9]{1,40}-){1,6}(?:worker|master|chief)-\d{1,4})\]:? ?(?=\S)",
    r"\[(?P<host>[A-Za-z][\w.-]{0,80}):mpi(?:spawn_\d{1,5}|run_rsh)\]",  # MVAPICH
    r"\[pod/(?P<host>[\w.-]{1,80})/[\w.-]{1,80}\] ?",  # kubectl logs --prefix
)
BRACKETED_STAMPS = _forms(
    r"\[\d{4}-\d\d-\d\d[T ]" + _CLOCK + _ZONE + r"(?: TP(?P<task>\d{1,4}))?\][:| ]?",  # SGLang
    r"\[\d{4}/\d\d/\d\d[T ]" + _CLOCK + _ZONE + r"\][:| ]?",
    r"\[(?:\d\d[/.-]){2}\d{4},? " + _CLOCK + _ZONE + r"\][:| ]?",
    r"\[\d\d/[A-Z][a-z]{2}/\d{4}:" + _CLOCK + r" [+-]\d{4}\] ?",
    r"\[(?:\d\d[/-]\d\d )?" + _CLOCK + r"\][:| ]?",
    r"\[\d{10}(?:\.\d{1,9}|\d{3})?\](?=[ :])[:| ]?",
)
ANGLED_STAMPS = _forms(r"<\d{4}[-/]\d\d[-/]\d\d[T ]" + _CLOCK + _ZONE + r">[:| ]?")
KERNEL_STAMPS = _forms(
    r"\[\s{0,8}\d{1,8}\.\d{6}\](?:\[\s{0,8}[TC]\d{1,8}\])? ?",
    r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] ?",
)
PARENTHESISED = _forms(
    r"\((?:head|worker\d{1,4}), rank=(?P<task>\d{1,6}), pid=(?P<pid>\d{1,10})"  # SkyPilot: of the node
    r"(?:, ip=(?P<host>[\d.]{7,15}))?\) ?",
    r"\([A-Za-z]{1,40}_TP(?P<task>\d{1,4})(?:_EP\d{1,4})?(?: pid=(?P<pid>\d{1,10}))?\) ?",  # vLLM
    r"\((?:[\w.:-]{1,80}(?:\[(?:\w{0,12}_)?rank=(?P<rank>\d{1,6})\]|\([\w.:-]{1,80}\))?,? )?"
    r"(?:(?:global_)?rank=(?P<caps>\d{1,6}),? )?(?:[\w.]{1,30}=[\w.]{1,30},? ){0,3}"
    r"pid=(?P<pid>\d{1,10})(?:, ip=(?P<host>[\d.]{7,15}))?\) ?",
    r"\([\w-]{1,40}, ip=(?P<host>[\d.]{7,15})\) ?",
)
PRIORITIES = _forms(
    r"<[0-7]>(?!1 \d{4}-)(?=\S)",  # facility 0 is the kernel
    r"\d{1,3},\d{1,12},\d{1,16},[-c+](?:,[^;]{0,80})?;",
)
NUMBERED = _forms(
    r"(?P<task>\d{1,6}): (?=\S| {1,7}[A-Z])(?![\d.nan-]{1,40}, [\d.nan-]{1,40} avg\b)",  # no step of Darknet
    r"(?P<host>\d{1,3}(?:\.\d{1,3}){3})(?:: | \[(?P<task>\d{1,4})\] )(?=\S)",
)
NUMBERED_STAMPS = _forms(
    r"\d{4}-[A-Z][a-z]{2}-\d\d "
    + _CLOCK
    + r" {1,3}(?P<pid>\d{1,10}):\d{1,10} (?:\[(?P<task>\d{1,4})\] )?",  # Neuron
    r"\d{4}-\d\d-\d\d[T ]" + _CLOCK + _ZONE + r"(?: std(?:err|out) [FP])?" + _END,
    r"\d{4}-\d\d-\d\d \d\d:\d\d (?=\[rank\d)",
    r"\d{4}/\d\d/\d\d[T ]" + _CLOCK + _ZONE + _END,
    r"(?:\d\d[/-]){2}\d{4} " + _CLOCK + _ZONE + _END,
    r"(?:\d\d\.){2}20\d\d,?[ T]" + _CLOCK + _ZONE + _END,
    r"\d{1,2}[月월] {1,2}\d{1,2} " + _CLOCK + r"(?= )",  # journalctl in Chinese, Japanese, Korean
    r"\d{4}\.\d\d\.\d\d(?=[ ])",  # the date of Thunderbird, BGL
    _CLOCK + r"(?=[ ])(?! ?[|\]]| <\d\d:)",
    r"\d{10}(?:\.\d{1,9}|\d{3})?(?=[ :])[:| ]?(?=\s{0,4}[^\s\d.,+*/=-]|\d{4}[-.])",
)
HOST_NAMED = _forms(
    r"(?P<host>" + HOST + r") \[std(?:err|out)\] ",
    r"std(?:err|out): ",
    r"(?P<host>workerpool\d-\d{1,5})(?:[ :|]{1,3})(?=\S)",  # Vertex AI
    r"(?P<host>(?:[a-z0-9]{1,40}-){0,6}(?:worker|master|chief|trainer|launcher)-\d{1,4}(?:-[a-z0-9]{5})?) "
    r"(?:\u203a|[a-z][a-z0-9-]{1,40}) (?=\S)",  # stern
    r"[A-Za-z][\w.-]{0,60}/\d{1,5} (?=[\[(])",
    r"(?:[A-Za-z][\w.-]{0,80}/){1,3}"  # a stream of a log service
    r"(?P<host>(?:[a-z0-9]{1,40}-){0,6}(?:algo|worker|master|chief|trainer|launcher|node|replica)-\d{1,4})"
    r"(?:[-/][\w-]{1,80})?:? (?=\S)",
    r"(?!node|host|gpu|worker)[a-z][a-z-]{0,60}-1 {1,20}\| (?=\S)",  # a service of docker compose
    r"[a-z]{1,40}(?:-[a-z]{1,40}){1,4} {2,20}\| (?=[^\s\d|])",
    r"rank[_-]?(?P<caps>\d{1,6})\.1 {1,20}\| (?=\S)",  # an entry of a Procfile, and its instance
    r"rank[_-]?(?P<caps>\d{1,6}) ?@ ?(?P<host>(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80}) (?=\S)",
    r"(?P<host>[a-z][a-z0-9.-]{0,60}[-_]\d{1,5}) {1,20}\| (?=\S)",
    r"(?P<host>[a-z][a-z0-9]{0,40}(?:-[a-z0-9]{1,40}){1,4}) {2,20}\| (?=[^\s\d|])",
    _DEVICE
    + _NO_HOST
    + r"(?P<host>[a-z](?=[\w.-]{0,80}?(?:\d[\d.]|-\d|\d[a-z]\d))[\w.-]{1,80}) "
    + r"(?P<task>\d{1,6}): (?=\S)",  # PALS
    r"(?P<host>[a-z][a-z-]{0,60}\d[A-Za-z0-9.-]{0,60})#(?P<local>\d{1,4})[|>:] ?(?=[\s\S])",
    r"(?P<host>[A-Za-z][\w.-]{0,80}):(?P<pid>\d{2,10}):\d{2,10} \[\d{1,3}\] "
    r"(?!NCCL|\S{1,160}:\d{1,6} NCCL)(?=\S)",
    r"(?P<host>node[_-]?\d{1,4}): (?=\[(?:rank|RANK |default)\d|\[?\d{4}-\d\d-\d\d|Traceback \()",
    r"(?P<host>(?:worker|trainer|master)-\d{1,4}): (?=\[(?:rank|RANK |default)\d"
    r"|\[\d{4}-\d\d-\d\d [\d:,]{8,12}\] \[[A-Z]{4,8}\] \[(?:launch|runner)\.py:)",
    r"(?P<host>(?=[A-Z0-9-]{0,40}\d)[A-Z][A-Z0-9-]{2,40}): "
    r"(?=\[?\d{4}-\d\d-\d\d[ T]|Traceback \(|\s{2,8}File \")",
    _DEVICE + r"(?P<host>[a-z][a-z-]{0,60}\d[A-Za-z0-9.-]{0,60}): (?=\S)",  # pdsh
    r"(?P<host>[a-z]{1,40}(?:-[a-z]{1,40}){1,5}): "
    r"(?=\[(?:rank|RANK |default)\d|\[?\d{4}-\d\d-|\[[EWIF]\d{3,4} )",
)
NAMED_STAMPS = _forms(
    _DAY + _MONTH + r" {1,2}\d{1,2} " + _CLOCK + r"(?: (?:[A-Z]{3,4} )?20\d\d)?(?= )",
    _ANY_MONTH + r" [ \d]\d " + _CLOCK + r"(?= " + HOST + r" [\w./-]{1,60}(?:\[\d{1,10}\])?:)",
    _DAY + r"\d{4}-\d\d-\d\d " + _CLOCK + r"(?: [A-Z]{3,4})?(?= )",
)
SYSLOG_5424 = _forms(
    r"<\d{1,3}>1 \d{4}-\d\d-\d\dT" + _CLOCK + _ZONE + r" (?:(?P<host>" + HOST + r")|-)"
    r" (?:(?P<program>[A-Za-z(][\w.@/()-]{0,60})|-) (?:(?P<pid>\d{1,10})|\S{1,64}) \S{1,32}"
    r" (?:-|\[[^\]]{0,400}\])(?: \ufeff?|$)"
)
KERNEL = _forms(r"kernel: ?")
STREAMS = _forms(r"\[std(?:err|out)\]:? (?=\S)")
LINE_NUMBERS = _forms(  # of `cat -n` or `nl` (a tab is four blanks) before a tag or time, not before a text
    r" {0,6}\d{1,7} {4}(?=[\[(<{]|\d{4}[-/]\d\d[-/]\d\d|Traceback \()"
)
OTHERS = _forms(
    r"> ",
    r"--?(?:global[_-])?rank[ =](?P<caps>\d{1,6}) {4}",  # arguments that GNU parallel puts before each line
    r"- (?=\d{10} \d{4}\.)",
    r"<\d{1,3}>(?:1 )?(?=\S)",
)
LABELS = _forms(r"[A-Z_]{3,12} (?=\d{10} \d{4}\.)")  # of an alert, in the data sets of supercomputers

PLAIN, STAMP, SYSTEM = "plain", "stamp", "system"
"""Kinds of prefixes: of a launcher, a time, or the kernel."""

_TABLE = (
    ("[", PLAIN, BRACKETED),
    ("[(<{", PLAIN, TAGS),
    ("[", SYSTEM, KERNEL_STAMPS),
    ("[", STAMP, BRACKETED_STAMPS),
    ("<", STAMP, ANGLED_STAMPS),
    ("(", PLAIN, PARENTHESISED),
    ("<", STAMP, SYSLOG_5424),
    ("<0", SYSTEM, PRIORITIES),
    ("0", PLAIN, NUMBERED),
    ("0", STAMP, NUMBERED_STAMPS),
    ("a", SYSTEM, KERNEL),
    ("a", STAMP, NAMED_STAMPS),
    ("a", PLAIN, LABELS + NAMED_TAGS + HOST_NAMED),
    (">-<", PLAIN, OTHERS),
    ("[", PLAIN, STREAMS),
    ("0 ", PLAIN, LINE_NUMBERS),
)
FORMS: "dict[str, list[tuple[str, re.Pattern[str]]]]" = {}
"""First character (`0` for digits, `a` for letters) -> patterns to try, in order."""
for _firsts, _kind, _patterns in _TABLE:
    for _first in _firsts:
        FORMS.setdefault(_first, []).extend((_kind, each) for each in _patterns)

_LEVELS = r"(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|CRITICAL|FATAL|TRACE)\b"
AFTER_STAMP = _forms(
    r"(?! {0,2}" + _LEVELS + r")" + _COLLECTED + r" (?P<program>[A-Za-z][\w.@:/()-]{0,60}?)\[\d{1,10}\]: ?",
    _COLLECTED + r" (?P<program>kernel): ?",
    r" {0,2}(?P<host>\S{1,60}) \d{4}-\d\d-\d\d-\d\d\.\d\d\.\d\d\.\d{1,6} \S{1,60} [A-Z]{2,10} "
    r"(?P<program>[A-Z]{2,10}) [A-Z]{2,10} ",
    _COLLECTED + r" (?=" + _MONTH + r" {1,2}\d{1,2} \d\d:\d\d:\d\d )",
)
"""Patterns after any time: host and program with pid, or the kernel; columns of BGL and Thunderbird."""
AFTER_MONTH = _forms(_COLLECTED + r" (?P<program>[A-Za-z][\w.@/()-]{0,60}): ?")
"""Patterns after a syslog time only: host and program without pid."""
