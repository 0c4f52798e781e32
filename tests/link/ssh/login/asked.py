"""A person who answers the questions of a login."""

from __future__ import annotations


class Asked:
    """A person who gives the same answers in turn and remembers the questions."""

    def __init__(self, *answers: str) -> None:
        self.questions: list[tuple[str, bool]] = []
        self._answers = list(answers)

    def __call__(self, prompt: str, secret: bool) -> str:
        self.questions.append((prompt, secret))
        return self._answers.pop(0)
