"""Where a reply of Anthropic's came from, as the message itself tells."""

from typing import Final

from context_assembler.transcripts.anthropic_spelling import PROVIDER
from context_assembler.values.events import Provenance
from context_assembler.values.json_shapes import is_object
from context_assembler.values.native.anthropic_containers import read_container
from context_assembler.values.native.anthropic_usage import read_usage
from context_assembler.values.parts import JsonObject
from context_assembler.values.reading import as_text

REPLY_FIELDS: Final = frozenset({"id", "type", "model", "stop_reason", "usage"})


def read_made_by(message: JsonObject) -> Provenance | None:
    """Return the reply's provenance, or `None` where the message names no model.

    Its container stays among the fields that are kept as they came: it says more than where it is.
    """
    if not isinstance(model := message.get("model"), str) or model.startswith("<"):
        return None  # `<synthetic>`: written by a client, not by a model
    usage = message.get("usage")
    return Provenance(
        provider=PROVIDER,
        model=model,
        response_id=as_text(message.get("id")) or None,
        stop_reason=as_text(message.get("stop_reason")) or None,
        usage=read_usage(usage) if is_object(usage) else None,
        container=read_container(message.get("container")),
    )
