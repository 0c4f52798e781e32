"""Learns the tags of a folder's writers from sample lines of all its files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest

from msgspec import Struct
from msgspec import field as msgspec_field
from msgspec.structs import replace

from gpuwatch.agent.logs.lines.line_ranks import line_ranks
from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.agent.logs.lines.splitter import unmasked_text
from gpuwatch.agent.ranks.rank_environment import is_rank
from gpuwatch.runs.placement.learned_tags.introductions import GROUP, WORD, named_tags, names_of_ranks
from gpuwatch.runs.placement.learned_tags.numbered_lines import NumberedPlace
from gpuwatch.runs.placement.learned_tags.numbering import (
    WORLD,
    counts_other,
    hosts_at,
    may_be_ranks,
    ranks_at,
    restarts,
)
from gpuwatch.runs.placement.learned_tags.pairs import pair_in, pattern_of_pair, ranks_by_file, ranks_of_pairs
from gpuwatch.runs.placement.learned_tags.rosters import roster
from gpuwatch.runs.placement.learned_tags.slots import HeadNumber, Slot, is_head, numbers_in, pattern_at

MAX_LINES = 400
"""Lines read of each file."""
MAX_IN_ALL = 4_000
MIN_LINES = 8
"""Lines read of each of many files."""
PROBED = 32
"""Lines of all files by which those are known whose tags need not be learned."""
MAX_PLACES = 4_000
_HOST = re.compile(r"(?<![\w.-])(?=[\w.-]{0,80}[0-9])[A-Za-z][\w.-]{1,80}")


class LearnedTag(Struct, frozen=True):
    """A tag by which lines name their rank; `ranks`: text in the tag -> rank."""

    pattern: str
    ranks: dict[str, int]
    is_head: bool = True
    """True if the message begins after it."""
    file: str | None = None
    """The only file that it is of; None: all."""
    hosts: dict[int, str] = msgspec_field(default_factory=dict)
    """Rank -> host, as far as the tag names it or a list of the hosts by their numbers does."""


def learned_tags(samples: Sequence[tuple[str, Sequence[bytes]]]) -> tuple[LearnedTag, ...]:
    """Return the tags of (file, sample lines) that name ranks, and that no known prefix covers."""
    share = min(MAX_LINES, max(MIN_LINES, MAX_IN_ALL // max(1, len(samples))))
    chosen = {file: _some(lines, share) for file, lines in samples}
    probed = max(MIN_LINES // 2, PROBED // max(1, len(samples)))
    unknown = {
        file: lines for file, lines in chosen.items() if len(lines) > 1 and not _are_known(lines, probed)
    }
    if not unknown:
        return ()
    rows = roster(chosen)
    worlds = ({len(rows)} if rows else set()) | {
        int(world)
        for lines in chosen.values()
        for line in lines
        if b"orld" in line or b"WORLD" in line or b"rank" in line or b"proc" in line
        for world in WORLD.findall(line[:2000].decode("utf-8", "replace"))
        if is_rank(int(world)) and int(world) > 1
    }
    tags = (*_tags_of(_Heads.of(unknown), worlds), *_named(chosen, unknown))
    return tuple(replace(tag, hosts=rows) if set(tag.ranks.values()) == set(rows) else tag for tag in tags)


def _named(
    chosen: Mapping[str, Sequence[bytes]], unknown: Mapping[str, Sequence[bytes]]
) -> Iterator[LearnedTag]:
    """Yield the tags that consist of names which lines of any file state beside ranks."""
    texts = {file: [unmasked_text(line[:600]) for line in lines] for file, lines in chosen.items()}
    for token in (WORD, GROUP):
        names = names_of_ranks(texts, token)
        for pattern, ranks in named_tags({file: texts[file] for file in unknown}, names, token):
            yield LearnedTag(pattern, ranks)


def _tags_of(heads: _Heads, worlds: set[int]) -> Iterator[LearnedTag]:
    """Yield the tags that name ranks."""
    for pattern, pairs in heads.pairs.items():
        ranks = ranks_of_pairs(pairs, worlds)
        if ranks:
            yield LearnedTag(pattern, ranks)
    accepted: list[tuple[NumberedPlace, dict[str, int]]] = []
    for place in sorted(heads.places.values(), key=lambda place: -sum(place.lines.values())):
        ranks = ranks_at(place, worlds, heads.sizes)
        if ranks:
            accepted.append((place, ranks))
        elif restarts(place) and len(place.lines) > 1:
            pattern, first = pattern_at(place.slot), is_head(place.slot)
            for file, own in ranks_by_file(place, worlds).items():
                yield LearnedTag(pattern, own, first, file)
    for place, ranks in _of_whole_jobs(accepted, worlds):
        yield LearnedTag(
            pattern_at(place.slot), ranks, is_head(place.slot), hosts=dict(hosts_at(place, ranks))
        )


def _of_whole_jobs(
    accepted: Sequence[tuple[NumberedPlace, dict[str, int]]], worlds: set[int]
) -> Sequence[tuple[NumberedPlace, dict[str, int]]]:
    """Return the places with as many numbers as the job has ranks, if there are any; else all.

    In `proc 7/16 @ node-1` both numbers differ by line, and those of the nodes are fewer.
    """
    sizes = {*worlds, *(of for place, _ in accepted for of in place.of if of is not None)}
    whole = [(place, ranks) for place, ranks in accepted if len(ranks) in sizes]
    return whole or accepted


def _some(lines: Sequence[bytes], count: int) -> list[bytes]:
    """Return the first and last lines, `count` at most, without blank lines and those of NCCL's INFO log."""
    lines = [line for line in lines if line.strip() and b"NCCL INFO" not in line]
    return list(lines) if len(lines) <= count else [*lines[: count * 2 // 3], *lines[-(count // 3) :]]


def _are_known(lines: Sequence[bytes], count: int) -> bool:
    """Return True if the prefixes of most of `count` lines name a rank by themselves."""
    probed = lines[:: max(1, len(lines) // count)]
    known = unknown = 0
    for line in probed:
        is_known = _names_rank(line)
        known, unknown = known + is_known, unknown + (not is_known)
        if 2 * max(known, unknown) > len(probed):
            break
    return 2 * known > len(probed)


def _names_rank(line: bytes) -> bool:
    """Return True if a line names its rank in a form that is read without a learned tag."""
    text, by = messages(line)[0][-1]
    return by.rank is not None or line_ranks(text).rank is not None


class _Heads(Struct):
    """The numbers at the heads of the lines of all files."""

    sizes: dict[str, int]
    """File -> its lines."""
    places: dict[Slot, NumberedPlace] = msgspec_field(default_factory=dict)
    """Those at which more than one number stands."""
    pairs: dict[str, set[tuple[int, int]]] = msgspec_field(default_factory=lambda: defaultdict(set))
    """Pattern of a tag with the numbers of node and process -> both numbers of its lines."""

    @classmethod
    def of(cls, files: Mapping[str, Sequence[bytes]]) -> _Heads:
        """Return the numbers at the heads of these lines, at most `MAX_PLACES` places of them."""
        heads = cls({file: len(lines) for file, lines in files.items()})
        texts = [
            (file, text, numbers_in(text))
            for file, lines in files.items()
            for text in (unmasked_text(line[:600]) for line in lines)
        ]
        seen: dict[Slot, set[str]] = defaultdict(set)
        of: dict[Slot, set[int | None]] = defaultdict(set)
        for _, _, found in texts:
            for number in found:
                if len(seen) < MAX_PLACES or number.slot in seen:
                    seen[number.slot].add(number.text)
                    of[number.slot].add(number.of)
        several = {
            slot
            for slot, numbers in seen.items()
            if len(numbers) > 1 and may_be_ranks(slot, numbers, of[slot])
        }
        for file, text, found in texts:
            heads._take(file, text, found, several)
        return heads

    def _take(self, file: str, text: str, numbers: Sequence[HeadNumber], several: Collection[Slot]) -> None:
        pair = pair_in(numbers, text) if len(numbers) > 1 else None
        if pair is not None and len(self.pairs) < MAX_PLACES:
            self.pairs[pattern_of_pair(*pair)].add((int(pair[0].text), int(pair[1].text)))
        for number, inner in zip_longest(numbers, numbers[1:]):
            if number.slot not in several:
                continue
            place = self.places.get(number.slot)
            if place is None:
                words = text[max(0, number.begin - 40) : number.begin]
                place = self.places[number.slot] = NumberedPlace(number.slot, words)
            host = _HOST.search(text[: number.begin])
            in_tag = inner is not None and not counts_other(text[: inner.begin][-40:])
            place.take(file, number, text, "" if host is None else host.group(), inner if in_tag else None)
