"""Trouble that is denied, counted as 0, supposed, staged or overcome is none, in any words."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.last_lines.failures import states_machine_trouble
from gpuwatch.diagnose.last_lines.trouble_words import has_trouble_words

PAIRS = (
    ("card 2 fell silent, its rank is lost", "card 2 fell silent for 1 s, its rank has recovered"),
    ("link ib1 is down", "link ib1 is up"),
    ("7 pages of the board are damaged", "0 pages of the board are damaged"),
    ("ECC errors on the board: 7", "ECC errors on the board: 0"),
    ("the store refuses rank 4", "the store would refuse rank 4 (dry run)"),
    ("rank 4 crashed in the loader", "if rank 4 crashed, the loader starts it again"),
    ("a crash of rank 4 broke the ring", "a crash handler of rank 4 joined the ring"),
    ("node c3 failed and cannot be replaced", "node c3 failed and was replaced"),
    ("loader 5 hangs on /data", "loader 5 no longer hangs on /data"),
    ("process 12 ended with code 9", "process 12 ended with code 0"),
    ("request for 8 GPUs denied, quota used up", "request for 8 GPUs granted, quota half used"),
    ("2 of 4 nodes came, quitting", "4 of 4 nodes came, starting"),
    ("temperature of the board is 98 C", "temperature of the board is 58 C"),
    ("row remap of the card failed, it must be replaced", "row remap of the card failed, it was replaced"),
    ("name of the store cannot be resolved", "name of the store resolved"),
    ("packet loss of 30 % on the link", "packet loss of 0 % on the link"),
    ("no route to the store", "no second route to the store needed"),
    ("3 files could not be read from the bucket", "skipping 3 files of the bucket without a label"),
    ("Knoten c3 antwortet nicht mehr", "Knoten c3 antwortet"),
    ("el disco /data no responde", "el disco /data responde"),
    ("\u8282\u70b9 c3 \u6389\u7ebf", "\u8282\u70b9 c3 \u4e0a\u7ebf"),
)  # fmt: skip


@pytest.mark.parametrize(("trouble", "twin"), PAIRS)
def test_a_line_of_trouble_and_its_harmless_counterpart(trouble: str, twin: str) -> None:
    assert (has_trouble_words(trouble), has_trouble_words(twin)) == (True, False)
    assert (states_machine_trouble(trouble), states_machine_trouble(twin)) == (True, False)


@pytest.mark.parametrize(
    "line", ["dropped 12 duplicates", "bad words: 20", "INFO link ib1 is down", "4 invalid rows"]
)
def test_a_line_about_no_part_of_the_machine_or_of_a_mild_level_is_none(line: str) -> None:
    assert not states_machine_trouble(line)
