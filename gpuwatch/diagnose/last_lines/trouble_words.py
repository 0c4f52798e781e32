"""The words with which programs state trouble, in several languages, and whether a line states some. Pure."""

from __future__ import annotations

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.last_lines.polarity import is_live

TROUBLE = pattern_of(
    r"(?i)\b(?:(?:(?:will|would|could|can|does|do|did) )?not(?! (?:needed|necessary|required|used|enabled"
    r"|throttled|only|yet|a)\b)|missing|absent|(?:packet )?loss of [1-9]\d*|instead of \S+"
    r"|cannot|unable|impossible|incomplete|un\w+able|truncated|damaged|garbage|garbled|stale"
    r"|unsuccessful\w*|wrong|bad|illegal|invalid|unknown|unexpected\w*|premature\w*"
    r"|timed? ?out(?! (?:for|of|is)\b|[=:] ?\d)"
    r"|deadline (?:exceeded|missed|passed|hit)|exce\w+d\w*|exhaust\w*|used up|expired|gone|dark|down|offline"
    r"|dropped|drops?|disappear\w*|left the (?!barrier|loop|queue|building)|vanish\w*|los(?:t|e|es|ing)"
    r"|fail\w*|errors?|err|exception|fault\w*|abort\w*|kill\w*|dead(?!line)\w*|died|crash\w*|panic\w*|refus\w*"
    r"|reject\w*|denied|revoked|corrupt\w*|broken?|never (?:\w+ed|came|began)|torn down|shut off"
    r"|thrash\w*|overheat\w*|mismatch\w*|disagree\w*|diverged|stuck|hung|hang\w*|stall\w*|frozen|blocked|silent|starv\w*|unhealthy"
    r"|too (?:old|small|large|big|long|short|low|high|slow|many|few|little)"
    r"|(?:over|above|beyond) (?:the |its )?limit|(?:fell|dropped) below (?:the |its )"
    r"|(?:stop(?:s|ped)|cease[sd]?) (?:answering|respond\w*|sending|posting|report\w*)"
    r"|out of (?!\d|order\b|the\b)[\w-]+"
    r"|(?:disk|file ?system|swap|volume|storage|partition|quota)\b.{0,40} is full"
    r"|(?:disk|swap|queue|storage|volume|device|partition|quota)s? full"
    r"|no (?:more |free |usable |such |valid |new )?(?:space|room|route|answer|repl(?:y|ies)|response"
    r"|heartbeats?|carrier|contact|connection|memory|capacity|quorum|seats?|inodes|device|devices|accelerators?|gpus?"
    r"|signal|progress|checkpoint|licen[cs]es?)\b(?! (?:needed|used|required|leak|growth|change))"
    r"|giv(?:ing|en) up|gave up|bail\w*|evict\w*|reclaim\w*|preempt\w*|terminating|drain\w*|flapp\w+"
    r"|overflow\w*|underflow\w*|nan|inf|infinite|throttl\w*|slow(?:s|ed) (?:it|down)|degraded|partial\w*"
    r"|in the middle of|mid-?(?:write|send|transfer)|disconnected|already in use|core dumped"
    r"|E(?:NOSPC|DQUOT|IO|STALE|TIMEDOUT|CONN\w{3,7}|HOSTUNREACH|NOMEM|ACCES|PERM|MFILE|PIPE))\b|n't\b"
)
"""Matches words that programs use for trouble."""
FOREIGN = pattern_of(
    r"(?i)\b(?:nicht mehr|abgebrochen|abgestürzt|fehlgeschlagen|unerreichbar|verloren|gestorben|kaputt|fehler"
    r"|erschöpft|(?:ist|sind) voll|kein\w{0,2} (?:antwort|verbindung|platz|speicher)"
    r"|épuisé\w*|tué\w{0,2}|échou\w+|échec|erreur|perdue?s?|injoignable|interrompue?s?"
    r"|ne répond (?:pas|plus)|refusé\w*|no responde|no hay|falló|agotad[oa]s?|perdid[oa]s?|llen[oa]"
    r"|caíd[oa]s?|rechazad[oa]s?|muert[oa]s?|erro|falhou|esgotad[oa]s?|errore|fallit[oa]|esaurit[oa]"
    r"|non risponde|interrott[oa])\b"
    r"|шибк|не отвеч|сбой|отказ|потеря|убит|недост|прерван"
    r"|不足|异常|失败|超时|断开|丢失|崩溃|错误|无法|未响应|不可用|被杀|掉线|终止"
    r"|応答しません|失敗|異常|エラー|切断|タイムアウト|強制終了|できません|クラッシュ"
    r"|끊김|실패|오류|응답 없|부족|중단"
)
"""Matches words for trouble in German, French, Spanish, Portuguese, Italian and five other languages."""
FOREIGN_DENIED = pattern_of(
    r"(?i)\b(?:kein\w{0,2}|ohne|aucune?s?|sans|sin|sem|nessun\w?|senza|без|нет)\W(?:\w{1,12}\W)?$"
    r"|(?:无|没有|未发现|0 ?个|无任何)$"
)
PASSED = pattern_of(r"\bPASSED\b")
"""Matches the result of a test or drill, whose name may contain any word."""
CODE = pattern_of(
    r"(?i)\b(?:exit(?:ed|ing|s)?|end(?:ed|ing|s)?|leav(?:es|ing)|left|quit\w*|return(?:ed|ing|s)?|status|code|rc"
    r"|err(?:no)?|signal|retcode|retval|ret|finish\w*(?= with)|done(?= with)|complet\w*(?= with))\b"
    r"(?: (?:with|on|at|is|was|by|the|a|an|exit|return|status|code|signal|value|of)){0,4}[ =:(#]{0,3}"
    r"(?!0\b|0x0+\b|2\d\d\b|\d+ (?:s|ms|sec|seconds|min|minutes|h|hours|m|of|steps?|iter\w*|epochs?|tr\w+"
    r"|files?|samples?|batches|updates?|rounds?|ranks?|workers?|tasks?|jobs?|runs?|examples?|items?"
    r"|tokens?|records?|rows?|devices?|gpus?|nodes?|hosts?)\b|\d+[.,/:]\d)"
    r"-?(?:0x0*[1-9a-f][\da-f]*|\d{1,5})\b(?![.:/%,]\d)(?! ?/)"
)
"""Matches a status other than 0 in prose: `ended with 139`, `err 113`, `status 0x0086`."""
FEW_OF = pattern_of(
    r"(?i)\b(\d{1,6}) (?:of|/) (\d{1,6}) .{1,80}[,;] (?:quit|exit|abort|leav|stopp|giving up|end)\w*\b"
)
"""Matches a report that only some of a number came, after which the program ends."""
HOT = pattern_of(r"(?i)\btemp\w*\b.{0,30}\b(?:9\d|1[0-4]\d)(?:\.\d)? ?(?:\N{DEGREE SIGN} ?)?C\b")
"""Matches a temperature of 90 degrees or more."""
MAX_CHARS = 1000
"""Number of characters of a line that are read; a longer line is data, not a message."""


def has_trouble_words(line: str) -> bool:
    """Return True if a line names a failure that exists and is not over, or states a status other than 0.

    Only the first `MAX_CHARS` characters count: each word is judged by the whole line.
    """
    line = line[:MAX_CHARS]
    if PASSED.search(line):
        return False
    few = FEW_OF.search(line)
    if HOT.search(line) or (few is not None and int(few[1]) < int(few[2])):
        return True
    found = [each for pattern in (TROUBLE, CODE) for each in pattern.finditer(line)]
    return any(is_live(line, *each.span()) for each in found) or has_foreign_trouble(line)


def has_foreign_trouble(line: str) -> bool:
    """Return True if a line names a failure in another language than English."""
    return any(not FOREIGN_DENIED.search(line, 0, each.start()) for each in FOREIGN.finditer(line))
