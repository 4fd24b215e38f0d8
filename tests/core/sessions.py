"""Sessions in memory, assembled; contexts as rows."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ContextAssembler,
    InMemoryStore,
    SessionEvent,
    SqliteStore,
    ToolResult,
)
from context_assembler.events import is_list, is_object
from tests.history.talk import shown, talk

OPUS = "claude-opus-5-5"  # reasoning bound to its prefix; no prefill
HAIKU = "claude-haiku-4-5"  # takes prefill
PROVIDERS = {
    "anthropic": OPUS,
    "openai_chat": "gpt-4.1",
    "openai_responses": "gpt-6.2-sol",
    "gemini": "gemini-4-argon",
}
QUIET: Mapping[str, Any] = {"clock": {"is_enabled": False}}


def stored(*rows: str | SessionEvent) -> InMemoryStore:
    """Return a store whose session `s` holds the events."""
    store = InMemoryStore()
    add(store, *rows)
    return store


def add(store: SqliteStore, *rows: str | SessionEvent) -> list[SessionEvent]:
    """Append the events to the session `s`."""
    new = [replace(event, id="", seq=0) for event in talk(*rows)]
    return list(store.append_now("s", new))


def text(said: str) -> dict[str, Any]:
    """Return a block of text as Claude's replies hold it."""
    return {"type": "text", "text": said}


def answer(*blocks: dict[str, Any], id: str = "msg_1", input_tokens: int = 10) -> dict[str, Any]:
    """Return a reply of Claude's."""
    kind = {"id": id, "type": "message", "role": "assistant", "model": OPUS}
    usage = {"input_tokens": input_tokens, "output_tokens": 5}
    return {**kind, "content": list(blocks), "stop_reason": "end_turn", "usage": usage}


def asks(*calls: tuple[str, str, Any], id: str = "m1", stop: str = "tool_use") -> dict[str, Any]:
    """Return a reply of Claude's with calls: of each its id, the tool's name and the input."""
    uses = ({"type": "tool_use", "id": one, "name": name, "input": x} for one, name, x in calls)
    return answer(*uses, id=id) | {"stop_reason": stop}


async def results_of(assembler: ContextAssembler, session_id: str = "s") -> list[ToolResult]:
    """Return the results that a session holds."""
    events = [event async for event in assembler.sessions.load(session_id)]
    return [part for event in events for part in event.parts if isinstance(part, ToolResult)]


def opened(store: InMemoryStore, **config: Any) -> ContextAssembler:
    """Return an assembler over a store."""
    return ContextAssembler(store, config=AssemblerConfig(**config))


def assembled(
    *rows: str | SessionEvent, model: str = OPUS, config: Mapping[str, Any] = QUIET, **options: Any
) -> AssembledContext:
    """Return the context of a session that holds the events."""
    return opened(stored(*rows), **config).assemble_sync("s", model=model, **options)


def turns(context: AssembledContext) -> list[str]:
    """Return a context's messages as rows."""
    return shown(context.messages)


def changes(context: AssembledContext) -> list[str]:
    """Return the rules by which something was changed."""
    return [entry.rule for entry in context.report.entries if entry.decision != "kept"]


def texts_in(value: Any) -> Iterable[str]:
    """Yield every string of a payload, keys among them."""
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for key, held in value.items():
            yield from (str(key), *texts_in(held))
    elif is_list(value):
        for held in value:
            yield from texts_in(held)
