"""Laws of every token counter."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.limits import ModelRegistry
from context_assembler.ports import TokenCounter
from context_assembler.providers.openai_chat import OPENAI_CHAT
from context_assembler.providers.openai_chat.render import render
from context_assembler.tokens import TOKEN_COUNTERS, ModelTokenCounter, counter_for
from context_assembler.tokens.bpe import count_bpe
from context_assembler.values.draft import Draft, Parameters
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Base64Source,
    Document,
    Image,
    Opaque,
    Part,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from context_assembler.values.tools import ToolSpec

COUNTERS: dict[str, TokenCounter] = {
    encoding: ModelTokenCounter(
        ModelLimits(id="m", provider="openai", window_tokens=1_000, encoding=encoding)
    )
    for encoding in (*TOKEN_COUNTERS, "unheard-of")
}
REGISTRY = ModelRegistry(overrides=[])
ROWS = {model_id: REGISTRY.get(model_id) for model_id in ("gpt-4o", "gpt-6.2-sol")}
every_counter = pytest.mark.parametrize("counter", COUNTERS.values(), ids=COUNTERS.keys())
moderate = settings(max_examples=25, deadline=None)

any_text = st.text(st.characters(), max_size=60)
words = st.text(st.sampled_from("ab C1é字🎉.,'\n\t "), min_size=1, max_size=60)
scalars = st.none() | st.booleans() | st.integers() | any_text
json_objects = st.dictionaries(any_text, scalars | st.lists(scalars, max_size=3), max_size=3)
texts = st.builds(Text, words)
images = st.builds(
    Image,
    source=st.builds(Base64Source, media_type=st.just("image/png"), data=st.just("iVBORw0KGgo=")),
)
documents = st.builds(
    Document,
    source=st.builds(Base64Source, media_type=st.just("application/pdf"), data=st.just("JVBERi0=")),
    title=st.none() | words,
)
result_parts: st.SearchStrategy[ResultPart] = st.one_of(texts, images, documents)
names = st.from_regex(r"[a-z][a-z_]{0,30}", fullmatch=True)
calls = st.builds(
    ToolCall,
    call_id=st.just("c"),
    name=names,
    arguments=json_objects,
    arguments_json=st.none() | json_objects.map(json.dumps) | st.just('{"cut off'),
)
results = st.builds(
    ToolResult,
    call_id=st.just("c"),
    content=st.lists(result_parts, max_size=3).map(tuple),
    is_error=st.booleans(),
    tool_name=names,
)
user_parts: st.SearchStrategy[Part] = st.one_of(texts, images, documents)
model_parts: st.SearchStrategy[Part] = st.one_of(
    texts,
    calls,
    st.builds(Thinking, text=words),
    st.builds(Opaque, provider=st.just("x"), block=json_objects, text=words),
)
messages = st.one_of(
    st.builds(
        Message,
        role=st.just("user"),
        parts=st.lists(user_parts, max_size=4).map(tuple),
        kind=st.sampled_from(["said", "marker", "note"]),
    ),
    st.builds(Message, role=st.just("user"), parts=st.tuples(texts), kind=st.just("summary")),
    st.builds(
        Message, role=st.just("assistant"), parts=st.lists(model_parts, max_size=4).map(tuple)
    ),
    st.builds(
        Message,
        role=st.just("tool"),
        parts=st.lists(results, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(
        Message,
        role=st.just("system"),
        parts=st.tuples(texts),
        origin=st.sampled_from(["developer", "memory"]),
    ),
)


@every_counter
@given(text=any_text)
@moderate
def test_any_text_has_a_count_that_stays(counter: TokenCounter, text: str) -> None:
    tokens = counter.count_text(text)

    assert tokens == counter.count_text(text)
    assert bool(tokens) == bool(text)


@every_counter
@given(message=messages)
@moderate
def test_a_message_costs_at_least_what_an_empty_one_does(
    counter: TokenCounter, message: Message
) -> None:
    empty = replace(message, parts=())

    assert counter.count_message(message) >= counter.count_message(empty) >= 0


@every_counter
@given(message=messages, part=user_parts)
@moderate
def test_a_part_more_costs_more(counter: TokenCounter, message: Message, part: Part) -> None:
    longer = Message(role=message.role, parts=(*message.parts, part), kind=message.kind)

    assert counter.count_message(longer) > counter.count_message(message)


@every_counter
@given(message=messages)
@moderate
def test_equal_messages_cost_the_same(counter: TokenCounter, message: Message) -> None:
    twin = Message(
        role=message.role, parts=message.parts, kind=message.kind, origin=message.origin, id="other"
    )

    assert counter.count_message(twin) == counter.count_message(message)


@every_counter
@given(text=any_text)
@moderate
def test_a_system_prompt_costs_more_than_its_text(counter: TokenCounter, text: str) -> None:
    assert bool(counter.count_system(text)) == bool(text)
    assert counter.count_system(text) >= counter.count_text(text)


@every_counter
@given(name=names, description=any_text, schema=json_objects)
@moderate
def test_a_tool_has_a_cost_and_having_tools_too(
    counter: TokenCounter, name: str, description: str, schema: dict[str, Any]
) -> None:
    tool = ToolSpec(name=name, description=description, input_schema=schema)

    assert counter.count_tool(tool) > 0
    assert counter.count_tools_overhead([tool]) >= counter.count_tools_overhead([]) == 0


# What a request costs by itself: 3 in OpenAI's cookbook; models that reason are charged 2.
REQUEST_TOKENS = {"gpt-4o": 3, "gpt-6.2-sol": 2}


def chat_tokens(payload: dict[str, Any], *, request_tokens: int) -> int:
    """Count as OpenAI's cookbook does: 4 per message, 3 per call, and the texts."""
    total = request_tokens
    for message in payload["messages"]:
        content = message.get("content") or ""
        parts = [content] if isinstance(content, str) else [p.get("text", "") for p in content]
        total += 4 + sum(count_bpe(text, encoding="o200k_base") for text in parts)
        for call in message.get("tool_calls", ()):
            function = call["function"]
            total += 3 + count_bpe(function["name"], encoding="o200k_base")
            total += count_bpe(function["arguments"], encoding="o200k_base")
    return total


@pytest.mark.parametrize("model_id", ROWS)
@given(message=messages)
@settings(max_examples=200, deadline=None)
def test_no_message_is_counted_below_what_chat_completions_gets(
    model_id: str, message: Message
) -> None:
    limits = ROWS[model_id]
    opening = Message(role="user", parts=(Text("Go."),))
    counter = counter_for(limits)
    draft = Draft(
        limits=limits,
        parameters=Parameters(max_tokens=1_000),
        messages=(opening, message),
    )

    draft, _ = OPENAI_CHAT.adapt(draft)  # as it is before anything is counted
    payload = render(draft)

    counted = sum(map(counter.count_message, draft.messages)) + counter.request_overhead_tokens
    assert counted >= chat_tokens(payload, request_tokens=REQUEST_TOKENS[model_id])
