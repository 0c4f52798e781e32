"""The key detail of a cause: device, library or address, or the memory requested and free. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from signal import Signals

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.error_outcome.refutation import SIGN
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    GENERIC_EXCEPTIONS,
    NAMES_CULPRIT,
    SCHEDULER,
    TIMEOUTS,
    VALUES,
    of_kinds,
)

ADDRESS_NAMING = of_kinds("names_address")
"""Classes of which the headline states the address in the line."""
MAX_DETAIL = 170
"""Most characters of the detail in a sentence."""

FORMS: tuple[tuple[str, ...], ...] = (
    ("{used} used of {total}", "{size} asked, {free} free of {total}", "{size} asked, {free} free",
     "{size} asked of {total}", "{size} asked", "{request} asked", "tried to allocate {tried}"),
    ("{error} in {operation}", "{operation} on {kind} {bucket}"),
    ("{device}",),
    ("process {victim}", "process {process}"),
    ("{rss_kb} resident",),
    ("limit {limit_kb}",),
    ("{peer}: {reason}", "{host}:{port}", "port {port}", "{peer}", "{server}", "{host}"),
    ("row remapping {remapping}: replace the GPU",),
    ("{hca}: {async_event}", "{async_event}", "{hca}", "{ifname}", "PCI {bus_id}"),
    ("{mount} is {mount_pct} % full", "{mount}", "{path}", "{shm_path}"),
    ("{library}: symbol {missing_symbol} is missing", "symbol {missing_symbol}", "{library}"),
    ("kernel module {found}, driver library {library}", "{variable}", "{assertion}"),
    ("{count} processes", "pod {pod}: {status}", "pod {pod}",
     "container {container}"),
    ("low on {resource}", "{lack}", "quota {quota}"),
    ("{param}: {saved} saved, {wanted} in the model", "{param}"),
    ("exit code {exitcode}",),
    ("{why}",),
    ("after it began to save {saving}",),
    ("{signal}",),
    ("iteration {iteration}", "epoch {epoch}"),
)  # fmt: skip
"""Text forms by group; of each group, the first form whose fields are all known is used."""
FIELD = pattern_of(r"\{(\w+)\}")
EPOCH = pattern_of(r"(?i)\bepoch[ :=#\[(]{1,3}(\d{1,6})\b(?!\.\d)")
MAX_FORMS = 3
_ONE = pattern_of(r"^1 (process|error)(?:es|s)\b")
PORT = pattern_of(r"<\d+>$")
"""Matches the port in an address as NCCL prints it; the port is random and thus omitted."""

MAX_REPORTED = TIMEOUTS | GENERIC_EXCEPTIONS | SCHEDULER | EXITS
"""Classes whose details other functions put into the headline."""
PCI_ADDRESS = pattern_of(
    r"(?<![0-9A-Fa-f:.])(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7](?![0-9A-Fa-f:.])"
)
MESSAGE = pattern_of(
    r"(?:^|[\s:])(?:[A-Za-z_][\w.]{0,80}(?:Error|Exception|Refused|Timeout))"
    r"(?:: Error\(s\) in loading [^:]{1,80})?:(?P<message>.*)"
)
SENTENCE_END = pattern_of(
    r"[.;] (?=[A-Z])|[,;.]? [Pp]lease (?:check|see|refer|read|look)\b|\", \"|\.$| \(and \d+ more"
)
SPECIFIC = pattern_of(r"\w-\w+-\w|\d|['\"`/]|\w_\w|\.so\b")
"""Matches the marks of a specific message: numbers, names, paths."""
URL = pattern_of(r"https?://([\w.-]+(?::\d+)?(?:/[\w.~-]+){0,2})")
HOST = pattern_of(r"host='([\w.-]+)'.{0,80}?(?:url: (/[\w.~/-]{1,60}))?")
"""Matches the host and path of a failed download."""
ERRNO = pattern_of(r"^\[Errno -?\d+\] (?:[^:]{1,80}(?:: |$))?")
"""Matches an errno with its text, which repeats the title."""
CUDA = pattern_of(r"(?:CUDA|HIP) (?:error|out of memory)\b")


def with_detail(cause: Alert, gpu: int | None) -> str:
    """Return the cause's text with its detail. `gpu`: the GPU that the headline names already, or None."""
    if SIGN in cause.fields:
        return cause.text  # the text already quotes the line
    address = pci_address(cause) if gpu is None else ""
    stated = "pod" in cause.fields or (cause in SCHEDULER and "signal" in cause.fields)
    if (cause in MAX_REPORTED and not stated) or "xid" in cause.fields or "(" in cause.title:
        return f"{cause.text} (PCI {address})" if address else cause.text
    base = cause.text.partition(" (")[0]
    forms = [form for form in known_forms(cause) if gpu is None or form != f"device {gpu}"][:MAX_FORMS]
    if address and not any(address in form for form in forms):
        forms.append(f"PCI {address}")
    if forms:
        return f"{base} ({', '.join(forms)})"
    if cause in NAMES_CULPRIT:
        return cause.text
    find = address_of if cause in ADDRESS_NAMING else message_of
    message = next(filter(None, map(find, cause.proof)), "")
    return f"{base}: {message}" if message and message.lower() not in base.lower() else cause.text


def pci_address(cause: Alert) -> str:
    """Return the PCI address in a kernel or driver line: the captured one, or the only one; else ""."""
    if not cause.kernel:
        return ""
    named = cause.fields.get("pci") or cause.fields.get("bus_id")
    if named is not None:
        return str(named)
    found = set(PCI_ADDRESS.findall(cause.proof[0].text))
    return found.pop() if len(found) == 1 else ""


def known_forms(cause: Alert) -> Iterator[str]:
    """Yield for each group of FORMS its first form whose fields are all known, filled in."""
    values = {name: readable(name, value) for name, value in cause.fields.items() if value not in (None, "")}
    if cause in VALUES and (found := EPOCH.search(cause.proof[0].text)) is not None:
        values.setdefault("epoch", found[1])
    for group in FORMS:
        form = next((each for each in group if set(FIELD.findall(each)) <= values.keys()), None)
        if form is not None:
            yield _ONE.sub(r"1 \1", form.format_map(values))


def readable(name: str, value: str | float) -> str:
    """Return a field as a headline shows it; kilobytes are converted to a readable unit.

    A process numbers the devices in CUDA_VISIBLE_DEVICES (its device 1 may be GPU 3): `device 1`.
    """
    if name == "signal":
        return signal_name(str(value))
    if not name.endswith("_kb") or not isinstance(value, (int, float)):
        text = PORT.sub("", str(value).strip("'\"`,;"))
        return f"device {text}" if name == "device" and text.isdecimal() else text
    size, unit = float(value), "kB"
    for larger in ("MB", "GB", "TB"):
        if size < 999.5:  # three digits: 1,010 kB are 0.986 MB
            break
        size, unit = size / 1024, larger
    return f"{size:.3g} {unit}"


def signal_name(value: str) -> str:
    """Return the name of a signal that a line numbers, such as SIGHUP for 1; else the value unchanged."""
    numbers = {str(each.value): each.name for each in Signals}
    return numbers.get(value, value)


def message_of(proof: Proof) -> str:
    """Return the first sentence of an exception's message if it has a number, name or path; else "".

    If the exception's line ends with a colon, the message is on the next one. At most MAX_DETAIL characters.
    """
    found = MESSAGE.search(proof.text)
    if found is None:
        return ""
    below = proof.lines[proof.key + 1 : proof.key + 2]
    message = first_sentence(found["message"]) or first_sentence("".join(below))
    message = ERRNO.sub("", message)
    if CUDA.match(message) or not SPECIFIC.search(message):
        return ""
    return message if len(message) <= MAX_DETAIL else f"{message[: MAX_DETAIL - 3].rstrip()}..."


def address_of(proof: Proof) -> str:
    """Return host and path of the address that failed, as one text; "" if the line names none."""
    found = URL.search(proof.text) or HOST.search(proof.text)
    return "" if found is None else "".join(part for part in found.groups() if part)


def first_sentence(message: str) -> str:
    """Return the first sentence of a message, without surrounding space and final punctuation."""
    return SENTENCE_END.split(message.strip(), maxsplit=1)[0].strip().rstrip(".,:")
