"""The command palette's way to any node, GPU or rank by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from gpuwatch.tui.toolkit.cockpit import Cockpit
from gpuwatch.tui.toolkit.styles import clean
from gpuwatch.tui.toolkit.text import age_text

MAX_HITS = 60
"""Hits that are offered at once."""
MAX_AT_FIRST = 6
"""Nodes that are offered before anything is typed."""


class PlaceProvider(Provider):
    """Nodes as `node`, GPUs as `node gpu N`, ranks as `rank N`, also where their process has ended."""

    @property
    def _cockpit(self) -> Cockpit:
        return cast("Cockpit", self.app)

    def _places(self) -> Iterator[tuple[str, partial[None], str]]:
        app = self._cockpit
        for job, ranks in app.view_state.seats.jobs.items():
            for key, place in ranks.items():
                if isinstance(key, int):
                    age = age_text(max(0.0, app.view_state.now - place.seen_at))
                    ended = "" if place.alive else f", ended; seen {age} ago"
                    go = partial(app.show_place, place.node, place.uuid)
                    yield f"rank {key}", go, clean(f"{place.node}, job {job or 'unnamed'}{ended}")
        for node in app.view_state.fleet.nodes.values():
            yield (
                clean(node.name),
                partial(app.show_node, node.name),
                f"node, {node.state(app.view_state.now)}",
            )
            for gpu in node.gpu_list():
                name = f"{clean(node.name)} gpu {gpu.info.index}"
                yield name, partial(app.show_gpu, node.name, gpu.info.uuid), clean(gpu.info.name)

    async def discover(self) -> Hits:
        """The nodes, before anything is typed."""
        app = self._cockpit
        for name in list(app.view_state.fleet.nodes)[:MAX_AT_FIRST]:
            yield DiscoveryHit(clean(name), partial(app.show_node, name), help="node")

    async def search(self, query: str) -> Hits:
        """Places whose name holds every word that was typed."""
        words = query.lower().split()
        found = 0
        matcher = self.matcher(query)
        for name, go, note in self._places():
            if all(word in name.lower() for word in words):
                found += 1
                yield Hit(max(0.1, matcher.match(name)), matcher.highlight(name), go, help=note)
                if found >= MAX_HITS:
                    return
