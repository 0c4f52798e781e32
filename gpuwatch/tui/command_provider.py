"""Finds actions, incidents, jobs, metrics, nodes, GPUs, ranks and themes by name for the palette."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from typing import ClassVar, NamedTuple, cast

from textual.app import App, SystemCommand
from textual.command import DiscoveryHit, Hit, Hits, Matcher, Provider
from textual.content import Content
from textual.screen import Screen

from gpuwatch.fleet.nodes.metrics import HEAT_METRICS, METRICS
from gpuwatch.number_text import age_text
from gpuwatch.tui.model.job_scope import summaries
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.cockpit import Cockpit
from gpuwatch.tui.toolkit.styles import clean

MAX_HITS = 60
"""Maximum number of hits offered at once, the best first."""
MAX_AT_FIRST = 6
"""Maximum number of nodes, incidents and jobs each that are offered before anything is typed."""
WORDS_SCORE = 0.1
"""Score of a name that contains all typed words, but not as one piece."""
MAX_WAYS = 1_000
"""Maximum number of ways to match the letters that are tried in one name."""


class PaletteEntry(NamedTuple):
    """An entry of the palette: its text, what choosing it does, and a note."""

    name: str
    go: Callable[[], None]
    note: str


class PlaceProvider(Provider):
    """Offers incidents, notes, jobs, metrics, nodes, GPUs (`node gpu N`), ranks (also ended) and themes."""

    order: ClassVar[int] = -1
    """The provider's place in the list before anything is typed; providers of actions have 0."""

    @property
    def _cockpit(self) -> Cockpit:
        return cast("Cockpit", self.app)

    def _incidents(self) -> Iterator[PaletteEntry]:
        app = self._cockpit
        for each in app.view_state.snapshot.incidents:
            note = "resolved" if each.over else "acknowledged" if each.acknowledged else "active"
            text = clean(f"incident {each.number}: {each.headline}")
            yield PaletteEntry(text, partial(app.show_incidents, each.id), f"incident, {note}")

    def _notes(self) -> Iterator[PaletteEntry]:
        app = self._cockpit
        incidents = app.view_state.snapshot.incidents
        shown = getattr(self.screen, "incident", lambda: None)() or app.view_state.snapshot.leading
        if shown is not None:
            about = f"writes a note on incident {shown.number} for everyone who watches this cluster"
            yield PaletteEntry("note on this incident", partial(app.write_note, shown.id), about)
        for each in incidents:
            text = clean(f"note on incident {each.number}: {each.headline}")
            yield PaletteEntry(text, partial(app.write_note, each.id), "writes a note")

    def _jobs(self) -> Iterator[PaletteEntry]:
        app, view_state = self._cockpit, self._cockpit.view_state
        whole = view_state.frozen_fleet or view_state.session.fleet
        for each in summaries(whole, view_state.placement):
            note = f"job, {each.ranks} ranks, {'running' if each.running else 'ended'}; shows only this job"
            yield PaletteEntry(clean(f"job {each.job}"), partial(app.show_job, each.job), note)
        if view_state.scope.job is not None:
            yield PaletteEntry("all jobs", partial(app.show_job, ""), "shows every job")

    def _metrics(self) -> Iterator[PaletteEntry]:
        for name in HEAT_METRICS:
            note = f"metric of the heat map: {METRICS[name].title}"
            yield PaletteEntry(f"metric {name}", partial(self._cockpit.show_metric, name), note)

    def _themes(self) -> Iterator[PaletteEntry]:
        for name in sorted(self.app.available_themes):
            if name != "textual-ansi":  # has no colours of its own for the heat map
                yield PaletteEntry(f"theme {name}", partial(setattr, self.app, "theme", name), "colours")

    def _ranks(self) -> Iterator[PaletteEntry]:
        app = self._cockpit
        alone = app.view_state.scope.job
        for job, ranks in app.view_state.placement.jobs.items():
            for key, place in ranks.items() if alone in (None, job) else ():
                if isinstance(key, int):
                    age = age_text(max(0.0, app.view_state.now - place.seen_at))
                    ended = "" if place.alive else f", ended; seen {age} ago"
                    go = partial(app.show_place, place.node, place.uuid)
                    yield PaletteEntry(
                        f"rank {key}", go, clean(f"{place.node}, job {job or 'unnamed'}{ended}")
                    )

    def _nodes(self) -> Iterator[PaletteEntry]:
        app = self._cockpit
        for node in app.view_state.fleet.nodes.values():
            state = node.state(app.view_state.now)
            yield PaletteEntry(clean(node.name), partial(app.show_node, node.name), f"node, {state}")
            for gpu in node.gpu_list():
                name = f"{clean(node.name)} gpu {gpu.info.index}"
                yield PaletteEntry(
                    name, partial(app.show_gpu, node.name, gpu.info.uuid), clean(gpu.info.name)
                )

    async def discover(self) -> Hits:
        """Yield the first incidents and jobs, for an empty search."""
        for name, go, note in (*islice(self._incidents(), MAX_AT_FIRST), *islice(self._jobs(), MAX_AT_FIRST)):
            yield DiscoveryHit(Content(name), go, text=name, help=note)

    async def search(self, query: str) -> Hits:
        """Yield the `MAX_HITS` best matches, best first: fuzzy as in Textual, or all words in any order."""
        matcher, words = self.matcher(query), query.lower().split()
        places = chain(
            self._incidents(),
            self._notes(),
            self._jobs(),
            self._metrics(),
            self._ranks(),
            self._nodes(),
            self._themes(),
        )
        found: list[tuple[float, Sequence[int], PaletteEntry]] = []
        for place in places:
            score, offsets = matched(matcher, words, place.name)
            if score > 0:
                found.append((score, offsets, place))
        found.sort(key=itemgetter(0), reverse=True)
        for score, offsets, place in found[:MAX_HITS]:
            shown = Content(place.name)  # a headline's brackets are no markup
            for offset in offsets:
                shown = shown.stylize(matcher.match_style, offset, offset + 1)
            yield Hit(score, shown, place.go, text=place.name, help=place.note)


class NodesAtFirst(PlaceProvider):
    """Offers the first nodes for an empty search, below the actions; `PlaceProvider` finds all of them."""

    order: ClassVar[int] = 1

    async def discover(self) -> Hits:
        """Yield the first nodes."""
        nodes = (each for each in self._nodes() if each.note.startswith("node, "))
        for name, go, note in islice(nodes, MAX_AT_FIRST):
            yield DiscoveryHit(Content(name), go, text=name, help=note)

    async def search(self, query: str) -> Hits:  # noqa: ARG002 - textual's signature
        """Yield nothing."""
        hits: tuple[Hit, ...] = ()
        for hit in hits:
            yield hit


def action_commands(app: App[None], screen: Screen[object]) -> Iterator[SystemCommand]:
    """Yield a command for every enabled action of a screen except cursor moves, with its keys and effect."""
    shown_keys: dict[str, list[str]] = {}
    for active in screen.active_bindings.values():
        if active.enabled and (active.binding.id or "move.").partition(".")[0] != "move":
            shown_keys.setdefault(active.binding.action, []).extend(keys.shown(active.binding))
    seen: set[str] = set()
    for namespace, binding, *_ in screen.active_bindings.values():
        if binding.action in shown_keys and binding.action not in seen | {"command_palette"}:
            seen.add(binding.action)
            names = " ".join(shown_keys[binding.action])
            run = partial(app.run_action, binding.action, namespace)
            yield SystemCommand(binding.description, f"{names}  {keys.meaning(binding)}", run)


def matched(matcher: Matcher, words: Sequence[str], name: str) -> tuple[float, Sequence[int]]:
    """Return how well a name matches the query (0: not at all), and the positions of the matching letters.

    Textual's matcher tries all ways to match the letters. If there are more than `MAX_WAYS` and the name does
    not contain the query, it is not used, and the score is `WORDS_SCORE`.
    """
    lower, typed = name.lower(), "".join(words)
    places = [found for word in words if (found := lower.find(word)) >= 0]
    whole = len(places) == len(words)
    offsets = [
        place + index for place, word in zip(places, words, strict=False) for index in range(len(word))
    ]
    first = offsets if whole else _in_order(typed, lower)
    if not first:
        return 0.0, ()
    query = matcher.query.lower()
    if query in lower or math.prod(lower.count(letter) for letter in query) <= MAX_WAYS:
        score, best = matcher.fuzzy_search.match(matcher.query, name)
        if score:
            dense = len(best) / (best[-1] - best[0] + 1)
            return score * dense * (1 - min(len(name), 200) / 1000), best  # of equals the shorter name
    return WORDS_SCORE, first


def _in_order(typed: str, name: str) -> Sequence[int]:
    """Return the positions in `name` of the letters of `typed`, in order; empty if not all of them occur."""
    offsets: list[int] = []
    for letter in typed:
        at = name.find(letter, offsets[-1] + 1 if offsets else 0)
        if at < 0:
            return ()
        offsets.append(at)
    return offsets
