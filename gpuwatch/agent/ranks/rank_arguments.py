"""The world size and rendezvous that a program states in its arguments, as those that users start by hand do.

Example: `python train.py --rank 2 --world-size 4 --dist-url tcp://n7:23456` gives 4 and `n7:23456`.
"""

import re

from .rank_environment import MAX_RANKS

MAX_CHARS = 4096
"""Characters of a command line that are read."""
_SIZE = re.compile(r"(?:^|\s)--?world[-_]?size[ =](\d{1,7})(?=\s|$)")
_ADDRESS = re.compile(r"(?:^|\s)--?master[-_]?addr(?:ess)?[ =]([\w.:-]{1,200})(?=\s|$)")
_PORT = re.compile(r"(?:^|\s)--?master[-_]?port[ =](\d{1,5})(?=\s|$)")
_URL = re.compile(r"(?:^|\s)--?[\w-]{1,40}[ =]tcp://([\w.-]{1,200}:\d{1,5})(?=[/?\s]|$)")


def stated_group(command: str) -> "dict[str, object]":
    """Return `world_size` and `master` of `wire.Process`, as far as the command line states them."""
    text = command[:MAX_CHARS]
    size, url, address, port = (one.search(text) for one in (_SIZE, _URL, _ADDRESS, _PORT))
    found: dict[str, object] = {}
    if size is not None and 0 < int(size.group(1)) <= MAX_RANKS:
        found["world_size"] = int(size.group(1))
    if url is not None:
        found["master"] = url.group(1)
    elif address is not None:
        host = address.group(1)
        host = "[" + host + "]" if ":" in host else host
        found["master"] = host if port is None else host + ":" + port.group(1)
    return found


def with_stated(given: "dict[str, object]", row: "dict[str, object]") -> "dict[str, object]":
    """Return a process's rank facts, completed by the world size and rendezvous that it states.

    These are equal on all nodes of a job; the highest rank on one node is not. `row`: the process, with the
    variables of its environment, which outweigh its arguments.
    """
    stated = stated_group(str(row.get("command", "")))
    stated.update((key, row[key]) for key in ("world_size", "master") if key in row)
    size, highest = stated.pop("world_size", None), given.get("world_size")
    if isinstance(size, int) and isinstance(highest, int) and size >= highest:
        stated["world_size"] = size
    return dict(given, **stated)
