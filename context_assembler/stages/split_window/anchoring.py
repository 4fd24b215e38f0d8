"""The ledger's total, anchored in what the provider charged for the last call."""

from collections.abc import Sequence
from dataclasses import replace

from context_assembler.ports import TokenCounter
from context_assembler.values.ledger import Ledger
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import Opaque


def anchor(
    ledger: Ledger,
    messages: Sequence[Message],
    *,
    fingerprints: Sequence[str],
    limits: ModelLimits,
    counter: TokenCounter,
) -> Ledger:
    """Return the ledger with what the last call was charged, and the count of what came since.

    The latest reply of this model counts whose prompt is the beginning of this one; the ledger stays
    as it is where there is none. A call in which the provider's own tools worked is passed over: it
    was charged for text that is not in the session.

    Args:
        fingerprints: One per message boundary: element *i* identifies all before message *i*.
    """
    since = 0
    for index in reversed(range(min(len(messages), len(fingerprints)))):
        message, fingerprint = messages[index], fingerprints[index]
        since += counter.count_message(message)
        made_by = message.made_by
        if made_by is None or made_by.model != limits.id or made_by.usage is None:
            continue
        if made_by.prefix_fingerprint != fingerprint or made_by.usage.input_tokens <= 0:
            continue
        if any(isinstance(part, Opaque) for part in message.parts):
            continue
        return replace(ledger, anchored_tokens=made_by.usage.input_tokens + since)
    return ledger
