"""Failure classes: what rule packs state beyond a rule's role.

A class is named by the code of its alerts. The built-in packs, which also state the classes of conditions,
are read once; an alert of a site's own rule carries what its pack states (`Alert.stated`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Protocol

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.rules.built_in import built_in as rule_packs
from gpuwatch.rules.model.failure_class import KINDS, PREFIX, FailureClass, Kind
from gpuwatch.rules.model.rule import Rule


class RulePacks(Protocol):
    """Interface of the loaded rules that the diagnosis needs: the rules by id."""

    @property
    def by_id(self) -> Mapping[str, Rule]:
        """Return rule id -> rule."""


REBOOTED = "node_rebooted"
"""Code of the condition that the boot id of a node changed: its ranks are gone."""
LAUNCHER_KILLED = "launcher_killed"
"""Code of the condition that a signal ended a launcher of ranks; its store and pipes ended with it."""
VANISHED = "rank.vanished"
"""Code of the condition that a rank is gone while its siblings run, without an exit status."""
NOTHING_STATED = FailureClass()


@cache
def built_in() -> Mapping[str, FailureClass]:
    """Return code -> class, of conditions and of the rules in the built-in packs."""
    packs = rule_packs()
    conditions = {code: packs.class_of(code) for code in packs.conditions}
    return {**conditions, **{rule.id: rule.failure_class for rule in packs.rules}}


def stated_class(rule: Rule | None) -> FailureClass | None:
    """Return the failure class that a rule states, for `Alert.stated`.

    None: the rule states no class, or the same as the built-in packs.
    """
    own = NOTHING_STATED if rule is None else rule.failure_class
    return None if rule is None or own in (NOTHING_STATED, built_in().get(rule.id)) else own


def class_of(one: Alert | str) -> FailureClass:
    """Return the failure class of an alert or of a code; an unknown code has the kinds of its family."""
    if isinstance(one, str):
        return built_in().get(one) or _of_family(one)
    return class_of(one.code) if one.stated is None else one.stated


@lru_cache(4096)
def _of_family(code: str) -> FailureClass:
    return rule_packs().class_of(code)


@dataclass(frozen=True)
class ClassSet:
    """A set of failure classes, by kind. `in` accepts an alert or a code; `|` makes a union."""

    kinds: frozenset[str] = frozenset()
    ends: bool = False
    """True if all ends of processes belong to the set."""
    more: frozenset[str] = frozenset()
    """Further codes."""

    @cached_property
    def codes(self) -> frozenset[str]:
        """Return the built-in codes of the set."""
        return self.more | {code for code, facts in built_in().items() if self._is_of(facts)}

    def __contains__(self, one: object) -> bool:
        if isinstance(one, Alert):
            return self.has(one.code, one.stated)
        return isinstance(one, str) and self.has(one, None)

    def has(self, code: str, stated: FailureClass | None) -> bool:
        """Return True if the set contains a code. `stated`: what a site's own pack states about its class."""
        if stated is not None:
            return code in self.more or self._is_of(stated)
        return code in self.codes or (code not in built_in() and self._is_of(_of_family(code)))

    def __or__(self, other: ClassSet | Iterable[str]) -> ClassSet:
        if not isinstance(other, ClassSet):
            other = ClassSet(more=frozenset(other))
        return ClassSet(self.kinds | other.kinds, self.ends or other.ends, self.more | other.more)

    def __iter__(self) -> Iterator[str]:
        return iter(self.codes)

    def _is_of(self, facts: FailureClass) -> bool:
        return (self.ends and facts.end_weight is not None) or not self.kinds.isdisjoint(facts.kinds)


def of_kinds(*kinds: Kind) -> ClassSet:
    """Return the classes that have one of these kinds."""
    return ClassSet(frozenset(kinds))


TIMEOUTS = of_kinds("collective_timeout")
"""Classes of timeouts: a rank that logs one waited for another rank, so it is a victim."""
TOOK_PART = of_kinds("collective_timeout", "in_collective")
"""Classes of lines whose rank waited in the collective, or whose watchdog did."""
NAMES_CULPRIT = of_kinds("names_culprit")
"""Classes of lines in which the job itself names the culprits."""
RENDEZVOUS_TIMEOUTS = of_kinds("rendezvous_timeout")
"""Classes of rendezvous timeouts; their rank arrived and waited for the culprits, which did not."""
ABOUT_ANOTHER = of_kinds("rendezvous_timeout", "about_another")
"""Classes of lines in which a process reports another one, which the line may not name."""
TAKES_MEMBERS = of_kinds("takes_members")
"""Classes of lines about a scheduler or provider that took pods or machines of the job.

The job's other processes then report these as lost.
"""
EXITS = ClassSet(ends=True)
"""Classes of ends of processes, which state no reason; `end_weight` distinguishes them."""
GENERIC_EXCEPTIONS = of_kinds("generic")
"""Classes of generic failures of a rank; any other rule that matches there is more specific."""
LAUNCHER = of_kinds("reported_end")
"""Classes of ends that another process reports, some time after they happened."""
PEER_CONNECTION_ERRORS = of_kinds("peer_connection")
"""Classes of lost connections, usually the effect of a peer's end; the address in the line is the suspect."""
NODE_NAMING = of_kinds("names_node")
"""Classes of lines that may name the node that they are about, and that are in another node's log."""
NODE_FAILURES = of_kinds("node_failure")
"""Failures of a whole node."""
OTHERS_ENDS = of_kinds("unresponsive_node")
"""Classes of reports of others about an unresponsive node; never about the reporting node."""
SCHEDULER = of_kinds("ended_on_purpose")
"""Classes of lines by which the whole job was ended on purpose, so that there is no culprit."""
OF_NO_RANK = SCHEDULER | of_kinds("of_no_rank") | (LAUNCHER_KILLED,)
"""Classes of causes outside of the ranks whose lines report them: none of these ranks is the culprit."""
GPU_GONE = of_kinds("gpu_gone")
"""Classes of reports of a GPU that is gone."""
PRECURSORS = of_kinds("precursor")
"""Classes of signs before a fault: the timeline shows them, the headline states the fault."""
HARMLESS = of_kinds("harmless")
"""Classes of lines that healthy jobs print at every start; for running jobs they give no alert."""

KERNEL_LINES = of_kinds("kernel_line")
"""Classes of lines that the kernel or the driver writes."""
OF_TRAINING = of_kinds("of_training")
"""Classes about the training of the whole job: the rank that logs the line is not at fault."""
VALUES = of_kinds("values")
"""Classes about values of a training, such as its loss: it recovers only with finite values."""
FILE_SYSTEMS = of_kinds("file_system")
"""Classes of faults of a file system."""
SCHEDULER_LINES = of_kinds("scheduler_line")
"""Classes of lines of the scheduler, about the job or node that they name; any log may have them."""
RANK_ENDS = of_kinds("rank_end")
"""Classes about the end of a rank, by its agent or its launcher."""
LAUNCHES_RANKS = of_kinds("launches_ranks")
"""Classes of lines that only a launcher of several ranks prints."""
EXIT_CODES = of_kinds("exit_code")
"""Classes of ends of ranks of which an exit code is known, and no signal."""
UNEXPLAINED = of_kinds("unexplained")
"""Classes of error lines that no rule knows: one is a cause only if there is no other."""
NAN_LOSSES, NAN_GRADIENTS = of_kinds("nan_loss"), of_kinds("nan_gradient")
"""Classes of losses and of gradients that are not finite."""
SIGNALLED = of_kinds("launcher_signalled")
"""Classes of lines in which a rank reports that its launcher stopped it; the reason may be in another log."""
STOPS_RANKS = of_kinds("stops_ranks")
"""Classes of a launcher's lines about the ranks that it ends after the first failure."""
TERMINATED = of_kinds("terminated")
"""Ends by SIGTERM."""
FINISHED = of_kinds("finished")
"""Classes of lines by which the training reached its end."""
MEMORY_KILLS = of_kinds("memory_kill")
"""Classes of the lines that the kernel logs for one OOM kill: invoker, limit, victim and reaper."""
RENDEZVOUS_STORE = of_kinds("rendezvous_store")
"""Classes of a launcher's lines about the store of the rendezvous, which is on another node."""
QUIET_ALONE = of_kinds("ends_quietly")
"""Classes that are also seen at a normal end: alone they are no incident."""
CANCELLED_ON = "cancelled_on"
"""Name of the field with the node whose daemon reports a cancelled step; another node may have failed."""
NEW_ATTEMPT = of_kinds("new_attempt")


def end_weight(one: Alert | str, default: int = 0) -> int:
    """Return how likely an end of a process follows from another failure, 0 to 3; `default`: it is no end."""
    weight = class_of(one).end_weight
    return default if weight is None else weight


def explains(cause: Alert | str, effect: Alert | str) -> bool:
    """Return True if `cause` is of a class that is known to cause the class of `effect` at the same place."""
    code = effect if isinstance(effect, str) else effect.code
    if code == (cause if isinstance(cause, str) else cause.code):
        return False
    codes, families, kinds = _effects(class_of(cause).explains)
    return code in codes or code.startswith(families) or not kinds.isdisjoint(class_of(effect).kinds)


@cache
def _effects(stated: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...], frozenset[str]]:
    """Return what a class explains, split into codes, prefixes of codes, and kinds."""
    kinds = frozenset(stated).intersection(KINDS)
    families = tuple(each.removesuffix("*") for each in stated if each.endswith(PREFIX))
    return frozenset(stated) - kinds, families, kinds
