"""What a model reads of blocks whose text is sealed: encrypted reasoning, signatures, results."""

import re
from collections.abc import Iterator
from typing import Final

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject

CHARS_PER_TOKEN: Final = 5  # base64 of encrypted reasoning, per token of that reasoning
MAX_RUN_TOKENS: Final = 4_000  # of one base64 run in a block: it may as well be an image

# Fitted on recorded requests whose reasoning belongs to the turn at hand (the benchmark `usage`):
# OpenAI's items begin with some 850 characters that hold none, and longer ones hold more in each.
_OPENAI_HEAD_CHARS: Final = 850
_OPENAI_SCALE: Final = 0.05
_OPENAI_POWER: Final = 1.15
_OPENAI_CHARS_PER_TOKEN: Final = 4.7  # at least, however long
# A signature of Gemini that hides nothing has 44 characters. The rest, of Gemini's own API, was fitted
# on half A of replies that report their reasoning beside it, and is off by 5 % in the median of half
# B (worst 35 %); that of Vertex AI is read off the few rows of both halves that were charged.
_GEMINI_HEAD_CHARS: Final = 44
_GEMINI_CHARS_PER_TOKEN: Final = 5.6
_VERTEX_CHARS_PER_TOKEN: Final = 6.6

_BASE64_RUN: Final = re.compile(r"[A-Za-z0-9+/_=-]{256,}")


def sealed_tokens(block: JsonObject) -> int:
    """Return about how many tokens of reasoning a signed or encrypted block hides."""
    if isinstance(sealed := block.get("encrypted_content"), str):
        return _openai_tokens(max(0, len(sealed) - _OPENAI_HEAD_CHARS))
    hidden_chars = max(map(len, _texts_in(block)), default=0)
    return -(-hidden_chars // CHARS_PER_TOKEN)


def _openai_tokens(chars: int) -> int:
    return int(min(_OPENAI_SCALE * chars**_OPENAI_POWER, chars / _OPENAI_CHARS_PER_TOKEN))


def signature_tokens(signature: str | None, *, host: str | None = None) -> int:
    """Return about how many tokens of reasoning Gemini keeps in the signature of a call or text."""
    per_token = _VERTEX_CHARS_PER_TOKEN if host == "vertex_ai" else _GEMINI_CHARS_PER_TOKEN
    hidden_chars = len(signature) - _GEMINI_HEAD_CHARS if signature else 0
    return int(max(0, hidden_chars) / per_token)


def split_sealed(text: str) -> tuple[str, int]:
    """Return a block's JSON text without its base64 runs, and about what those hold."""
    runs = map(len, _BASE64_RUN.findall(text))
    hidden = sum(min(chars // CHARS_PER_TOKEN, MAX_RUN_TOKENS) for chars in runs)
    return _BASE64_RUN.sub("", text), hidden


def _texts_in(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for inner in value.values():
            yield from _texts_in(inner)
    elif is_array(value):
        for inner in value:
            yield from _texts_in(inner)
