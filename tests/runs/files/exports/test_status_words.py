"""Keys of status documents: which of several is read is the same in every run."""

from __future__ import annotations

from gpuwatch.runs.files.exports.status_words import EXIT, NAME, NODE, STATE, stated


def test_of_several_keys_the_best_is_read_first() -> None:
    for keys in (STATE, NODE, NAME, EXIT):
        best_first = list(keys)
        assert stated(keys, dict.fromkeys(reversed(best_first))) == best_first
    assert stated(NAME, {"id": "7", "allocid": 3, "jobname": "llm"}) == ["jobname", "id", "allocid"]
