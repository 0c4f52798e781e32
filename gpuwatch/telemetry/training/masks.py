"""Checks the masks of one batch: which tokens count in the loss, and which the model sees."""

from __future__ import annotations

from typing import Any

from ..base.ranks import loaded_torch
from ..base.records import record

IGNORED_LABEL = -100
"""The label that torch's cross entropy ignores by default."""
SHIFTED_SHARE = 0.99
"""Labels count as shifted if at least this fraction of them equals the next token."""


@record(frozen=True)
class MaskReport:
    """The effect of the masks of a batch; counts are of tokens, row numbers of sequences."""

    counted: int
    """Number of labels that count in the loss."""
    padding_in_loss: int = 0
    """Number of labels that count although the attention mask hides their token."""
    rows_without_labels: tuple[int, ...] = ()
    """Indices of sequences of which no token counts."""
    visible_padding: int = 0
    """Number of padding tokens that the attention mask shows; 0 also if the id of the padding is unknown."""
    are_shifted: bool = False
    """True if 99 % of the labels are the next tokens; a model that shifts labels must not get these."""

    @property
    def problems(self) -> list[str]:
        """The errors, one text each; shifted labels are not among them, because some models need them."""
        found = []
        if not self.counted:
            found.append("no label counts in the loss")
        elif self.rows_without_labels:
            rows = ", ".join(map(str, self.rows_without_labels[:5]))
            found.append(f"no label counts in {len(self.rows_without_labels)} sequences, for example {rows}")
        if self.padding_in_loss:
            found.append(f"{self.padding_in_loss} hidden tokens count in the loss")
        if self.visible_padding:
            found.append(f"{self.visible_padding} padding tokens are visible")
        return found


def check_masks(
    labels: Any,
    attention_mask: Any = None,
    input_ids: Any = None,
    *,
    pad_id: int | None = None,
    ignored_label: int = IGNORED_LABEL,
) -> MaskReport:
    """Return a report: tokens of a batch that count in the loss, that the model sees, and problems.

    Args:
        labels: Whole numbers, shape (sequences, tokens).
        attention_mask: The same shape, 0 where the model must not look; None: it looks everywhere.
        input_ids: The tokens, of the same shape; None: only labels and mask are compared.
        pad_id: The id of the padding, if no other token has it.
        ignored_label: The label that the loss leaves out.

    Raises:
        ValueError: the shapes differ, or are not those of a batch.
    """
    torch = loaded_torch()
    labels = torch.as_tensor(labels)
    others = [None if each is None else torch.as_tensor(each) for each in (attention_mask, input_ids)]
    if labels.dim() != 2 or any(each is not None and each.shape != labels.shape for each in others):
        shapes = ", ".join(str(tuple(each.shape)) for each in (labels, *others) if each is not None)
        raise ValueError(f"labels, mask and tokens must have one shape (sequences, tokens), not {shapes}")
    mask, tokens = others
    counts = labels != ignored_label
    is_hidden = None if mask is None else mask == 0
    empty = (~counts.any(dim=1)).nonzero().flatten().tolist()
    visible = 0
    if pad_id is not None and tokens is not None:
        is_padding = tokens == pad_id
        visible = int((is_padding if is_hidden is None else is_padding & ~is_hidden).sum())
    return MaskReport(
        counted=int(counts.sum()),
        padding_in_loss=0 if is_hidden is None else int((counts & is_hidden).sum()),
        rows_without_labels=tuple(int(row) for row in empty),
        visible_padding=visible,
        are_shifted=tokens is not None and _are_shifted(labels, tokens, counts),
    )


def _are_shifted(labels: Any, tokens: Any, counts: Any) -> bool:
    """Return True if the labels that count are the next tokens, and not their own."""
    inner = counts[:, :-1]
    total = int(inner.sum())
    if not total:
        return False
    following = int(((labels[:, :-1] == tokens[:, 1:]) & inner).sum())
    own = int(((labels[:, :-1] == tokens[:, :-1]) & inner).sum())
    return following >= SHIFTED_SHARE * total > own
