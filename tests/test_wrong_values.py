"""A value that holds something in the place of something else is refused, or sent, wherever it goes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import partial
from typing import Any, Final

import pytest

from context_assembler import (
    AssemblyError,
    Base64Source,
    ContextAssembler,
    Document,
    FileIdSource,
    Image,
    MemoryAssembler,
    MemoryFilters,
    MemoryRecord,
    Opaque,
    PromptSection,
    Provenance,
    RecallSettings,
    Session,
    SessionEvent,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
    ToolSpec,
    UrlSource,
    assistant_event,
    tool_result_event,
    user_event,
)
from context_assembler.memory import Retention, open_memory
from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    SystemBody,
    ToolCallBody,
    ToolResultBody,
    UserBody,
)
from tests.providers.drafts import PIXEL
from tests.wrong_types import WRONG, is_from_within

MODELS: Final = ("claude-opus-5-5", "gpt-4.1", "gpt-6.2-sol", "gemini-4-argon")
PLAIN: Final = {"media_type": "text/plain", "data": "aGk="}
CALL: Final = ToolCall(call_id="c1", name="f")
GOOD: Mapping[type, Mapping[str, Any]] = {
    Text: {"text": "hi"},
    Image: {"source": UrlSource(url="https://example.com/a.png")},
    Document: {"source": Base64Source(**PLAIN), "text": "hi"},
    Base64Source: {"media_type": "image/png", "data": PIXEL},
    UrlSource: {"url": "https://example.com/a.png"},
    FileIdSource: {"provider": "anthropic", "file_id": "f"},
    Opaque: {"provider": "anthropic", "block": {"type": "x"}},
    Thinking: {"text": "hm"},
    ToolCall: {"call_id": "c1", "name": "f"},
    ToolResult: {"call_id": "c1", "content": (Text("x"),)},
    UserBody: {"parts": (Text("x"),)},
    AssistantBody: {"parts": (Text("x"),)},
    SystemBody: {"parts": (Text("x"),)},
    ToolCallBody: {"call": CALL},
    ToolResultBody: {"result": ToolResult(call_id="c1")},
    CompactionBody: {"summary": "x", "first_seq": 1, "last_seq": 1},
    SessionEvent: {"body": UserBody(parts=(Text("x"),))},
    Provenance: {"provider": "anthropic", "model": MODELS[0]},
    Session: {"id": "s"},
    PromptSection: {"name": "n", "content": "c"},
    ToolSpec: {"name": "n"},
    ToolChoice: {"mode": "auto"},
    MemoryRecord: {"text": "a boat"},
    MemoryFilters: {},
    RecallSettings: {},
    Retention: {},
}


def mistaken(value: type) -> Iterator[dict[str, Any]]:
    """Yield what the value is made of, one field of it wrong, in turn and in every way."""
    for field in fields(value):
        for wrong in WRONG:
            if field.init:
                yield {**GOOD[value], field.name: wrong}


async def _sent(*events: SessionEvent, **options: Any) -> None:
    async with ContextAssembler(tools=[ToolSpec(name="f")]) as assembler:
        await assembler.sessions.append("s", [user_event("hi"), *events, user_event("go")])
        for model in MODELS:
            context = await assembler.assemble("s", model=model, max_tokens=500, **options)
            context.to_request()


async def _assembled(**parts: Any) -> None:
    async with ContextAssembler(**parts) as assembler:
        await assembler.add_user("s", "hi")
        for model in MODELS:
            (await assembler.assemble("s", model=model, max_tokens=500)).to_request()


async def _use_part(part: Any) -> None:
    makers: tuple[Callable[[], SessionEvent], ...] = (
        partial(user_event, (part,)),
        partial(assistant_event, (part,)),
        partial(tool_result_event, "c1", (part,)),
    )
    for make in makers:
        with suppress(AssemblyError):
            await _sent(assistant_event(CALL), make())


async def _use_source(source: Any) -> None:
    await _use_part(Image(source=source))
    await _use_part(Document(source=source))


async def _use_event(event: Any) -> None:
    await _sent(event if isinstance(event, SessionEvent) else SessionEvent(body=event))


async def _use_provenance(made_by: Any) -> None:
    await _sent(SessionEvent(body=AssistantBody(parts=(Text("x"),), made_by=made_by)))


async def _use_session(session: Any) -> None:
    async with ContextAssembler() as assembler:
        await assembler.sessions.create(session)
        await assembler.add_user("s", "hi")
        await assembler.assemble("s", model=MODELS[0], max_tokens=500)


async def _recall(record: Any = "a boat", **arguments: Any) -> None:
    settings = arguments.pop("settings", None)
    async with MemoryAssembler("memory:", settings=settings) as recall:
        await recall.remember(record)
        await recall.assemble_context("boat", **arguments)


async def _prune(retention: Any) -> None:
    async with open_memory("memory:") as store:
        await store.remember([MemoryRecord(text="a boat")])
        await store.prune(retention)


USES: Mapping[type, Callable[[Any], Any]] = {
    **dict.fromkeys((Text, Image, Document, Opaque, Thinking, ToolCall, ToolResult), _use_part),
    **dict.fromkeys((Base64Source, UrlSource, FileIdSource), _use_source),
    **dict.fromkeys((UserBody, AssistantBody, SystemBody, CompactionBody), _use_event),
    **dict.fromkeys((ToolCallBody, ToolResultBody, SessionEvent), _use_event),
    Provenance: _use_provenance,
    Session: _use_session,
    PromptSection: lambda section: _assembled(prompt_sections=[section]),
    ToolSpec: lambda spec: _assembled(tools=[spec]),
    ToolChoice: lambda choice: _sent(tool_choice=choice),
    MemoryRecord: _recall,
    MemoryFilters: lambda filters: _recall(filters=filters),
    RecallSettings: lambda settings: _recall(settings=settings),
    Retention: _prune,
}


@pytest.mark.parametrize("value", GOOD, ids=lambda value: value.__name__)
async def test_a_value_with_a_wrong_field_raises_no_bare_error(value: type) -> None:
    found: list[str] = []
    await USES[value](value(**GOOD[value]))
    for given in mistaken(value):
        try:
            await USES[value](value(**given))
        except AssemblyError:
            continue
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            if is_from_within(error):
                found.append(f"{error!r} of {given}")

    assert found == []
