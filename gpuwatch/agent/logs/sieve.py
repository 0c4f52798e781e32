"""Where in a chunk of log bytes a rule may match: the word-set prefilter.

A block's distinct words are compared, as a set, with those known to mean nothing, so the cost hardly depends
on the number of rules; only words never met before are looked at one by one. A word that is common in this
log is given up for another word of its phrase; a phrase with none left is searched for as it stands.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .ruleset import Phrase, RuleSet  # noqa: F401 - used in type comments

BLOCK = 16 * 1024
MAX_KNOWN = 50000
MIN_FALSE = 12
COMMON_SHARE = 0.02
"""A word is common from this share of blocks that hold it without its phrase."""

_LETTERS = bytes(c if 65 <= c <= 90 or 97 <= c <= 122 else 32 for c in range(256))


class Sieve(object):
    """Learns from the bytes of one log, or of several alike."""

    def __init__(self, ruleset):
        # type: (RuleSet) -> None
        self._harmless = set()  # type: set[bytes]
        self._exact = {}  # type: dict[bytes, list[Phrase]]
        self._folded = {}  # type: dict[bytes, list[Phrase]]
        self._inside = {}  # type: dict[bytes, list[Phrase]]
        self._searched = []  # type: list[Phrase]
        self._false = {}  # type: dict[bytes, int]
        self._common = set()  # type: set[bytes]
        self._blocks = 0
        for phrase in ruleset.phrases:
            self._place(phrase)

    def hits(self, data):
        # type: (bytes) -> list[tuple[int, Phrase]]
        """Places where a phrase stands in `data` (whole lines, no escapes), by place."""
        found = []  # type: list[tuple[int, Phrase]]
        at, size = 0, len(data)
        while at < size:
            end = self._block_end(data, at)
            block = data[at:end]
            new = set(block.translate(_LETTERS).split())
            new -= self._harmless
            if new:
                self._look(new, block, at, found)
            self._blocks += 1
            at = end
        if self._searched:
            lowered = data.lower() if any(phrase.fold for phrase in self._searched) else data
            for phrase in self._searched:
                _find(lowered if phrase.fold else data, phrase, 0, found)
        if len(found) > 1:
            found.sort(key=_place)
        return found

    def _block_end(self, data, at):
        # type: (bytes, int) -> int
        if len(data) - at <= BLOCK:
            return len(data)
        end = data.rfind(b"\n", at, at + BLOCK) + 1
        if not end:
            end = data.rfind(b"\r", at, at + BLOCK) + 1
        return end or at + BLOCK

    def _look(self, new, block, at, found):
        # type: (set[bytes], bytes, int, list[tuple[int, Phrase]]) -> None
        lowered = b""
        for word in new:
            phrases = self._phrases_of(word)
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
            if len(found) == before:
                self._was_false(word)

    def _phrases_of(self, word):
        # type: (bytes) -> list[Phrase]
        phrases = list(self._exact.get(word, ()))
        folded = word.lower()
        phrases += self._folded.get(folded, ())
        for part, lead in self._inside.items():
            if part in folded:
                phrases += lead
        return phrases

    def _was_false(self, word):
        # type: (bytes) -> None
        count = self._false.get(word, 0) + 1
        self._false[word] = count
        if count < MIN_FALSE or count < self._blocks * COMMON_SHARE:
            return
        self._false.pop(word)
        self._common.add(word.lower())
        inside = [part for part in self._inside if part in word.lower()]
        self._common.update(inside)
        for phrase in self._exact.pop(word, []) + self._folded.pop(word.lower(), []):
            self._place(phrase)
        for part in inside:
            for phrase in self._inside.pop(part):
                self._place(phrase)
        self._harmless.clear()

    def _place(self, phrase):
        # type: (Phrase) -> None
        for word in phrase.words:
            if word.lower() not in self._common:
                table = self._folded if phrase.fold else self._exact
                table.setdefault(word, []).append(phrase)
                return
        runs = [run for run in phrase.text.lower().translate(_LETTERS).split() if len(run) > 3]
        for run in sorted(runs, key=len, reverse=True)[:1]:
            if run not in self._common and not phrase.words:
                self._inside.setdefault(run, []).append(phrase)
                return
        self._searched.append(phrase)


def _find(data, phrase, base, found):
    # type: (bytes, Phrase, int, list[tuple[int, Phrase]]) -> None
    text = phrase.text
    at = data.find(text)
    while at >= 0:
        found.append((base + at, phrase))
        at = data.find(b"\n", at)  # once a line is enough
        if at >= 0:
            at = data.find(text, at)


def _place(hit):
    # type: (tuple[int, Phrase]) -> int
    return hit[0]
