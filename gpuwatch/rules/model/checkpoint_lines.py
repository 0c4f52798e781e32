"""Rules for lines that report a written or begun checkpoint; such a line is no problem."""

from __future__ import annotations

from gpuwatch.agent.logs.checkpoints.checkpoint_lines import BEGUN, SAVED
from gpuwatch.rules.model.rule import Rule

_NOT = (
    r"(?i)\b(?<![,;(] 0 )(?:fail(?:ed|ure|s)?|errors?)\b"
    r"|\b(?:cannot|could not|unable|not (?:be )?(?:saved|found|written)|skip\w*"
    r"|0 (?:of|out of) \d+|never|nothing|incomplete|no longer|no (?:more )?(?:checkpoint|ckpt"
    r"|snapshot)s?|lost|load\w*|resum\w*|restor\w*|delet\w*|remov\w*|will be|would be|disabled"
    r"|corrupt\w*|every)\b",
)

CHECKPOINT_RULES = (
    Rule(
        SAVED, "info", "",
        (
            r"(?i)\b(?:checkpoint|ckpt|snapshot|state|model(?: weights)?)\b.{0,80}"
            r"\b(?:saved|written|completed?|uploaded|finali[sz]ed|is ready now)\b(?! failed)"
            r"|\b(?:saved|wrote|written|stored|finished saving)\b.{0,60}"
            r"(?:\b|_)(?:checkpoint|ckpt|snapshot|state|global_step\d|states\.pt)"
            r"|\bsaving model to '",
        ),
        "", (), (), role="hint", newest=True, unless=_NOT,
        literals=(
            "checkpoint", "ckpt", "saved", "Saved", "Checkpoint", "written", "snapshot", "saving model to",
        ),
    ),
    Rule(
        BEGUN, "info", "",
        (r"(?i)\b(?:saving|writing|begin(?:ning)? to save)\b.{0,60}\b(?:checkpoint|ckpt|snapshot)",),
        "", (), (), role="hint", newest=True, unless=_NOT,
        literals=("checkpoint", "ckpt", "Checkpoint", "snapshot"),
    ),
)  # fmt: skip
