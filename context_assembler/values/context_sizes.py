"""What a finished context takes in memory, for whoever keeps several."""

from collections.abc import Iterator, Sequence
from typing import Final

from context_assembler.values.context import AssembledContext
from context_assembler.values.draft import Draft
from context_assembler.values.parts import Base64Source, Document, Image, Part, ToolResult
from context_assembler.values.spelled import knows_plain

# Measured with sessions of 200 recorded messages: together about a half more than they took.
_BYTES_PER_MESSAGE: Final = 2_000
_BYTES_PER_ROW: Final = 500
_BYTES_PER_TOKEN: Final = 8


def size_in_memory(context: AssembledContext) -> int:
    """Return about how many bytes a context takes, generously."""
    rows, messages = context.report.entries, context.draft.messages
    outlook = context.report.outlook
    held = max(len(messages), 0 if outlook is None else outlook.held_messages)
    # What was cut is as long as what is sent, on average.
    share = held / max(len(messages), 1)
    texts_bytes = round(_BYTES_PER_TOKEN * context.report.ledger.used_tokens * share)
    values_bytes = _BYTES_PER_MESSAGE * held + _BYTES_PER_ROW * len(rows)
    others_bytes = sum(map(size_in_memory, context.others.values()))
    return texts_bytes + values_bytes + sum(_media_bytes(context.draft)) + others_bytes


def _media_bytes(draft: Draft) -> Iterator[int]:
    if knows_plain(draft.messages, draft.spelled):  # a step looks at what is new alone
        return
    for message in draft.messages:
        for part in message.parts:
            held: Sequence[Part] = part.content if isinstance(part, ToolResult) else (part,)
            for one in held:
                if isinstance(one, Image | Document) and isinstance(one.source, Base64Source):
                    yield len(one.source.data)
