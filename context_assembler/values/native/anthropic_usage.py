"""The tokens that Anthropic reports for a reply."""

from typing import Final

from context_assembler.values.events import Usage
from context_assembler.values.parts import JsonObject
from context_assembler.values.reading import as_object
from context_assembler.values.wire import count_of

USAGE_FIELDS: Final = frozenset(
    {
        "input_tokens",
        "output_tokens",
        "output_tokens_details",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "cache_creation",  # the same tokens, by time to live
    }
)
"""Fields that are read, and those that say the same once more."""


def read_usage(fields: JsonObject) -> Usage:
    """Return the usage with the whole prompt as input; the API reports the uncached rest.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/prompt-caching (read 2026-11-27)
    """
    read = count_of(fields.get("cache_read_input_tokens"))
    written = count_of(fields.get("cache_creation_input_tokens"))
    details = as_object(fields.get("output_tokens_details"))
    return Usage(
        input_tokens=count_of(fields.get("input_tokens")) + read + written,
        output_tokens=count_of(fields.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count_of(details.get("thinking_tokens")),
    )
