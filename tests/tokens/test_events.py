"""Counts of events, system prompts and tools: text, and what each vendor puts around it."""

import base64
import random
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.events import (
    Base64Source,
    Covers,
    Document,
    Image,
    Opaque,
    Part,
    SessionEvent,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
    body_of,
    kind_of,
)
from context_assembler.models import ModelRegistry
from context_assembler.ports import ToolChoice, ToolSpec
from context_assembler.tokens import (
    DEFAULT_FAMILIES,
    FRAMES,
    TokenCounter,
    family_by_key,
    family_for,
)

REGISTRY = ModelRegistry(overrides=[])
GPT = TokenCounter(REGISTRY.get("gpt-4o"))
RESPONSES = TokenCounter(REGISTRY.get("gpt-4o"), protocol="openai_responses")
CLAUDE = TokenCounter(REGISTRY.get("claude-opus-5-5"))
NOISE = base64.b64encode(random.Random(7).randbytes(90_000)).decode()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + random.Random(7).randbytes(90_000)).decode()
PICTURE = Image(source=Base64Source(media_type="image/png", data=PNG))
ELSEWHERE = UrlSource(url="https://example.org/a.pdf")
PDF = Document(source=ELSEWHERE, page_count=3, title="Hello")
NOTES = Document(source=UrlSource(url="https://example.org/a.txt"), text="Hello there")


def said(*parts: Part, type: Any = "user", **fields: Any) -> SessionEvent:
    return SessionEvent(type=type, parts=parts, **fields)


def reply(*parts: Part) -> SessionEvent:
    return said(*parts, type="assistant")


def system(text: str, **fields: Any) -> SessionEvent:
    return said(Text(text), type="system", **fields)


def summary(*parts: Part) -> SessionEvent:
    return said(*parts, type="compaction", covers=Covers(first_seq=1, last_seq=2))


def call(arguments_json: str | None = None, **arguments: Any) -> ToolCall:
    return ToolCall(call_id="c1", name="look", arguments=arguments, arguments_json=arguments_json)


def result(*texts: str, is_error: bool = False) -> SessionEvent:
    part = ToolResult(call_id="c1", content=tuple(map(Text, texts)), is_error=is_error)
    return said(part, type="tool_result")


# Each text here is one token: "Hello", "look", "{}", "yes".
COSTS: dict[str, tuple[SessionEvent, int]] = {
    "a text": (said(Text("Hello")), 4 + 1),
    "no parts": (said(), 4),
    "two texts and their joint": (said(Text("Hello"), Text("Hello")), 4 + 1 + 1 + 1),
    "a call, its name read twice": (reply(call()), 9 + 2 + 1),
    "a call after a text": (reply(Text("Hello"), call()), 4 + 1 + 9 + 2 + 1),
    "two calls at once, each name read once": (reply(call(), call()), 22 + 2 * 4 + 2 * 2),
    "a result": (result("yes"), 4 + 1),
    "a result of two texts": (result("yes", "yes"), 4 + 1 + 1 + 1),
    "an empty result": (result(), 4 + 3),
    "a failure": (result("yes", is_error=True), 4 + 10 + 1),
    "a summary in its fence": (summary(Text("Hello")), 4 + 32 + 1),
    "an instruction keeps its role": (system("Hello", origin="developer"), 4 + 1),
    "what memory says does not": (system("Hello", origin="memory"), 4 + 32 + 1),
    "readable thinking, which no model takes back": (reply(Thinking(text="Hello")), 4),
    "reasoning that the vendor kept": (
        reply(Thinking(text="Hello", block={"type": "reasoning"})),
        4,
    ),
    "a document with its text": (said(NOTES), 4 + 2),
    "an opaque block that says little": (
        said(Opaque(provider="x", block={}, text="Hello there, how are you?")),
        4 + 7,
    ),
}


@pytest.mark.parametrize(("event", "tokens"), COSTS.values(), ids=COSTS.keys())
def test_an_event_costs_its_parts_and_frame(event: SessionEvent, tokens: int) -> None:
    assert GPT.count_message(event) == tokens
    assert GPT.count_messages([event, event]) == GPT.request_tokens + 2 * tokens


def test_reasoning_is_counted_apart_and_adds_up() -> None:
    block = {"type": "thinking", "thinking": "", "signature": NOISE[:1_000]}
    whole = reply(Thinking(provider="anthropic", block=block), Text("Hello"))
    body, bare = body_of(whole), reply(Text("Hello"))

    event_tokens = CLAUDE.count_event(kind_of("assistant", body), body)

    assert event_tokens == CLAUDE.count_message(bare)
    assert CLAUDE.count_reasoning(body) == 200 + 1
    assert CLAUDE.count_message(whole) == event_tokens + 201


def test_encrypted_reasoning_is_fitted_to_what_openai_charged() -> None:
    def tokens(chars: int, text: str = "") -> int:
        block = {"type": "reasoning", "encrypted_content": "x" * chars}
        sealed = Thinking(text=text, provider="openai_responses", block=block)
        return GPT.count_message(reply(sealed)) - 4

    assert tokens(800) == 0
    assert tokens(2_212) == pytest.approx(178, rel=0.15)
    assert tokens(9_572) == pytest.approx(1_811, rel=0.07)
    assert tokens(9_572, "Read first.") == tokens(9_572)
    assert tokens(400_000) < 400_000 / 4.7


SIGNED = {
    "gemini-2.5-pro": 0,
    "vertex_ai/gemini-2.5-pro": 102,
    "gemini-3-flash-preview": 120,
    "vertex_ai/gemini-3-flash-preview": 0,
    "claude-opus-5-5": 0,
}


@pytest.mark.parametrize(("model", "tokens"), SIGNED.items())
def test_a_signature_costs_the_reasoning_that_is_read_from_it(model: str, tokens: int) -> None:
    counter = TokenCounter(REGISTRY.get(model))
    bare, short, signed = (
        reply(ToolCall(call_id="c", name="look", signature=sign))
        for sign in (None, "x" * 44, "x" * 720)
    )

    counts = [counter.count_message(event) for event in (bare, short, signed)]

    assert counts == [counts[0], counts[0], counts[0] + tokens]


@pytest.mark.parametrize("tag", ["summary", "system-reminder"])
def test_text_between_tags_costs_what_it_is_escaped_to(tag: str) -> None:
    text = f"<{tag}>" * 5_000
    event = summary(Text(text)) if tag == "summary" else system(text, origin="memory")

    assert GPT.count_message(event) > 1.3 * GPT.count_text(text)


def test_a_summary_costs_the_blocks_of_who_can_read_them_or_its_text() -> None:
    block = Opaque(provider="anthropic", block={"type": "compaction", "content": "a b c " * 50})
    both = summary(Text("Hello"), block)

    assert GPT.count_message(both) == GPT.count_message(summary(Text("Hello")))
    assert CLAUDE.count_message(both) > CLAUDE.count_message(summary(Text("Hello"))) + 100


def test_media_is_never_counted_as_text_but_base64_in_text_is() -> None:
    sealed = Opaque(provider="x", block={"type": "screenshot", "data": NOISE})
    seen = said(ToolResult(call_id="c1", content=(PICTURE,)), type="tool_result")

    for counter in (GPT, CLAUDE):
        assert 0 < counter.count_message(said(PICTURE)) < 5_000
        assert 0 < counter.count_message(said(sealed)) < 5_000
        assert 0.5 < counter.count_message(result(NOISE)) / len(NOISE) < 1.1
    assert GPT.count_message(seen) == GPT.count_message(said(PICTURE)) + 48


@pytest.mark.parametrize("part", [PICTURE, PDF])
def test_what_the_model_does_not_take_costs_the_line_that_names_it(part: Part) -> None:
    limits = REGISTRY.get("gpt-4o")._replace(features={"vision": False, "pdf": False})

    assert 4 + 10 < TokenCounter(limits).count_message(said(part)) < 4 + 80


def test_many_arguments_are_counted_as_one_text() -> None:
    few, many = ({f"key{i}": "Hello" for i in range(n)} for n in (64, 65))

    counts = [CLAUDE.count_message(reply(call(**arguments))) for arguments in (few, many)]

    assert counts[1] == pytest.approx(counts[0] * 65 / 64, rel=0.25)


# ---- frames ----


def test_claude_reads_each_argument_by_itself_and_charges_several_calls_more() -> None:
    pair, name = CLAUDE.count_text("a") + CLAUDE.count_text("b"), CLAUDE.count_text("look")
    nested = call('{"a":[1', a=[1, 2])

    assert CLAUDE.count_message(reply(call(a="b"))) == 18 + name + 21 + pair
    assert CLAUDE.count_message(reply(call(), call())) == 2 * (18 + name) + 37
    assert CLAUDE.count_message(reply(nested)) == 18 + 21 + name + sum(
        map(CLAUDE.count_text, ("a", "[1,2]"))
    )
    assert CLAUDE.count_message(said(NOTES)) == 6 + 48 + CLAUDE.count_text("Hello there")


FRAMED: dict[str, tuple[str, str | None, int, int, int]] = {
    "GPT-4o in Chat Completions": ("gpt-4o", None, 3, 4, 17),
    "GPT-5 in Chat Completions": ("gpt-5", "openai_chat", 2, 4, 98),
    "GPT-5 in Responses": ("gpt-5", "openai_responses", 2, 4, 16),
    "GPT-6 speaks Responses by itself": ("gpt-6.2-sol", None, 2, 4, 16),
    "Claude frames no system prompt": ("claude-opus-5-5", None, 1, 0, 354),
    "a row may state its tool prompt": ("claude-opus-5", None, 1, 0, 286),
    "Gemini frames each text by one": ("gemini-2.5-pro", None, 0, 1, 9),
    "Gemini on Vertex AI": ("vertex_ai/gemini-2.5-pro", None, 0, 0, 0),
    "others": ("grok-4.7", None, 3, 4, 24),
}


@pytest.mark.parametrize(
    ("model", "protocol", "request_tokens", "system_tokens", "tools_tokens"),
    FRAMED.values(),
    ids=FRAMED.keys(),
)
def test_a_model_is_framed_by_vendor_protocol_and_host(
    model: str, protocol: str | None, request_tokens: int, system_tokens: int, tools_tokens: int
) -> None:
    counter = family_for(REGISTRY.get(model), protocol=protocol)

    assert counter.request_tokens == request_tokens
    assert counter.count_system("Hello") == counter.count_text("Hello") + system_tokens
    assert counter.count_system("") == 0
    assert counter.count_tools_overhead([ToolSpec(name="look")]) == tools_tokens
    assert counter.count_tools_overhead([]) == 0


TOOLS = [ToolSpec(name="look")]
CHOICES: dict[str, tuple[str, str, bool, ToolChoice | None, int]] = {
    "Chat Completions, a system prompt": ("gpt-4o", "openai_chat", True, None, 17 - 5),
    "Responses, any tool": ("gpt-4o", "openai_responses", False, ToolChoice(mode="any"), 18),
    "one at a time": ("gpt-5", "openai_responses", False, ToolChoice(allows_parallel=False), 94),
}


@pytest.mark.parametrize(
    ("model", "protocol", "has_system", "choice", "tokens"), CHOICES.values(), ids=CHOICES.keys()
)
def test_what_is_asked_of_the_model_costs_next_to_its_tools(
    model: str, protocol: str, has_system: bool, choice: ToolChoice | None, tokens: int
) -> None:
    counter = family_for(REGISTRY.get(model), protocol=protocol)

    found = counter.count_tools_overhead(TOOLS, has_system=has_system, choice=choice)

    assert found == tokens


def test_responses_frames_each_piece_of_a_reply_and_a_call_under_its_id() -> None:
    counter = family_for(REGISTRY.get("gpt-4o"), protocol="openai_responses")
    own = ToolCall(call_id="c", name="look", extras={"openai_responses": {"id": "fc_1"}})

    whole, split = (counter.count_message(reply(*[Text("Hello")] * n)) for n in (1, 3))
    alone, kept, both = (counter.count_message(reply(*c)) for c in ([call()], [own], [own, own]))

    assert split - whole == 2 * (1 + FRAMES["openai/openai_responses"].message)
    assert (alone, kept, both) == (7 + 3, 7 + 3 + 3, 2 * (7 + 3))


WORDS = TokenCounter(REGISTRY.get("gemini-2.0-flash"))
ANSWERS: dict[str, tuple[SessionEvent, list[str]]] = {
    "a text": (result("yes"), ["output", "yes"]),
    "a failure": (result("yes", is_error=True), ["error", "yes"]),
    "an object": (result('{"a":{"b":[1,"c"]}}'), ["a", "b", "1", "c"]),
    "JSON with blanks": (result('{"a": 1}'), ["output", '{"a": 1}']),
    "a call": (reply(call(city="Rome")), ["look", "look", "city", "Rome"]),
}


@pytest.mark.parametrize(("event", "words"), ANSWERS.values(), ids=ANSWERS.keys())
def test_gemini_before_it_could_think_reads_words(event: SessionEvent, words: list[str]) -> None:
    assert WORDS.count_message(event) == sum(map(WORDS.count_text, words))


# ---- tools ----

SCHEMAS: dict[str, tuple[dict[str, Any], str]] = {
    "integer": ({"type": "integer"}, "number"),
    "enum": ({"enum": ["a", "b"]}, '"a" | "b"'),
    "array": ({"type": "array", "items": {"type": "number"}}, "number[]"),
    "union": ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
    "reference": ({"$ref": "#/$defs/Kind"}, '"x" | "y"'),
    "an object": ({"type": "object", "properties": {"n": {}}}, "{\nn?: any,\n}"),
    "an open object": ({"type": "object"}, "object"),
}


@pytest.mark.parametrize(("schema", "written"), SCHEMAS.values(), ids=SCHEMAS.keys())
def test_openai_reads_a_schema_as_a_type(schema: dict[str, Any], written: str) -> None:
    root = {"properties": {"x": schema}, "required": ["x"], "$defs": {"Kind": {"enum": ["x", "y"]}}}
    spec = ToolSpec(name="f", description="A.\n\nB.", input_schema=root)

    text = f"type f = (_: {{\nx: {written},\n}}) => any;\n\n"

    assert GPT.count_tool(spec) == GPT.count_text(f"// A.\n\nB.\n{text}") - 1
    harmony = TokenCounter("gpt-5")
    assert harmony.count_tool(spec) == GPT.count_text(f"// A.\n// \n// B.\n{text}") - 1


def test_titles_defaults_and_examples_are_comments() -> None:
    city = {"title": "City", "description": "Where.", "default": "Rome", "examples": ["Pisa"]}
    spec = ToolSpec(name="f", input_schema={"title": "Place", "properties": {"city": city}})
    lines = ["type f = (_: // Place", "{", "// City", "//", "// Where.", "// Examples:"]
    lines += ['// - "Pisa"', 'city?: any, // default: "Rome"', "}) => any;\n\n"]

    assert GPT.count_tool(spec) == GPT.count_text("\n".join(lines)) - 1


def test_gemini_reads_the_words_of_a_definition_and_counts_its_types() -> None:
    schema: dict[str, Any] = {
        "required": ["at"],
        "properties": {"at": {"type": "string", "enum": ["a"], "items": {"type": "string"}}},
    }
    spec = ToolSpec(name="look", description="Look.", input_schema=schema)
    words_tokens = sum(map(WORDS.count_text, ["look", "Look.", "at", "at", "a"]))

    assert WORDS.count_tool(spec) == words_tokens + 1 + 2
    assert TokenCounter("gemini-2.5-pro").count_tool(spec) == words_tokens + 8 + 2 * 10


def test_a_schema_without_end_ends() -> None:
    schema: dict[str, Any] = {"properties": {name: {"$ref": "#"} for name in "abcdefgh"}}
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        deep = {"type": "array", "items": deep}

    for spec in (schema, {"properties": {"x": deep}}):
        assert 0 < GPT.count_tool(ToolSpec(name="f", input_schema=spec)) < 20_000


def test_a_vendors_own_tool_costs_its_hidden_definition() -> None:
    def native(provider: str, kind: Any) -> ToolSpec:
        return ToolSpec(name="web", native_specs={provider: {"type": kind}})

    assert CLAUDE.count_tool(native("anthropic", "web_search_20250305")) == 1_670
    assert 0 < CLAUDE.count_tool(native("anthropic", "brand_new_20270101")) < 100
    assert 0 < CLAUDE.count_tool(native("anthropic", 7)) < 100
    assert RESPONSES.count_tool(native("openai_responses", "web_search")) > 0
    assert GPT.count_tool(native("anthropic", "bash")) == 0


# ---- images and documents ----

SIZES: dict[tuple[str, int, int, Any], int] = {
    ("claude-4784", 1920, 1080, None): 2691,
    ("claude-4784", 3840, 2160, None): 4784,
    ("claude-4784", 100_000, 1, None): 92,
    ("openai-tiles-85-170", 2048, 4096, None): 1105,
    ("openai-tiles-85-170", 4096, 8192, "low"): 85,
    ("openai-patches-1.62", 1800, 2400, None): 2353,
    ("openai-patches-1.62", 1, 100_000, None): 2489,
    ("openai-patches-1.2", 8000, 8000, None): 12_000,
    ("openai-patches-1.2-high", 8000, 8000, None): 3_000,
    ("gemini-258", 640, 480, None): 1290,
    ("gemini-1120", 4000, 3000, "low"): 1120,
    ("", 4000, 3000, None): 1_600,
}


def with_rule(rule: str, provider: str = "openai") -> TokenCounter:
    return TokenCounter(REGISTRY.get("gpt-4o")._replace(image_rule=rule, provider=provider))


@pytest.mark.parametrize(("given", "tokens"), SIZES.items())
def test_an_image_costs_by_its_size(given: tuple[str, int, int, Any], tokens: int) -> None:
    rule, width, height, detail = given
    image = Image(source=ELSEWHERE, width_px=width, height_px=height, detail=detail)

    assert with_rule(rule).count_message(said(image)) == 4 + tokens


def test_the_bytes_of_an_image_win_and_one_nobody_can_measure_counts_as_the_dearest() -> None:
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0\0\x07\x80\0\0\x04\x38" + b"\x08\x06\0\0\0"
    source = Base64Source(media_type="image/png", data=base64.b64encode(header).decode())
    unread = UrlSource(url="https://example.org/a.png")
    counter = with_rule("claude-4784")

    assert counter.count_message(said(Image(source=source, width_px=1, height_px=1))) == 4 + 2691
    assert counter.count_message(said(Image(source=unread))) == 4 + 4784
    assert with_rule("openai-tiles-85-170").count_message(said(Image(source=unread))) == 4 + 1445


def pdf(content: bytes, **fields: Any) -> Document:
    data = base64.b64encode(content).decode()
    return Document(source=Base64Source(media_type="application/pdf", data=data), **fields)


def packed(*objects: bytes) -> bytes:
    """Return a PDF as since version 1.5: its objects are in compressed streams."""
    head, tail = b"7 0 obj << /Type /ObjStm /N 2 >>\nstream\r\n", b"\nendstream\n"
    return b"%PDF-1.7\n" + b"".join(head + zlib.compress(each) + tail for each in objects)


PAGES = {
    "page objects": (pdf(b"%PDF-1.7 /Type /Page >> /Type/Page\n>> /Type /Pages"), 2),
    "a stated count": (pdf(b"%PDF-1.7 << /Type /Pages /Count 12 >>", page_count=1), 12),
    "not of an outline": (
        pdf(b"%PDF-1.7 << /Type /Page >> /Type /Outlines" + b" " * 500 + b"/Count 99"),
        1,
    ),
    "packed objects": (pdf(packed(b"/Type /Page >>", b"/Type /Pages /Count 2")), 3),
    "a broken pack": (pdf(packed(b"/Type /Page") + b"/Type /ObjStm stream\nx endstream"), 1),
    "an endless pack": (pdf(packed(b" " * 9_000_000, b"/Type /Page >>")), 1),
    "by size": (pdf(b"%PDF-1.7" + b"\0" * 120_000), 4),
    "elsewhere": (Document(source=ELSEWHERE), 10),
    "fewer than none": (Document(source=ELSEWHERE, page_count=-1), 1),
    "too many to be true": (Document(source=ELSEWHERE, page_count=10**9), 100_000),
    "as stated": (Document(source=ELSEWHERE, page_count=7), 7),
}


@pytest.mark.parametrize(("document", "pages"), PAGES.values(), ids=PAGES.keys())
def test_a_document_costs_by_its_pages(document: Document, pages: int) -> None:
    assert RESPONSES.count_message(said(document)) == 4 + pages * 2_000
    assert with_rule("gemini-258", "google").count_message(said(document)) == 4 + pages * 258


def test_a_pdf_whose_text_is_known_to_be_short_costs_its_picture_and_that() -> None:
    content = b"%PDF-1.4 << /Type /Page >> (Hello)"

    assert CLAUDE.count_message(said(pdf(content))) == 6 + 1_568 + len(content) // 3
    assert CLAUDE.count_message(said(pdf(content + b" /Filter /FlateDecode"))) == 6 + 3_000


# ---- families ----


def test_a_key_names_a_family_that_counts_alike() -> None:
    families = {family.key: family for family in map(family_for, REGISTRY.rows())}
    bodies = [(kind_of(e.type, body_of(e)), body_of(e)) for e, _ in COSTS.values()]

    for key, family in families.items():
        found = family_by_key(key)
        assert found is not None
        for kind, body in bodies:
            assert found.count_event(kind, body) == family.count_event(kind, body)
            assert found.count_reasoning(body) == family.count_reasoning(body)


def test_new_sessions_are_counted_for_current_models() -> None:
    models = ("claude-opus-5-5", "gpt-6.2-sol")

    assert tuple(family_for(REGISTRY.get(m)).key for m in models) == DEFAULT_FAMILIES


def test_models_that_count_alike_share_a_family() -> None:
    assert family_for(REGISTRY.get("openai/gpt-4o")) is family_for(REGISTRY.get("gpt-4.1"))
    assert family_for(REGISTRY.get("gpt-4o"), counter="estimate").key != GPT.key
    assert family_by_key("0|nothing") is None


def test_a_counter_of_ones_own_counts_the_texts() -> None:
    class Words:
        name, is_exact = "words", False

        def count_text(self, text: str) -> int:
            return len(text.split())

    family = family_for(REGISTRY.get("gpt-4o"), counter=Words())

    assert family.count_message(said(Text("one two three"))) == 4 + 3
    assert family_by_key(family.key) is None


def test_a_counter_that_cannot_be_is_an_error() -> None:
    misspelt: Any = "estimated"

    with pytest.raises(ConfigurationError, match="not public"):
        TokenCounter("claude-opus-5-5", counter="exact")
    with pytest.raises(UnknownOptionError, match="estimate"):
        TokenCounter("gpt-4o", counter=misspelt)


@given(texts=st.lists(st.text(max_size=40), max_size=4), is_reply=st.booleans())
@settings(max_examples=60, deadline=None)
def test_an_event_costs_at_least_its_texts(texts: list[str], is_reply: bool) -> None:
    event = (reply if is_reply else said)(*map(Text, texts))

    for counter in (GPT, CLAUDE, WORDS):
        least = sum(map(counter.count_text, texts))
        assert least <= counter.count_message(event) <= least + 6 + 4 * len(texts)
