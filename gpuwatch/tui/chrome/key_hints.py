"""The last line of a screen: as many key hints as fit; the keys for help and quit are dropped last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from msgspec import Struct
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.keys import Keys
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from gpuwatch.tui.toolkit.keys import key_of
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen

FIRST_TO_GO = ("command_palette", "freeze", "sort", "unhealthy", "silence")
LAST_TO_GO = ("help", "back_or_quit", "choose", "incidents", "waiting", "filter")
CLOSES = ("back", "close", "escape")
"""Actions that close a text field or its dialog."""
ASKED_FROM = ("fleet", "incidents", "training", "waiting")
"""Screens from which a hang query can be started or repeated."""
NEED_A_NODE = frozenset(("waiting", "links", "retry"))
"""Actions that are refused when only logs are open."""


class KeyHint(Struct, frozen=True):
    """The hint for one key: its text, what it does, and whether it works now."""

    key: str
    key_display: str
    description: str
    tooltip: str
    action: str
    enabled: bool

    @property
    def width(self) -> int:
        """The width in cells: key, space, description."""
        return len(self.key_display) + 1 + len(self.description)


class KeysLine(Widget):
    """The footer with the key hints, as one widget.

    Textual's own footer mounts one widget per key again whenever the keys change.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "keys-line--key",
        "keys-line--description",
        "keys-line--hovered",
        "keys-line--disabled",
    }
    DEFAULT_CSS = """
    KeysLine {
        dock: bottom;
        height: 1;
        color: $footer-foreground;
        background: $footer-background;
        .keys-line--key {
            color: $footer-key-foreground;
            background: $footer-key-background;
            text-style: bold;
        }
        .keys-line--description {
            color: $footer-description-foreground;
            background: $footer-description-background;
        }
        .keys-line--hovered { background: $block-hover-background; }
        .keys-line--disabled { text-style: dim; }
    }
    """

    def __init__(self, kind: str = "", *, field: tuple[str, str] = ("Apply", "Close")) -> None:
        super().__init__()
        self._kind = kind
        """The kind of the screen; "" in a dialog, which has only the hints of its own keys."""
        self._field = field
        """What the keys for open and back do in a text field."""
        self.hints: list[KeyHint] = []
        """The hints that fit, from left to right."""
        self._hovered: KeyHint | None = None
        self._notice_width = 0

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._on_bindings)

    def on_unmount(self) -> None:
        self.screen.bindings_updated_signal.unsubscribe(self)

    def render(self) -> Text:
        styles = {name: self.get_component_rich_style(name) for name in self.COMPONENT_CLASSES}
        line = Text(no_wrap=True, end="")
        for hint in self.hints:
            shown = Text.assemble(
                (hint.key_display, styles["keys-line--key"]),
                (f" {hint.description}", styles["keys-line--description"]),
            )
            if not hint.enabled:
                shown.stylize(styles["keys-line--disabled"])
            if hint == self._hovered:
                shown.stylize(styles["keys-line--hovered"])
            line.append_text(shown).append(" ")
        return line

    def on_resize(self) -> None:
        self._find()

    def make_room(self) -> None:
        """Show only the hints that fit beside the notice on this line, if there is one."""
        notice = next(iter(self.screen.query("ToastHolder:last-child Toast")), None)
        width = 0 if notice is None else notice.outer_size.width + 1  # without colours, the gap parts them
        if width != self._notice_width:
            self._notice_width = width
            self._find()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        hint = self._at(event.x)
        if hint is not None and hint.enabled:
            self.app.simulate_key(hint.key)
        elif hint is not None:
            self.app.bell()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._hover(self._at(event.x))

    def on_leave(self) -> None:
        self._hover(None)

    def _on_bindings(self, screen: Screen[object]) -> None:
        if screen.app.app_focus and self.is_attached and screen is self.screen:
            self._find()

    def _find(self) -> None:
        """Update the hints to the keys that work now, and repaint if they changed."""
        hints = self._of_field() if isinstance(self.screen.focused, Input) else self._of_screen()
        if hints != self.hints:
            self.hints = hints
            self.refresh()

    def _of_field(self) -> list[KeyHint]:
        """Return the hints for a text field, which takes every other key as text."""
        bound = (each[1] for each in self.screen.active_bindings.values())
        back = next((each for each in bound if each.action in CLOSES), None)
        key = back.key if back else Keys.Escape.value
        closes = key_of("app.back") if back is None else self._written(back)
        applied, closed = self._field
        return [
            KeyHint(Keys.Enter.value, Keys.Enter.value, applied, "apply the text", "submit", enabled=True),
            KeyHint(key, closes, closed, "close the text field", "back", enabled=True),
        ]

    def _of_screen(self) -> list[KeyHint]:
        first_of: dict[str, KeyHint] = {}
        idle, labels = self._idle(), self._labels()
        for owner, binding, enabled, tooltip in self.screen.active_bindings.values():
            if not self._kind and owner is not self.screen:
                continue
            if binding.show and binding.action not in first_of:
                first_of[binding.action] = KeyHint(
                    binding.key,
                    self._written(binding),
                    labels.get(binding.action, binding.description),
                    tooltip,
                    binding.action,
                    enabled,
                )
        width = self.app.size.width - self._notice_width
        return _fitting([hint for hint in first_of.values() if not self._is_idle(hint, idle)], width)

    def _written(self, binding: Binding) -> str:
        """Return the first key of a binding, as written on a keyboard."""
        return self.app.get_key_display(binding).partition(" ")[0]

    def _labels(self) -> Mapping[str, str]:
        """Return action -> what it does now, in one or two words, where that is not its usual label.

        The freeze key plays and pauses a recording; the quit key goes back from all screens but the first.
        """
        if not isinstance(self.screen, LiveScreen):
            return {}
        labels = dict(self.screen.labels())
        if len(self.app.screen_stack) > 1:
            labels["back_or_quit"] = "Back"
        if self.screen.cockpit.view_state.replay is not None:
            labels["freeze"] = "Play/pause"
        return labels

    def _idle(self) -> frozenset[str]:
        """Return the actions without effect on this screen now."""
        if not isinstance(self.screen, LiveScreen):
            return frozenset()
        of_logs = self.screen.cockpit.view_state.folder is not None
        return self.screen.idle() | (NEED_A_NODE if of_logs else frozenset())

    def _is_idle(self, hint: KeyHint, idle: frozenset[str]) -> bool:
        """Return True if the hint of this key is not shown.

        That is so if the key has no effect, opens the screen that is shown, or is for other screens.
        """
        name = hint.action.partition("(")[0]
        if name == self._kind != "waiting" or (name == "waiting" and self._kind not in ASKED_FROM):
            return True
        return name in idle

    def _at(self, column: int) -> KeyHint | None:
        """Return the hint at this column; None between hints and behind the last."""
        end = 0
        for hint in self.hints:
            end += hint.width + 1
            if column < end:
                return hint if column < end - 1 else None
        return None

    def _hover(self, hint: KeyHint | None) -> None:
        if hint != self._hovered:
            self._hovered = hint
            self.tooltip = hint.tooltip if hint else None
            self.refresh()


def _fitting(hints: list[KeyHint], width: int) -> list[KeyHint]:
    """Return the hints that fit into `width` columns, in their order; the less important ones are dropped."""
    for hint in _in_order_of_going(hints):
        if sum(each.width + 1 for each in hints) - 1 <= width:
            break
        hints = [each for each in hints if each is not hint]
    return hints


def _in_order_of_going(hints: list[KeyHint]) -> Iterator[KeyHint]:
    yield from (hint for action in FIRST_TO_GO for hint in hints if hint.action == action)
    yield from (hint for hint in reversed(hints) if hint.action not in (*FIRST_TO_GO, *LAST_TO_GO))
    yield from (hint for action in reversed(LAST_TO_GO) for hint in hints if hint.action == action)
