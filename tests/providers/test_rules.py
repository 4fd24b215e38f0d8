"""Valid payloads with one thing wrong: a rule finds it, and says how bad it is."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.errors import UnknownModelError
from context_assembler.providers import PROVIDERS, check_payload
from tests.providers import openai_rules
from tests.providers.builders import GONE, PIXEL, REGISTRY, SCHEMA, changed, request

ASK = {"role": "user", "content": "go"}
SAY = {"role": "assistant", "content": "done"}
NOTE = {"role": "system", "content": "In French."}
ANSWERED: list[dict[str, Any]] = [
    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "alpha"}]},
    {"type": "tool_result", "tool_use_id": "t2", "is_error": True, "content": "none"},
    {"type": "text", "text": "It is gone."},
]
CLAUDE: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "max_tokens": 8000,
    "system": [{"type": "text", "text": "Be brief."}],
    "tools": [{"name": "read", "description": "Reads.", "input_schema": SCHEMA}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Compare."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "", "signature": "EqQB"},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "t2", "name": "read", "input": {"path": "b"}},
            ],
        },
        {"role": "user", "content": ANSWERED},
        NOTE,
    ],
}
GEMINI: dict[str, Any] = {
    "model": "gemini-4-argon",
    "contents": [
        {"role": "user", "parts": [{"text": "Compare."}]},
        {
            "role": "model",
            "parts": [
                {
                    "function_call": {"id": "c1", "name": "read", "args": {"path": "a"}},
                    "thought_signature": "c2ln",
                },
                {"function_call": {"id": "c2", "name": "read", "args": {"path": "b"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"function_response": {"id": "c1", "name": "read", "response": {"output": "x"}}},
                {"function_response": {"id": "c2", "name": "read", "response": {"error": "y"}}},
            ],
        },
    ],
    "config": {
        "tools": [{"function_declarations": [{"name": "read", "parameters_json_schema": SCHEMA}]}],
        "thinking_config": {"thinking_level": "HIGH"},
        "max_output_tokens": 8000,
        "automatic_function_calling": {"disable": True},
    },
}


CALLS = CLAUDE["messages"][1]["content"][1:]


def older(model: str, **sampling: Any) -> dict[str, Any]:
    """Return the change to another model, asked with sampling over the older version of the API."""
    header = {"anthropic-version": "2023-06-01"}
    return {"model": model, "extra_headers": header, "extra_body": sampling}


def said(*content: Any) -> dict[str, Any]:
    """Return the change to one message of the user."""
    return {"messages": [{"role": "user", "content": list(content)}]}


def replied(*blocks: Any, then: Any = ()) -> dict[str, Any]:
    """Return the change to a question, a reply of these blocks, and what follows."""
    return {"messages": [ASK, {"role": "assistant", "content": [*blocks]}, *then]}


def source(kind: str, **fields: Any) -> dict[str, Any]:
    return said({"type": kind, "source": {"type": "base64", **fields}})


def inline(kind: str, media_type: str, data: str = PIXEL) -> dict[str, Any]:
    return source(kind, media_type=media_type, data=data)


def marked(*marks: Any) -> dict[str, Any]:
    return said(*({"type": "text", "text": "x", "cache_control": mark} for mark in marks))


def strict(**schema: Any) -> dict[str, Any]:
    return {"tools": [{"name": "read", "strict": True, "input_schema": {**SCHEMA, **schema}}]}


MARK, LONG = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
BUDGET, ADAPTIVE = {"type": "enabled", "budget_tokens": 2000}, {"type": "adaptive"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
COMPACTION = {"type": "compaction", "content": "x", "signature": "E"}
THRESHOLD = {"type": "compact_20260112"}
ON_DEMAND = {"compaction": {"type": "summarize"}, "betas": ["compact-2026-09-04"]}
EDITING = {"betas": ["context-management-2025-06-27"]}
REFERENCE = {"type": "tool_reference", "tool_name": "write"}
SCHEMA_AT = "tools.0.input_schema"
HAIKU = {"model": "claude-haiku-4-5", "messages": [ASK]}
OLDER = {"model": "gemini-2.5-flash", "config.thinking_config": {"thinking_budget": 1024}}
FUNCTION = "config.tools.0.function_declarations.0"


def declared(**schema: Any) -> dict[str, Any]:
    return {FUNCTION: {"name": "read", "parameters": {"type": "OBJECT", **schema}}}


def part(**fields: Any) -> dict[str, Any]:
    return {"contents.0.parts.0": fields}


def apart(**changes: Any) -> dict[str, Any]:
    one, two = ({"role": "user", "parts": [p]} for p in GEMINI["contents"][2]["parts"])
    return {**changes, "contents.2": one, "contents.3": two}


# What is wrong → the rule, with `?` if it merely harms, and the change to a valid payload.
ANTHROPIC: dict[str, tuple[str, dict[str, Any]]] = {
    "no model": ("A0", {"model": GONE}),
    "no length": ("A0", {"max_tokens": "many"}),
    "no messages": ("A0", {"messages": []}),
    "a role of another API": ("A0", {"messages.0.role": "tool"}),
    "content of another kind": ("A0", {"messages.0.content": 5}),
    "a block without a type": ("A0", {"messages.0.content.0": {}}),
    "the user calls": ("A0", {"messages.2.content.3": CLAUDE["messages"][1]["content"][1]}),
    "arguments that are text": ("A0", {"messages.1.content.1.input": "{}"}),
    "a result is missing": ("A1", {"messages.2.content": ANSWERED[1:]}),
    "no result follows": ("A1", {"messages.2.content": "go"}),
    "text before results": ("A2", {"messages.2.content": ANSWERED[::-1]}),
    "a result with another id": ("A3", {"messages.2.content.0.tool_use_id": "t9"}),
    "a result given twice": ("A3", {"messages.2.content": [ANSWERED[0], *ANSWERED]}),
    "the assistant answers": ("A3", {"messages.1.content.3": ANSWERED[0]}),
    "a pending search is talked over": ("A4", replied(SEARCH, then=[ASK])),
    "a search result alone": (
        "A4",
        {"messages.1.content.0": {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_9"}},
    ),
    "an id with a dot": (
        "A5",
        {"messages.1.content.1.id": "a.b", "messages.2.content.0.tool_use_id": "a.b"},
    ),
    "an id used twice": ("A5", {"messages.1.content.2.id": "t1"}),
    "a server's id of another form": ("A0", replied({**SEARCH, "id": "x"})),
    "a name with a dot": ("A6", {"tools.0.name": "read.it"}),
    "two tools of one name": ("A6", {"tools.1": CLAUDE["tools"][0]}),
    "a very long called name": ("A6", {"messages.1.content.1.name": "r" * 201}),
    "a forced tool that is not offered": (
        "A6",
        {**HAIKU, "tool_choice": {"type": "tool", "name": "x"}},
    ),
    "a union at the root": ("A7", {f"{SCHEMA_AT}.anyOf": [SCHEMA]}),
    "a schema of another type": ("A7", {f"{SCHEMA_AT}.type": "string"}),
    "no schema": ("A7", {SCHEMA_AT: GONE}),
    "a strict object that is open": ("A8", strict(additionalProperties=True)),
    "a strict bound": ("A8", strict(properties={"n": {"type": "integer", "minimum": 1}})),
    "26 optional parameters": ("A8", strict(properties={f"p{i}": {} for i in range(26)})),
    "blank text": ("A9", {"messages.0.content.0.text": " \n"}),
    "empty text in a result": ("A9", {"messages.2.content.0.content.0.text": ""}),
    "a blank system prompt": ("A9", {"system.0.text": ""}),
    "an empty message": ("A9", {"messages.0.content": []}),
    "space at the end": (
        "A10",
        {**HAIKU, "messages": [ASK, {"role": "assistant", "content": "x "}]},
    ),
    "the assistant last": ("A11", {"messages": [ASK, SAY]}),
    "a system message first": ("A13", {"messages": [NOTE, ASK]}),
    "a system message after a reply": ("A13", {"messages": [ASK, SAY, NOTE]}),
    "a system message before the user": ("A13", {"messages": [ASK, NOTE, ASK]}),
    "a temperature": ("A14", {"temperature": 1}),
    "too much heat": (
        "A14",
        {**HAIKU, "temperature": 2, "extra_headers": {"anthropic-version": "2023-06-01"}},
    ),
    "a document of the assistant": ("A14", replied({"type": "document"}, then=[ASK])),
    "a top_p above one": ("A14", older("claude-opus-4-6", top_p=1.5)),
    "a temperature below zero": ("A14", older("claude-opus-4-6", temperature=-1)),
    "a temperature in words": ("A14", older("claude-opus-4-6", temperature="warm")),
    "half a top_k": ("A14", older("claude-opus-4-6", top_k=1.5)),
    "temperature and top_p": ("A14", older("claude-opus-4-6", temperature=0.5, top_p=0.5)),
    "half a token": ("A0", {"max_tokens": 1.5}),
    "a field of other APIs": ("A0", {"messages.0.name": "Ada"}),
    "a type of other APIs": ("A0", said({"type": "input_text", "text": "a"})),
    "warming the cache in a stream": ("A24", {"max_tokens": 0, "stream": True}),
    "warming the cache while thinking": ("A24", {"max_tokens": 0, "thinking": ADAPTIVE}),
    "two ways of compaction": (
        "A25",
        {"compaction": {}, "context_management": {"edits": [{}]}, **ON_DEMAND},
    ),
    "thinking cleared late": (
        "A26",
        {"context_management": {"edits": [{}, {"type": "clear_thinking_20251015"}]}, **EDITING},
    ),
    "a compaction with stops": ("A25", {**ON_DEMAND, "stop_sequences": ["x"]}),
    "a compaction too early": (
        "A36",
        {
            "context_management": {"edits": [{**THRESHOLD, "trigger": {"value": 49_999}}]},
            "betas": ["compact-2026-01-12"],
        },
    ),
    "a threshold next to a signed compaction": (
        "A36",
        {
            "messages": [{"role": "assistant", "content": [COMPACTION]}, ASK],
            "context_management": {"edits": [THRESHOLD]},
            "betas": ["compact-2026-09-04", "compact-2026-01-12"],
        },
    ),
    "a compaction without its beta": ("A37", {"compaction": {"type": "summarize"}}),
    "a block of it without its beta": (
        "A37",
        {"messages": [{"role": "assistant", "content": [COMPACTION]}, ASK]},
    ),
    "edits without their beta": (
        "A37",
        {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
    ),
    "another ttl at the end": ("A19", {**marked(LONG), "cache_control": MARK}),
    "an effort on a model without": (
        "A27",
        {"model": "claude-haiku-4-5", "output_config": {"effort": "low"}},
    ),
    "an unknown kind of thinking": ("A15", {"thinking": {"type": "on"}}),
    "an unknown tool choice": ("A6", {"tool_choice": {"type": "required"}}),
    "from the assistant": ("A12?", {"messages": [SAY, ASK]}),
    "text behind a call": (
        "A35?",
        {"messages.1.content": [CALLS[0], {"type": "text", "text": "a"}, CALLS[1]]},
    ),
    "a program that is nowhere": (
        "A34",
        {"messages.1.content.1.caller": {"type": "code_execution_20260120", "tool_id": "x"}},
    ),
    "citations of the user": ("A14", {"messages.0.content.0.citations": [{}]}),
    "a budget on an adaptive model": ("A15", {"thinking": BUDGET}),
    "thinking off": ("A15", {"thinking": {"type": "disabled"}}),
    "a small budget": ("A15", {**HAIKU, "thinking": {**BUDGET, "budget_tokens": 5}}),
    "a large budget": ("A15", {**HAIKU, "thinking": {**BUDGET, "budget_tokens": 9000}}),
    "a loop without thinking": (
        "A15",
        {
            "model": HAIKU["model"],
            "thinking": BUDGET,
            "messages.1.content.0": GONE,
            "messages.2.content": ANSWERED[:2],
            "messages.3": GONE,
        },
    ),
    "unsigned thinking": ("A16", {"messages.1.content.0.signature": ""}),
    "the user thinks": ("A16", {"messages.2.content.3": CLAUDE["messages"][1]["content"][0]}),
    "a forced call": ("A18", {"tool_choice": {"type": "any"}}),
    "five breakpoints": ("A19", marked(*[MARK] * 5)),
    "short before long": ("A19", marked(MARK, LONG)),
    "a mark on thinking": ("A19", {"messages.1.content.0.cache_control": MARK}),
    "all tools deferred": ("A20", {"tools.0.defer_loading": True}),
    "a reference to no tool": ("A20", {"messages.2.content.0.content": [REFERENCE]}),
    "an image of another type": ("A21", inline("image", "image/bmp")),
    "an image that is another": ("A21", inline("image", "image/jpeg")),
    "an image that is no base64": ("A21", inline("image", "image/png", "%%%")),
    "an image in a bucket": ("A21", source("image", type="url", url="gs://a/b.png")),
    "an image without an address": ("A0", source("image", type="url")),
    "an image of no source": ("A0", source("image", type="odd")),
    "a PDF that is an image": ("A22", inline("document", "application/pdf")),
    "a document that is an image": ("A22", inline("document", "image/png")),
    "a document on the disk": ("A22", source("document", type="url", url="file:///a.pdf")),
    "a long reply": ("A23", {"max_tokens": 128_001, "stream": True}),
    "an unknown effort": ("A27", {"output_config": {"effort": "huge"}}),
    "a blank stop": ("A28", {"stop_sequences": [" "]}),
    "the user compacts": ("A29", said(COMPACTION)),
    "an empty compaction": ("A29", {"messages.1.content.0": {**COMPACTION, "content": ""}}),
    "a compaction in the middle": ("A29", {"messages.1.content.0": COMPACTION}),
    "a sign in a name": ("A32", {f"{SCHEMA_AT}.properties.$filter": {}}),
    "items by position": ("A33", {f"{SCHEMA_AT}.properties.path.items": [{}]}),
    "a bound that is a flag": ("A33", {f"{SCHEMA_AT}.properties.path.exclusiveMinimum": True}),
}
GEMINI_ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "no contents": ("G0", {"contents": []}),
    "an unknown field": ("G0", {"contents.0.parts.0.cache_control": MARK}),
    **{
        f"an unknown field in {place}": ("G0", {f"{place}.cache_control": MARK})
        for place in (
            *("contents.0", "config", FUNCTION, "config.tools.0", "config.thinking_config"),
            *("contents.1.parts.0.function_call", "contents.2.parts.0.function_response"),
        )
    },
    "an unknown setting of the request": ("G0", {"generationConfig": {"maxTokens": 4}}),
    "an unknown way to choose": (
        "G0",
        {"config.tool_config": {"functionCallingConfig": {"mode": "AUTO", "name": "read"}}},
    ),
    "two things in a part": ("G0", {"contents.0.parts.0.function_call": {"name": "read"}}),
    "nothing in a part": ("G0", {"contents.0.parts.1": {"thought": True}}),
    "a role of another API": ("G1", {"contents.0.role": "system"}),
    "a response is missing": ("G2", {"contents.2.parts.1": GONE}),
    "responses apart": ("G2", apart()),
    "responses in another order": (
        "G2?",
        {"contents.2.parts": GEMINI["contents"][2]["parts"][::-1]},
    ),
    "a call first": ("G3", {"contents.0": GONE}),
    "a call after the model": ("G3", {"contents.0.role": "model"}),
    "a response without a call": ("G3", {"contents.1": GONE}),
    "the user calls": ("G3", {"contents.1.role": "user"}),
    "an unsigned call": ("G4", {"contents.1.parts.0.thought_signature": GONE}),
    "a changed signature": ("G5", {"contents.1.parts.0.thought_signature": "no base64!"}),
    "a response that is text": ("G6", {"contents.2.parts.0.function_response.response": "x"}),
    "a response without a name": ("G6", {"contents.2.parts.0.function_response.name": GONE}),
    "media in a response of an older model": (
        "G6",
        {**OLDER, "contents.2.parts.0.function_response.parts": [{}]},
    ),
    "a digit first": ("G7", {f"{FUNCTION}.name": "9f"}),
    "two schemas": ("G8", {f"{FUNCTION}.parameters": {"type": "OBJECT"}}),
    "a keyword beyond the subset": ("G8", declared(oneOf=[])),
    "a list of types": ("G8", declared(properties={"a": {"type": ["STRING", "NULL"]}})),
    "an array without items": ("G8", declared(properties={"a": {"type": "ARRAY"}})),
    "numbers in an enum": ("G8", declared(properties={"a": {"enum": [1]}})),
    "a reference to nothing": (
        "G8?",
        {f"{FUNCTION}.parameters_json_schema": {"properties": {"a": {"$ref": "#/$defs/x"}}}},
    ),
    "tools next to cached content": ("G9", {**OLDER, "config.cached_content": "cachedContents/x"}),
    "a level and a budget": ("G10", {"config.thinking_config.thinking_budget": 100}),
    "a level on a model with budgets": ("G10", {"model": "gemini-2.5-flash"}),
    "an unknown level": ("G10", {"config.thinking_config": {"thinking_level": "MINIMAL"}}),
    "a long reply": ("G10", {"config.max_output_tokens": 65_537}),
    "no reply": ("G10", {"config.max_output_tokens": 0}),
    "too much heat": ("G10", {"config.temperature": 3}),
    "cold": ("G10", {"config.temperature": -1}),
    "a penalty of a model without": ("G10", {**OLDER, "config.presencePenalty": 0.5}),
    "six stop sequences": ("G10", {"config.stop_sequences": list("abcdef")}),
    "an alias on the stable API": ("G11", {"model": "gemini-flash-latest"}),
    "a resolution on the stable API": ("G11", {"contents.0.parts.0.media_resolution": {}}),
    "an image that is another": (
        "G12?",
        part(inline_data={"mime_type": "image/jpeg", "data": PIXEL}),
    ),
    "bytes that are no base64": ("G12", part(inline_data={"mime_type": "a/b", "data": "%"})),
    "bytes of no type": ("G12", part(inline_data={"data": PIXEL})),
    "an image on the disk": ("G12", part(file_data={"file_uri": "file:///a.png"})),
    "no parts": ("G13", {"contents.0.parts": []}),
    "JSON next to functions": ("G14", {**OLDER, "config.response_mime_type": "application/json"}),
    "a choice of an unknown mode": (
        "G15",
        {"config.tool_config": {"function_calling_config": {"mode": "SOME"}}},
    ),
    "a choice without functions": (
        "G15?",
        {"config.tools": [], "config.tool_config": {"function_calling_config": {"mode": "AUTO"}}},
    ),
    "a choice of what is not declared": (
        "G15",
        {
            "config.tool_config": {
                "function_calling_config": {"mode": "ANY", "allowed_function_names": ["x"]}
            }
        },
    ),
    "server tools without the flag": ("G16", {"config.tools.1": {"google_search": {}}}),
    "server tools on an older model": ("G16", {**OLDER, "config.tools.1": {"google_search": {}}}),
}
BASES = {
    "anthropic": CLAUDE,
    "gemini": GEMINI,
    "openai_chat": openai_rules.CHAT,
    "openai_responses": openai_rules.RESPONSES,
}
ROWS = {
    "anthropic": ANTHROPIC,
    "gemini": GEMINI_ROWS,
    "openai_chat": openai_rules.CHAT_ROWS,
    "openai_responses": openai_rules.RESPONSES_ROWS,
}
EACH = {
    f"{provider}: {name}": (provider, *row)
    for provider, rows in ROWS.items()
    for name, row in rows.items()
}


def rules_broken(provider: str, payload: dict[str, Any]) -> set[str]:
    try:
        limits = REGISTRY.get(str(payload.get("model")))
    except UnknownModelError:
        limits = None
    found = check_payload(provider, payload, limits=limits)
    return {f"{one.rule}{'?' if one.level == 'advice' else ''}" for one in found}


@pytest.mark.parametrize(("provider", "rule", "changes"), EACH.values(), ids=EACH.keys())
def test_one_change_is_found_by_its_rule(provider: str, rule: str, changes: dict[str, Any]) -> None:
    assert rules_broken(provider, BASES[provider]) == set()
    assert rule in rules_broken(provider, changed(BASES[provider], changes))


def test_what_is_refused_and_what_merely_harms_are_said_apart() -> None:
    lost: dict[str, Any] = {"role": "tool", "tool_call_id": "none", "content": "x"}
    messages = [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}, lost]

    found = check_payload("openai_chat", {"model": "weights", "messages": messages})

    assert ([one.rule for one in found.refused], [one.rule for one in found.advice]) == (
        ["C1"],
        ["C16"],
    )
    assert list(found) == sorted([*found.refused, *found.advice], key=found.index)


TAKEN: dict[str, tuple[str, dict[str, Any]]] = {
    "an image on the web": ("anthropic", source("image", type="url", url="https://a.org/b.png")),
    "an image": ("anthropic", inline("image", "image/png")),
    "an uploaded document": (
        "anthropic",
        {**source("document", type="file", file_id="f"), "betas": ["files-api-2025-04-14"]},
    ),
    "a turn that waits for a server": ("anthropic", replied(SEARCH)),
    "a signed compaction": (
        "anthropic",
        {
            "messages": [{"role": "assistant", "content": [COMPACTION]}, ASK],
            "extra_headers": {"anthropic-beta": "compact-2026-09-04"},
        },
    ),
    "sampling by the older version": (
        "anthropic",
        {**HAIKU, "top_p": 0.5, "extra_headers": {"anthropic-version": "2023-06-01"}},
    ),
    "contents as text": ("gemini", {"contents": "Compare."}),
    "the body of a request": (
        "gemini",
        {"config": GONE, "generationConfig": {"thinkingConfig": {"thinkingLevel": "LOW"}}},
    ),
    "calls in two contents, answered in one": (
        "gemini",
        {
            "contents.1.parts.1": GONE,
            "contents.2": {"role": "model", "parts": GEMINI["contents"][1]["parts"][1:]},
            "contents.3": GEMINI["contents"][2],
        },
    ),
    **{
        f"functions next to {tool} on Vertex AI": (
            "gemini",
            {"model": model, "config.tools.1": {tool: {}}},
        )
        for tool, model in {
            "googleSearch": "publishers/google/models/gemini-4-argon",
            "google_maps": "projects/p/locations/l/publishers/google/models/gemini-4-argon",
            "enterpriseWebSearch": "gemini-4-argon",
        }.items()
    },
    **{name: ("openai_chat", row) for name, row in openai_rules.CHAT_TAKEN.items()},
    **{
        f"responses: {name}": ("openai_responses", row)
        for name, row in openai_rules.RESPONSES_TAKEN.items()
    },
}


@pytest.mark.parametrize(("provider", "changes"), TAKEN.values(), ids=TAKEN.keys())
def test_what_is_taken_breaks_no_rule(provider: str, changes: dict[str, Any]) -> None:
    assert rules_broken(provider, changed(BASES[provider], changes)) == set()


def test_dated_rules_hold_from_their_day_on() -> None:
    payload = changed(CLAUDE, {"temperature": 1})

    before = check_payload("anthropic", payload, today=date(2026, 10, 20))
    since = check_payload("anthropic", payload, today=date(2026, 10, 21))

    assert [one.rule for one in before] == []
    assert [one.rule for one in since] == ["A14"]
    assert "https://" in since[0].source
    assert "(read 2026-11-27)" in since[0].source


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "model messages contents config role content parts type text tools input_schema id "
                "source thinking function_call name system cache_control tool_use_id input output "
                "tool_calls call_id summary response_format reasoning parameters strict".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("provider", BASES)
@given(
    payload=st.dictionaries(st.sampled_from(["messages", "contents", "input", "tools"]), anything)
)
def test_any_json_can_be_checked(provider: str, payload: dict[str, Any]) -> None:
    check_payload(provider, payload)


ODD: list[Any] = [None, 1, "", [], {}, ["a"], [[]], {"type": ["a"]}, [{"type": {}}]]


def places(value: Any, path: str = "") -> list[str]:
    """Return the paths of everything inside a payload, as `changed` takes them."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    listed = [(f"{path}.{key}".strip("."), held) for key, held in inside]
    nested = [(at, held) for at, held in listed if isinstance(held, dict | list)]
    return [at for at, _ in listed] + [inner for at, held in nested for inner in places(held, at)]


@pytest.mark.parametrize("provider", BASES)
def test_a_payload_with_an_odd_value_anywhere_can_be_checked_and_read(provider: str) -> None:
    chosen = {"tool_choice": {"type": "allowed_tools", "tools": [{"type": "function"}]}}
    base = BASES[provider] | (chosen if provider.startswith("openai") else {})
    for path in places(base):
        for value in ODD:
            payload = changed(base, {path: value})
            check_payload(provider, payload, limits=REGISTRY.get(base["model"]))
            PROVIDERS[provider].read_messages(payload)


# ---- the recorded corpus ----

OF_PAIRS = ("A1", "A3", "A4", "A11", "A13", "C1", "G2", "R1")  # the assembler pairs, not a wire


def recorded(corpus: Path, file: str, provider: str) -> list[dict[str, Any]]:
    with (corpus / "requests" / file).open(encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        return [row for row in rows if row["provider"].replace("-", "_") == provider]


def refusals(row: dict[str, Any]) -> list[str]:
    in_url = row["url"].partition("/models/")[2].partition(":")[0]
    try:
        limits = REGISTRY.get(row["request"].get("model") or row.get("response_model") or in_url)
    except UnknownModelError:
        limits = None
    provider = row["provider"].replace("-", "_")
    found = check_payload(provider, row["request"], limits=limits, today=date(2026, 10, 20))
    return [str(one) for one in found if one.level == "refused"]


@pytest.mark.parametrize("provider", BASES)
def test_no_accepted_request_is_called_refused(provider: str, corpus: Path) -> None:
    rows = recorded(corpus, f"accepted_{provider}.jsonl", provider)

    assert {row["id"]: found for row in rows if (found := refusals(row))} == {}
    assert len(rows) > 300


CAUGHT = {"anthropic": 2, "gemini": 3, "openai_chat": 20, "openai_responses": 31}


@pytest.mark.parametrize(("provider", "count"), CAUGHT.items())
def test_rejected_requests_are_caught(provider: str, count: int, corpus: Path) -> None:
    rows = recorded(corpus, "rejected.jsonl", provider)

    assert sum(bool(refusals(row)) for row in rows) >= count


@pytest.mark.parametrize("provider", BASES)
def test_accepted_requests_are_read_and_sent_again_valid(provider: str, corpus: Path) -> None:
    broken: dict[str, list[str]] = {}
    for row in recorded(corpus, f"accepted_{provider}.jsonl", provider):
        asked = request(provider, tools=())
        wire = PROVIDERS[provider].Wire(asked)
        events = PROVIDERS[provider].read_messages(row["request"])
        for kind, body in events:
            role = {"user": "user", "assistant": "assistant", "system": "system"}.get(kind, "tool")
            wire.add({"role": role, "parts": body["parts"]})
        if wire.messages:
            payload = wire.write(asked)
            found = check_payload(provider, payload, limits=asked.limits)
            if odd := [str(one) for one in found.refused if one.rule not in OF_PAIRS]:
                broken[row["id"]] = odd

    assert broken == {}
