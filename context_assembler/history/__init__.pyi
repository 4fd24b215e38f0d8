from context_assembler.history.caps import Caps
from context_assembler.history.notes import fresh_notes
from context_assembler.history.secrets import find_secrets, mask, masked_parts
from context_assembler.history.transformer import MessageTransformer, Transformed

__all__ = [
    "Caps",
    "MessageTransformer",
    "Transformed",
    "find_secrets",
    "fresh_notes",
    "mask",
    "masked_parts",
]
