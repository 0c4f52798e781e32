"""The user's search: for a pattern in all files, or for the next error, warning or hit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwatch.rules.compiling.typed_pattern import TypedPattern
from gpuwatch.tui.logs.data.viewport import View
from gpuwatch.tui.logs.search import next_error
from gpuwatch.tui.logs.search.node_search import LogSearch
from gpuwatch.tui.model.view_state import ViewState


class SearchState:
    """The search of the logs screen, and the pending jump to an error: at most one of each.

    `version` increases when other patterns are to be highlighted.
    """

    def __init__(
        self, view_state: ViewState, offset: Callable[[str], float], key_of: Callable[[str], str]
    ) -> None:
        """Create the state of the search of the logs screen; no search is active.

        Args:
            view_state: The state of the screens, with the fleet whose logs are searched.
            offset: Returns a node's clock minus ours.
            key_of: Returns the current key of a binding from its id.
        """
        self.search: LogSearch | None = None
        self.jump: next_error.PendingJump | None = None
        self.note = ""
        """The result of the last input, if it must be shown."""
        self.version = 0
        self._view_state = view_state
        self._offset = offset
        self._key_of = key_of

    @property
    def patterns(self) -> tuple[TypedPattern, ...]:
        """The patterns that are highlighted in every line; empty without a search."""
        return (self.search.pattern,) if self.search else ()

    def pull(self) -> None:
        """Process what the search and the pending jump have received; the jump's result becomes `note`."""
        if self.search is not None:
            self.search.pull()
        if self.jump is not None and (reported := self.jump.pull()) is not None:
            self.note, self.jump = reported, None

    def start_search(self, pattern: str) -> None:
        """Replace the search by one of all followed files on all connected nodes, or of the selected job's.

        Raises:
            PatternError: The pattern is not a regular expression, or could take too long.
        """
        TypedPattern(pattern)
        self.end_search()
        fleet, alone = self._view_state.fleet, self._view_state.scope.job is not None
        nodes: dict[str, Sequence[str]] = {
            node.name: [file.path for file in node.logs] if alone else ()
            for node in fleet.nodes.values()
            if node.link.phase == "live" and (node.logs or not alone)
        }
        offsets = {name: self._offset(name) for name in fleet.nodes}
        self.search = LogSearch(self._view_state.session, pattern, nodes, offsets)
        self.version += 1

    def end_search(self) -> None:
        """Cancel the search and drop its hits."""
        if self.search is not None:
            self.search.cancel()
            self.search = None
            self.version += 1

    def to_bad(self, view: View, step: int, *, warnings: bool) -> bool:
        """Jump to the next (1) or previous (-1) error; return True if the jump is done.

        `warnings`: also to warnings.

        False: its page must be read first, a search on the node has become the pending jump, or `note` states
        that there is none.
        """
        self.end_jump()
        view_state, offset_s = self._view_state, self._offset(view.buffers[0].source.node)
        reported = next_error.to_bad(
            view, step, view_state.fleet, view_state.session, warnings=warnings, offset_s=offset_s
        )
        if isinstance(reported, next_error.PendingJump):
            self.jump = reported
            return False
        return self._received(reported)

    def to_hit(self, view: View, step: int) -> bool:
        """Jump to the next (1) or previous (-1) search hit; return True if the jump is done.

        False: its page must be read first, or `note` states that there is none.
        """
        if self.search is None:
            return self._received(f"no search; press {self._key_of('app.find')} to search")
        return self._received(next_error.to_hit(view, step, self.search))

    def _received(self, reported: str | bool) -> bool:
        if reported is not False:
            self.note = reported if isinstance(reported, str) else ""
        return reported is True

    def end_jump(self) -> None:
        """Cancel the pending jump to the next error, if there is one."""
        if self.jump is not None:
            self.jump.cancel()
            self.jump = None
