"""The golden files hold sentences of tests that exist; another wording differs until it is written."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.sentences import FILE, TESTS, Sentences


def test_every_golden_sentence_belongs_to_a_test_that_takes_it() -> None:
    for golden in TESTS.glob(f"*/{FILE}"):
        for key in json.loads(golden.read_text()):
            path, _, test = key.partition("::")
            source = (golden.parent / path).read_text()
            name = re.escape(test.partition("[")[0])
            taken = re.search(rf"def {name}\((.*?)\) ->", source, re.DOTALL)
            assert taken, key
            assert "sentences" in taken[1], key


def test_another_wording_is_a_difference_until_it_is_written(tmp_path: Path) -> None:
    golden = tmp_path / FILE

    def met(*wordings: object) -> Sentences:
        taken = Sentences("test_it", {str(tmp_path): "<tmp>"})
        for wording in wordings:
            taken(wording)
        return taken

    first = met(f"rank 3 of {tmp_path}/a.log", f"rank 3 of {tmp_path}/a.log", "at 127.0.0.1:4711")
    assert first.difference(golden)
    first.update(golden)
    assert json.loads(golden.read_text()) == {"test_it": ["rank 3 of <tmp>/a.log", "at 127.0.0.1:…"]}
    assert not first.difference(golden)
    assert "rank 4" in met("rank 4").difference(golden)
    met("several\nlines").update(golden)
    assert json.loads(golden.read_text()) == {"test_it": [["several", "lines"]]}
