import base64
import random
import threading
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.limits import ModelRegistry
from context_assembler.testing import WordCounter
from context_assembler.tokens import (
    FRAMES,
    CountingMode,
    CountOnce,
    ModelTokenCounter,
    TokenCounter,
    counter_for,
)
from context_assembler.values.message_counts import count_each
from context_assembler.values.messages import Message, MessageKind, Role
from context_assembler.values.parts import (
    Base64Source,
    Document,
    Image,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)
from context_assembler.values.texts.fences import fence
from context_assembler.values.tools import ToolChoice, ToolSpec

REGISTRY = ModelRegistry(overrides=[])
GPT = counter_for(REGISTRY.get("gpt-4o"))
CLAUDE = counter_for(REGISTRY.get("claude-opus-5-5"))

NOISE = base64.b64encode(random.Random(7).randbytes(90_000)).decode()
PICTURE = Image(source=Base64Source(media_type="image/png", data=NOISE))
PDF = Document(source=UrlSource(url="https://example.org/a.pdf"), page_count=3, title="Hello")
NOTES = Document(source=UrlSource(url="https://example.org/a.txt"), text="Hello there")


def message(*parts: Part, role: Role = "user", kind: MessageKind = "said") -> Message:
    return Message(role=role, parts=parts, kind=kind)


def call(arguments_json: str | None = None, **arguments: str) -> ToolCall:
    return ToolCall(call_id="c1", name="look", arguments=arguments, arguments_json=arguments_json)


def result(*texts: str, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id="c1", content=tuple(map(Text, texts)), is_error=is_error)


# Each text here is one token: "Hello", "look", "{}", "yes".
COSTS: dict[str, tuple[Message, int]] = {
    "a text": (message(Text("Hello")), 4 + 1),
    "no parts": (message(), 4),
    "two texts and their joint": (message(Text("Hello"), Text("Hello")), 4 + 1 + 1 + 1),
    "a call, its name read twice": (message(call(), role="assistant"), 9 + 2 + 1),
    "a call as the model spelled it": (message(call("{}"), role="assistant"), 9 + 2 + 1),
    "a call behind a text": (message(Text("Hello"), call(), role="assistant"), 4 + 1 + 9 + 2 + 1),
    "two calls at once, each name read once": (
        message(call(), call(), role="assistant"),
        22 + 2 * 4 + 2 * 2,
    ),
    "a result": (message(result("yes"), role="tool"), 4 + 1),
    "two results are two messages of quoted text": (
        message(result("yes"), result("yes"), role="tool"),
        2 * (4 + 1 + 2),
    ),
    "a result beside text": (message(result("yes"), Text("Hello")), 4 + 4 + 1 + 1),
    "a result of two texts": (message(result("yes", "yes"), role="tool"), 4 + 1 + 1 + 1),
    "an empty result": (message(result(), role="tool"), 4 + 3),
    "a blank result": (message(result(" "), role="tool"), 4 + 3),
    "a failure": (message(result("yes", is_error=True), role="tool"), 4 + 10 + 1),
    "a summary in its fence": (message(Text("Hello"), kind="summary"), 4 + 16 + 1),
    "a system message": (message(Text("Hello"), role="system"), 4 + 16 + 1),
    "readable thinking, which no model takes back": (
        message(Thinking(text="Hello"), role="assistant"),
        4,
    ),
    "reasoning that the vendor kept": (
        message(Thinking(text="Hello", block={"type": "reasoning"}), role="assistant"),
        4,
    ),
    "a document by page": (message(PDF), 4 + 1 + 3 * 2_000),
    "a document with its text": (message(NOTES), 4 + 2),
}


@pytest.mark.parametrize(("given", "tokens"), COSTS.values(), ids=COSTS.keys())
def test_a_message_costs_its_parts_and_frame(given: Message, tokens: int) -> None:
    assert GPT.count_message(given) == tokens


BLIND = counter_for(replace(REGISTRY.get("gpt-4o"), features={"vision": False, "pdf": False}))


@pytest.mark.parametrize("part", [PICTURE, PDF])
def test_what_the_model_does_not_take_costs_the_line_that_names_it(part: Part) -> None:
    assert BLIND.count_message(message(part)) <= 4 + 1 + 80 < GPT.count_message(message(part))


def test_a_document_of_text_costs_its_text_however_it_is_carried() -> None:
    text = "日本語" * 5_000
    data = base64.b64encode(text.encode()).decode()
    document = Document(source=Base64Source(media_type="text/plain", data=data))

    assert GPT.count_message(message(document)) == GPT.count_message(message(Text(text)))


@pytest.mark.parametrize(
    ("role", "kind", "tag"), [("user", "summary", "summary"), ("system", "note", "system-reminder")]
)
def test_text_between_tags_costs_what_it_is_escaped_to(
    role: Role, kind: MessageKind, tag: str
) -> None:
    text = f"<{tag}>" * 5_000

    tokens = GPT.count_message(message(Text(text), role=role, kind=kind))

    assert tokens >= GPT.count_text(fence(tag, text)) > 1.5 * GPT.count_text(text)


def test_an_image_is_never_counted_as_text() -> None:
    for counter in (GPT, CLAUDE):
        assert 0 < counter.count_message(message(PICTURE)) < 5_000


def test_an_image_that_a_tool_returned_costs_a_message_more() -> None:
    seen = message(ToolResult(call_id="c1", content=(PICTURE,)), role="tool")

    assert GPT.count_message(seen) == GPT.count_message(message(PICTURE)) + 48


def test_base64_in_text_is_counted_as_text() -> None:
    for counter in (GPT, CLAUDE):
        tokens = counter.count_message(message(result(NOISE), role="tool"))

        assert 0.5 < tokens / len(NOISE) < 1.1


def test_hidden_thinking_is_estimated_from_its_signature() -> None:
    block = {"type": "thinking", "thinking": "", "signature": NOISE[:1_000], "extra": [1, None]}
    hidden = Thinking(provider="anthropic", block=block)

    assert CLAUDE.count_message(message(hidden, role="assistant")) == 200


def test_encrypted_reasoning_costs_more_than_its_summary() -> None:
    block = {"type": "reasoning", "encrypted_content": "gAAAA" * 1000}
    sealed = Thinking(text="Read first.", provider="openai_responses", block=block)
    bare = replace(sealed, text="")

    assert GPT.count_message(message(sealed, role="assistant")) == GPT.count_message(
        message(bare, role="assistant")
    )
    assert GPT.count_message(message(sealed, role="assistant")) > 100


def test_hidden_thinking_without_text_costs_nothing() -> None:
    hidden = Thinking(provider="anthropic", block={"n": 1})

    assert CLAUDE.count_message(message(hidden, role="assistant")) == 0


def test_an_opaque_block_costs_what_is_visible_and_a_share_of_what_is_not() -> None:
    plain = Opaque(provider="x", block={"type": "search", "note": "Hello"})
    sealed = Opaque(provider="x", block={"type": "search", "note": "Hello", "data": NOISE[:1_000]})

    visible, both = (GPT.count_message(message(part)) for part in (plain, sealed))

    assert visible + 200 <= both <= visible + 210


def test_an_image_inside_an_opaque_block_is_not_counted_as_text() -> None:
    sealed = Opaque(provider="x", block={"type": "screenshot", "data": NOISE})

    assert GPT.count_message(message(sealed)) < 5_000


def test_an_opaque_block_costs_at_least_its_text() -> None:
    shown = Opaque(provider="x", block={}, text="Hello there, how are you?")

    assert GPT.count_message(message(shown)) == 4 + GPT.count_text(shown.text)


def test_arguments_of_any_kind_are_counted() -> None:
    odd = ToolCall(call_id="c1", name="look", arguments={"a": {1, 2}, "b": object()})

    assert GPT.count_message(message(odd, role="assistant")) > 4


def test_a_mapping_that_is_no_dict_is_counted_as_the_object_it_is() -> None:
    frozen = ToolCall(call_id="c1", name="look", arguments=MappingProxyType({"a": 1}))
    nested = ToolCall(call_id="c1", name="look", arguments={"b": MappingProxyType({"a": 1})})

    counts = [GPT.count_message(message(part, role="assistant")) for part in (frozen, nested)]

    assert counts[0] < counts[1]


def test_a_summary_that_a_provider_wrote_costs_its_block_not_its_twin_as_well() -> None:
    block = Opaque(provider="anthropic", block={"type": "compaction"}, text="Hello")

    both = message(Text("Hello"), block, kind="summary")

    assert GPT.count_message(both) < GPT.count_message(message(block, Text("Hello"))) + 16


def test_a_system_prompt_costs_a_message_and_none_costs_nothing() -> None:
    assert GPT.count_system("Hello") == 5
    assert GPT.count_system("") == 0
    assert GPT.count_text("") == 0


def test_a_tool_costs_its_definition_in_the_form_the_model_reads() -> None:
    spec = ToolSpec(
        name="look", description="Look.", input_schema={"type": "object", "properties": {}}
    )

    assert GPT.count_tool(spec) == GPT.count_text("// Look.\ntype look = () => any;\n\n") - 1
    assert CLAUDE.count_tool(spec) > GPT.count_tool(spec)


def test_a_native_tool_costs_its_own_spec_where_it_exists() -> None:
    claude = ToolSpec(name="web", native_specs={"anthropic": {"type": "web_search_20260901"}})
    chat = ToolSpec(name="shell", native_specs={"openai_chat": {"type": "custom"}})

    assert CLAUDE.count_tool(claude) > FRAMES["claude"].tool
    responses = ToolSpec(name="web", native_specs={"openai_responses": {"type": "web_search"}})

    assert GPT.count_tool(chat) > 0
    assert GPT.count_tool(responses) > 0
    assert GPT.count_tool(claude) == CLAUDE.count_tool(chat) == 0


OVERHEADS = {
    "gpt-4o": 17,
    "gpt-5": 98,
    "gpt-6.2-sol": 98,
    "claude-opus-5": 286,
    "claude-opus-4-7": 675,
    "claude-opus-5-5": 354,
    "claude-3-haiku": 497,
    "gemini-4-argon": 9,
    "grok-4.7": 24,
}


@pytest.mark.parametrize(("model_id", "tokens"), OVERHEADS.items())
def test_having_tools_costs_once(model_id: str, tokens: int) -> None:
    counter = counter_for(REGISTRY.get(model_id))
    tools = [ToolSpec(name="a"), ToolSpec(name="b")]

    assert counter.count_tools_overhead(tools) == tokens
    assert counter.count_tools_overhead([]) == 0


CHOSEN: dict[tuple[str, CountingMode], tuple[str, bool]] = {
    ("gpt-4o", "auto"): ("o200k_base", True),
    ("gpt-4o", "exact"): ("o200k_base", True),
    ("gpt-4o", "estimate"): ("~o200k", False),
    ("gpt-4", "auto"): ("cl100k_base", True),
    ("gpt-oss-20b", "auto"): ("o200k_base", True),
    ("claude-opus-5-5", "auto"): ("~claude_v48", False),
    ("claude-opus-4-6", "estimate"): ("~claude_v3", False),
    ("gemini-2.5-pro", "auto"): ("~gemma3", False),
    ("grok-4.7", "auto"): ("~o200k", False),
}


@pytest.mark.parametrize(("asked", "chosen"), CHOSEN.items())
def test_the_counter_says_how_it_counts(
    asked: tuple[str, CountingMode], chosen: tuple[str, bool]
) -> None:
    model_id, mode = asked

    counter = counter_for(REGISTRY.get(model_id), mode=mode)

    assert (counter.name, counter.is_exact) == chosen


def test_insisting_on_a_vocabulary_that_is_not_public_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="not public") as caught:
        counter_for(REGISTRY.get("claude-opus-5-5"), mode="exact")

    assert "auto" in caught.value.remedy


def test_an_unknown_mode_names_the_nearest() -> None:
    misspelt: Any = "estimated"

    with pytest.raises(UnknownOptionError, match="estimate"):
        counter_for(REGISTRY.get("gpt-4o"), mode=misspelt)


def test_models_that_count_alike_share_a_counter() -> None:
    assert counter_for(REGISTRY.get("openai/gpt-4o")) is GPT
    assert counter_for(REGISTRY.get("gpt-4.1")) is GPT
    assert counter_for(REGISTRY.get("gpt-4o"), mode="estimate") is not GPT
    assert TokenCounter is ModelTokenCounter


def test_however_many_kinds_of_models_there_are_each_gets_its_counter() -> None:
    base = REGISTRY.get("gpt-4o")

    counters = [
        counter_for(replace(base, tool_prompt_tokens=tokens), mode="estimate")
        for tokens in range(100)
    ]

    overheads = [counter.count_tools_overhead([ToolSpec(name="a")]) for counter in counters]
    assert overheads == list(range(100))


def test_a_frame_that_the_row_names_wins() -> None:
    limits = replace(REGISTRY.get("gpt-4o"), token_frame="openai-5")

    assert counter_for(limits).count_message(message(call(), role="assistant")) == 15 + 2 + 1


FRAMED: dict[str, tuple[str, str | None, int, int, int]] = {
    "GPT-4o in Chat Completions": ("gpt-4o", None, 3, 4, 17),
    "GPT-4o in Responses": ("gpt-4o", "openai_responses", 3, 4, 10),
    "GPT-5 in Chat Completions": ("gpt-5", "openai_chat", 2, 4, 98),
    "GPT-5 in Responses": ("gpt-5", "openai_responses", 2, 4, 16),
    "Claude frames no system prompt": ("claude-opus-5-5", "anthropic", 1, 0, 354),
    "o3 in Chat Completions": ("o3", None, 2, 4, 17),
    "o3 in Responses": ("o3", "openai_responses", 2, 4, 10),
    "Gemini frames each text by one": ("gemini-2.5-pro", "gemini", 0, 1, 9),
    "Gemini on Vertex AI": ("vertex_ai/gemini-2.5-pro", "gemini", 0, 0, 0),
}


@pytest.mark.parametrize(
    ("model_id", "protocol", "request_tokens", "system_tokens", "tools_tokens"),
    FRAMED.values(),
    ids=FRAMED.keys(),
)
def test_the_same_model_is_framed_differently_in_another_protocol(
    model_id: str, protocol: str | None, request_tokens: int, system_tokens: int, tools_tokens: int
) -> None:
    counter = counter_for(REGISTRY.get(model_id), protocol=protocol)

    assert counter.request_overhead_tokens == request_tokens
    assert counter.count_system("Hello") == counter.count_text("Hello") + system_tokens
    assert counter.count_tools_overhead([ToolSpec(name="look")]) == tools_tokens


def test_a_reply_in_responses_costs_its_channel_as_well() -> None:
    counter = counter_for(REGISTRY.get("gpt-5"), protocol="openai_responses")
    answer = message(Text("Hello"), role="assistant")

    assert counter.count_message(answer) == counter.count_message(message(Text("Hello"))) + 2


def test_gemini_on_vertex_reads_the_words_of_a_definition_alone() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"at": {"type": "string"}}}
    spec = ToolSpec(name="look", description="Look.", input_schema=schema)
    direct, vertex = (
        counter_for(REGISTRY.get(model_id), protocol="gemini")
        for model_id in ("gemini-2.5-pro", "vertex_ai/gemini-2.5-pro")
    )

    words_tokens = sum(map(vertex.count_text, ["look", "Look.", "at"]))

    assert vertex.count_tool(spec) == words_tokens + 1 + 1
    assert direct.count_tool(spec) == words_tokens + 8 + 10


def test_gemini_frames_each_message_but_nothing_between_its_texts() -> None:
    direct, vertex = (
        counter_for(REGISTRY.get(model_id), protocol="gemini")
        for model_id in ("gemini-2.5-pro", "vertex_ai/gemini-2.5-pro")
    )
    texts = ("What is 2+2?", "And 3+3?")
    words_tokens = sum(map(direct.count_text, texts))

    for role in ("user", "assistant"):
        said = message(*map(Text, texts), role=role)
        assert direct.count_message(said) == words_tokens + 1
        assert vertex.count_message(said) == words_tokens


WORDS = counter_for(REGISTRY.get("gemini-2.0-flash"))
ANSWERS: dict[str, tuple[ToolResult, list[str]]] = {
    "a text": (result("yes"), ["output", "yes"]),
    "a failure": (result("yes", is_error=True), ["error", "yes"]),
    "an object": (result('{"a":{"b":[1,"c"]}}'), ["a", "b", "1", "c"]),
}


@pytest.mark.parametrize(("answer", "words"), ANSWERS.values(), ids=ANSWERS.keys())
def test_gemini_before_it_could_think_reads_the_words_of_a_result(
    answer: ToolResult, words: list[str]
) -> None:
    assert WORDS.count_message(message(answer, role="tool")) == sum(map(WORDS.count_text, words))


def test_gemini_before_it_could_think_reads_the_words_of_a_call() -> None:
    asked = WORDS.count_message(message(call(city="Rome"), role="assistant"))

    assert asked == sum(map(WORDS.count_text, ("look", "look", "city", "Rome")))


def test_a_picture_among_words_costs_what_it_costs() -> None:
    shown = message(ToolResult(call_id="c1", content=(Text("yes"), PICTURE)), role="tool")

    assert WORDS.count_message(shown) > WORDS.count_message(message(PICTURE))


def test_claude_reads_each_argument_by_itself() -> None:
    one, three = (
        CLAUDE.count_message(message(call(**arguments), role="assistant"))
        for arguments in ({"a": "b"}, {"a": "b", "c": "d", "e": "f"})
    )

    pair_tokens = CLAUDE.count_text("a") + CLAUDE.count_text("b")
    assert one == 18 + CLAUDE.count_text("look") + 21 + pair_tokens
    assert three > one + 2 * 21


def test_claude_reads_arguments_that_are_no_text_as_json() -> None:
    nested = ToolCall(call_id="c1", name="look", arguments={"a": [1, 2]}, arguments_json='{"a":[1')

    tokens = CLAUDE.count_message(message(nested, role="assistant"))

    expected = sum(map(CLAUDE.count_text, ("look", "a", "[1,2]")))
    assert tokens == 18 + 21 + expected


def test_claude_charges_several_calls_at_once_more() -> None:
    one, two = (
        CLAUDE.count_message(message(*calls, role="assistant"))
        for calls in ((call(),), (call(), call()))
    )

    assert two == 2 * one + 37


def test_claude_frames_a_document_of_text() -> None:
    bare = replace(NOTES, title=None)

    assert CLAUDE.count_message(message(bare)) == 6 + 48 + CLAUDE.count_text("Hello there")


def test_a_pdf_whose_text_is_known_to_be_short_costs_its_picture_and_that() -> None:
    content = b"%PDF-1.4 << /Type /Page >> (Hello)"
    data, packed = (
        base64.b64encode(text).decode() for text in (content, content + b" /Filter /FlateDecode")
    )
    short, unknown = (
        Document(source=Base64Source(media_type="application/pdf", data=one))
        for one in (data, packed)
    )

    assert CLAUDE.count_message(message(short)) == 6 + 1_568 + len(content) // 3
    assert CLAUDE.count_message(message(unknown)) == 6 + 3_000
    assert GPT.count_message(message(short)) == 4 + 2_000


RESPONSES = counter_for(REGISTRY.get("gpt-4o"), protocol="openai_responses")


def test_a_call_that_goes_back_under_its_id_costs_more_when_it_is_alone() -> None:
    own = replace(call(), extras={"openai_responses": {"id": "fc_1"}})
    alone, kept, both = (
        RESPONSES.count_message(message(*calls, role="assistant"))
        for calls in ((call(),), (own,), (own, own))
    )

    assert (alone, kept, both) == (7 + 3, 7 + 3 + 3, 2 * (7 + 3))


TOOLS = [ToolSpec(name="look")]
CHOICES: dict[str, tuple[str, str, bool, ToolChoice | None, int]] = {
    "Chat Completions beside a system prompt": ("gpt-4o", "openai_chat", True, None, 17 - 5),
    "Responses beside a system prompt": ("gpt-4o", "openai_responses", True, None, 10),
    "Responses, any tool": ("gpt-4o", "openai_responses", False, ToolChoice(mode="any"), 10 + 8),
    "Responses, one call at a time": (
        "gpt-5",
        "openai_responses",
        False,
        ToolChoice(allows_parallel=False),
        16 + 78,
    ),
    "several are allowed": (
        "gpt-5",
        "openai_responses",
        False,
        ToolChoice(allows_parallel=True),
        16,
    ),
    "Chat Completions, one call at a time": (
        "gpt-5",
        "openai_chat",
        False,
        ToolChoice(allows_parallel=False),
        98,
    ),
}


@pytest.mark.parametrize(
    ("model_id", "protocol", "has_system", "choice", "tokens"), CHOICES.values(), ids=CHOICES.keys()
)
def test_what_is_asked_of_the_model_costs_beside_its_tools(
    model_id: str, protocol: str, has_system: bool, choice: ToolChoice | None, tokens: int
) -> None:
    counter = counter_for(REGISTRY.get(model_id), protocol=protocol)

    counted = [
        one.count_tools_overhead(TOOLS, has_system=has_system, choice=choice)
        for one in (counter, CountOnce(counter))
    ]

    assert counted == [tokens, tokens]


def test_a_block_that_brings_tools_costs_more_than_its_text() -> None:
    tools = Opaque(provider="openai_responses", block={"type": "additional_tools", "tools": []})
    other = Opaque(provider="openai_responses", block={"type": "addition_of_tools", "tools": []})

    more = [RESPONSES.count_message(message(part, role="system")) for part in (tools, other)]

    assert more[0] - more[1] == pytest.approx(55, abs=3)


SIGNED: dict[str, tuple[str, int]] = {
    "Gemini 2.5 itself": ("gemini-2.5-pro", 0),
    "Gemini 2.5 on Vertex AI": ("vertex_ai/gemini-2.5-pro", 102),
    "Gemini 3": ("gemini-3-flash-preview", 120),
    "Gemini 3 on Vertex AI": ("vertex_ai/gemini-3-flash-preview", 0),
    "a model that is never sent one": ("claude-opus-5-5", 0),
}


@pytest.mark.parametrize(("model_id", "read_tokens"), SIGNED.values(), ids=SIGNED.keys())
def test_a_signature_costs_the_reasoning_that_is_read_from_it(
    model_id: str, read_tokens: int
) -> None:
    counter = counter_for(REGISTRY.get(model_id))
    bare, signed = call(), replace(call(), signature="x" * 720)

    counted = [counter.count_message(message(part, role="assistant")) for part in (bare, signed)]

    assert counted[1] - counted[0] == read_tokens


def test_a_signature_that_hides_nothing_costs_nothing() -> None:
    counter = counter_for(REGISTRY.get("gemini-3-flash-preview"))
    bare, *signed = (replace(call(), signature=sign) for sign in (None, "x" * 20, "x" * 44))

    counts = {counter.count_message(message(part, role="assistant")) for part in (bare, *signed)}

    assert len(counts) == 1


def test_a_vendors_own_tool_costs_its_hidden_definition() -> None:
    search = ToolSpec(name="web", native_specs={"anthropic": {"type": "web_search_20250305"}})
    unknown = ToolSpec(name="new", native_specs={"anthropic": {"type": "brand_new_20270101"}})
    odd = ToolSpec(name="odd", native_specs={"anthropic": {"type": 7}})

    assert CLAUDE.count_tool(search) == 1_670
    assert 0 < CLAUDE.count_tool(unknown) < 100
    assert 0 < CLAUDE.count_tool(odd) < 100


def test_encrypted_reasoning_is_fitted_to_what_openai_charged() -> None:
    def tokens(chars: int) -> int:
        block = {"type": "reasoning", "encrypted_content": "x" * chars}
        sealed = Thinking(provider="openai_responses", block=block)
        return GPT.count_message(message(sealed, role="assistant")) - 4

    assert tokens(800) == 0
    assert tokens(2_212) == pytest.approx(178, rel=0.15)
    assert tokens(9_572) == pytest.approx(1_811, rel=0.07)
    assert tokens(10_788) == pytest.approx(1_970, rel=0.06)
    assert tokens(400_000) < 400_000 / 4.7


class CountedTexts:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, text: str) -> int:
        self.asked += 1
        return len(text)


def test_a_message_is_counted_once_in_one_call() -> None:
    counter, texts = ModelTokenCounter(REGISTRY.get("gpt-4o")), CountedTexts()
    counter._count = texts
    once = CountOnce(counter)
    said = message(Text("Hello"))

    counts = [once.count_message(said) for _ in range(5)]

    assert (len(set(counts)), texts.asked) == (1, 1)


def test_two_counters_that_take_turns_count_a_message_once_each() -> None:
    texts = CountedTexts()
    counters = [ModelTokenCounter(REGISTRY.get(name)) for name in ("gpt-4o", "claude-opus-5-5")]
    said = message(Text("Hello"))

    counts = [counters[turn % 2].count_message(said) for turn in range(6)]
    for counter in counters:
        counter._count = texts
    again = [counters[turn % 2].count_message(said) for turn in range(6)]

    assert (again, texts.asked) == (counts, 0)


def test_counting_once_keeps_the_counts_of_a_counter_that_keeps_none() -> None:
    class Plain(WordCounter):
        asked = 0

        def count_message(self, message: Message) -> int:
            Plain.asked += 1
            return super().count_message(message)

    once, said = CountOnce(Plain()), message(Text("Hello"))

    assert [count_each([said], once) for _ in range(3)] == [[1]] * 3
    assert Plain.asked == 1


def test_counting_once_counts_as_the_counter_does() -> None:
    counter = ModelTokenCounter(REGISTRY.get("gpt-4o"))
    once = CountOnce(counter)
    tool = ToolSpec(name="a", description="b")

    assert once.count_text("Hello") == counter.count_text("Hello")
    assert once.count_system("Hello") == counter.count_system("Hello")
    assert once.count_tool(tool) == counter.count_tool(tool)
    assert once.count_tools_overhead([tool]) == counter.count_tools_overhead([tool])
    assert (once.name, once.is_exact) == (counter.name, counter.is_exact)


def test_a_long_text_is_counted_once_wherever_it_stands() -> None:
    counter, texts = ModelTokenCounter(REGISTRY.get("gpt-4o")), CountedTexts()
    counter._count = texts
    long = "x" * 1_000

    counter.count_message(message(Text(long)))
    counter.count_message(message(result(long), role="tool"))
    counter.count_system(long)

    assert texts.asked == 1


def test_an_unchanged_message_is_counted_once_in_all_calls() -> None:
    counter, texts = ModelTokenCounter(REGISTRY.get("gpt-4o")), CountedTexts()
    counter._count = texts
    said = [message(Text(f"Hello {i}")) for i in range(100)]

    sums = [sum(map(counter.count_message, said)) for _ in range(3)]

    assert (len(set(sums)), texts.asked) == (1, 100)


def test_messages_that_come_and_go_never_share_a_count() -> None:
    counter = ModelTokenCounter(REGISTRY.get("gpt-4o"), mode="estimate")

    counts = [counter.count_message(message(Text("a " * size))) for size in range(1, 400)]

    fresh = ModelTokenCounter(REGISTRY.get("gpt-4o"), mode="estimate")
    assert counts == [fresh.count_message(message(Text("a " * size))) for size in range(1, 400)]


def test_many_threads_may_count_with_one_counter() -> None:
    counter = ModelTokenCounter(REGISTRY.get("claude-opus-5-5"))
    talk = [message(Text(f"Hello {i} " * 100)) for i in range(200)]
    sums: list[int] = []

    def count(messages: Sequence[Message]) -> None:
        sums.append(sum(map(counter.count_message, messages)))

    threads = [threading.Thread(target=count, args=(talk,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(sums)) == 1
    assert len(sums) == 6


def test_each_piece_of_a_reply_is_an_item_of_its_own_in_responses() -> None:
    limits = REGISTRY.get("gpt-4o")
    chat, responses = counter_for(limits), counter_for(limits, protocol="openai_responses")
    whole = message(Text("Hello"), role="assistant")
    split = message(Text("Hello"), Text("Hello"), Text("Hello"), role="assistant")
    asked = message(Text("Hello"), Text("Hello"))

    grown = responses.count_message(split) - responses.count_message(whole)

    assert grown == 2 * (1 + FRAMES["openai/openai_responses"].message)
    assert chat.count_message(split) - chat.count_message(whole) == 2 * (1 + 1)
    assert responses.count_message(asked) == chat.count_message(asked)
