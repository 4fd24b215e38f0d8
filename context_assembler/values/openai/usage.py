"""The tokens that OpenAI's protocols report: alike, but for the words for question and answer."""

from context_assembler.values.events import Usage
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_object
from context_assembler.values.wire import count_of


def read_usage(usage: Json, *, asked: str, answered: str) -> Usage | None:
    """Return the usage; what was asked includes the cached tokens. `None` where nothing is told.

    Args:
        asked: The protocol's word for what was sent: `prompt`, or `input`.
        answered: Its word for the reply: `completion`, or `output`.

    Source:
        https://developers.openai.com/api/docs/guides/prompt-caching (read 2026-11-27)
    """
    fields = as_object(usage)
    if not fields:
        return None
    of_asked = as_object(fields.get(f"{asked}_tokens_details"))
    of_answered = as_object(fields.get(f"{answered}_tokens_details"))
    return Usage(
        input_tokens=count_of(fields.get(f"{asked}_tokens")),
        output_tokens=count_of(fields.get(f"{answered}_tokens")),
        cache_read_tokens=count_of(of_asked.get("cached_tokens")),
        cache_write_tokens=count_of(of_asked.get("cache_write_tokens")),
        reasoning_tokens=count_of(of_answered.get("reasoning_tokens")),
    )
