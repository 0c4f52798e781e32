"""The JSON Schema of a hosts file, for editors; made from the table that the parser reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuwatch.hosts.keys import FILE

if TYPE_CHECKING:
    from gpuwatch.hosts.shapes import Schema


def json_schema() -> Schema:
    """The schema (draft 2020-12) of a hosts file in YAML.

    It takes everything that the parser takes. What lies between values (names given twice, members of groups,
    the inside of ranges) only the parser judges.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpuwatch hosts file",
        "description": "The nodes that gpuwatch watches and how it reaches them.",
        **FILE.schema(),
    }
