"""Where a reply of Anthropic's came from, as the message itself tells."""

from typing import Final

from context_assembler.transcripts.parsing import as_mapping
from context_assembler.values.events import Provenance, Usage
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json, JsonObject

REPLY_FIELDS: Final = frozenset({"id", "type", "model", "stop_reason", "usage"})
USAGE_FIELDS: Final = frozenset(
    {
        "input_tokens",
        "output_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
        "cache_creation",  # the same tokens, by time to live
    }
)

_PROVIDER: Final = "anthropic"


def read_made_by(message: JsonObject) -> Provenance | None:
    """Return the reply's provenance, or `None` where the message names no model."""
    if not isinstance(model := message.get("model"), str) or model.startswith("<"):
        return None  # `<synthetic>`: written by a client, not by a model
    usage = message.get("usage")
    return Provenance(
        provider=_PROVIDER,
        model=model,
        response_id=_text(message.get("id")),
        stop_reason=_text(message.get("stop_reason")),
        usage=read_usage(usage) if is_object(usage) else None,
    )


def read_usage(usage: JsonObject) -> Usage:
    """Return the reported tokens; the whole prompt is the three input figures together.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/prompt-caching (read 2026-11-27)
    """
    read, written = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
    details = as_mapping(usage.get("output_tokens_details"))
    return Usage(
        input_tokens=_count(usage.get("input_tokens")) + _count(read) + _count(written),
        output_tokens=_count(usage.get("output_tokens")),
        cache_read_tokens=_count(read),
        cache_write_tokens=_count(written),
        reasoning_tokens=_count(details.get("thinking_tokens")),
    )


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
