"""What a model is told of withdrawn tools that its system prompt goes on naming.

Within an epoch the system prompt stays what it was, and with it the names of tools that have gone. Where
these are withdrawn beside the history, in words that only the provider reads, a note behind the history
tells the model.
"""

import re
from collections.abc import Sequence
from typing import Final

from context_assembler.stages.settle_tools.settled import SettledTools
from context_assembler.values.messages import Message
from context_assembler.values.prompt import PromptSection

WITHDRAWN_NOTE: Final = "tools:withdrawn"
"""The name of the notes that tell of withdrawn tools in words."""

_ALL_BACK: Final = "All tools that you are given can be called again."


def note_of_withdrawn(
    settled: SettledTools, *, system_text: str, messages: Sequence[Message]
) -> tuple[PromptSection, ...]:
    """Return the note to place behind the history; none where there is nothing to tell.

    It says how things are, so that the last one holds: when all tools are back, one says that.

    Args:
        messages: With the notes of earlier calls.
    """
    withdrawn = settled.withdrawn if settled.plan.forms.withdraws == "choice" else ()
    was_told = any(message.note == WITHDRAWN_NOTE for message in messages)
    names = [tool.name for tool in withdrawn if was_told or _is_named(tool.name, system_text)]
    if not names and not was_told:
        return ()
    text = f"At this time these tools cannot be called: {', '.join(names)}." if names else _ALL_BACK
    return (PromptSection(name=WITHDRAWN_NOTE, content=text, placement="note"),)


def _is_named(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text) is not None
