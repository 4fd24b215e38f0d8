"""From stored events to the turns of a valid history: active, paired, repaired, with notes and caps.

    MessageTransformer().transform(events).turns

`Timeline` is what the core grows: the history as columns, of which bodies are read only if needed.
"""

from context_assembler.history.caps import Caps
from context_assembler.history.lines import SYNTHETIC, Rules, Timeline, scaled, unscaled
from context_assembler.history.notes import Clock, fresh_notes
from context_assembler.history.reasoning import Reader, Signatures, route_of, sum_up
from context_assembler.history.repair import unsigned
from context_assembler.history.secrets import find_secrets, mask, masked_parts, may_mask
from context_assembler.history.transformer import MessageTransformer, Transformed
from context_assembler.history.turns import turns_of

__all__ = [
    "SYNTHETIC",
    "Caps",
    "Clock",
    "MessageTransformer",
    "Reader",
    "Rules",
    "Signatures",
    "Timeline",
    "Transformed",
    "find_secrets",
    "fresh_notes",
    "mask",
    "masked_parts",
    "may_mask",
    "route_of",
    "scaled",
    "sum_up",
    "turns_of",
    "unscaled",
    "unsigned",
]
