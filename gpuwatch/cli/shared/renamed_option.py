"""Renamed options: the old name is still accepted, and help does not list it."""

from __future__ import annotations

from typing import Any

import click


class RenamedOption(click.Option):
    """A click option whose first name is current; further names are old, accepted but not in the help."""

    def __init__(self, *args: Any, **attributes: Any) -> None:  # noqa: ANN401 - as click takes them
        super().__init__(*args, **attributes)
        self.old_names = self.opts[1:]
        self.opts = self.opts[:1]

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:  # noqa: ANN401 - click's own is private
        """Make the parser accept the option under its current name and its old names."""
        current = self.opts
        self.opts = [*current, *self.old_names]
        super().add_to_parser(parser, ctx)
        self.opts = current
