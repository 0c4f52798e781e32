"""The base of the dialogs above a screen."""

from __future__ import annotations

from typing import Generic

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, ScreenResultType

from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary


class Dialog(ErrorBoundary, ModalScreen[ScreenResultType], Generic[ScreenResultType]):
    """A modal dialog that closes once; a second key, pressed before it has gone, leaves the screen below."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close the dialog and pass on its result; does nothing if it is closed, or under another screen.

        Textual would close the screen on top instead, such as the command palette.
        """
        return super().dismiss(result) if self.is_active else AwaitComplete()
