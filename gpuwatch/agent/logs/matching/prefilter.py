"""The literal prefilter: finds the places in a chunk where a rule may match, skipping known shapes of lines.

A shape is a line without its digits. A log repeats the same lines with other numbers, so one set difference
handles nearly all of a chunk, whatever the number of rules. For a new shape, the possible phrases are
determined once, by its words; each word is also compared with the phrases only once. Nothing is lost: if a
line contains a phrase, its shape contains the phrase without digits.

Example: `step 41 loss 2.31` and `step 42 loss 2.29` have the shape `step  loss .`. It contains no phrase, so
after the first line all of them are skipped. `rank 3: NCCL timeout` is a new shape with a word of the phrase
`NCCL timeout`: `hits` returns its offset and the phrase, and the matcher tries only that phrase's rules
there.
"""

from itertools import compress

from ...patterns.quick_checks import has_one
from ..lines.json_lines import has_escapes, unescaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

    from ..progress.dialect import CompiledDialect
    from ..progress.latest_lines import Newest
    from .ruleset import Phrase, RuleSet

MAX_WORDS = 50000
MAX_SHAPES = 40000
FEW_TEXTS = 60
"""Up to this many texts are searched one after another; for more, the words of a line are looked up."""
HEAD_CHARS = 3
"""Characters by which parts of words are indexed."""
MAX_BYTES = 4 << 20
"""Bytes of all remembered shapes."""
LONG_LINE = 2048
"""Bytes between two occurrences of a phrase in a line that are both returned."""
MAX_SHAPE = 2000
"""Bytes of a shape above which its result is not remembered."""
MAX_PROGRESS_SHAPE = 8000
"""The limit for shapes that may report progress: a line may name hundreds of metrics."""

_NO_HITS: "list[Any]" = []
_DIGITS = b"0123456789"
_CONTROLS = bytes(c for c in range(32) if c not in (9, 10, 13)) + b"\x7f"
SHAPELESS = _CONTROLS + _DIGITS
"""Bytes that are removed from a line to get its shape."""
_ONE_DIGIT = bytes(48 if 48 <= c <= 57 else c for c in range(256))
_LETTERS = bytes(c if 65 <= c <= 90 or 97 <= c <= 122 or c == 10 else 32 for c in range(256))
_HIGH = bytes(range(128, 256))


class Prefilter(object):
    """Finds phrases of rules in lines, and remembers which shapes of lines contain none."""

    def __init__(self, ruleset: "RuleSet", phrases: "list[Phrase] | None" = None) -> None:
        """Create a prefilter for the given phrases; None: all phrases of the rule set."""
        self._exact: dict[bytes, list[Phrase]] = {}
        self._folded: dict[bytes, list[Phrase]] = {}
        self._inside: dict[bytes, list[Phrase]] = {}
        self._folded_inside: dict[bytes, list[Phrase]] = {}
        self._heads: dict[bytes, list[bytes]] = {}
        """First lower-case letters of word parts -> these parts."""
        self._sizes: list[int] = []
        self._anywhere: list[Phrase] = []
        """Phrases without a word of ASCII letters; `_anywhere_high`: with characters beyond ASCII."""
        self._anywhere_high: list[Phrase] = []
        self._bare: dict[Phrase, bytes] = {}
        self._plain_words: set[bytes] = set()
        self._literal_words: dict[bytes, list[Phrase]] = {}
        self._plain_shapes: set[bytes] = set()
        self._rule_shapes: dict[bytes, list[Phrase]] = {}
        self._progress_shapes: dict[bytes, list[CompiledDialect]] = {}
        """Shapes of lines that may report progress, of which only the newest line is needed."""
        self._bytes = 0
        self._steady: dict[bytes, bool] = {}
        """Searched shapes -> whether lines that differ only in digits are the same to all their phrases."""
        self._dialects = ruleset.dialects
        for phrase in ruleset.phrases if phrases is None else phrases:
            self._place(phrase)

    def hits(
        self, data: bytes, newest: "Newest | None" = None, known: "set[int] | None" = None
    ) -> "list[tuple[int, Phrase]]":
        """Return (offset in `data`, phrase) for the first place of each phrase in each line.

        In long lines also further places. `data`: complete lines without escapes. `newest` gets the last
        lines of shapes that may report progress. `known`: forms (see `form_of`) of lines of this file that
        are left out.
        """
        raw = data = self.unbroken(data)
        if has_escapes(data):
            data = unescaped(data)
        self._make_room()
        shapes = self.shapes(data)
        lines: list[bytes] = []
        different = self.distinct(data).difference(self._plain_shapes)
        searched_shapes = self._search_shapes(different)
        if newest is not None and not self._progress_shapes.keys().isdisjoint(different):
            lines = raw.split(b"\n")
            newest.take(lines, shapes, self._progress_shapes, len(data))
        found: list[tuple[int, Phrase]] = []
        if not searched_shapes:
            return found
        lines = lines if lines and raw is data else data.split(b"\n")
        same = self._same(searched_shapes) if known and raw is data else set()
        fresh = list(compress(range(len(shapes)), map(searched_shapes.__contains__, shapes)))
        if known and same:
            fresh = [each for each in fresh if shapes[each] not in same or form_of(lines[each]) not in known]
        at = before = 0
        for index in fresh:
            at += sum(map(len, lines[before:index])) + index - before
            before = index
            _find(lines[index], searched_shapes[shapes[index]], at, found)
        found.sort(key=_where)
        return found

    def surely_lacks(self, data: bytes, texts: "Sequence[bytes]") -> bool:  # noqa: ARG002 - for subclasses
        """Return True if it is known that none of the texts occurs in the data; False: unknown."""
        return False

    def unbroken(self, data: bytes) -> bytes:
        """Return the data with a line feed for each carriage return, which also ends a line."""
        return data.replace(b"\r", b"\n") if b"\r" in data else data

    def shapes(self, data: bytes) -> "list[bytes]":
        """Return the shape (bytes without digits) of each line in `data`."""
        return data.translate(None, SHAPELESS).split(b"\n")

    def distinct(self, data: bytes) -> "set[bytes] | frozenset[bytes]":
        """Return the different shapes of the lines in `data`."""
        return set(self.shapes(data))

    def _same(self, shapes: "dict[bytes, list[Phrase]]") -> "set[bytes]":
        """Return the shapes whose rules do not depend on digits: one line of each stands for all others."""
        if len(self._steady) > MAX_SHAPES:
            self._steady.clear()
        for shape, phrases in shapes.items():
            if shape not in self._steady:
                self._steady[shape] = len(shape) <= MAX_SHAPE and all(each.steady() for each in phrases)
        return {shape for shape in shapes if self._steady[shape]}

    def no_progress(self, shape: bytes) -> None:
        """Record that lines of this shape report no progress, whatever their digits."""
        if self._progress_shapes.pop(shape, None) is not None and shape not in self._rule_shapes:
            self._plain_shapes.add(shape)

    def _place(self, phrase: "Phrase") -> None:
        self._bare[phrase] = phrase.text.translate(None, _DIGITS)
        if not phrase.lead:
            is_ascii = not phrase.text.translate(None, bytes(range(128)))
            (self._anywhere if is_ascii else self._anywhere_high).append(phrase)
        elif phrase.whole:
            (self._folded if phrase.fold else self._exact).setdefault(phrase.lead, []).append(phrase)
        else:
            (self._folded_inside if phrase.fold else self._inside).setdefault(phrase.lead, []).append(phrase)

    def _search_shapes(self, shapes: "set[bytes] | frozenset[bytes]") -> "dict[bytes, list[Phrase]]":
        """Return shape -> the phrases of rules that it may contain, for shapes that may contain any.

        All examined shapes are remembered.
        """
        searched_shapes = {
            shape: self._rule_shapes[shape] for shape in shapes.intersection(self._rule_shapes)
        }
        fresh = shapes.difference(self._rule_shapes, self._progress_shapes)
        if not fresh:
            return searched_shapes
        held = {shape: phrases for shape, phrases in self._phrases_in(list(fresh)).items() if phrases}
        self._remember_plain(fresh.difference(held))
        for shape, phrases in held.items():
            searched = [phrase for phrase in phrases if phrase.leads_to_findings]
            if searched:
                searched_shapes[shape] = searched
            led = {each for phrase in phrases for each in phrase.dialects}
            self._remember(
                shape, searched, [each for each in self._dialects if each in led] if led else _NO_HITS
            )
        return searched_shapes

    def _phrases_in(self, shapes: "Sequence[bytes]") -> "dict[bytes, list[Phrase]]":
        """Return shape -> its phrases, for the shapes that have any."""
        together = b"\n".join(shapes)
        worded = together.translate(_LETTERS)
        is_ascii = len(together.translate(None, _HIGH)) == len(together)
        texts = self._anywhere if is_ascii else self._anywhere + self._anywhere_high
        anywhere = [each for each in texts if self._bare[each] in together]
        literal = set(worded.split()) - self._plain_words
        if literal:
            self._learn(literal.difference(self._literal_words))
            literal -= self._plain_words
        few = self._few(literal, anywhere)
        held: dict[bytes, list[Phrase]] = {}
        if literal or anywhere:
            lines = worded.split(b"\n"), together.lower().split(b"\n")
            for shape, letters, lowered in zip(shapes, *lines):  # noqa: B905 - strict needs Python 3.10
                if few is None or has_one(shape, few):
                    words = literal.intersection(letters.split())
                    if words or anywhere:
                        phrases = self._phrases(shape, lowered, words, anywhere)
                        if phrases:
                            held[shape] = phrases
        return held

    def _few(self, literal: "set[bytes]", anywhere: "list[Phrase]") -> "list[bytes] | None":
        """Return texts of which a shape with a phrase contains at least one; None: too many to search."""
        phrases = {phrase for word in literal for phrase in self._literal_words[word]}
        phrases.update(anywhere)
        if len(phrases) > FEW_TEXTS or any(phrase.fold for phrase in phrases):
            return None
        return [self._bare[phrase] for phrase in phrases]

    def _phrases(
        self, shape: bytes, lowered: bytes, words: "set[bytes]", anywhere: "list[Phrase]"
    ) -> "list[Phrase]":
        bare = self._bare
        phrases: dict[Phrase, None] = {}
        for some in [self._literal_words[word] for word in words] + [anywhere]:
            for phrase in some:
                if bare[phrase] in (lowered if phrase.fold else shape) and (
                    phrase.needs is None or phrase.may_match(lowered)
                ):
                    phrases[phrase] = None
        return list(phrases)

    def _make_room(self) -> None:
        """Forget all shapes if there are too many. Call it between searches: a search needs its shapes."""
        count = len(self._plain_shapes) + len(self._rule_shapes) + len(self._progress_shapes)
        if self._bytes > MAX_BYTES or count > MAX_SHAPES:
            self._forget()

    def _forget(self) -> None:
        self._plain_shapes.clear()
        self._rule_shapes.clear()
        self._progress_shapes.clear()
        self._bytes = 0

    def _remember_plain(self, shapes: "set[bytes] | frozenset[bytes]") -> None:
        """Remember that these shapes (lines without digits) contain no phrase of a rule; omits long ones."""
        short = shapes
        if any(map(MAX_SHAPE.__lt__, map(len, shapes))):
            short = {shape for shape in shapes if len(shape) <= MAX_SHAPE}
        self._bytes += sum(map(len, short))
        self._plain_shapes.update(short)

    def _remember(self, shape: bytes, phrases: "list[Phrase]", dialects: "list[CompiledDialect]") -> None:
        """Remember the phrases and dialects (not both empty) of a shape, unless it is too long."""
        if len(shape) > (MAX_PROGRESS_SHAPE if dialects else MAX_SHAPE):
            return
        self._bytes += len(shape)
        if dialects:
            self._progress_shapes[shape] = dialects
        if phrases:
            self._rule_shapes[shape] = phrases

    def _learn(self, words: "set[bytes]") -> None:
        """Store for each word the phrases that it may belong to."""
        if len(self._plain_words) + len(self._literal_words) > MAX_WORDS:
            self._plain_words.clear()
        for word in words:
            folded = word.lower()
            phrases = self._exact.get(word, []) + self._folded.get(folded, [])
            for part in self._parts_in(folded):
                if part in word:
                    phrases = phrases + self._inside.get(part, [])
                if part in folded:
                    phrases = phrases + self._folded_inside.get(part, [])
            if phrases:
                self._literal_words[word] = phrases
            else:
                self._plain_words.add(word)

    def _parts_in(self, folded: bytes) -> "set[bytes]":
        """Return the parts of phrases' words that a lower-case word may contain, by their beginnings."""
        if not self._heads:
            for part in set(self._inside).union(self._folded_inside):
                self._heads.setdefault(part[:HEAD_CHARS].lower(), []).append(part)
            self._sizes = sorted({len(head) for head in self._heads})
        found: set[bytes] = set()
        for size in self._sizes:
            for at in range(len(folded) - size + 1):
                found.update(self._heads.get(folded[at : at + size], ()))
        return found


def form_of(line: bytes) -> int:
    """Return a number that is equal for lines that differ only in the values of their digits."""
    return hash(line.translate(_ONE_DIGIT))


def _find(line: bytes, phrases: "list[Phrase]", base: int, found: "list[tuple[int, Phrase]]") -> None:
    lowered = b""
    for phrase in phrases:
        if phrase.fold:
            lowered = lowered or line.lower()
        at = (lowered if phrase.fold else line).find(phrase.text)
        if at >= 0 and len(line) > LONG_LINE:
            searched = lowered if phrase.fold else line
            last = searched.rfind(phrase.text)
            if last - at > LONG_LINE:
                found.append((base + last, phrase))
                further = searched.find(phrase.text, at + LONG_LINE, last)
                while further >= 0:
                    found.append((base + further, phrase))
                    further = searched.find(phrase.text, further + LONG_LINE, last)
        if at < 0:  # control characters may interrupt the phrase: then the approximate position
            clean = line.translate(None, _CONTROLS)
            at = (clean.lower() if phrase.fold else clean).find(phrase.text) if len(clean) < len(line) else -1
        if at >= 0:
            found.append((base + at, phrase))


def _where(hit: "tuple[int, Phrase]") -> int:
    return hit[0]
