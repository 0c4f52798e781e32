"""Where in a chunk of log bytes a rule may match: the word-set prefilter.

A block's distinct words are compared, as a set, with those known to mean nothing, so the cost hardly depends
on the number of rules; only words never met before are looked at one by one. A word that is common in this
log is given up for another one of its phrase. A phrase of common words is looked for where all of them are.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ruleset import Phrase, RuleSet  # noqa: F401 - used in type comments

BLOCK = 16 * 1024
MAX_KNOWN = 50000
MIN_FALSE = 8
COMMON_SHARE = 0.02
"""A word is common when this share of blocks hold it without its phrase."""

_LETTERS = bytes(c if 65 <= c <= 90 or 97 <= c <= 122 else 32 for c in range(256))


class Sieve(object):
    """Learns from the bytes of one log, or of several alike."""

    def __init__(self, ruleset):
        # type: (RuleSet) -> None
        self._harmless = set()  # type: set[bytes]
        self._exact = {}  # type: dict[bytes, list[Phrase]]
        self._folded = {}  # type: dict[bytes, list[Phrase]]
        self._inside = {}  # type: dict[bytes, list[Phrase]]
        self._together = []  # type: list[Phrase]
        self._anywhere = []  # type: list[Phrase]
        self._false = {}  # type: dict[bytes, int]
        self._common = set()  # type: set[bytes]
        self._blocks = 0
        for phrase in ruleset.phrases:
            self._place(phrase)

    def hits(self, data):
        # type: (bytes) -> list[tuple[int, Phrase]]
        """Places where a phrase stands in `data` (whole lines, no escapes), by place, one a line."""
        found = []  # type: list[tuple[int, Phrase]]
        at, size = 0, len(data)
        while at < size:
            end = _block_end(data, at)
            block = data[at:end]
            words = set(block.translate(_LETTERS).split())
            new = words - self._harmless
            if new:
                self._look(new, block, at, found)
            for phrase in self._together:
                if phrase.all_words <= words:
                    _find(block, phrase, at, found)
            self._blocks += 1
            at = end
        if self._anywhere:
            lowered = data.lower() if any(phrase.fold for phrase in self._anywhere) else data
            for phrase in self._anywhere:
                _find(lowered if phrase.fold else data, phrase, 0, found)
        if len(found) > 1:
            found.sort(key=_where)
        return found

    def _look(self, new, block, at, found):
        # type: (set[bytes], bytes, int, list[tuple[int, Phrase]]) -> None
        lowered = b""
        together = b" ".join(new).lower()
        parts = [part for part in self._inside if part in together]
        for word in new:
            phrases = self._exact.get(word, []) + self._folded.get(word.lower(), [])
            for part in parts:
                if part in word.lower():
                    phrases = phrases + self._inside.get(part, [])  # it may have been given up meanwhile
            if not phrases:
                if len(self._harmless) >= MAX_KNOWN:
                    self._harmless.clear()
                self._harmless.add(word)
                continue
            before = len(found)
            for phrase in phrases:
                if phrase.fold and not lowered:
                    lowered = block.lower()
                _find(lowered if phrase.fold else block, phrase, at, found)
            if len(found) == before and self._was_false(word):
                parts = [part for part in self._inside if part in together]

    def _was_false(self, word):
        # type: (bytes) -> bool
        """Count a word that led to nothing; whether it was given up."""
        count = self._false.get(word, 0) + 1
        self._false[word] = count
        if count < MIN_FALSE or count < self._blocks * COMMON_SHARE:
            return False
        del self._false[word]
        folded = word.lower()
        self._common.add(word)
        moved = self._exact.pop(word, []) + self._folded.pop(folded, [])
        for part in [part for part in self._inside if part in folded]:
            self._common.add(part)
            moved += self._inside.pop(part)
        for phrase in moved:
            self._place(phrase)
        return True

    def _place(self, phrase):
        # type: (Phrase) -> None
        """Choose what leads to the phrase: its best word, a part of one, all its words, or itself."""
        for word in phrase.words:
            if word not in self._common:
                (self._folded if phrase.fold else self._exact).setdefault(word, []).append(phrase)
                self._forget(word, phrase.fold)
                return
        for part in phrase.parts:
            if part not in self._common:
                self._inside.setdefault(part, []).append(phrase)
                self._forget(part, True)
                return
        if phrase.all_words and not phrase.fold:
            self._together.append(phrase)
        else:
            self._anywhere.append(phrase)

    def _forget(self, word, inside):
        # type: (bytes, bool) -> None
        if inside:
            self._harmless = {known for known in self._harmless if word not in known.lower()}
        else:
            self._harmless.discard(word)


def _block_end(data, at):
    # type: (bytes, int) -> int
    if len(data) - at <= BLOCK:
        return len(data)
    end = data.rfind(b"\n", at, at + BLOCK) + 1
    if not end:
        end = data.rfind(b"\r", at, at + BLOCK) + 1
    return end or at + BLOCK


def _find(data, phrase, base, found):
    # type: (bytes, Phrase, int, list[tuple[int, Phrase]]) -> None
    text = phrase.text
    at = data.find(text)
    while at >= 0:
        found.append((base + at, phrase))
        end = data.find(b"\n", at)
        end = end if end >= 0 else len(data)
        other = data.find(b"\r", at, end)
        at = data.find(text, other if other >= 0 else end)


def _where(hit):
    # type: (tuple[int, Phrase]) -> int
    return hit[0]
