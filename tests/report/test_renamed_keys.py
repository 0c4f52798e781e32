"""JSON keys that were renamed are written under both names."""

from __future__ import annotations

from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.report.incidents.json_output import verdict_facts
from gpuwatch.report.output.renamed_keys import RENAMED, with_new_names


def test_every_renamed_key_has_both_names_with_one_value() -> None:
    facts = {old: object() for old in RENAMED} | {"rank": 3}
    both = with_new_names(facts)
    assert set(both) == {*RENAMED, *RENAMED.values(), "rank"}
    assert all(both[new] is both[old] for old, new in RENAMED.items())
    assert len(set(RENAMED.values())) == len(RENAMED)


def test_a_verdict_is_written_under_both_names() -> None:
    facts = verdict_facts(Verdict("stacks", wrong=True, sentence="rank 3 idle", settle=("its stack",)))
    assert (facts["problem"], facts["wrong"]) == (True, True)
    assert facts["to_confirm"] == facts["settle"] == ["its stack"]
