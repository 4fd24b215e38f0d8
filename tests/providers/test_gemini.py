"""What `generate_content` is sent for turns and parameters, and what its replies are read as."""

from dataclasses import replace
from typing import Any

import pytest

from context_assembler.ports import ToolPlan, ToolSpec
from context_assembler.providers import PROVIDERS
from tests.providers.builders import (
    PICTURE,
    PIXEL,
    READ,
    SCHEMA,
    call,
    opaque,
    render,
    render_with_entries,
    reply,
    request,
    result,
    results,
    thought,
    user,
)

GEMINI = PROVIDERS["gemini"]
OLDER, VERTEX = "gemini-2.5-pro", "vertex_ai/gemini-4-argon"
PLACEHOLDER = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
SIGNED = thought({"text": "", "thoughtSignature": "c2ln"}, "gemini")
INLINE = {"inline_data": {"mime_type": "image/png", "data": PIXEL}}
CODE = {"executableCode": {"language": "PYTHON", "code": "1"}}


def contents(*turns: Any, **options: Any) -> list[tuple[str, Any]]:
    made = render("gemini", *turns, **options)["contents"]
    return [(content["role"], content["parts"]) for content in made]


def called(call_id: str, signature: str | None = PLACEHOLDER, **fields: Any) -> dict[str, Any]:
    part = {"function_call": {"id": call_id, "name": "read", "args": {}}}
    return {**part, **({"thought_signature": signature} if signature else {}), **fields}


def answered(call_id: str, response: Any, **fields: Any) -> dict[str, Any]:
    held = {"id": call_id, "name": "read", "response": response, **fields}
    return {"function_response": held}


JOINED: dict[str, tuple[list[Any], list[tuple[str, Any]]]] = {
    "neighbours of one role become one content": (
        [user("a"), user(" ", "b\0"), reply("c"), reply("d"), user("e")],
        [
            ("user", [{"text": "a"}, {"text": "b"}]),
            ("model", [{"text": "c"}, {"text": "d"}]),
            ("user", [{"text": "e"}]),
        ],
    ),
    "the user speaks first and last": (
        [reply("a")],
        [
            ("user", [{"text": "(The conversation starts with the assistant.)"}]),
            ("model", [{"text": "a"}]),
            ("user", [{"text": "Continue."}]),
        ],
    ),
    "signatures go back where they were": (
        [
            user("a"),
            reply(
                SIGNED,
                {"type": "text", "text": "b", "signature": "dGV4"},
                {**call("c1"), "signature": "Y2Fs"},
            ),
            results(result("c1")),
        ],
        [
            ("user", [{"text": "a"}]),
            (
                "model",
                [
                    {"text": "", "thought_signature": "c2ln"},
                    {"text": "b", "thought_signature": "dGV4"},
                    called("c1", "Y2Fs"),
                ],
            ),
            ("user", [answered("c1", {"output": ""})]),
        ],
    ),
    "a reply of another provider brings no signature": (
        [
            user("a"),
            reply(
                {**call("c1"), "signature": "Y2Fs"},
                thought({"type": "thinking", "thinking": "", "signature": "E"}),
                made_by={"provider": "anthropic", "model": "x"},
            ),
            results(result("c1")),
        ],
        [
            ("user", [{"text": "a"}]),
            ("model", [called("c1")]),
            ("user", [answered("c1", {"output": ""})]),
        ],
    ),
}


@pytest.mark.parametrize(("turns", "expected"), JOINED.values(), ids=JOINED.keys())
def test_turns_become_contents(turns: list[Any], expected: list[tuple[str, Any]]) -> None:
    assert contents(*turns) == expected


def url(address: str, kind: str = "image", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "source": {"type": "url", "url": address, **fields}}


PARTS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "an image": (PICTURE, [INLINE]),
    "an image at an address": (
        url("https://a.org/b.JPG?x"),
        [{"file_data": {"file_uri": "https://a.org/b.JPG?x", "mime_type": "image/jpeg"}}],
    ),
    "an image of no known type": (
        url("https://a.org/b"),
        [{"text": "[image left out: https://a.org/b; its media type is not known]"}],
    ),
    "an uploaded document with a title": (
        {
            "type": "document",
            "title": "B",
            "source": {"type": "file", "provider": "gemini", "file_id": "files/1"},
        },
        [{"text": "B:"}, {"file_data": {"file_uri": "files/1"}}],
    ),
    "a document of text": (
        {**url("x", "document"), "title": "B", "text": "said"},
        [{"text": "B:\nsaid"}],
    ),
    "a part of Gemini's own": (
        opaque("gemini", {**CODE, "oddField": 1}),
        [{"executable_code": {"language": "PYTHON", "code": "1"}}],
    ),
    "what a reply says about itself": (opaque("gemini", {"groundingMetadata": {}}, "Sources"), []),
    "a malformed part": (opaque("gemini", {"text": 5}, "said"), [{"text": "said"}]),
    "a block of another provider": (opaque("anthropic", {"type": "odd"}, "it"), [{"text": "it"}]),
    "text with marks": (
        opaque("gemini", {"text": "x", "speechMetadata": {}}, "x"),
        [{"text": "x", "speech_metadata": {}}],
    ),
}


@pytest.mark.parametrize(("part", "parts"), PARTS.values(), ids=PARTS.keys())
def test_a_part_of_the_user_becomes_parts(part: dict[str, Any], parts: list[Any]) -> None:
    assert contents(user("a", part)) == [("user", [{"text": "a"}, *parts])]


RESPONSES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "text that is an object": (result("c1", '{"a":1}'), {"response": {"a": 1}}),
    "an object that could be mistaken": (
        result("c1", '{"output":1}'),
        {"response": {"output": '{"output":1}'}},
    ),
    "several texts": (result("c1", "x", "y"), {"response": {"output": ["x", "y"]}}),
    "a failure without words": (
        result("c1", is_error=True),
        {"response": {"error": "The tool failed without saying why."}},
    ),
    "a picture": (result("c1", "see", PICTURE), {"response": {"output": "see"}, "parts": [INLINE]}),
}


@pytest.mark.parametrize(("part", "fields"), RESPONSES.values(), ids=RESPONSES.keys())
def test_a_result_becomes_a_response(part: dict[str, Any], fields: dict[str, Any]) -> None:
    made = contents(user("a"), reply(call("c1")), results(part))

    assert made[-1] == ("user", [{"function_response": {"id": "c1", "name": "read", **fields}}])


def test_pictures_that_do_not_fit_into_a_response_follow_it() -> None:
    talk = [user("a"), reply(call("c1")), results(result("c1", PICTURE)), user("b")]

    made = contents(*talk, model=OLDER)

    assert made[-2][1] == [answered("c1", {"output": "[image attached in the next user message]"})]
    assert made[-1][1] == [{"text": "Image returned by read (c1):"}, INLINE, {"text": "b"}]


def test_what_is_left_out_has_an_entry() -> None:
    _, entries = render_with_entries(
        "gemini", *[user("a", part) for part, _ in PARTS.values()], tools=()
    )

    assert entries == [
        ("shortened", "media.type"),
        ("repaired", "content.fields"),
        ("shortened", "content.metadata"),
        ("repaired", "content.malformed"),
        ("repaired", "content.foreign"),
    ]


def test_vertex_is_told_in_words_what_it_does_not_take() -> None:
    used = opaque("gemini", {"toolCall": {"toolType": "x"}}, "[tool_call x]")

    assert contents(user("a", used), model=VERTEX) == [
        ("user", [{"text": "a"}, {"text": "[tool_call x]"}])
    ]
    assert contents(user("a", used))[0][1][1] == {"tool_call": {"tool_type": "x"}}


def test_a_resolution_is_not_sent() -> None:
    sharp = opaque("gemini", {**INLINE, "mediaResolution": {"level": "HIGH"}})

    payload, entries = render_with_entries("gemini", user("a", sharp))

    assert payload["contents"][0]["parts"][1] == INLINE
    assert entries == [("repaired", "content.fields")]


# ---- tools and parameters ----

REFERRING = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/A", "description": "An a."}},
    "$defs": {"A": {"type": "string"}},
}


def test_tools_are_one_list_of_functions_and_the_servers_own() -> None:
    tools = (
        replace(READ, name="2nd.read", is_strict=True),
        ToolSpec(name="refer", input_schema=REFERRING),
        ToolSpec(name="lost", input_schema={"properties": {"a": {"$ref": "https://a.org/b"}}}),
        ToolSpec(name="search", native_specs={"gemini": {"google_search": {}}}),
        ToolSpec(name="other", native_specs={"anthropic": {}}),
    )

    payload, entries = render_with_entries("gemini", user("a"), tools=tools)
    functions, search = payload["config"]["tools"]
    read, refer = functions["function_declarations"]

    assert read["name"].startswith("_2nd_read_")
    assert read["parameters_json_schema"] == SCHEMA
    assert refer["parameters_json_schema"]["properties"] == {
        "a": {"description": "An a.", "anyOf": [{"$ref": "#/$defs/A"}]}
    }
    assert search == {"google_search": {}}
    assert payload["config"]["tool_config"] == {"include_server_side_tool_invocations": True}
    assert payload["config"]["automatic_function_calling"] == {"disable": True}
    assert entries == [
        ("dropped", "tool.native"),
        ("repaired", "tool.strict"),
        ("dropped", "tool.schema"),
    ]


CALLING = "function_calling_config"
SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a level": (
        {"thinking_level": "low"},
        {"thinking_config": {"thinking_level": "LOW", "include_thoughts": True}},
    ),
    "a budget": (
        {"model": OLDER, "thinking_budget": 99},
        {"thinking_config": {"thinking_budget": 99, "include_thoughts": True}},
    ),
    "no thinking": (
        {"model": "gemini-2.5-flash", "thinking_level": "none"},
        {"thinking_config": {"thinking_budget": 0}},
    ),
    "sampling": ({"model": OLDER, "top_k": 5}, {"top_k": 5}),
    "sampling that is ignored": ({"temperature": 0.5}, {}),
    "stop sequences": ({"stop_sequences": ["END"]}, {"stop_sequences": ["END"]}),
    "any tool": (
        {"tool_choice": {"mode": "any", "allows_parallel": False}},
        {"tool_config": {CALLING: {"mode": "ANY"}}},
    ),
    "one tool": (
        {"tool_choice": {"mode": "tool", "name": "read"}},
        {"tool_config": {CALLING: {"mode": "ANY", "allowed_function_names": ["read"]}}},
    ),
    "some tools": (
        {"tool_choice": {"mode": "auto", "allowed": ("read", "gone")}},
        {"tool_config": {CALLING: {"mode": "VALIDATED", "allowed_function_names": ["read"]}}},
    ),
}
USUAL = {"system_instruction", "tools", "automatic_function_calling", "max_output_tokens"}


@pytest.mark.parametrize(("options", "expected"), SETTINGS.values(), ids=SETTINGS.keys())
def test_parameters_become_the_config(options: dict[str, Any], expected: dict[str, Any]) -> None:
    config = render("gemini", user("a"), **options)["config"]

    assert {key: held for key, held in config.items() if key not in USUAL} == expected


def test_tools_are_withdrawn_by_naming_those_that_stay() -> None:
    write = replace(READ, name="write")
    forms = GEMINI.change_forms(request("gemini").limits)
    plan = ToolPlan("gemini", (READ, write), (READ,), forms=forms)

    config = render("gemini", user("a"), tools=(READ, write), plan=plan)["config"]

    assert config["tool_config"][CALLING]["allowed_function_names"] == ["read"]
    assert GEMINI.tool_search(request("gemini").limits) is None


# ---- replies ----


def chunk(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **fields}]}


def piece(name: str = "", **fields: Any) -> dict[str, Any]:
    return chunk({"functionCall": {**({"name": name, "id": "c1"} if name else {}), **fields}})


SAYS_A: Any = [{"jsonPath": "$.a", "numberValue": 1}]
PIECES: dict[str, list[dict[str, Any]]] = {
    "a name, then arguments": [
        *(piece("read", willContinue=True), piece(partialArgs=SAYS_A, willContinue=True), piece()),
    ],
    "an end that says so": [
        *(piece("read", willContinue=True), piece(partialArgs=SAYS_A, willContinue=False)),
    ],
    "all in one": [piece("read", partialArgs=SAYS_A)],
    "the SDK's names": [
        *(piece("read", will_continue=True), piece(partial_args=SAYS_A, will_continue=False)),
    ],
    "broken off": [piece("read", willContinue=True)],
}


@pytest.mark.parametrize("chunks", PIECES.values(), ids=PIECES.keys())
def test_a_call_in_pieces_is_unfinished_and_no_piece_is_a_call(chunks: list[Any]) -> None:
    read = GEMINI.read_reply([*chunks, chunk(finishReason="STOP")])

    called = [part for part in read.parts if part["type"] == "tool_call"]
    assert [(part["call_id"], part["name"]) for part in called] == [("c1", "read")]
    assert read.unfinished_calls == ("c1",)
    payload = render("gemini", user("a"), reply(*read.parts), results(result("c1")))
    assert [*payload["contents"][1]["parts"][0]] == ["function_call", "thought_signature"]
    assert len(payload["contents"][1]["parts"]) == 1


# ---- contents as events ----


@pytest.mark.parametrize("between", [[], [{"role": "model", "parts": [{"text": "b"}]}]])
def test_calls_in_several_contents_are_answered_in_one(between: list[Any]) -> None:
    calls = [{"role": "model", "parts": [{"functionCall": {"name": name}}]} for name in "fg"]
    answers = [{"functionResponse": {"name": name, "response": {"output": name}}} for name in "fg"]
    asked = {"role": "user", "parts": [{"text": "a"}]}
    contents = [asked, calls[0], *between, calls[1], {"role": "user", "parts": answers}]

    events = GEMINI.read_messages(contents)

    parts = [part for _, body in events for part in body["parts"]]
    called = [part["call_id"] for part in parts if part["type"] == "tool_call"]
    assert [part["call_id"] for part in parts if part["type"] == "tool_result"] == called
    assert len({*called}) == 2


def test_a_part_of_a_reply_that_is_odd_is_kept_and_not_sent() -> None:
    read = GEMINI.read_reply(chunk({}, {"text": 5, "thoughtSignature": "c2ln"}, {"text": "b"}))

    payload, entries = render_with_entries("gemini", user("a"), reply(*read.parts), user("c"))

    assert [part.get("block") for part in read.parts] == [
        {},
        {"text": 5, "thoughtSignature": "c2ln"},
        None,
    ]
    assert payload["contents"][1]["parts"] == [{"text": "b"}]
    assert entries == [("shortened", "content.metadata")]


@pytest.mark.parametrize("value", [None, 5, "text", {"text": "lone"}, [5, "x"]])
def test_parts_of_any_shape_are_read(value: Any) -> None:
    [(kind, body)] = GEMINI.read_messages([{"role": "model", "parts": value}])

    assert kind == "assistant"
    assert all(part["type"] == "text" for part in body["parts"])
