"""Predicates of sentences that state a lasting loss: states, ends, omissions, counts, differences. Data.

Each pattern has a kind, which decides what the sentence must be about (`subjects`). Named groups `have` and
`want` are two counts, of which the first must be smaller; `bad` is a count that must not be 0.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from gpuwatch.agent.patterns.module_pattern import pattern_of

Kind: TypeAlias = Literal[
    "state", "ended", "omitted", "few", "all", "fewer", "nan", "differ", "alone", "void", "leak", "same"
]

_AUX = (
    r"(?:is|are|was|were|has|have|had|been|got|gets|went|goes|stays?|stayed|remains?|remained|became|becomes"
    r"|turned|looks|keeps?)"
)
_ADVERBS = r"(?: (?:now|still|already|again|all|both|been|gone|marked(?: as)?|declared|being|\w{2,12}ly))*"
STATES = (
    r"inactive|dead|down(?! (?:to|by|from|for maintenance)\b)|offline|unreachable|unavailable|unresponsive"
    r"|unhealthy|excluded|dropped(?! out\b)|dropped out|discarded|lost|left (?:out|behind)"
    r"|out of (?:sync|step)"
    r"|desynchroni[sz]ed|stale|incomplete|gone|missing(?! (?:labels?|keys?|fields?|values?|captions?"
    r"|columns?)\b)"
    r"|broken|defective|faulty|unusable|fenced|drained|isolated|black-?listed|quarantined|removed|detached"
    r"|evicted|thrown away|empty|taken (?:offline|out of service)|failed(?! (?:to|with|over)\b)|failing"
    r"|absent|corrupt(?:ed)?|damaged|truncated|unreadable"
    r"|overwritten|wiped|degraded"
    r"|stopped|stuck|frozen|disconnected|unplugged|deactivated|powered off|shut off|disabled|ejected|crashed"
    r"|diverged|half[- ]written|zeroed|garbled|beyond (?:repair|recovery)|out of service|unusable|cut off"
    r"|orphaned|vanished|disappeared|(?:not|no longer) (?:recoverable|restorable)|un-?recoverable"
    r"|irrecoverable"
)
"""Pattern of states that last until a person repairs them."""
_NOT = (
    r"(?:(?:will|can|could|would|did|does|do|is|are|was|were|has|have|had)(?: not|n't)|will never|cannot"
    r"|never"
    r"|no longer|unable to|failed to)"
)
OMITTED = (
    r"saved?|saving|written|write|stored?|persist(?:ed)?|uploaded?|sync(?:ed|hroni[sz]ed)?|flush(?:ed)?"
    r"|commit(?:ted)?|kept|backed up|archived?|copied|restored?|resumed?|reached|repaired?|recover(?:ed)?"
    r"|replaced?|restarted?|rescheduled|evaluated?|validated?|scored|trained?|updated?|learn(?:ed|ing)?"
    r"|averaged"
    r"|reduced|replicated|wrapped|shuffled|applied|included|computed?|detect(?:ed)?|found|seen"
    r"|recogni[sz]ed|answer(?:s|ed|ing)?|respond(?:s|ed|ing)?|respawned|spin(?:ning|s)?|join(?:ed)?|present"
    r"|finish(?:ed)?|complete[d]?|finali[sz]ed?|read|decoded|exchanged|gathered|opened|arrive[d]?"
    r"|broadcast|come back|came back"
    r"|transmitted"
)
"""Pattern of what a program does with state, data and members; negated, it states a loss."""
_NUMBER = r"(?<![\d.,/:-])\d{1,9}(?:,\d{3}){0,3}(?![\d.]|:\d|/\d+/)"
_OF = r" ?(?:of|out of|/) ?(?:the |its |all )?"
_KEPT_VERBS = (
    r"wrote|saved|kept|keeping|uploaded|synced|copied|stored|received|got|loaded|read|decoded|found"
    r"|sees?|seeing"
    r"|only|just|merely|running (?:on|with)|runs (?:on|with)|continu(?:es|ing) (?:on|with)|going on with"
    r"|goes on with|proceeding with|trains? (?:on|with)|training (?:on|with)|using|with|left|evaluated|scored"
    r"|reached|answered|joined|flushed|committed|restored"
)
_THERE = (
    r"up|active|alive|online|healthy|left|usable|available|present|visible|reachable|responding"
    r"|respond(?:ed)?"
    r"|answer(?:s|ed|ing)?|joined|ready|in use|saved|written|uploaded|remain(?:s|ing)?|survived|working"
    r"|running"
    r"|train(?:s|ed|ing)?|evaluated|valid|good|spinning|connected|readable|restored|found|detected|seen"
    r"|committed|synced|kept|arrived|finali[sz]ed"
)
_AWAY = (
    r"failed|fail|lost|corrupt(?:ed)?|missing|unreadable|contaminated|damaged|overwritten|stale|nan"
    r"|non-?finite"
    r"|infinite|empty|truncated|dead|down|inactive|offline|leaked|duplicated|all zeros?|out of sync|in error"
)
_BETWEEN = (
    r"(?:between|across|among|on|from) (?:the |all |different |other )*(?:\w{1,16}[- ]){0,2}"
    r"(?:ranks?|replicas?|process(?:es)?|nodes?|hosts?|workers?|GPUs?|devices|peers?|copies|shards)"
)
_BUT = r"[,;:]? (?:but|while|whereas|instead of|rather than|not|where|although|of the|against|vs\.?)"
_ASKED = (
    r"(?:requested|expected|configured|asked for|needed|required|allocated|planned|ordered|reserved|wanted)"
)


def _pattern(text: str) -> re.Pattern[str]:
    return pattern_of("(?i)" + text)


PREDICATES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    # `no GPU was found, training on the CPU`
    ("alone", _pattern(
        r"\b(?:no|zero) (?:usable |visible |working |CUDA |free |NVIDIA )*(?:GPUs?|accelerators?"
        r"|CUDA devices?|TPUs?"
        r"|NPUs?)(?: (?:was|were|is|are|has been|could be|can be))?(?: (?:found|available|visible"
        r"|detected|left"
        r"|usable|present|reachable))\b|\b(?:training|running|falls? back|continu(?:es|ing)"
        r"|going on) (?:on|to)"
        r" (?:the )?CPU\b"
    )),
    ("alone", _pattern(
        r"\b(?:running|continuing|training|going on|runs|trains|continues|starting|falling back"
        r"|falls back) (?:as|in"
        r"|on|with|to) (?:a |only |just |one )*single[- ](?:process|GPU|node|rank|device|worker|host)\b"
    )),
    # `node gpu-17 is unreachable`, `shards 3 and 9 were lost`
    ("state", _pattern(rf"\b{_AUX}{_ADVERBS} (?:{STATES})\b")),
    # `pod trainer-7 lost`, `Power Supply 2: failure detected`, `port 3 down`
    ("ended", _pattern(
        r"\b(?:died|dies|vanished|disappeared|crashed|gave up|gives up|giving up|fell off|dropped o(?:ff"
        r"|ut)|drops out"
        r"|fell out"
        r"|stopped (?:posting|sending|answering|reporting|responding|turning|spinning|working|accepting"
        r"|writing"
        r"|saving|heartbeating)|(?:failure|fault) (?:is |was )?detected|failed(?! (?:to|with"
        r"|over)\b)(?= |$|[,;.:(])"
        r"|broke down"
        r"|redundancy (?:is |was )?(?:lost|degraded)|lost(?= (?!time|samples|tokens)[a-z]| ?$|[,;:(])|loses"
        r"|losing|ejected|(?<=\d )(?:inactive|offline|unreachable|unresponsive|missing|absent|dead|down|gone)"
        r"|(?:permanent|unrecoverable|uncorrectable|checksum|parity|media|read|write|data|I/O) errors?"
        r" (?:have been |has been |were |was )?(?:detected|found|reported))\b"
    )),
    # `no checkpoint will be written`, `the state cannot be restored`, `nothing is trained`
    ("omitted", _pattern(
        rf"\b{_NOT}(?: be| been| yet| all| fully| properly| correctly| being| in fact| actually){{0,2}}"
        rf" (?:{OMITTED})\b"
    )),
    ("omitted", _pattern(
        r"\b(?:no|none of the|none of its|neither of the) (?:\w[\w-]{1,20} ){1,3}?(?:will (?:ever )?be"
        r"|is|are|was"
        r"|were|has been|have been|can be|could be|gets?|got)(?: being)?"
        rf" (?!found|detect|seen|reached|needed)(?:{OMITTED})\b"
    )),
    ("void", _pattern(
        r"\bnothing (?:is|was|will be|has been|gets?|can be) (?:being )?(?:trained|learned|learnt"
        r"|updated|optimi[sz]ed"
        r"|saved|written|stored|logged|evaluated|uploaded|kept|recorded)\b"
        r"|\b(?:trains?|training|learns?|learning) (?:on|from) (?:\w{2,14} )?(?:padding|noise|zeros"
        r"|garbage|nothing"
        r"|empty \w+)(?: only)?\b|\bnothing (?:to train|trainable)\b|\bno (?:trainable"
        r"|learnable) (?:param|weight|layer)"
        r"|\bno (?:parameters?|layers?|weights?) (?:receives?|gets?|has|have) (?:an? |any )?gradients?\b"
        r"|\b(?:model|network|run) does not (?:learn|train)\b"
        r"|\b(?:has|have|with) no (?:effect|gradients?)\b"
    )),
    # `wrote 0 of 64 shards`, `17 of 18 links up`
    ("few", _pattern(
        rf"\b(?:{_KEPT_VERBS}) (?:only |just )?(?P<have>{_NUMBER}){_OF}(?P<want>{_NUMBER})(?! ?(?:attempts?"
        rf"|tr(?:y|ies)"
        r"|retries|steps?|iter\w*|epochs?|batch(?:es)?|%|minutes|hours|seconds|CPUs?|threads|cores|pages?)\b)"
    )),
    ("few", _pattern(
        rf"(?P<have>{_NUMBER}){_OF}(?P<want>{_NUMBER}) (?:[a-zA-Z][\w-]{{1,20}} ){{0,3}}?"
        rf"(?:are |is |were |still |only |have |has |could be |can be )*(?:{_THERE})\b"
    )),
    # `requires_grad is False for 291 of 291 parameters`, `9812 of 10000 examples are contaminated`
    ("all", _pattern(
        rf"(?P<bad>{_NUMBER}){_OF}(?P<whole>{_NUMBER}) (?:[a-zA-Z][\w-]{{1,20}} ){{0,3}}?"
        rf"(?:are |is |were |was |have |has |had |been |held |hold |contain )*(?:{_AWAY})\b"
    )),
    ("all", _pattern(
        rf"\b(?:lost|lacks|dropped|missing|without) (?P<bad>{_NUMBER}){_OF}(?P<whole>{_NUMBER})\b"
    )),
    ("same", _pattern(
        r"\bkeeps? (?:returning|reading|yielding|giving|serving) the same\b"
    )),
    ("leak", _pattern(
        rf"\b(?:contamination|leak(?:age)?|overlap)\b.{{0,40}}?(?P<bad>{_NUMBER}){_OF}(?P<whole>{_NUMBER})"
    )),
    ("void", _pattern(
        rf"\b(?:False|frozen|no gradients?|zero gradients?|not trained) (?:for|in|on)"
        rf" (?P<bad>{_NUMBER}){_OF}(?P<whole>{_NUMBER})"
    )),
    # `world size is 1 but 8 was requested`, `requested 8 GPUs, got 1`
    ("fewer", _pattern(
        rf"(?P<have>{_NUMBER})(?: [a-z][\w-]{{1,16}}){{0,4}}{_BUT}(?: the)? (?P<want>{_NUMBER})"
        rf"(?: [a-z][\w-]{{1,16}}){{0,2}}(?: (?:was|were|is|are|had been) {_ASKED}| {_ASKED})?\b"
    )),
    ("fewer", _pattern(
        rf"\b{_ASKED}(?: for)?:? (?P<want>{_NUMBER})(?: [a-z][\w-]{{1,16}}){{0,3}}[,;:]? (?:but )?(?:only )?"
        rf"(?:got|found|have|has|see|sees|received|there (?:is|are)|only|joined|started"
        rf"|running with)(?: only)?"
        rf" (?P<have>{_NUMBER})\b"
    )),
    ("fewer", _pattern(
        rf"(?P<have>{_NUMBER})(?: [a-zA-Z][\w-]{{1,16}}){{0,3}}[,;] (?P<want>{_NUMBER})"
        rf"(?: [a-z][\w-]{{1,16}}){{0,2}} (?:was|were|had been) {_ASKED}\b"
    )),
    # `embedding.weight holds 1024 NaN values`
    ("nan", _pattern(
        r"\b(?:holds?|contains?|has|have|found|are|is|became|turned|went|of which) (?:(?P<bad>\d{1,9}) "
        r"|all |only"
        r" )?(?:nans?|infs?|nan/inf|inf/nan|infinite|non-?finite)\b"
    )),
    # `vocabulary differs between ranks`, `each of the 8 processes trains its own copy`
    ("differ", _pattern(
        rf"\b(?:differs?|(?:do|does|did)(?: not|n't) (?:match|agree)|mismatch(?:es|ed)?|disagrees?|unequal"
        rf"|(?:is|are) (?:different|inconsistent|unequal)|diverged?)\b.{{0,30}}?\b{_BETWEEN}\b"
    )),
    ("differ", _pattern(
        r"\b(?:holds?|has|have|uses?|computes?) (?:other|different) (?:weights|parameters|gradients"
        r"|versions?)"
        r" (?:than|from)\b"
    )),
    ("differ", _pattern(
        r"\b(?:each|every)(?: one)?(?: of (?:the |its )?(?:\d{1,5} )?)? ?(?:process(?:es)?|ranks?"
        r"|replicas?|workers?"
        r"|GPUs?|nodes?) (?:trains?|holds?|has|uses|keeps?|updates?|computes?|optimi[sz]es?) (?:its|an?"
        r"|their) own"
        r" (?:copy|model|weights|parameters|version)\b"
    )),
)  # fmt: skip
AGED = re.compile(
    r"(?i)\b(?:newest|latest|last)(?: \w{1,12}){0,2} (?:checkpoint|snapshot|backup) is (?:already |now )?"
    r"(?:(?:[6-9]|\d\d+) hours|\d+ days|a day) old\b"
)
"""Matches an aged checkpoint: a crash would lose more than a usual interval of work."""
