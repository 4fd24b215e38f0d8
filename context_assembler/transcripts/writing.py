"""Events in the providers' own message formats, rendered by the providers themselves."""

import json
from collections.abc import Iterable
from typing import Any

from context_assembler.context import Request
from context_assembler.events import Opaque, SessionEvent, ToolResult
from context_assembler.history import MessageTransformer
from context_assembler.models import ModelLimits, ThinkingRule
from context_assembler.options import Parameters
from context_assembler.ports import ToolSpec
from context_assembler.providers import PROVIDERS
from context_assembler.providers.wire import as_object

_VENDORS = {"anthropic": "anthropic", "gemini": "google"}
_FEATURES = ("tools", "vision", "pdf", "mid_conversation_system", "prefill", "audio")
_HEADS = {"anthropic": ("system", "messages"), "gemini": ("systemInstruction", "contents")}


def write_messages(events: Iterable[SessionEvent], provider: str) -> str:
    """Return the history of the events as JSON: a list, or an object with the system prompt.

    It is the history that a call would be made from: active, paired, repaired. Fields that an event
    kept next to a message (`name` …) come back. Calls that are still in flight have no results.
    """
    given = list(events)
    event_by_seq = {event.seq or number: event for number, event in enumerate(given, 1)}
    transformer = MessageTransformer(
        takes_leading_system=provider in _HEADS,
        reads=lambda body: as_object(body.get("made_by")).get("provider") == provider,
    )
    made = transformer.transform(given)
    last = made.turns[-1].get("kind") if made.turns else None
    wire = _wire_for(provider, given)
    for turn in made.turns[:-1] if last == "synthetic" else made.turns:
        before = len(wire.messages)
        wire.add(turn)
        event = event_by_seq.get(turn.get("seq", 0))
        kept = event.metadata.get(provider) if event else None
        if isinstance(kept, dict) and len(wire.messages) == before + 1:
            wire.messages[-1] = {**kept, **wire.messages[-1]}
    document: Any = list(wire.messages)
    if provider in _HEADS:
        name, key = _HEADS[provider]
        parts = [{"text": text} for text in made.leading_system]
        system: Any = [{"type": "text", **part} for part in parts]
        head = {name: system if name == "system" else {"parts": parts}} if parts else {}
        document = {**head, key: document}
    text = json.dumps(document, ensure_ascii=False, indent=2)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate
        text = json.dumps(document, indent=2)
    return text + "\n"


def _wire_for(provider: str, events: Iterable[SessionEvent]) -> Any:
    """Return an empty wire of a provider for a model that takes everything.

    It offers the tools that results refer to: what is written is for reading, not for sending.
    """
    pieces = [p for e in events for r in e.parts if isinstance(r, ToolResult) for p in r.content]
    blocks = [piece.block for piece in pieces if isinstance(piece, Opaque)]
    names = {str(block["tool_name"]) for block in blocks if "tool_name" in block}
    limits = ModelLimits(
        id="any",
        provider=_VENDORS.get(provider, "openai"),
        window_tokens=1 << 40,
        features=dict.fromkeys(_FEATURES, True),
        thinking=ThinkingRule(kinds=("effort",) if provider == "openai_responses" else ()),
        protocol=provider,
    )
    parameters, tools = Parameters(max_tokens=1), tuple(ToolSpec(name=n) for n in sorted(names))
    request = Request(limits=limits, parameters=parameters, tools=tools, cache="off")
    return PROVIDERS[provider].Wire(request)
