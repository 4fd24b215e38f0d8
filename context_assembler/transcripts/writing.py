"""Events in the providers' own message formats, rendered by the providers themselves."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from context_assembler.context import Request
from context_assembler.events import Body, Json, SessionEvent, body_of, event_of, kind_of
from context_assembler.history.active import active_order
from context_assembler.models import ModelLimits
from context_assembler.options import Parameters
from context_assembler.ports import Turn
from context_assembler.providers import PROVIDERS

_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "tool_call": "assistant",
    "tool_result": "tool",
    "compaction": "user",
    "system": "system",
}
_VENDORS = {"anthropic": "anthropic", "gemini": "google"}
_FEATURES = ("tools", "vision", "pdf", "mid_conversation_system", "prefill", "audio")


class _Everything(dict[str, bool]):
    """Features of a model that takes everything: what is written is for reading, not for sending."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name, name in _FEATURES or default)


def dump_json_text(value: Json, *, indent: int | None = None) -> str:
    """Return JSON text that can be written as UTF-8, whatever its strings hold."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def wire_for(provider: str) -> Any:
    """Return an empty wire of a provider for a model that takes everything."""
    limits = ModelLimits(
        id="any",
        provider=_VENDORS.get(provider, "openai"),
        window_tokens=1 << 40,
        features=_Everything(dict.fromkeys(_FEATURES, True)),
        protocol=provider,
    )
    request = Request(limits=limits, parameters=Parameters(max_tokens=1), cache="off")
    return PROVIDERS[provider].Wire(request)


def active_events(events: Iterable[SessionEvent]) -> Iterator[SessionEvent]:
    """Yield the events that no compaction replaces, each summary in the place of what it covers."""
    listed = list(events)
    bodies = [body_of(event) for event in listed]
    kinds = [kind_of(e.type, body) for e, body in zip(listed, bodies, strict=True)]
    lead = next((n for n, event in enumerate(listed) if event.type != "system"), len(listed))
    yield from listed[:lead]
    active = active_order(
        range(lead, len(listed)),
        kinds,
        [0] * len(kinds),
        body=lambda seq: bodies[seq - 1],
        reads=lambda _: False,
        seqs_by_id=lambda first, last: {listed[n - 1].id: n for n in range(first, last + 1)},
        log=[],
    )
    for place, parts in active:
        event = listed[place]
        if parts is not None:
            body = {**bodies[place], "parts": parts}
            event = event_of(body, kind=kinds[place], id=event.id, seq=event.seq, created_at=None)
        yield event


def turns_of(events: Iterable[SessionEvent]) -> Iterator[tuple[Turn, SessionEvent]]:
    """Yield the active events as turns, unpaired and unrepaired, each with its event."""
    for event in events:
        body: Body = body_of(event)
        turn: Turn = {
            "role": _ROLES[event.type],  # type: ignore[typeddict-item]  # a role of the table
            "parts": body["parts"],
            "kind": "summary" if event.type == "compaction" else "said",
            "note": event.note,
            "seq": event.seq,
            "id": event.id,
            "origin": event.origin,
            "made_by": body.get("made_by"),
        }
        yield turn, event


def write_messages(events: Iterable[SessionEvent], provider: str) -> str:
    """Return the messages of the active events as JSON: a list, or an object with the system prompt.

    Fields that an event kept next to a message (`name` …) come back.
    """
    wire = wire_for(provider)
    system: list[str] = []
    for turn, event in turns_of(active_events(events)):
        if turn["role"] == "system" and not wire.messages and provider in ("anthropic", "gemini"):
            system.append(event.text)
            continue
        before = len(wire.messages)
        wire.add(turn)
        kept = event.metadata.get(provider)
        if isinstance(kept, dict) and len(wire.messages) == before + 1:
            wire.messages[-1] = {**kept, **wire.messages[-1]}
    messages = list(wire.messages)
    if provider == "anthropic":
        head = {"system": [{"type": "text", "text": text} for text in system]} if system else {}
        return dump_json_text({**head, "messages": messages}, indent=2) + "\n"
    if provider == "gemini":
        parts = [{"text": text} for text in system]
        head = {"systemInstruction": {"parts": parts}} if system else {}
        return dump_json_text({**head, "contents": messages}, indent=2) + "\n"
    return dump_json_text(messages, indent=2) + "\n"
