"""Decides whether a word of trouble states trouble: not denied, counted as 0, supposed, or overcome. Pure.

Example: `0 ranks lost`, `worker 3 died and was restarted`, `if a rank dies the job is restarted` and `crash
reporter enabled` state none; `restarted twice, then rank 3 died` does.
"""

from __future__ import annotations

from gpuwatch.agent.patterns.module_pattern import pattern_of

CLAUSE = pattern_of(r"[,;:(]\s|\s(?:but|because|since|then|-{1,2})\s|\.\s")
"""Matches the text between two clauses of a line."""
DENIED = pattern_of(
    r"(?i)(?:\b(?:no|not|never|none|without(?: any)?|nor|neither|zero)|n't)(?: [\w-]{1,20}){0,2} ?$"
)
NONE_OF = pattern_of(r"(?i)(?:\b(\w{1,20})[ #]?)?(?<![\w.:-])0(?:\.0{1,4})? (?:% )?(?:[\w-]{1,20} ){0,5}$")
"""Matches 0 and a unit before a word: `0 GPUs lost`."""
NO_MEMBER = pattern_of(r"(?i)\bnone of (?:[\w-]{1,20} ){1,5}$")
"""Matches "none of several" before a word: `none of its 2400 samples is missing`."""
NONE_OF_ALL = pattern_of(r"(?i)\bof (?:\w{1,5} )?\d{1,12} (?:[\w-]{1,20} ){1,2}0 (?:[\w-]{1,20} ){0,5}$")
"""Matches a count, and 0 of it, before a word: `of 512 shards 0 are corrupt`."""
COUNT_0 = pattern_of(r"(?i) in none\b|(?: [\w-]{1,20}){0,2}?\s?[:= ]\s?0\b(?![.,:]?\d)")
"""Matches 0 behind a word: `failed: 0`, `failed 0 times`."""
INDEX = pattern_of(
    r"(?i)(?<![a-z])(?:(?:gpu|device|rank|node|host|replica|worker|task|peer|process|core|cpu|slot|port|link"
    r"|stage|shard)s?|epoch|step|at|to)$"
)
"""Matches words after which 0 is an index, not a count."""
VALUE_0 = pattern_of(
    r"(?i)[:=]\s{0,4}(?:0|none|no|false|off|ok|passed|healthy|disabled)\W{0,2}$"
    r"|(?i:\bnone\W{0,2}$)"
)
PRECAUTION = pattern_of(
    r"(?i)(?:[- ](?:of|for|on|in) \w+)?[- _](?:handlers?|report(?:er|ing)|tolerance|limits?|thresholds?"
    r"|detect\w*|counts?|counters?|rates?|polic\w+|checks?|tests?|mode|recovery|budget|injection|hooks?"
    r"|probability|letters?|handling|flags?|window|listener|monitor|logger|callback)\b(?! fail| broke)"
)
"""Matches what a program does against a kind of trouble, named after it: `crash reporter`."""
SUPPOSED = pattern_of(
    r"(?i)\b(?:if|whenever|unless|would|will|may|might|max\w*|at most|up to|in case|evaluating"
    r"|to (?:avoid|prevent|detect))\b"
)
"""Matches words, in the clause of a trouble word, for trouble that has not happened."""
STAGED = pattern_of(
    r"(?i)\bdry[- ]?run|\bsimulat\w+|\btest mode|\bplanned\b|\bmaintenance\b|\bdrill\b|\boptional\b"
    r"|\byesterday\b|\blast (?:night|week)\b|\bon purpose\b|\bas expected\b|\bharmless\b"
    r"|\bnon-?fatal\b|\b(?:test|check|probe) (?:of .{1,60} )?(?:passed|ok)\b"
    r"|\b(?:is|are|will be) (?:reported|written|logged|replaced|restarted|retried|handled|ignored|caught"
    r"|skipped|counted|tolerated)\b|\b(?:enabled|installed|registered|armed)(?:$| for\b)"
)
"""Matches words that make all trouble of a line planned, staged, optional or past."""
OVERCOME = pattern_of(
    r"(?i)(?<!not )(?<!(?:not|n't|ust) be )(?<!never )(?<!to be )\b(?:ok now|recovered|reconnected"
    r"|restarted|restored|resumed|replaced|repaired|fixed|resolved|rerouted|retried|succeeded|works? again"
    r"|back to normal|is back|back (?:up|online|in)|corrected|handled|ignored|skipped|continu(?:ed|ing|es)"
    r"|going on|went on|carr(?:ied|ying) on|defaults? used|used instead|using|fell back|falling back"
    r"|(?:second|third|next|another) (?:try|attempt)|fetched|answers? again|tolerated|recreated|respawned)\b"
)
"""Matches words behind a trouble word that state that the trouble is over."""
REPAIRED = pattern_of(
    r"(?i)(?<!not )(?<!(?:not|n't|ust) be )(?<!never )(?<!to be )\b(?:ok now|recovered|reconnected|restored"
    r"|replaced|repaired|fixed|resolved|retry(?:ing)?|retried|succeeded|works? again|back to normal|is back"
    r"|(?:came|come) back|back (?:up|online|in)|up again|again after|corrected|answers? again|recreated"
    r"|respawned|instead(?! of)|(?:second|third|next|another) (?:try|attempt)"
    r"|(?:read(?:ing)?|taken?|fetched) (?:it )?from"
    r"|(?:will be|is|are) (?:\w{1,12} )?(?:synced|uploaded|written) later|kept (?:on|in|locally)"
    r"|as (?:configured|requested|it should|they should|expected))\b"
)
"""Matches words behind lasting trouble that state a repair; that the program goes on is no repair."""
HANDLED = pattern_of(
    r"(?i)\b(?:recovered|restarted|restored|resumed|reconnected|retried|skipp(?:ed|ing)|dropping|ignor(?:ed|ing)"
    r"|replac(?:ed|ing)|repaired|fixed|survived|handl(?:ed|ing)|caught|removed|despite|tolerat\w+|continu(?:ed|ing)"
    r"|retry \d+ of \d+)\b"
)
"""Matches words before a trouble word, in its clause, for what a program did about it."""


def is_live(line: str, start: int, end: int, *, lasting: bool = False) -> bool:
    """Return True if the words from `start` to `end` report a problem that exists and is not over.

    False if the line denies it, expects it, or reports that it was overcome. `lasting`: only a repair ends
    this kind of problem.
    """
    before, behind = line[:start], line[end:]
    cut = 0
    for found in CLAUSE.finditer(before):
        cut = found.end()
    clause = before[cut:]
    if DENIED.search(clause) or NO_MEMBER.search(clause) or SUPPOSED.search(clause) or HANDLED.search(clause):
        return False
    if (
        STAGED.search(line)
        or VALUE_0.search(behind)
        or (REPAIRED if lasting else OVERCOME).search(line, end)
        or PRECAUTION.match(behind)
    ):
        return False
    if NONE_OF_ALL.search(clause):
        return False
    none = NONE_OF.search(clause)
    if none is not None and not INDEX.search(none[1] or ""):
        return False
    count = COUNT_0.match(behind)
    return count is None or INDEX.search(count[0].rstrip("0").rstrip(" :=")) is not None
