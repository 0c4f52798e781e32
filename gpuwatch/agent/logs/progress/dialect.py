"""Reads how one framework logs its progress: which lines, and the quantity of each word.

A dialect is plain data of `gpuwatch.rules.compiling.compile`: `match` (a line is of this dialect if one of
them matches; named groups are quantities), `unless`, `words` (word -> quantity), and the rest as in
`CompiledDialect`.
"""

import re

from .key_values import pairs
from .quantities import NOTHING, QUANTITIES, put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .quantities import Fields

READ_CHARS = 8192
"""Characters of a line that are read."""
MAX_PHASES = 64
TIMER_GROUPS = ("timer", "timer_s", "timer_count")
"""Named groups of one timer: its name, its duration with unit, and the number of operations in it."""
MEANS, OF_STEPS = ("avg", "average", "mean", "running"), ("loss", "samples_per_s", "tokens_per_s")
"""Prefixes of words for means; they are used for these fields only if the line lacks the step's own value."""
BATCHES = frozenset(("batch", "batch_idx", "mini_batch", "minibatch"))
"""A batch of an epoch is the step only if the line names no step."""


TIMER = re.compile(
    r"(?:^|[_/.])(?:fwd|forward|bwd|backward|fwd_bwd|data(?:load(?:er|ing)?)?|load(?:er|ing)?|fetch|input|wait(?:ing)?"
    r"|comm(?:s|unication)?|comp(?:ute|utation)?|sync|optim(?:izer)?|opt|h2d|d2h|allreduce|all_?gather"
    r"|all_?reduce|reduce(?:_scatter)?|all_?to_?all|nccl|collective|barrier|gpu|kernel|preproc(?:ess(?:ing)?)?|augment(?:ation)?|collate)"
    r"(?:_(?:time|wait|step|comm))?(?:_?(?P<unit>ms|s|sec|us))?$"
)
"""Words for the duration of a part of a step, with or without unit."""
FRACTION = re.compile(r"\d\.\d|\d ?(?:ms|us|s|secs?|seconds?)$")

UNITS = ("_ms", "_us", "_s", "_sec")
"""Suffixes of a timer word that make a whole number a time."""


class ProgressReading(object):
    """The progress values that a dialect reads from one line, and its timers."""

    __slots__ = ("dialect", "fields", "phases")

    def __init__(self, dialect: "CompiledDialect", fields: "Fields", phases: "dict[str, float]") -> None:
        self.dialect = dialect
        self.fields = fields
        self.phases = phases
        """Timer -> seconds."""


class CompiledDialect(object):
    """A dialect, ready to read lines; its patterns are compiled at the first line."""

    __slots__ = (
        "_match", "_plain", "_unless", "counts", "fallback", "id", "least", "like", "needs", "per_epoch",
        "phases", "plain", "shared", "slow", "steady", "words",
    )  # fmt: skip

    def __init__(self, plain: "dict[str, Any]") -> None:
        self.id = str(plain["id"])
        self._plain = {name: plain.get(name, ()) for name in ("match", "unless")}
        self._match: list[re.Pattern[str]] = []
        self._unless: list[re.Pattern[str]] = []
        self.words: dict[str, str] = plain.get("words", {})
        self.like: str | None = plain.get("like")
        self.shared: dict[str, str] = {}
        """The words of the dialect that it extends, used where it does not override them."""
        self.plain = bool(plain.get("plain"))
        """True: only named groups are read, no words."""
        self.phases: str | None = plain.get("phases")
        """Unit of its timers: every word with a number is one."""
        self.per_epoch = bool(plain.get("per_epoch"))
        """True: steps start again with every epoch."""
        self.fallback = bool(plain.get("fallback"))
        """True: tried only if no other dialect matches."""
        self.needs = frozenset(plain.get("needs", ()))
        """Fields that a line must have to report anything."""
        self.counts = "requests" in self.needs
        """True: every line is counted; otherwise only the newest one is read."""
        self.least = int(plain.get("least", 1))
        """Smallest number of fields."""
        self.steady = bool(plain.get("steady"))
        """True if its patterns treat all digits alike."""

    @property
    def patterns(self) -> "list[str]":
        """Return the patterns of the dialect; every line of it matches one of them."""
        return list(self._plain["match"])

    def read(self, text: str) -> "ProgressReading | None":
        """Return the progress values of a line; None: the line is not of this dialect, or has none.

        Raises:
            re.error: This Python cannot compile a pattern.
        """
        if not self._match:
            self._unless = [re.compile(each) for each in self._plain["unless"]]
            self._match = [re.compile(each) for each in self._plain["match"]]
        text = text[:READ_CHARS]
        for pattern in self._match:
            found = pattern.search(text)
            if found is not None:
                break
        else:
            return None
        if any(each.search(text) for each in self._unless):
            return None
        fields: Fields = {}
        phases: dict[str, float] = {}
        named = found.groupdict()
        for name, value in named.items():
            if value is not None and name not in TIMER_GROUPS:
                put(fields, name, value)
        if named.get("timer_s"):
            one: Fields = {}
            if put(one, "step_time_s", named["timer_s"]):
                count = float(named.get("timer_count") or 1)
                phases[named["timer"]] = float(one["step_time_s"]) / max(1.0, count)
        if self.phases is not None:
            self._timers(text[found.end() :], self.phases, phases)
        elif not self.plain:
            self._words(text, fields, phases)
        if not self.needs.issubset(fields) or len(fields) + len(phases) < self.least:
            return None
        return ProgressReading(self, fields, phases)

    def _words(self, text: str, fields: "Fields", phases: "dict[str, float]") -> None:
        words, shared = self.words, self.shared
        lesser: list[tuple[str, str]] = []
        for name, value, rate in pairs(text):
            # `2.5 steps/s` is a rate whatever it is called, and so is `speed (steps/s) 2.5`
            unit = rate or (name[name.rfind("(") + 1 : -1] if name[-1:] == ")" else "")
            quantity = (words.get(unit) or shared.get(unit)) if unit else None
            quantity = quantity or words.get(name) or shared.get(name)
            if quantity is None and not rate and len(phases) < MAX_PHASES:
                _timer(name, value, phases)
            if quantity is None or quantity == NOTHING or QUANTITIES[quantity][0] in fields:
                continue
            a_mean = name.startswith(MEANS) and QUANTITIES[quantity][0] in OF_STEPS
            if a_mean or quantity == "step" and name in BATCHES:
                lesser.append((quantity, value))
            else:
                put(fields, quantity, value)
        for quantity, value in lesser:
            put(fields, quantity, value)

    @staticmethod
    def _timers(text: str, unit: str, phases: "dict[str, float]") -> None:
        last = None
        for name, value, _ in pairs(text):
            one: Fields = {}
            if len(phases) >= MAX_PHASES or not put(one, "step_time_" + unit, value):
                continue
            took = float(one["step_time_s"])
            if name:
                last = name.rstrip("._")
                phases.setdefault(last, took)
            elif last is not None:  # `(min, max)` across ranks: the slowest one counts
                phases[last] = max(phases[last], took)


def _timer(name: str, value: str, phases: "dict[str, float]") -> None:
    """Add a timer's seconds to `phases`: by the unit of its value, else of its name, else seconds.

    A whole number without a unit is no time.
    """
    timer = TIMER.search(name)
    one: Fields = {}
    if timer is None:
        return
    if FRACTION.search(value) is None and not name.endswith(UNITS):
        return
    unit = {"ms": "ms", "us": "us"}.get(timer.group("unit"), "s")
    if put(one, "step_time_" + unit, value):
        phases.setdefault(name, float(one["step_time_s"]))
