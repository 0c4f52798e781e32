"""A pattern in general words takes no line that says in words of its own what it is about."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from gpuwatch.diagnose.alerts.from_findings import alerts_of
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.incidents.builder import incidents
from gpuwatch.fleet.jobs.places import Places
from gpuwatch.rules.load import load_packs
from gpuwatch.rules.model.rule import Rule
from gpuwatch.rules.scoring.score import ARRIVAL_TIME, scan_excerpt
from gpuwatch.wire import Finding
from tests.packs import built_in_rules

PACKS = load_packs()
IN_FRONT = ("ValueError: ", "ConnectionError: ", "RuntimeError: path to the file not found: ")
"""Each of them makes a general pattern of some rule match, whatever comes behind."""
CAUSES = [
    rule
    for rule in PACKS.rules
    if rule.role in ("root", "first") and rule.severity in ("error", "critical") and not rule.fallback
]


def causes(text: str) -> list[str]:
    """The failure classes of the incidents of a log with this text."""
    found = [
        LocatedFinding(None, msgspec.convert({"t": 0.0, "seq": 0, **row}, Finding))
        for row in scan_excerpt(built_in_rules(), text.split("\n"))
    ]
    places = Places()
    return [each.code for each in incidents(alerts_of(found, PACKS, places), places, PACKS, ARRIVAL_TIME)]


def own_words(rule: Rule) -> Sequence[str]:
    """Its examples of one line that are a sentence; a record of a logger is no part of one."""
    texts = [] if rule.flood else [each.strip() for each in rule.examples]
    return [text for text in texts if "\n" not in text and not text.startswith("{")]


@pytest.mark.sampled(30)
@pytest.mark.parametrize("rule", CAUSES, ids=lambda rule: rule.id)
def test_a_general_exception_in_front_of_specific_words_leaves_them_the_cause(rule: Rule) -> None:
    for example in own_words(rule):
        plain = causes(example)
        if not plain or PACKS.by_id[plain[0]].general is not None:
            continue  # two sentences in general words: none is nearer than the other
        for front in IN_FRONT:
            assert causes(front + example)[:1] == plain[:1], front + example


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: checksum of shard-0012.tar does not match",
        "RuntimeError: the shapes of the tensors do not match",
        "AssertionError: number of samples does not match number of labels",
        "ValueError: label 12 is larger than the number of classes",
        "AssertionError: loss must be positive, got -3.1",
        "ValueError: Unknown token <extra_7> in record 911",
        "ValueError: sha256 of vocab.bin does not match the manifest",
        "RuntimeError: response signature does not match",
    ],
)
def test_words_of_another_subject_are_no_contradiction_of_options(text: str) -> None:
    assert "config.invalid" not in causes(text)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("OSError: [Errno 98] Address already in use: prometheus exporter on :9400", "c10d.addr_in_use"),
        ("tensorboard: Address already in use", "c10d.addr_in_use"),
        (
            "_pickle.UnpicklingError: pickle data was truncated in /data/train/samples-00017.npz",
            "ckpt.corrupt",
        ),
        (
            "tensorflow.errors_impl.DataLossError: corrupted record at 81234 of part-3.tfrecord",
            "ckpt.corrupt",
        ),
        ("ConnectionError: rank 3 cannot connect to host gpu-7 of the store", "hub.network"),
    ],
)
def test_a_general_pattern_leaves_lines_of_another_subject(text: str, wrong: str) -> None:
    assert wrong not in causes(text)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("ValueError: number of layers does not match --layers", "config.invalid"),
        ("AssertionError: batch size must be positive", "config.invalid"),
        ("OSError: [Errno 98] Address already in use", "c10d.addr_in_use"),
        ("_pickle.UnpicklingError: invalid load key, '<'. in step_900.pt", "ckpt.corrupt"),
        ("RuntimeError: the file /data/x.bin does not exist", "env.file_missing"),
    ],
)
def test_a_general_pattern_counts_where_nothing_contradicts_it(text: str, right: str) -> None:
    assert causes(text)[:1] == [right]
