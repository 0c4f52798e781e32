"""`dcgmi diag` and `dcgmi health`."""

from __future__ import annotations

from collections.abc import Sequence

RULE = "+---------------------------+------------------------------------------------+"


def _row(name: str, value: str) -> str:
    return f"| {name:<25} | {value:<46} |"


def diag(failures: Sequence[tuple[str, str, str]] = ()) -> list[str]:
    """`dcgmi diag -r 3` of DCGM 3; a failure is a test, its result and its warning."""
    by_test = {test: (result, warning) for test, result, warning in failures}
    lines = ["Successfully ran diagnostic for group.", RULE]
    lines += [_row("Diagnostic", "Result"), RULE.replace("-", "=")]
    sections = {
        "Metadata": {"DCGM Version": "3.1.8", "Driver Version Detected": "535.161.08"},
        "Deployment": {
            "Denylist": "Pass", "NVML Library": "Pass", "CUDA Main Library": "Pass",
            "Permissions and OS Blocks": "Pass", "Persistence Mode": "Warn",
            "Environment Variables": "Pass", "Page Retirement/Row Remap": "Pass",
            "Graphics Processes": "Pass", "Inforom": "Skip",
        },
        "Integration": {"PCIe": "Pass - All"},
        "Hardware": {"GPU Memory": "Pass - All", "Diagnostic": "Pass - All"},
        "Stress": {"Targeted Stress": "Pass - All", "Targeted Power": "Pass - All", "EUD Test": "Skip"},
    }  # fmt: skip
    for section, tests in sections.items():
        lines.append(f"|-----  {section}  ".ljust(28, "-") + "+" + "-" * 48 + "|")
        for test, usual in tests.items():
            result, warning = by_test.get(test, (usual, ""))
            lines.append(_row(test, result))
            for at in range(0, len(warning), 46):
                lines.append(_row("" if at else "Warning", warning[at : at + 46]))
            if test == "Persistence Mode":
                lines.append(_row("Warning", "Persistence mode for GPU 0 is disabled."))
    return [*lines, RULE]


def diag_4(test: str, gpu: int, warning: str) -> list[str]:
    """`dcgmi diag -r 2` of DCGM 4, one test with a GPU that fails."""
    rows = [("Diagnostic", "Result"), ("DCGM Version", "4.1.1"), ("software", "Pass"), ("", "GPU0: Pass")]
    rows += [(test, "Fail"), ("", "GPU0: Pass"), ("", f"GPU{gpu}: Fail"), (f"Warning: GPU{gpu}", warning)]
    rows += [("pcie", "Pass"), ("", "GPU0: Pass")]
    return [RULE, *(_row(*row) for row in rows), RULE]


def health(gpu: int | None = None, subsystem: str = "", text: str = "") -> list[str]:
    """`dcgmi health -g 1 -c`."""
    lines = [RULE, "| Health Monitor Report                                                      |", RULE]
    if gpu is None:
        return [*lines, _row("Overall Health", "Healthy"), RULE]
    lines += [_row("Overall Health", "Failure"), _row("GPU", "")]
    lines += [_row(f"-> {gpu}", "Failure"), _row("   -> Errors", "")]
    lines.append(_row(f"      -> {subsystem}", "Failure"))
    lines += [_row("", text[at : at + 46]) for at in range(0, len(text), 46)]
    return [*lines, RULE]
