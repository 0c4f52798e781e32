"""The keys of a rule pack and their allowed values, for the loader."""

from __future__ import annotations

import yaml

from gpuwatch.agent.logs.progress.quantities import NOTHING, QUANTITIES
from gpuwatch.hosts.validation.document import place
from gpuwatch.hosts.validation.errors import Problems, TextPosition, escaped
from gpuwatch.hosts.validation.shapes import (
    Keyword,
    Number,
    Schema,
    Shape,
    Text,
    Whole,
    described,
    quoted,
    scalar,
)
from gpuwatch.hosts.validation.structures import Key, ListOf, MapOf, OneOf, ReadMapping, Record
from gpuwatch.rules.compiling.ambiguity import check_pattern
from gpuwatch.rules.compiling.check import PatternError
from gpuwatch.rules.model.failure_class import KINDS

MAX_PATTERN = 2000
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"


class PatternShape(Shape):
    """The shape of a value that is a regular expression; problems are reported with the column inside it."""

    what = "a regular expression"

    def read(self, node: yaml.Node, problems: Problems) -> str | None:
        """Return the text of a regular expression; None if it is refused: `problems` then has the reason."""
        text = scalar(node)
        if text is None or not text or len(text) > MAX_PATTERN:
            self.refuse(node, problems)
            return None
        try:
            check_pattern(text)
        except PatternError as error:
            at = place(node)
            one_line = node.start_mark.line == node.end_mark.line
            if error.position is not None and one_line:
                at = at.right(quoted(node) + error.position)
            where = "" if error.position is None else f" at character {error.position + 1} of the pattern"
            problems.refuse(at, f"is refused: {error}{where}")
            return None
        return text

    def schema(self) -> Schema:
        """Return the JSON schema: a string."""
        return {"type": "string", "format": "regex", "maxLength": MAX_PATTERN}


class PackProblems(Problems):
    """Collects the problems of a pack; each is prefixed with the id of its rule."""

    rule: str | None = None

    def add(self, place: TextPosition, text: str) -> None:
        """Add a problem, with the id of its rule in front."""
        super().add(place, text if self.rule is None else f"rule {escaped(self.rule)}: {text}")


class RuleRecord(Record):
    """The shape of a rule's mapping; problems found while it is read carry the rule's id."""

    def read(self, node: yaml.Node, problems: Problems) -> ReadMapping | None:
        """Return the entry with every value that could be read; None if it is no mapping."""
        if not isinstance(problems, PackProblems) or not isinstance(node, yaml.MappingNode):
            return super().read(node, problems)
        problems.rule = _stated(node, "id") or "without an id"
        entry = super().read(node, problems)
        problems.rule = None
        return entry


class RuleOrDialect(Shape):
    """The shape of a pack's entry: a rule, or with `kind: progress` a dialect of progress lines."""

    what = "a rule"

    def read(self, node: yaml.Node, problems: Problems) -> ReadMapping | None:
        """Return the entry, read as a dialect if it has the key `kind`, else as a rule; None: no mapping."""
        is_rule = not isinstance(node, yaml.MappingNode) or _stated(node, "kind") is None
        return (RULE if is_rule else DIALECT).read(node, problems)

    def schema(self) -> Schema:
        """Return the JSON schema: that of a rule or that of a dialect."""
        return {"anyOf": [RULE.schema(), DIALECT.schema()]}


def _stated(node: yaml.MappingNode, name: str) -> str | None:
    """Return the value of a key as text; None: the mapping has no such key."""
    return next((scalar(value) for key, value in node.value if scalar(key) == name), None)


class Passage(Text):
    """The shape of a text that may have several lines."""

    def refuse(self, node: yaml.Node, problems: Problems) -> None:
        """Add a problem for a value that is no text, with a hint to quote `key: value`, a YAML mapping."""
        hint = "; text with ': ' in it needs quotes" if isinstance(node, yaml.MappingNode) else ""
        problems.refuse(place(node), f"must be {self.what}, not {described(node)}{hint}")

    def fits(self, text: str) -> bool:
        """Return True if the text is not blank and not too long."""
        return len(text.strip()) > 0 and len(text) <= self.limit


_SEVERITY = Keyword(("info", "warning", "error", "critical"))
_PATTERN = PatternShape()
_PATTERNS = ListOf(_PATTERN, "a regular expression or a list of them", or_single=True)
_PASSAGES = ListOf(
    Passage("lines of a log", limit=20_000), "a text with log lines, or a list of such texts", or_single=True
)
_SENTENCES = ListOf(Passage("a sentence", limit=2000), "a sentence or a list of them", or_single=True)
_ID = Text("family.name in small letters", r"[a-z0-9_]+(\.[a-z0-9_]+)+", 80)
_EFFECTS = ListOf(
    Text("a rule's id, family.*, a condition's code or a kind", r"[a-z0-9_]+(\.[a-z0-9_]+)*(\.\*)?", 80),
    "an effect or a list of effects",
    or_single=True,
)
_KIND = Keyword(KINDS, what="a kind that docs/rules.md lists")
_KINDS = ListOf(_KIND, "a kind or a list of kinds", or_single=True)
_LINKS = ListOf(Text("a link", r"https?://\S+", 500), "a link or a list of links", or_single=True)
_LITERALS = ListOf(Text("a word"), "a word or a list of words", or_single=True)


def _context(name: str) -> Record:
    return Record(
        name,
        (
            Key("match", _PATTERN, "Its pattern.", required=True),
            Key("lines", Whole(1, 200), "Lines searched above."),
        ),
    )


_YES = Keyword(("true", "false"))
RULE = RuleRecord(
    "a rule",
    (
        Key(
            "id",
            _ID,
            "Its id.",
            required=True,
        ),
        Key("severity", _SEVERITY, "Its severity.", required=True),
        Key(
            "title",
            Text("a few words", limit=120),
            "What happened, as a headline.",
            required=True,
        ),
        Key(
            "match",
            _PATTERNS,
            "Patterns; a line matches if one of them is found anywhere in it.",
            required=True,
        ),
        Key("explain", Passage("a few sentences", limit=4000), "What it means.", required=True),
        Key("do", _SENTENCES, "What to do first, the best first.", required=True),
        Key("examples", _PASSAGES, "Lines that must match this rule.", required=True),
        Key("role", Keyword(("root", "first", "echo", "hint")), "Whether it is a cause or a consequence."),
        Key("kinds", _KINDS, "Its kinds."),
        Key(
            "end_weight",
            Whole(0, 3),
            "For the end of a process: larger if it is more likely a consequence of others.",
        ),
        Key("explains", _EFFECTS, "What follows from it at the same place."),
        Key("literals", _LITERALS, "For the prefilter."),
        Key("unless", _PATTERNS, "Exceptions: a line with one of these does not match."),
        Key(
            "programs",
            ListOf(Text("a program", limit=60), "a list of programs", or_single=True),
            "In a system log: the programs whose lines it applies to.",
        ),
        Key(
            "general",
            Record(
                "general",
                (
                    Key("match", _PATTERNS, "Any of them.", required=True),
                    Key("unless", _PATTERNS, "Exceptions: a line with one of these does not match."),
                ),
            ),
            "Generic patterns, tried only on lines that no specific rule explains.",
        ),
        Key("exact", _YES, "True: matches at any log level, and inside advice."),
        Key("fallback", _YES, "True: matches only error lines that no other rule explains."),
        Key("raised", _PATTERN, "Searched in the last line of a traceback that no other rule explains."),
        Key("after", _context("after"), "Matches only if this is found above."),
        Key("above", _context("above"), "Its named groups become fields if it is found above."),
        Key("block", Whole(0, 200), "Number of lines below that belong to it."),
        Key("until", _PATTERN, "The block ends with this line."),
        Key(
            "flood",
            Record(
                "flood",
                (
                    Key("count", Whole(2, 100_000), "Number of matches.", required=True),
                    Key("seconds", Number(1, 86_400, "seconds"), "The time for them.", required=True),
                ),
            ),
            "Fewer matches report nothing.",
        ),
        Key(
            "recovery",
            Record(
                "recovery",
                (
                    Key("match", _PATTERN, "Its pattern.", required=True),
                    Key(
                        "same",
                        ListOf(Text("a field", _NAME), "a list of fields", or_single=True),
                        "Fields that must be equal in both lines.",
                    ),
                ),
            ),
            "A line that ends it.",
        ),
        Key(
            "severity_by",
            MapOf(
                "a mapping of fields",
                Text("a field", _NAME),
                MapOf("a mapping of values", Text("a value", limit=100), _SEVERITY),
            ),
            "Field -> value -> severity.",
        ),
        Key("links", _LINKS, "Further reading."),
        Key("not", _PASSAGES, "Lines that must not match this rule."),
    ),
)
_VALUE = Text("a number, nan or inf", r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|nan|-?inf", 40)
_QUANTITY = Keyword((*QUANTITIES, NOTHING))
_FIELD = Keyword(tuple(dict.fromkeys(field for field, _, _ in QUANTITIES.values())))
_WORD = Text("a word of a line", limit=80)
_SCOPE = Keyword(("gpu", "job"))
DIALECT = RuleRecord(
    "a dialect",
    (
        Key("kind", Keyword(("progress",)), "Marks a dialect.", required=True),
        Key("id", _ID, "Its id.", required=True),
        Key("title", Text("a few words", limit=120), "The framework that writes these lines.", required=True),
        Key("match", _PATTERNS, "Patterns of its lines; named groups are quantities.", required=True),
        Key(
            "examples",
            ListOf(
                Record(
                    "an example",
                    (
                        Key("line", Passage("a line of a log", limit=20_000), "The line.", required=True),
                        Key("gives", MapOf("a mapping of fields", Text("a field", _NAME), _VALUE), "Fields."),
                        Key("phases_s", MapOf("a mapping of timers", _WORD, _VALUE), "Timers."),
                    ),
                ),
                "a list of examples, each with the keys 'line' and 'gives'",
            ),
            "Lines, and every field that must be read from them.",
            required=True,
        ),
        Key("literals", _LITERALS, "For the prefilter."),
        Key("unless", _PATTERNS, "Exceptions: a line with one of these does not match."),
        Key("words", MapOf("a mapping of words", _WORD, _QUANTITY), "Word of a line -> quantity."),
        Key("like", _ID, "A dialect whose words also apply."),
        Key("plain", _YES, "True: only the named groups are read."),
        Key(
            "needs",
            ListOf(_FIELD, "a field or a list of fields", or_single=True),
            "Without these, a line is ignored.",
        ),
        Key("least", Whole(1, 10), "A line with fewer fields is ignored."),
        Key("phases", Keyword(("ms", "s")), "Every word with a number is a timer, in this unit."),
        Key("per_epoch", _YES, "True: step numbers restart with every epoch."),
        Key("fallback", _YES, "True: tried only after all other dialects."),
        Key("tokens_of", _SCOPE, "What its tokens per second are of: one GPU or the whole job."),
        Key("tflops_of", _SCOPE, "What its TFLOP/s are of: one GPU or the whole job."),
        Key("engine", Text("a name", limit=40), "The inference server that writes these lines."),
        Key("logs_failures", _YES, "True: a failed request has a line."),
        Key("links", _LINKS, "Addresses of real logs with such lines."),
        Key("sources", _LINKS, "Addresses of the program text that prints them, if no log is public."),
        Key("not", _PASSAGES, "Lines that must not match."),
    ),
)
_RULES = ListOf(RuleOrDialect(), "a list of rules")
_FAMILIES = MapOf(
    "a mapping of families",
    Text("a family, the id before a dot", r"[a-z0-9_]+(\.[a-z0-9_]+)*", 80),
    _KINDS,
)
PACK = OneOf(
    "a list of rules, or a mapping with the key rules",
    many=_RULES,
    mapping=Record(
        "a pack",
        (
            Key("families", _FAMILIES, "Family -> kinds of all rules of it in this pack."),
            Key("rules", _RULES, "The rules.", required=True),
        ),
    ),
)
