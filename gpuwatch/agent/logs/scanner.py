"""One log file on its way through the rules: bytes in, findings out."""

import time

from .chunk import Chunk
from .gather import Gatherer, tell
from .normalise import MAX_WRAPPED, is_source, is_wrapped, joined, messages
from .ruleset import typed
from .sieve import Sieve
from .split import MAX_LINE
from .stamps import time_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401 - used in type comments

    from .gather import Open  # noqa: F401 - used in type comments
    from .prefixes import Speaker  # noqa: F401 - used in type comments
    from .ruleset import Phrase, Rule, RuleSet  # noqa: F401 - used in type comments


CONTEXT_ABOVE = 2
MAX_BLOCK = 60
MAX_TAIL = 64 * 1024
QUIET_S = 0.5
"""An unterminated line, or a block that is not full, is looked at after so much silence."""
SEARCHED = 4096
"""Characters of a line that are searched, around the phrase that led there."""
MAX_SEARCH_S = 0.05
"""CPU seconds that one rule may take for one line."""


class Scanner(object):
    """Scans one file: feed it all bytes in order, call `quiet` each tick and `end` at the end."""

    def __init__(self, ruleset, file, ids, speaker=None, sieve=None, gather=None):
        # type: (RuleSet, str, Any, Any, Sieve | None, Any) -> None
        self._ruleset = ruleset
        self._file = file
        self._speaker = speaker
        self._sieve = Sieve(ruleset) if sieve is None else sieve
        self._gather = Gatherer(ids) if gather is None else gather
        self._tail = b""
        self._past = b""
        self._tail_at = 0
        self._fed = float("-inf")
        self._looked = 0
        self._reported = set()  # type: set[tuple[int, str]]
        self._local_ranks = False
        self._waiting = []  # type: list[tuple[Open, Rule]]
        self._backlog = False

    def feed(self, data, offset, arrived, backlog=False):
        # type: (bytes, int, float, bool) -> list[dict[str, Any]]
        """The findings that are complete with `data`, whose first byte is at `offset` of the file.

        They are dicts with the keys of `wire.Finding` that say something, without v, t, seq and kind.
        """
        self._fed, self._backlog = arrived, backlog
        whole = self._tail + data
        base = offset - len(self._tail)
        cut = max(whole.rfind(b"\n"), whole.rfind(b"\r")) + 1
        if len(whole) - cut > MAX_TAIL:
            cut = len(whole)
        self._tail, self._tail_at = whole[cut:], base + cut
        out = []  # type: list[dict[str, Any]]
        if cut:
            self._scan(whole[:cut], base, arrived, out)
            self._looked = 0
        return out

    def quiet(self, now):
        # type: (float) -> list[dict[str, Any]]
        """What waited for more that did not come; call it each tick."""
        out = []  # type: list[dict[str, Any]]
        if now - self._fed >= QUIET_S:
            self._look_at_tail(self._fed, out)
            self._tell_waiting(now, out)
        out.extend(self._gather.grown(now))
        return out

    def seam(self):
        # type: () -> None
        """The file was truncated or replaced: what was half read is gone."""
        self._tail, self._past, self._looked = b"", b"", 0
        self._reported.clear()

    def end(self):
        # type: () -> list[dict[str, Any]]
        """Nothing more will come: tell everything."""
        out = []  # type: list[dict[str, Any]]
        self._look_at_tail(self._fed, out)
        self._tell_waiting(self._fed, out)
        out.extend(self._gather.grown(float("inf")))
        return out

    def _look_at_tail(self, arrived, out):
        # type: (float, list[dict[str, Any]]) -> None
        if len(self._tail) > self._looked:
            self._looked = len(self._tail)
            past = self._past
            self._scan(self._tail, self._tail_at, arrived, out)
            self._past = past

    def _tell_waiting(self, now, out):
        # type: (float, list[dict[str, Any]]) -> None
        for known, _ in self._waiting:
            out.append(tell(known, now))
        self._waiting = []

    def _scan(self, raw, base, arrived, out):
        # type: (bytes, int, float, list[dict[str, Any]]) -> None
        chunk = Chunk(raw, base, self._past)
        if self._waiting:
            self._fill_blocks(chunk, 0, arrived, out)
        hits = self._sieve.hits(chunk.clean)
        index = 0
        while index < len(hits):
            start, end = chunk.line_around(hits[index][0])
            phrases = []  # type: list[Phrase]
            first = hits[index][0]
            while index < len(hits) and hits[index][0] < max(end, start + 1):
                phrases.append(hits[index][1])
                index += 1
            self._line(chunk, start, end, first, phrases, arrived, out)
        self._past = chunk.end_of_text()
        self._reported = {each for each in self._reported if each[0] >= self._tail_at - MAX_LINE}

    def _line(self, chunk, start, end, hit, phrases, arrived, out):
        # type: (Chunk, int, int, int, list[Phrase], float, list[dict[str, Any]]) -> None
        said, proof = messages(chunk.clean[start : min(end, start + MAX_LINE)], self._local_ranks)
        self._local_ranks = self._local_ranks or proof
        above = chunk.above(start, MAX_WRAPPED - 1)
        previous = messages(above[-1])[0][-1][0] if above else ""
        said = [(text, by) for text, by in said if not is_source(text, previous)]
        if not said:
            return
        said = self._unwrapped(chunk, said, end, above)
        rules = []  # type: list[Rule]
        for phrase in phrases:
            rules.extend(rule for rule in phrase.rules if rule not in rules)
            for rule in phrase.recoveries:
                self._recovery(rule, said, arrived, out)
        for rule in rules:
            if rule.id in self._ruleset.suspended:
                continue
            for text, by in said:
                fields = self._search(rule, _window(text, hit - start))
                if fields is not None and self._after(rule, chunk, start, fields):
                    self._found(rule, chunk, (start, end), text, by, fields, arrived, out)
                    break

    def _unwrapped(self, chunk, said, end, above):
        # type: (Chunk, list[tuple[str, Speaker]], int, list[bytes]) -> list[tuple[str, Speaker]]
        text, by = said[-1]
        for before in reversed(above):  # it may be the second or third line of a broken record
            head, who = messages(before, self._local_ranks)[0][-1]
            if not is_wrapped(head):
                break
            text, by = joined(head, text), who
        below = chunk.below(end, MAX_WRAPPED - 1)
        while below and is_wrapped(text):
            text = joined(text, messages(below.pop(0), self._local_ranks)[0][0][0])
        return said[:-1] + [(text, by)]

    def _search(self, rule, text):
        # type: (Rule, str) -> dict[str, Any] | None
        ruleset = self._ruleset
        ruleset.now = rule.id
        if ruleset.entered is not None:
            ruleset.entered(rule.id)
        began = time.process_time()
        fields = None  # type: dict[str, Any] | None
        for pattern in rule.match:
            found = pattern.search(text)
            if found is not None:
                if not any(each.search(text) for each in rule.unless):
                    fields = _fields(found.groupdict())
                break
        took = time.process_time() - began
        ruleset.now = ""
        if took > MAX_SEARCH_S:
            ruleset.suspend(rule.id, "took {:.0f} ms for one line of {}".format(took * 1e3, self._file))
        return fields

    def _after(self, rule, chunk, start, fields):
        # type: (Rule, Chunk, int, dict[str, Any]) -> bool
        if rule.above is not None:
            _above(rule.above, chunk.above(start, rule.above_lines), fields)
        return rule.after is None or _above(rule.after, chunk.above(start, rule.after_lines), fields)

    def _recovery(self, rule, said, arrived, out):
        # type: (Rule, list[tuple[str, Speaker]], float, list[dict[str, Any]]) -> None
        for text, _ in said:
            found = rule.recovery.search(text[:SEARCHED]) if rule.recovery is not None else None
            if found is not None:
                at = time_of(text, arrived)
                out.extend(
                    self._gather.close(rule, _fields(found.groupdict()), arrived if at is None else at)
                )

    def _found(self, rule, chunk, place, text, by, fields, arrived, out):
        # type: (Rule, Chunk, tuple[int, int], str, Speaker, dict[str, Any], float, list[dict[str, Any]]) -> None
        start, end = place
        offset = chunk.offset_of(start)
        if (offset, rule.id) in self._reported:  # an unterminated line that was looked at before
            return
        self._reported.add((offset, rule.id))
        own = time_of(chunk.text(start, end), arrived)
        lines, key = chunk.shown_around(start, end, text, by)
        at = own
        if at is None and self._backlog:
            at = chunk.next_time(end, arrived)  # it is no younger than what stands below it
        finding = {
            "rule": rule.id,
            "severity": rule.severity_of(fields),
            "role": rule.role,
            "file": self._file,
            "offset": offset,
            "at": arrived if at is None else at,
            "timed": own is not None,
            "backlog": self._backlog,
            "lines": lines,
            "key": key,
            "fields": fields,
        }  # type: dict[str, Any]
        finding.update(self._whose(by, fields))
        known = self._gather.add(rule, finding, text)
        if known is None:
            return
        if rule.block or rule.until is not None:
            known.waiting = [min(rule.block or MAX_BLOCK, MAX_BLOCK), by]
            self._waiting.append((known, rule))
            self._fill_blocks(chunk, end, arrived, out, newest=True)
        else:
            out.append(tell(known, arrived))

    def _fill_blocks(self, chunk, end, arrived, out, newest=False):
        # type: (Chunk, int, float, list[dict[str, Any]], bool) -> None
        still = self._waiting[:-1] if newest else []
        for known, rule in self._waiting[-1:] if newest else self._waiting:
            left, by = known.waiting
            lines = known.finding["lines"]  # type: list[str]
            done = False
            for text in chunk.texts_below(end, left, by):
                lines.append(text)
                left -= 1
                if rule.until is not None and rule.until.search(text[:SEARCHED]):
                    done = True
                    break
            if done or not left:
                out.append(tell(known, arrived))
            else:
                known.waiting = [left, by]
                still.append((known, rule))
        self._waiting = still

    def _whose(self, by, fields):
        # type: (Speaker, dict[str, Any]) -> dict[str, Any]
        known = self._speaker() if self._speaker is not None else {}  # type: dict[str, Any]
        whose = {}  # type: dict[str, Any]
        sure = known.get("rank") is not None and known.get("rank_from") == "process"
        if isinstance(fields.get("rank"), int):
            whose["rank"], whose["rank_from"] = fields["rank"], "field"
        elif by.rank is not None and not sure:
            whose["rank"], whose["rank_from"] = by.rank, "line"
        elif known.get("rank") is not None:
            whose["rank"], whose["rank_from"] = known["rank"], known.get("rank_from")
        local = fields.get("local_rank", by.local_rank)
        local = local if isinstance(local, int) else known.get("local_rank")
        pid = by.pid if by.pid is not None else fields.get("pid")
        whose.update(
            local_rank=local, job=known.get("job"), host=by.host, pid=pid if isinstance(pid, int) else None
        )
        return {name: value for name, value in whose.items() if value is not None}


def _above(pattern, lines, fields):
    # type: (Any, list[bytes], dict[str, Any]) -> bool
    """Whether the pattern is in one of the lines; the nearest one's groups become fields that are not set."""
    for line in reversed(lines):
        for text, _ in messages(line)[0]:
            found = pattern.search(text[:SEARCHED])
            if found is not None:
                for name, value in _fields(found.groupdict()).items():
                    fields.setdefault(name, value)
                return True
    return False


def _window(text, hit):
    # type: (str, int) -> str
    if len(text) <= SEARCHED:
        return text
    begin = max(0, min(hit - SEARCHED // 4, len(text) - SEARCHED))
    return text[begin : begin + SEARCHED]


def _fields(groups):
    # type: (dict[str, str | None]) -> dict[str, Any]
    return {name: typed(value.strip()) for name, value in groups.items() if value is not None}
