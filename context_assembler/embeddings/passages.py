"""Long texts in passages, each as long as what people say at a time.

The mean of a long text's words points to what it is about, and away from the one sentence that
answers: of such a text the passage that is most alike tells more.
"""

import re
from typing import Final

LONG_CHARS: Final = 400
"""A text up to here is one passage: its own vector says as much."""

_PASSAGE_CHARS: Final = 150
_READ_CHARS: Final = 2_000
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])\s+|\n+")


def split_passages(text: str) -> list[str]:
    """Return whole sentences of the text's beginning, as many together as make a passage."""
    passages: list[str] = []
    passage = ""
    for sentence in _SENTENCE_END.split(text[:_READ_CHARS]):
        if passage and len(passage) + len(sentence) > _PASSAGE_CHARS:
            passages.append(passage)
            passage = ""
        passage = f"{passage} {sentence}".strip()
    return [*passages, passage] if passage else passages
