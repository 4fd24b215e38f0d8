"""Each rule of Gemini: the smallest payload that breaks it, and its neighbour that does not."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from context_assembler.providers.gemini import GEMINI
from context_assembler.values.limits import ModelLimits
from tests.providers.drafts import GEMINI_4, GEMINI_25, PIXEL
from tests.values.test_media import pdf

GO: dict[str, Any] = {"role": "user", "parts": [{"text": "go"}]}
SAYS: dict[str, Any] = {"role": "model", "parts": [{"text": "ok"}]}


def call(name: str = "f", *, signature: str | None = "c2ln", **fields: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"functionCall": {"name": name, **fields}}
    return part if signature is None else {**part, "thoughtSignature": signature}


def response(name: str = "f", **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "x"}, **fields}}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


CALLS, ANSWERS = model(call()), user(response())


def payload(*contents: Any, **config: Any) -> dict[str, Any]:
    held = list(contents) or [GO]
    return {"model": "gemini-4-argon", "contents": held, "config": config}


def older(*contents: Any, **config: Any) -> dict[str, Any]:
    return {**payload(*contents, **config), "model": "gemini-2.5-flash"}


def body(*contents: Any, **fields: Any) -> dict[str, Any]:
    """Return the body of a request, as it goes over the wire."""
    return {"contents": list(contents) or [GO], **fields}


def tools(*functions: Any, **server_tools: Any) -> list[dict[str, Any]]:
    declared: list[dict[str, Any]] = [{"function_declarations": list(functions)}]
    return declared + [{key: held} for key, held in server_tools.items()]


def schema(**fields: Any) -> list[dict[str, Any]]:
    return tools({"name": "f", "parameters": {"type": "OBJECT", **fields}})


def calling(**fields: Any) -> dict[str, Any]:
    return {"function_calling_config": fields}


def check(
    made: Any, limits: ModelLimits | None = None, *, level: str = "refused", today: Any = None
) -> list[tuple[str, str]]:
    found = GEMINI.check_payload(made, limits=limits, today=today)
    return [(v.rule, v.where) for v in found if v.level == level]


F = {"name": "f"}
PAGES = pdf(1_001)
INLINE = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
BIG = {"inlineData": {"mimeType": "application/pdf", "data": "A" * (101 * 1024 * 1024)}}
FLAG = {"include_server_side_tool_invocations": True}

REFUSED: dict[str, tuple[Any, str, str]] = {
    "no contents": (payload() | {"contents": []}, "G0", "contents"),
    "a part that holds nothing": (payload(user({})), "G0", "contents[0].parts[0]"),
    "a part that holds two things": (
        payload(user({"text": "a", "inline_data": INLINE["inlineData"]})),
        "G0",
        "contents[0].parts[0]",
    ),
    "text that is none": (payload(user({"text": 5})), "G0", "contents[0].parts[0].text"),
    "a content that is none": (payload("go", 5, GO), "G13", "contents[1].parts"),
    "no parts": (payload(user()), "G13", "contents[0].parts"),
    "the role assistant": (
        payload({"role": "assistant", "parts": [{"text": "x"}]}, GO),
        "G1",
        "contents[0].role",
    ),
    "instructions among the contents": (
        payload({"role": "system", "parts": [{"text": "x"}]}, GO),
        "G1",
        "contents[0].role",
    ),
    "an unanswered call": (payload(GO, CALLS, GO), "G2", "contents[1]"),
    "a call at the end": (payload(GO, CALLS), "G2", "contents[1]"),
    "a response too few": (payload(GO, model(call(), call("g")), ANSWERS), "G2", "contents[1]"),
    "a response too many": (payload(GO, CALLS, user(response(), response())), "G2", "contents[1]"),
    "a history that begins with a call": (payload(CALLS, ANSWERS), "G3", "contents[0]"),
    "calls behind the model": (payload(GO, SAYS, CALLS, ANSWERS), "G3", "contents[2]"),
    "a response without a call": (payload(ANSWERS), "G3", "contents[0]"),
    "a response too late": (payload(GO, CALLS, GO, ANSWERS), "G3", "contents[3]"),
    "a response of the model": (payload(GO, model(response()), GO), "G3", "contents[1].parts[0]"),
    "a call of the user": (payload(user(call())), "G3", "contents[0].parts[0]"),
    "a first call without its signature": (
        payload(GO, model({"text": "x"}, call(signature=None)), ANSWERS),
        "G4",
        "contents[1].parts[1].thought_signature",
    ),
    "a later step without its signature": (
        payload(GO, CALLS, ANSWERS, model(call(signature=None)), ANSWERS),
        "G4",
        "contents[3].parts[0].thought_signature",
    ),
    "a signature that is none": (
        payload(user({"text": "x", "thought_signature": "ä"})),
        "G5",
        "contents[0].parts[0].thought_signature",
    ),
    "a signature of bytes": (
        payload(user({"text": "x", "thought_signature": b"x"})),
        "G5",
        "contents[0].parts[0].thought_signature",
    ),
    "a response without a name": (
        payload(GO, CALLS, user({"functionResponse": {"response": {}}})),
        "G6",
        "contents[2].parts[0].function_response.name",
    ),
    "a response that is text": (
        payload(GO, CALLS, user(response(response="x"))),
        "G6",
        "contents[2].parts[0].function_response.response",
    ),
    "arguments that are text": (
        payload(GO, model(call(args="{}")), ANSWERS),
        "G6",
        "contents[1].parts[0].function_call.args",
    ),
    "media in a response before Gemini 3": (
        older(GO, CALLS, user(response(parts=[INLINE]))),
        "G6",
        "contents[2].parts[0].function_response.parts",
    ),
    "a call without a name": (
        payload(GO, model(call("")), ANSWERS),
        "G7",
        "contents[1].parts[0].function_call.name",
    ),
    "a name with a space": (
        payload(tools=tools({"name": "a b"})),
        "G7",
        "config.tools[0].function_declarations[0].name",
    ),
    "a name that begins with a digit": (
        body(tools=[{"functionDeclarations": [{"name": "1a"}]}]),
        "G7",
        "tools[0].function_declarations[0].name",
    ),
    "two schemas": (
        payload(tools=tools({**F, "parameters": {}, "parametersJsonSchema": {"type": "object"}})),
        "G8",
        "config.tools[0].function_declarations[0].parameters",
    ),
    "a schema of another type": (
        payload(tools=tools({**F, "parameters_json_schema": {"type": "array"}})),
        "G8",
        "config.tools[0].function_declarations[0].parameters_json_schema.type",
    ),
    "additionalProperties": (
        payload(tools=schema(additionalProperties=False)),
        "G8",
        "config.tools[0].function_declarations[0].parameters",
    ),
    "a const inside": (
        payload(tools=schema(properties={"a": {"const": 1}})),
        "G8",
        "config.tools[0].function_declarations[0].parameters",
    ),
    "several types": (
        payload(tools=schema(properties={"a": {"type": ["STRING", "NULL"]}})),
        "G8",
        "config.tools[0].function_declarations[0].parameters",
    ),
    "an array of nothing": (
        payload(tools=schema(properties={"a": {"type": "ARRAY"}})),
        "G8",
        "config.tools[0].function_declarations[0].parameters",
    ),
    "an enum of numbers": (
        payload(tools=schema(properties={"a": {"enum": [1]}})),
        "G8",
        "config.tools[0].function_declarations[0].parameters",
    ),
    "tools beside cached content": (
        payload(cached_content="cachedContents/1", tools=tools(F)),
        "G9",
        "config.tools",
    ),
    "instructions beside cached content": (
        body(cachedContent="cachedContents/1", systemInstruction={"parts": [{"text": "x"}]}),
        "G9",
        "system_instruction",
    ),
    "a level and a budget": (
        payload(thinking_config={"thinking_level": "LOW", "thinking_budget": 1}),
        "G10",
        "config.thinking_config",
    ),
    "a level before Gemini 3": (
        older(thinking_config={"thinkingLevel": "LOW"}),
        "G10",
        "config.thinking_config.thinking_level",
    ),
    "a temperature of 3": (
        body(generationConfig={"temperature": 3}),
        "G10",
        "temperature",
    ),
    "no room for a reply": (
        payload(max_output_tokens=0),
        "G10",
        "config.max_output_tokens",
    ),
    "six stop sequences": (
        payload(stop_sequences=list("abcdef")),
        "G10",
        "config.stop_sequences",
    ),
    "a moving alias": (payload() | {"model": "gemini-flash-latest"}, "G11", "model"),
    "a resolution of one picture": (
        payload(user({**INLINE, "mediaResolution": {"level": "MEDIA_RESOLUTION_HIGH"}})),
        "G11",
        "contents[0].parts[0].media_resolution",
    ),
    "bytes without a type": (
        payload(user({"inline_data": {"data": "QQ=="}})),
        "G12",
        "contents[0].parts[0].inline_data.mime_type",
    ),
    "no bytes": (
        payload(user({"inline_data": {"mime_type": "image/png"}})),
        "G12",
        "contents[0].parts[0].inline_data.data",
    ),
    "a data URL": (
        payload(user({"inline_data": {"mime_type": "image/png", "data": "data:x"}})),
        "G12",
        "contents[0].parts[0].inline_data.data",
    ),
    "a file without an address": (
        payload(user({"file_data": {"mime_type": "image/png"}})),
        "G12",
        "contents[0].parts[0].file_data.file_uri",
    ),
    "too many bytes": (payload(user(BIG)), "G12", "contents"),
    "JSON beside functions before Gemini 3": (
        older(tools=tools(F), response_mime_type="application/json"),
        "G14",
        "config.response_mime_type",
    ),
    "an unknown mode": (
        payload(tools=tools(F), tool_config=calling(mode="SOMETIMES")),
        "G15",
        "config.tool_config.function_calling_config.mode",
    ),
    "a mode beside server tools alone": (
        payload(tools=[{"google_search": {}}], tool_config=calling(mode="ANY")),
        "G15",
        "config.tool_config.function_calling_config",
    ),
    "names without force": (
        payload(tools=tools(F), tool_config=calling(mode="AUTO", allowed_function_names=["f"])),
        "G15",
        "config.tool_config.function_calling_config.allowed_function_names",
    ),
    "a name that is not declared": (
        payload(tools=tools(F), tool_config=calling(mode="ANY", allowed_function_names=["g"])),
        "G15",
        "config.tool_config.function_calling_config.allowed_function_names",
    ),
    "a search beside functions before Gemini 3": (
        older(tools=tools(F, google_search={})),
        "G16",
        "config.tools",
    ),
    "a search beside functions without the flag": (
        payload(tools=tools(F, google_search={})),
        "G16",
        "config.tool_config",
    ),
}


@pytest.mark.parametrize(("made", "rule", "where"), REFUSED.values(), ids=REFUSED.keys())
def test_is_refused(made: Any, rule: str, where: str) -> None:
    assert (rule, where) in check(made)


TAKEN: dict[str, Any] = {
    "a step": payload(GO, CALLS, ANSWERS),
    "parallel calls, the first signed": payload(
        GO, model(call(), call("g", signature=None)), user(response(), response("g"))
    ),
    "an older turn without signatures": payload(
        GO, model(call(signature=None)), ANSWERS, SAYS, GO, CALLS, ANSWERS
    ),
    "calls without signatures before Gemini 3": older(GO, model(call(signature=None)), ANSWERS),
    "calls without signatures where nobody names the model": body(
        GO, model(call(signature=None)), ANSWERS
    ),
    "text alone": payload() | {"contents": "go"},
    "a lone part": payload() | {"contents": {"text": "go"}},
    "parts that are one object": body({"role": "user", "parts": {"text": "go"}}),
    "parts of plain text": payload(user("go")),
    "a signature alone": payload(GO, model({"thought": True, "thoughtSignature": "c2ln"}), GO),
    "a signature on blank text": payload(GO, model({"text": "", "thoughtSignature": "c2ln"}), GO),
    "a schema of the OpenAPI subset": payload(
        tools=schema(
            properties={
                "const": {"type": "STRING", "nullable": True},
                "l": {"type": "ARRAY", "items": {"type": "INTEGER", "minimum": 1}},
            },
            propertyOrdering=["const"],
        ),
        automatic_function_calling={"disable": True},
    ),
    "a search beside functions with the flag": payload(
        tools=tools(F, google_search={}), tool_config=FLAG
    ),
    "a mode beside server tools, tolerated with the flag": payload(
        tools=[{"google_search": {}}], tool_config={**calling(mode="ANY"), **FLAG}
    ),
    "JSON beside functions from Gemini 3 on": payload(
        tools=tools(F), response_mime_type="application/json"
    ),
    "a moving alias on v1beta": payload(http_options={"api_version": "v1beta"})
    | {"model": "gemini-flash-latest"},
    "media in a response": payload(GO, CALLS, user(response(parts=[INLINE]))),
    "lower-case modes": body(
        tools=[{"functionDeclarations": [F]}],
        toolConfig={"functionCallingConfig": {"mode": "any", "allowedFunctionNames": ["f"]}},
    ),
}


@pytest.mark.parametrize("made", TAKEN.values(), ids=TAKEN.keys())
def test_is_not_refused(made: Any) -> None:
    assert check(made) == []


AVOIDED: dict[str, tuple[Any, str, str]] = {
    "no model": (body(), "G0", "model"),
    "the role function": (
        payload(GO, CALLS, {"role": "function", "parts": [response()]}),
        "G1",
        "contents[2].role",
    ),
    "the model first": (payload(SAYS, GO), "G1", "contents[0]"),
    "the model last": (payload(GO, SAYS), "G1", "contents[1]"),
    "responses in two contents": (
        older(GO, model(call(), call("g")), ANSWERS, user(response("g"))),
        "G2",
        "contents[3]",
    ),
    "responses in another order": (
        payload(GO, model(call(), call("g")), user(response("g"), response())),
        "G2",
        "contents[2].parts[0].function_response",
    ),
    "a response of another name": (
        payload(GO, CALLS, user(response("g"))),
        "G2",
        "contents[2].parts[0].function_response",
    ),
    "a response of another id": (
        payload(GO, model(call(id="1")), user(response(id="2"))),
        "G2",
        "contents[2].parts[0].function_response",
    ),
    "text beside responses": (
        payload(GO, CALLS, user(response(), {"text": "x"})),
        "G2",
        "contents[2]",
    ),
    "a film in a response": (
        payload(
            GO,
            CALLS,
            user(response(parts=[{"inlineData": {"mimeType": "video/mp4", "data": "QQ=="}}])),
        ),
        "G6",
        "contents[2].parts[0].function_response.parts[0]",
    ),
    "a function twice": (
        payload(tools=tools(F, F)),
        "G7",
        "config.tools[0].function_declarations[1].name",
    ),
    "a parameter's name with a dollar": (
        payload(
            tools=tools(
                {**F, "parameters_json_schema": {"type": "object", "properties": {"$top": {}}}}
            )
        ),
        "G7",
        "config.tools[0].function_declarations[0].parameters",
    ),
    "a parameter's name of dots and dashes": (
        payload(
            tools=tools(
                {**F, "parameters_json_schema": {"type": "object", "properties": {"a.b-c": {}}}}
            )
        ),
        "G7",
        "config.tools[0].function_declarations[0].parameters",
    ),
    "a schema that points out of itself": (
        payload(
            tools=tools(
                {
                    **F,
                    "parameters_json_schema": {
                        "type": "object",
                        "properties": {"a": {"$ref": "https://example.com/s"}},
                    },
                }
            )
        ),
        "G8",
        "config.tools[0].function_declarations[0].parameters_json_schema",
    ),
    "a thousand and one pages": (
        payload(user({"inlineData": {"mimeType": "application/pdf", "data": PAGES}})),
        "G12",
        "contents[0].parts[0].inline_data.data",
    ),
    "too many pictures": (payload(user(*[INLINE] * 3_601)), "G12", "contents"),
    "a budget from Gemini 3 on": (
        payload(thinking_config={"thinking_budget": 5}),
        "G10",
        "config.thinking_config.thinking_budget",
    ),
    "a GIF": (
        payload(user({"inlineData": {"mimeType": "image/gif", "data": "R0lG"}})),
        "G12",
        "contents[0].parts[0].inline_data.mime_type",
    ),
    "blank text": (payload(user({"text": " "})), "G13", "contents[0].parts[0].text"),
    "a mode without tools": (
        payload(tool_config=calling(mode="AUTO")),
        "G15",
        "config.tool_config.function_calling_config",
    ),
    "functions that the SDK would call": (
        payload(tools=tools(F)),
        "G15",
        "config.automatic_function_calling",
    ),
}


@pytest.mark.parametrize(("made", "rule", "where"), AVOIDED.values(), ids=AVOIDED.keys())
def test_is_better_avoided(made: Any, rule: str, where: str) -> None:
    assert (rule, where) in check(made, level="avoid")
    assert check(made) == []


def test_a_resolution_inside_a_response_needs_the_preview_as_well() -> None:
    inner = {"inlineData": INLINE["inlineData"], "mediaResolution": {"level": "X"}}
    talk = [GO, CALLS, user(response(parts=[inner]))]
    preview = {"http_options": {"api_version": "v1beta"}}

    assert check(payload(*talk)) == [("G11", "contents[2].parts[0].media_resolution")]
    assert check(payload(*talk, **preview)) == []


VERTEX = replace(GEMINI_25, host="vertex_ai")
HEAVY = {"inlineData": {"mimeType": "image/png", "data": "A" * 9_333_336}}
BLIND = replace(GEMINI_4, features={"vision": False})
ALWAYS = replace(GEMINI_25, id="gemini-2.5-pro", thinking=replace(GEMINI_25.thinking, disable="no"))
BY_ROW: dict[str, tuple[Any, ModelLimits, str, list[tuple[str, str]]]] = {
    "a level that the model lacks": (
        payload(thinking_config={"thinking_level": "XHIGH"}),
        GEMINI_4,
        "refused",
        [("G10", "config.thinking_config.thinking_level")],
    ),
    "no thinking where it cannot be off": (
        payload(thinking_config={"thinking_budget": 0}),
        ALWAYS,
        "refused",
        [("G10", "config.thinking_config.thinking_budget")],
    ),
    "no thinking where a level is asked for": (
        payload(thinking_config={"thinking_budget": 0}),
        GEMINI_4,
        "refused",
        [],
    ),
    "sampling that is ignored": (
        payload(temperature=1, top_k=3),
        GEMINI_4,
        "avoid",
        [("G10", "config.temperature"), ("G10", "config.top_k")],
    ),
    "a reply that is too long": (
        payload(max_output_tokens=70_000),
        GEMINI_4,
        "refused",
        [("G10", "config.max_output_tokens")],
    ),
    "a picture for a blind model": (
        payload(user(INLINE)),
        BLIND,
        "refused",
        [("G12", "contents[0].parts[0].inline_data")],
    ),
    "what Vertex AI knows besides": (
        payload(tools=schema(additionalProperties=False), tool_config=calling(mode="AUTO")),
        VERTEX,
        "refused",
        [],
    ),
    "a mode beside server tools on Vertex AI": (
        payload(tools=[{"google_search": {}}], tool_config=calling(mode="AUTO")),
        VERTEX,
        "refused",
        [],
    ),
    "a heavy picture on Vertex AI": (
        payload(user(HEAVY)),
        VERTEX,
        "avoid",
        [("G12", "contents[0].parts[0].inline_data.data")],
    ),
    "more pictures than Vertex AI takes": (
        payload(user(*[INLINE] * 3_001)),
        VERTEX,
        "avoid",
        [("G12", "contents")],
    ),
    "a resolution of its own on Vertex AI": (
        payload(user({**INLINE, "mediaResolution": {"level": "X"}})),
        VERTEX,
        "refused",
        [],
    ),
    "a search beside functions on Vertex AI": (
        payload(tools=tools(F, google_search={})),
        VERTEX,
        "refused",
        [],
    ),
}


@pytest.mark.parametrize(("made", "limits", "level", "found"), BY_ROW.values(), ids=BY_ROW.keys())
def test_the_model_s_row_decides(
    made: Any, limits: ModelLimits, level: str, found: list[tuple[str, str]]
) -> None:
    assert check(made, limits, level=level) == found


def test_many_bytes_are_better_uploaded() -> None:
    half = {"inlineData": {"mimeType": "video/mp4", "data": "A" * (15 * 1024 * 1024)}}

    assert check(payload(user(half, half)), level="avoid") == [("G12", "contents")]


def test_a_retired_model_s_id_tells_nothing_of_the_one_that_answers() -> None:
    retiring = replace(GEMINI_25, retires_on=date(2026, 12, 1))
    made = payload(thinking_config={"thinking_level": "LOW"})

    assert check(made, retiring, today=date(2026, 11, 30)) != []
    assert check(made, retiring, today=date(2026, 12, 1)) == []
