"""Regular expressions of modules, compiled when they are first used: most starts use few of them."""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, AnyStr

_OF_PATTERN = (
    "findall", "finditer", "flags", "fullmatch", "groupindex", "groups",
    "match", "search", "split", "sub", "subn",
)  # fmt: skip


class ModulePattern:
    """A regular expression with the attributes of `re.Pattern`; `pattern_of` makes it."""

    def __init__(self, pattern: "str | bytes", flags: "int") -> None:
        self.pattern = pattern
        self.flags_given = flags

    def __getattr__(self, name: "str") -> "Any":
        """Compile the pattern and store its attributes, so that later uses skip this call."""
        if name not in _OF_PATTERN:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self.flags_given)
        for each in _OF_PATTERN:
            setattr(self, each, getattr(compiled, each))
        return getattr(self, name)


def pattern_of(pattern: "AnyStr", flags: "int" = 0) -> "re.Pattern[AnyStr]":
    """Return a regular expression that is compiled at its first use; errors in it are raised then."""
    return ModulePattern(pattern, flags)  # type: ignore[return-value]  # it has the attributes that are used
