"""Keys are data: each has an id, one meaning, and docs/keys.md tells it."""

from __future__ import annotations

from pathlib import Path

from gpuwatch.tui import key_reference
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.logs.screen import LogsScreen
from gpuwatch.tui.node.gpu_screen import GpuScreen
from gpuwatch.tui.node.screen import NodeScreen
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines


def test_every_binding_has_its_own_id_and_a_meaning() -> None:
    bindings = [binding for _, section in keys.SECTIONS for binding in section]
    ids = [binding.id for binding in bindings]
    assert None not in ids
    assert len(set(ids)) == len(ids)
    assert all(keys.meaning(binding) for binding in bindings)


def test_what_the_screens_bind_is_what_is_documented() -> None:
    documented = {binding.id for _, section in keys.SECTIONS for binding in section}
    for owner in (GpuwatchApp, FleetScreen, NodeScreen, GpuScreen, LogsScreen, LiveScreen, SelectableLines):
        bound = {getattr(binding, "id", None) for binding in owner.__dict__["BINDINGS"]}
        assert bound <= documented, owner


def test_a_key_never_changes_its_meaning_between_screens() -> None:
    actions: dict[str, set[str]] = {}
    for _, section in keys.SECTIONS:
        for binding in section:
            for key in binding.key.split(","):
                actions.setdefault(key, set()).add(binding.action)
    assert {key for key, own in actions.items() if len(own) > 1} == set()


def test_the_key_page_is_up_to_date() -> None:
    page = Path(__file__).parents[3] / "docs" / "keys.md"
    assert page.read_text(encoding="utf-8") == key_reference.page()
