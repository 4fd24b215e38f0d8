"""Parameters that both protocols of OpenAI's have, as a draft sets them."""

from hashlib import sha256
from typing import Final

from context_assembler.values.draft import Draft
from context_assembler.values.parts import Json
from context_assembler.values.texts.cleaning import clean_text

MAX_TOOLS: Final = 128
MAX_CACHE_KEY_CHARS: Final = 64


def effort_of(draft: Draft) -> str | None:
    """Return the reasoning effort to ask for; `None` leaves it to the model."""
    asked = "none" if draft.parameters.thinking_budget == 0 else draft.parameters.thinking_level
    return asked if asked in draft.limits.thinking.levels else None


def sampling_of(draft: Draft) -> dict[str, Json]:
    """Return temperature and top_p, where they are set."""
    asked = {"temperature": draft.parameters.temperature, "top_p": draft.parameters.top_p}
    return {name: value for name, value in asked.items() if value is not None}


def cache_key_of(draft: Draft) -> dict[str, Json]:
    """Return the key that routes a session's requests to one cache: at most 64 characters.

    Source:
        https://developers.openai.com/api/docs/guides/prompt-caching (read 2026-11-27)
    """
    if draft.cache != "auto" or not draft.session_id:
        return {}
    key = clean_text(draft.session_id)
    is_short = len(key) <= MAX_CACHE_KEY_CHARS
    return {"prompt_cache_key": key if is_short else sha256(key.encode()).hexdigest()}
