"""`smart`: keep task and opening, shorten old tool results, drop the middle, mark the gap."""

from collections.abc import Sequence
from typing import Final

from context_assembler.ports import TokenCounter, Truncation
from context_assembler.truncation.fit import fit_history
from context_assembler.truncation.history import Rules
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings

RULES: Final = Rules(name="smart", keeps_task=True, keeps_opening=True, shortens=True, marks=True)


def smart(
    messages: Sequence[Message],
    /,
    *,
    room_tokens: int,
    counter: TokenCounter,
    settings: TruncationSettings,
) -> Truncation:
    """Shorten bulky results of older exchanges, then drop the middle behind the history's opening.

    Raises:
        ContextOverflowError: What may not be dropped does not fit, even shortened.
    """
    return fit_history(
        messages, room_tokens=room_tokens, counter=counter, settings=settings, rules=RULES
    )
