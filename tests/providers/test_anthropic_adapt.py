"""What the Messages API cannot take of a draft, and what is told about it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.providers.anthropic import ANTHROPIC
from context_assembler.values.draft import Draft
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Json,
    JsonObject,
    MediaSource,
    Opaque,
    Part,
    Text,
    Thinking,
    UrlSource,
)
from context_assembler.values.schemas.references import References
from context_assembler.values.schemas.tool_schemas import canonical_schema
from context_assembler.values.tools import ToolSpec
from context_assembler.values.wire import compact_json
from tests.providers.drafts import (
    HAIKU_45,
    OPUS,
    PICTURE,
    PIXEL,
    READ_FILE,
    assistant,
    call,
    draft,
    result,
    results,
    user,
)
from tests.values.test_image_sizes import encoded, png

BLIND = replace(OPUS, features={"vision": False, "pdf": False})
PIXELS = Base64Source(media_type="image/png", data=PIXEL)


def image(source: MediaSource) -> Image:
    return Image(source=source)


def document(media_type: str, data: str = "JVBERi0=") -> Document:
    return Document(source=Base64Source(media_type=media_type, data=data))


def huge(chars: int) -> Image:
    return image(Base64Source(media_type="image/png", data="iVBORw0KGgo" + "A" * (chars - 11)))


MIB = 1024 * 1024
LEFT_OUT: dict[str, tuple[Draft, str, str]] = {
    "an image for a blind model": (
        draft([user(PICTURE)], limits=BLIND),
        "media.unsupported",
        "[image left out: image/png; the model takes no images]",
    ),
    "a PDF for a model without": (
        draft([user(document("application/pdf"))], limits=BLIND),
        "media.unsupported",
        "[document left out: application/pdf; the model takes no documents]",
    ),
    "an unknown type of image": (
        draft([user(image(Base64Source(media_type="image/bmp", data="Qk0=")))]),
        "media.type",
        "[image left out: image/bmp; only JPEG, PNG, GIF and WebP are taken]",
    ),
    "an unknown type of document": (
        draft([user(document("application/zip", "UEs="))]),
        "media.type",
        "[document left out: application/zip; only PDF and plain text are taken]",
    ),
    "another provider's image": (
        draft([user(image(FileIdSource(provider="openai", file_id="file-1")))]),
        "media.source",
        "[image left out: openai file file-1; the file lies with another provider]",
    ),
    "another provider's document": (
        draft([user(Document(source=FileIdSource(provider="openai", file_id="file-1")))]),
        "media.source",
        "[document left out: openai file file-1; the file lies with another provider]",
    ),
    "an image without bytes": (
        draft([user(image(Base64Source(media_type="image/png", data="")))]),
        "media.empty",
        "[image left out: image/png; it is empty]",
    ),
    "a document without bytes": (
        draft([user(document("application/pdf", ""))]),
        "media.empty",
        "[document left out: application/pdf; it is empty]",
    ),
    "an image without a URL": (
        draft([user(image(UrlSource(url=" ")))]),
        "media.empty",
        "[image left out: unnamed; it is empty]",
    ),
    "a document without a URL": (
        draft([user(Document(source=UrlSource(url="")))]),
        "media.empty",
        "[document left out: unnamed; it is empty]",
    ),
    "a blank text": (
        draft([user(document("text/plain", "ICA="))]),
        "media.empty",
        "[document left out: text/plain; it is empty]",
    ),
    "too many pixels": (
        draft([user(encoded(png(8001, 10)))]),
        "media.size",
        "[image left out: image/png; its 8,001 pixels are more than 8,000]",
    ),
    "too many bytes": (
        draft([user(huge(10 * MIB + 4))]),
        "media.size",
        "[image left out: image/png; its 10,485,764 characters of base64 are more than 10,485,760]",
    ),
    "too many bytes for a cloud": (
        draft([user(huge(5 * MIB + 4))], limits=replace(OPUS, host="bedrock")),
        "media.size",
        "[image left out: image/png; its 5,242,884 characters of base64 are more than 5,242,880]",
    ),
    "an image of the assistant": (
        draft([user("go"), assistant(PICTURE), user("ok")]),
        "media.role",
        "[image left out: image/png; not taken from an assistant]",
    ),
    "a document of the assistant": (
        draft([user("go"), assistant(document("application/pdf")), user("ok")]),
        "media.role",
        "[document left out: application/pdf; not taken from an assistant]",
    ),
    "an image in a result": (
        draft([user("go"), assistant(call("c")), results(result("c", PICTURE))], limits=BLIND),
        "media.unsupported",
        "[image left out: image/png; the model takes no images]",
    ),
}


@pytest.mark.parametrize(("made", "rule", "line"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_what_is_left_out_is_named_and_told(made: Draft, rule: str, line: str) -> None:
    adapted, rows = ANTHROPIC.adapt(made)

    [row] = rows
    assert (row.kind, row.decision, row.rule) == ("message", "shortened", rule)
    assert Text(line) in [
        inner
        for message in adapted.messages
        for part in message.parts
        for inner in getattr(part, "content", (part,))
    ]
    assert ANTHROPIC.check_payload(ANTHROPIC.render(made), limits=made.limits) == []


TAKEN: dict[str, Part] = {
    "an image": PICTURE,
    "an image at a URL": image(UrlSource(url="https://example.com/a.png")),
    "an uploaded image": image(FileIdSource(provider="anthropic", file_id="file_1")),
    "8000 pixels": encoded(png(8000, 8000)),
    "10 MB": huge(10 * MIB),
    "a PDF": document("application/pdf"),
    "a text": document("text/plain", "aGVsbG8="),
}


@pytest.mark.parametrize("part", TAKEN.values(), ids=TAKEN.keys())
def test_what_can_be_sent_stays_as_it_is(part: Part) -> None:
    made = draft([user(part, "look")])

    assert ANTHROPIC.adapt(made) == (made, ())


def test_another_provider_s_block_without_a_text_is_told() -> None:
    silent = Opaque(provider="gemini", block={"type": "grounding"})
    made = draft(
        [
            user(silent, id="evt_1"),
            assistant(silent, "x", id="evt_2"),
            user("ok"),
            assistant(silent, id="evt_4"),
            user("ok"),
        ]
    )

    adapted, rows = ANTHROPIC.adapt(made)

    assert [adapted.messages[at].parts for at in (0, 1, 3)] == [
        (Text("[block of gemini (grounding) left out: it has no text]"),),
        (Text("x"),),
        (Text("[A block of gemini (grounding) is left out: it has no text.]"),),
    ]
    assert [(row.id, row.decision, row.rule) for row in rows] == [
        (name, "shortened", "content.foreign") for name in ("evt_1", "evt_2", "evt_4")
    ]


COUNTS = {
    "a small window": (HAIKU_45, 100, 75),
    "a large window": (OPUS, 600, 450),
}


@pytest.mark.parametrize(("limits", "most", "rest"), COUNTS.values(), ids=COUNTS.keys())
def test_no_more_images_are_sent_than_are_taken(limits: Any, most: int, rest: int) -> None:
    enough = draft([user(*[PICTURE] * most)], limits=limits)
    too_many = draft([user(*[PICTURE] * (most + 1))], limits=limits)

    sent = ANTHROPIC.render(too_many)["messages"][0]["content"]

    assert ANTHROPIC.adapt(enough) == (enough, ())
    assert [block["type"] for block in sent].count("image") == rest + 1
    assert [block["type"] for block in sent[-rest:]] == ["image"] * rest
    assert ANTHROPIC.check_payload(ANTHROPIC.render(too_many), limits=limits) == []


def test_of_many_images_the_large_ones_make_way_from_the_oldest_on() -> None:
    large = encoded(png(2001, 10))

    few, many = draft([user(*[large] * 20)]), draft([user(*[large] * 21)])

    assert ANTHROPIC.adapt(few) == (few, ())
    assert [row.rule for row in ANTHROPIC.adapt(many)[1]] == ["media.crowd"]
    assert ANTHROPIC.check_payload(ANTHROPIC.render(many), limits=OPUS) == []


def test_a_request_stays_under_its_limit_of_bytes() -> None:
    made = draft([user(*[huge(9 * MIB)] * 4)])

    assert [row.rule for row in ANTHROPIC.adapt(made)[1]] == ["media.bytes"]
    assert ANTHROPIC.check_payload(ANTHROPIC.render(made), limits=OPUS) == []


def schema(*, optional: int = 0, unions: int = 0) -> dict[str, Json]:
    names = [f"u{i}" for i in range(unions)]
    properties = {
        **{f"o{i}": {"type": "string"} for i in range(optional)},
        **{name: {"type": ["string", "null"]} for name in names},
    }
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }


def closed(one: JsonObject) -> dict[str, Json]:
    return {"type": "object", "additionalProperties": False, "properties": {"one": one}}


def strict(name: str, input_schema: dict[str, Json]) -> ToolSpec:
    return ToolSpec(name=name, is_strict=True, input_schema=input_schema)


STRICT: dict[str, tuple[tuple[ToolSpec, ...], list[str]]] = {
    "21 tools": (tuple(strict(f"t{i:02}", schema()) for i in range(21)), ["t20"]),
    "25 optional parameters": (
        (strict("a", schema(optional=20)), strict("b", schema(optional=5)), strict("c", schema())),
        ["b"],
    ),
    "17 unions": ((strict("a", schema(unions=16)), strict("b", schema(unions=1))), ["b"]),
    "a pattern that looks ahead": (
        (strict("a", closed({"type": "string", "pattern": "(?!b)a"})), strict("b", schema())),
        ["a"],
    ),
    "a pattern that ends with a word": (
        (strict("a", closed({"type": "string", "pattern": r"a\b"})), strict("b", schema())),
        ["a"],
    ),
    "values that are objects": (
        (strict("a", closed({"enum": [{"b": 1}]})), strict("b", schema())),
        ["a"],
    ),
    "a bound": ((strict("a", {"type": "object", "minimum": 1}), strict("b", schema())), ["a"]),
}


@pytest.mark.parametrize(("tools", "loose"), STRICT.values(), ids=STRICT.keys())
def test_tools_are_strict_as_long_as_strict_mode_takes_them(
    tools: tuple[ToolSpec, ...], loose: list[str]
) -> None:
    made = draft(tools=tools)

    adapted, rows = ANTHROPIC.adapt(made)

    assert [tool.name for tool in adapted.tools if not tool.is_strict] == loose
    assert [(row.kind, row.id, row.decision, row.rule) for row in rows] == [
        ("tool", name, "repaired", "tool.strict") for name in loose
    ]
    assert ANTHROPIC.check_payload(ANTHROPIC.render(made), limits=OPUS) == []


@given(
    st.dictionaries(
        st.text(max_size=5)
        | st.sampled_from(["$filter", "filter[id]", "größe", "x" * 65, "a.b-c"]),
        st.just({"type": "string"}),
        max_size=4,
    ),
    st.booleans(),
)
def test_every_parameter_is_told_and_none_has_a_name_that_is_refused(
    parameters: dict[str, Json], closes: bool
) -> None:
    raw: JsonObject = {"type": "object", "properties": parameters, "required": [*parameters][:2]}
    closed: JsonObject = {"additionalProperties": False} if closes else {}
    schema = canonical_schema({**raw, **closed}, tool="find").schema
    made = draft(tools=(ToolSpec(name="find", description="Find.", input_schema=schema),))

    payload = ANTHROPIC.render(made)
    adapted, rows = ANTHROPIC.adapt(made)

    told = payload["tools"][0]
    declared = told["input_schema"]["properties"].keys()
    assert ANTHROPIC.check_payload(payload, limits=OPUS) == []
    for name in schema["properties"].keys() - declared:
        assert compact_json(name) in told["description"]
        assert "additionalProperties" not in told["input_schema"]
    assert {row.rule for row in rows} == (
        {"tool.schema"} if declared != parameters.keys() else set()
    )
    assert ANTHROPIC.adapt(adapted) == (adapted, ())


def test_what_refers_to_a_parameter_that_cannot_be_named_still_leads_somewhere() -> None:
    properties: JsonObject = {
        "$filter": {"type": "object", "properties": {"by": {"enum": ["a"]}}},
        "other": {"$ref": "#/properties/%24filter"},
        "by": {"$ref": "#/properties/$filter/properties/by"},
    }
    schema: JsonObject = {"type": "object", "properties": properties}

    payload = ANTHROPIC.render(draft(tools=(ToolSpec(name="find", input_schema=schema),)))

    sent = payload["tools"][0]["input_schema"]
    inside = References(sent)
    led = [inside.target_of(sent["properties"][name]["$ref"]) for name in ("other", "by")]
    assert led == [properties["$filter"], {"enum": ["a"]}]
    assert sent["properties"].keys() == {"other", "by"}


def test_another_provider_s_tool_is_left_out_and_told() -> None:
    theirs = ToolSpec(name="search", native_specs={"gemini": {"google_search": {}}})

    adapted, rows = ANTHROPIC.adapt(draft(tools=(theirs, READ_FILE)))

    assert adapted.tools == (READ_FILE,)
    assert [(row.id, row.decision, row.reason) for row in rows] == [
        ("search", "dropped", "It exists for gemini alone.")
    ]


def test_a_thinking_budget_waits_for_a_loop_without_thinking_to_end() -> None:
    thought = Thinking(
        provider="anthropic", block={"type": "thinking", "thinking": "", "signature": "EqQB"}
    )
    loop = [user("a"), assistant(call("c")), results(result("c", "x"))]
    with_thought = [user("a"), assistant(thought, call("c")), results(result("c", "x"))]

    adapted, rows = ANTHROPIC.adapt(draft(loop, limits=HAIKU_45, thinking_budget=2000))

    assert adapted.parameters.thinking_budget is None
    assert [(row.kind, row.id, row.decision) for row in rows] == [
        ("note", "thinking_budget", "dropped")
    ]
    assert ANTHROPIC.adapt(draft(with_thought, limits=HAIKU_45, thinking_budget=2000))[1] == ()


def test_nuls_are_not_sent() -> None:
    tool = replace(READ_FILE, description="a\0b")
    silent = replace(READ_FILE, name="silent", description="\0")

    payload = ANTHROPIC.render(draft([user("\0", "x\0")], system="s\0", tools=(tool, silent)))

    assert payload["system"][0]["text"] == "s"
    assert payload["tools"][0]["description"] == "ab"
    assert "description" not in payload["tools"][1]
    assert payload["messages"][0]["content"] == [{"type": "text", "text": "x"}]


def test_a_reference_names_a_tool_as_it_is_offered_or_is_said_in_words() -> None:
    known, unknown = (
        Opaque(provider="anthropic", block={"type": "tool_reference", "tool_name": name})
        for name in ("read.file", "gone")
    )
    talk = [user("go"), assistant(call("c", "find")), results(result("c", known, unknown))]

    payload = ANTHROPIC.render(draft(talk, tools=(replace(READ_FILE, name="read.file"),)))

    sent = payload["messages"][2]["content"][0]["content"]
    assert sent[0]["tool_name"] == payload["tools"][0]["name"] != "read.file"
    assert sent[1] == {"type": "text", "text": "[tool gone]"}
