"""`gpuwatch explain` as it is typed."""

from __future__ import annotations

import json

from tests.cli.running import gpuwatch


def test_words_are_searched_and_an_id_is_explained() -> None:
    found = json.loads(gpuwatch("explain", "link", "down", "--json").stdout)
    assert found["explanation"] is None
    assert "net.nic.link" in [each["ident"] for each in found["matches"]]
    shown = gpuwatch("explain", "checkpoint-loading")
    assert shown.returncode == 0
    assert "map_location=device" in shown.stdout
    assert gpuwatch("explain", "xyzzy").returncode == 1


def test_an_explanation_is_printed_as_json() -> None:
    found = json.loads(gpuwatch("explain", "oom.cuda", "--json").stdout)
    assert (found["explanation"]["ident"], found["explanation"]["kind"]) == ("oom.cuda", "rule")
    lines = [line for part in found["explanation"]["parts"] for line in part["lines"]]
    assert {line["style"] for line in lines} == {"text", "step", "code"}
