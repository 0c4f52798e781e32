"""One parse of each style sheet for all apps of a test process: a sixth of the CPU time of an app's start."""

from __future__ import annotations

import functools

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.css.types import CSSLocation


def share_parsed_css(patch: pytest.MonkeyPatch) -> None:
    """Keep what was parsed by the text and the variables that stand in it; Textual keeps it for one app."""
    parsed: dict[object, list[RuleSet]] = {}
    parse = Stylesheet._parse_rules

    @functools.wraps(parse)
    def shared(
        sheet: Stylesheet,
        css: str,
        read_from: CSSLocation,
        is_default_rules: bool = False,
        tie_breaker: int = 0,
        scope: str = "",
    ) -> list[RuleSet]:
        variables = tuple(sheet._variables.items())
        key = (css, read_from, is_default_rules, tie_breaker, scope, variables)
        if key not in parsed:
            parsed[key] = parse(sheet, css, read_from, is_default_rules, tie_breaker, scope)
        return parsed[key]

    patch.setattr(Stylesheet, "_parse_rules", shared)
