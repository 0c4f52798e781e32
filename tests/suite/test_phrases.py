"""Tests assert codes, ranks and numbers; the product's sentences stand in one golden file per package.

A phrase is a text of three or more English words in an assertion or a comparison. What a test feeds into the
product (arguments of calls) is none, nor is what an expected exception says (`match=`).
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
MAX_PHRASES = 10
"""Those in all tests, most of them values of parameters. Lower it with them; no change may raise it."""
WORD = r"[A-Za-z][a-z']+[,:;]?"
PHRASE = re.compile(rf"(?<![\w/.-]){WORD} (?:\S{{1,40}} )?{WORD} (?:\S{{1,40}} )?{WORD}(?![\w/.-])")
READING = {"any", "all", "count", "endswith", "findall", "fullmatch", "match", "search", "startswith", "str"}
"""Calls whose arguments are compared with what the product wrote."""


def text_of(node: ast.AST) -> str:
    """The literal text of a string or an f-string, with a number for each value put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "0" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def strings(node: ast.AST) -> Iterator[ast.expr]:
    """String literals of an expression, without those that are inputs: the arguments of other calls."""
    if isinstance(node, (ast.Constant, ast.JoinedStr)):
        yield node
    elif isinstance(node, ast.Call):
        name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
        yield from strings(node.func)
        for argument in node.args if name in READING else ():
            yield from strings(argument)
    else:
        for child in ast.iter_child_nodes(node):
            yield from strings(child)


def phrases(source: str) -> list[tuple[int, str]]:
    """Line and text of each phrase that a test's source compares with the product's output."""
    tree = ast.parse(source)
    compared = [node.test for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    compared += [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    found = {id(node): node for each in compared for node in strings(each)}
    return sorted((node.lineno, text_of(node)) for node in found.values() if PHRASE.search(text_of(node)))


def test_phrases_are_reported_from_codes_and_inputs() -> None:
    sentence = 'assert text == f"rank {rank} never entered the collective"'
    assert [line for line, _ in phrases(sentence)] == [1]
    assert len(phrases('if "the node was lost" in text: pass')) == 1
    assert len(phrases('assert text.startswith("the node was lost")')) == 1
    assert phrases('assert judge("the node was lost").code == "node.lost"') == []
    assert phrases('assert (code, ranks) == ("rank 3", [1, 2])') == []


def test_no_new_sentence_of_the_product_stands_in_a_test() -> None:
    counts = Counter(
        {
            str(file.relative_to(TESTS)): len(phrases(file.read_text()))
            for file in TESTS.rglob("*.py")
            if file != Path(__file__)
        }
    )
    assert counts.total() <= MAX_PHRASES, (+counts).most_common()
