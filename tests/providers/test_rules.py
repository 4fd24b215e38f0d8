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


# The rule, with `?` if it merely harms, and what is wrong → the change to a valid payload.
ANTHROPIC: dict[str, dict[str, Any]] = {
    "A0: no model": {"model": GONE},
    "A0: no length": {"max_tokens": "many"},
    "A0: no messages": {"messages": []},
    "A0: a role of another API": {"messages.0.role": "tool"},
    "A0: content of another kind": {"messages.0.content": 5},
    "A0: a block without a type": {"messages.0.content.0": {}},
    "A0: the user calls": {"messages.2.content.3": CLAUDE["messages"][1]["content"][1]},
    "A0: arguments that are text": {"messages.1.content.1.input": "{}"},
    "A1: a result is missing": {"messages.2.content": ANSWERED[1:]},
    "A1: no result follows": {"messages.2.content": "go"},
    "A2: text before results": {"messages.2.content": ANSWERED[::-1]},
    "A3: a result with another id": {"messages.2.content.0.tool_use_id": "t9"},
    "A3: a result given twice": {"messages.2.content": [ANSWERED[0], *ANSWERED]},
    "A3: the assistant answers": {"messages.1.content.3": ANSWERED[0]},
    "A4: a pending search is talked over": replied(SEARCH, then=[ASK]),
    "A4: a search result alone": {
        "messages.1.content.0": {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_9"}
    },
    "A5: an id with a dot": {
        "messages.1.content.1.id": "a.b",
        "messages.2.content.0.tool_use_id": "a.b",
    },
    "A5: an id used twice": {"messages.1.content.2.id": "t1"},
    "A0: a server's id of another form": replied({**SEARCH, "id": "x"}),
    "A6: a name with a dot": {"tools.0.name": "read.it"},
    "A6: two tools of one name": {"tools.1": CLAUDE["tools"][0]},
    "A6: a very long called name": {"messages.1.content.1.name": "r" * 201},
    "A6: a forced tool that is not offered": {
        **HAIKU,
        "tool_choice": {"type": "tool", "name": "x"},
    },
    "A7: a union at the root": {f"{SCHEMA_AT}.anyOf": [SCHEMA]},
    "A7: a schema of another type": {f"{SCHEMA_AT}.type": "string"},
    "A7: no schema": {SCHEMA_AT: GONE},
    "A8: a strict object that is open": strict(additionalProperties=True),
    "A8: a strict bound": strict(properties={"n": {"type": "integer", "minimum": 1}}),
    "A8: 26 optional parameters": strict(properties={f"p{i}": {} for i in range(26)}),
    "A9: blank text": {"messages.0.content.0.text": " \n"},
    "A9: empty text in a result": {"messages.2.content.0.content.0.text": ""},
    "A9: a blank system prompt": {"system.0.text": ""},
    "A9: an empty message": {"messages.0.content": []},
    "A10: space at the end": {**HAIKU, "messages": [ASK, {"role": "assistant", "content": "x "}]},
    "A11: the assistant last": {"messages": [ASK, SAY]},
    "A13: a system message first": {"messages": [NOTE, ASK]},
    "A13: a system message after a reply": {"messages": [ASK, SAY, NOTE]},
    "A13: a system message before the user": {"messages": [ASK, NOTE, ASK]},
    "A14: a temperature": {"temperature": 1},
    "A14: too much heat": {
        **HAIKU,
        "temperature": 2,
        "extra_headers": {"anthropic-version": "2023-06-01"},
    },
    "A14: a document of the assistant": replied({"type": "document"}, then=[ASK]),
    "A14: a top_p above one": older("claude-opus-4-6", top_p=1.5),
    "A14: a temperature below zero": older("claude-opus-4-6", temperature=-1),
    "A14: a temperature in words": older("claude-opus-4-6", temperature="warm"),
    "A14: half a top_k": older("claude-opus-4-6", top_k=1.5),
    "A14: temperature and top_p": older("claude-opus-4-6", temperature=0.5, top_p=0.5),
    "A0: half a token": {"max_tokens": 1.5},
    "A0: a field of other APIs": {"messages.0.name": "Ada"},
    "A0: a type of other APIs": said({"type": "input_text", "text": "a"}),
    "A24: warming the cache in a stream": {"max_tokens": 0, "stream": True},
    "A24: warming the cache while thinking": {"max_tokens": 0, "thinking": ADAPTIVE},
    "A25: two ways of compaction": {
        "compaction": {},
        "context_management": {"edits": [{}]},
        **ON_DEMAND,
    },
    "A26: thinking cleared late": {
        "context_management": {"edits": [{}, {"type": "clear_thinking_20251015"}]},
        **EDITING,
    },
    "A25: a compaction with stops": {**ON_DEMAND, "stop_sequences": ["x"]},
    "A36: a compaction too early": {
        "context_management": {"edits": [{**THRESHOLD, "trigger": {"value": 49_999}}]},
        "betas": ["compact-2026-01-12"],
    },
    "A36: a threshold next to a signed compaction": {
        "messages": [{"role": "assistant", "content": [COMPACTION]}, ASK],
        "context_management": {"edits": [THRESHOLD]},
        "betas": ["compact-2026-09-04", "compact-2026-01-12"],
    },
    "A37: a compaction without its beta": {"compaction": {"type": "summarize"}},
    "A37: a block of it without its beta": {
        "messages": [{"role": "assistant", "content": [COMPACTION]}, ASK]
    },
    "A37: edits without their beta": {
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}
    },
    "A19: another ttl at the end": {**marked(LONG), "cache_control": MARK},
    "A27: an effort on a model without": {
        "model": "claude-haiku-4-5",
        "output_config": {"effort": "low"},
    },
    "A15: an unknown kind of thinking": {"thinking": {"type": "on"}},
    "A6: an unknown tool choice": {"tool_choice": {"type": "required"}},
    "A12?: from the assistant": {"messages": [SAY, ASK]},
    "A35?: text behind a call": {
        "messages.1.content": [CALLS[0], {"type": "text", "text": "a"}, CALLS[1]]
    },
    "A34: a program that is nowhere": {
        "messages.1.content.1.caller": {"type": "code_execution_20260120", "tool_id": "x"}
    },
    "A14: citations of the user": {"messages.0.content.0.citations": [{}]},
    "A15: a budget on an adaptive model": {"thinking": BUDGET},
    "A15: thinking off": {"thinking": {"type": "disabled"}},
    "A15: a small budget": {**HAIKU, "thinking": {**BUDGET, "budget_tokens": 5}},
    "A15: a large budget": {**HAIKU, "thinking": {**BUDGET, "budget_tokens": 9000}},
    "A15: a loop without thinking": {
        "model": HAIKU["model"],
        "thinking": BUDGET,
        "messages.1.content.0": GONE,
        "messages.2.content": ANSWERED[:2],
        "messages.3": GONE,
    },
    "A16: unsigned thinking": {"messages.1.content.0.signature": ""},
    "A16: the user thinks": {"messages.2.content.3": CLAUDE["messages"][1]["content"][0]},
    "A18: a forced call": {"tool_choice": {"type": "any"}},
    "A19: five breakpoints": marked(*[MARK] * 5),
    "A19: short before long": marked(MARK, LONG),
    "A19: a mark on thinking": {"messages.1.content.0.cache_control": MARK},
    "A20: all tools deferred": {"tools.0.defer_loading": True},
    "A20: a reference to no tool": {"messages.2.content.0.content": [REFERENCE]},
    "A21: an image of another type": inline("image", "image/bmp"),
    "A21: an image that is another": inline("image", "image/jpeg"),
    "A21: an image that is no base64": inline("image", "image/png", "%%%"),
    "A21: an image in a bucket": source("image", type="url", url="gs://a/b.png"),
    "A0: an image without an address": source("image", type="url"),
    "A0: an image of no source": source("image", type="odd"),
    "A22: a PDF that is an image": inline("document", "application/pdf"),
    "A22: a document that is an image": inline("document", "image/png"),
    "A22: a document on the disk": source("document", type="url", url="file:///a.pdf"),
    "A23: a long reply": {"max_tokens": 128_001, "stream": True},
    "A27: an unknown effort": {"output_config": {"effort": "huge"}},
    "A28: a blank stop": {"stop_sequences": [" "]},
    "A29: the user compacts": said(COMPACTION),
    "A29: an empty compaction": {"messages.1.content.0": {**COMPACTION, "content": ""}},
    "A29: a compaction in the middle": {"messages.1.content.0": COMPACTION},
    "A32: a sign in a name": {f"{SCHEMA_AT}.properties.$filter": {}},
    "A33: items by position": {f"{SCHEMA_AT}.properties.path.items": [{}]},
    "A33: a bound that is a flag": {f"{SCHEMA_AT}.properties.path.exclusiveMinimum": True},
}
GEMINI_ROWS: dict[str, dict[str, Any]] = {
    "G0: no contents": {"contents": []},
    "G0: an unknown field": {"contents.0.parts.0.cache_control": MARK},
    **{
        f"G0: an unknown field in {place}": {f"{place}.cache_control": MARK}
        for place in (
            *("contents.0", "config", FUNCTION, "config.tools.0", "config.thinking_config"),
            *("contents.1.parts.0.function_call", "contents.2.parts.0.function_response"),
        )
    },
    "G0: an unknown setting of the request": {"generationConfig": {"maxTokens": 4}},
    "G0: an unknown way to choose": {
        "config.tool_config": {"functionCallingConfig": {"mode": "AUTO", "name": "read"}}
    },
    "G0: two things in a part": {"contents.0.parts.0.function_call": {"name": "read"}},
    "G0: nothing in a part": {"contents.0.parts.1": {"thought": True}},
    "G1: a role of another API": {"contents.0.role": "system"},
    "G2: a response is missing": {"contents.2.parts.1": GONE},
    "G2: responses apart": apart(),
    "G2?: responses in another order": {"contents.2.parts": GEMINI["contents"][2]["parts"][::-1]},
    "G3: a call first": {"contents.0": GONE},
    "G3: a call after the model": {"contents.0.role": "model"},
    "G3: a response without a call": {"contents.1": GONE},
    "G3: the user calls": {"contents.1.role": "user"},
    "G4: an unsigned call": {"contents.1.parts.0.thought_signature": GONE},
    "G5: a changed signature": {"contents.1.parts.0.thought_signature": "no base64!"},
    "G6: a response that is text": {"contents.2.parts.0.function_response.response": "x"},
    "G6: a response without a name": {"contents.2.parts.0.function_response.name": GONE},
    "G6: media in a response of an older model": {
        **OLDER,
        "contents.2.parts.0.function_response.parts": [{}],
    },
    "G7: a digit first": {f"{FUNCTION}.name": "9f"},
    "G8: two schemas": {f"{FUNCTION}.parameters": {"type": "OBJECT"}},
    "G8: a keyword beyond the subset": declared(oneOf=[]),
    "G8: a list of types": declared(properties={"a": {"type": ["STRING", "NULL"]}}),
    "G8: an array without items": declared(properties={"a": {"type": "ARRAY"}}),
    "G8: numbers in an enum": declared(properties={"a": {"enum": [1]}}),
    "G8?: a reference to nothing": {
        f"{FUNCTION}.parameters_json_schema": {"properties": {"a": {"$ref": "#/$defs/x"}}}
    },
    "G9: tools next to cached content": {**OLDER, "config.cached_content": "cachedContents/x"},
    "G10: a level and a budget": {"config.thinking_config.thinking_budget": 100},
    "G10: a level on a model with budgets": {"model": "gemini-2.5-flash"},
    "G10: an unknown level": {"config.thinking_config": {"thinking_level": "MINIMAL"}},
    "G10: a long reply": {"config.max_output_tokens": 65_537},
    "G10: no reply": {"config.max_output_tokens": 0},
    "G10: too much heat": {"config.temperature": 3},
    "G10: cold": {"config.temperature": -1},
    "G10: a penalty of a model without": {**OLDER, "config.presencePenalty": 0.5},
    "G10: six stop sequences": {"config.stop_sequences": list("abcdef")},
    "G11: an alias on the stable API": {"model": "gemini-flash-latest"},
    "G11: a resolution on the stable API": {"contents.0.parts.0.media_resolution": {}},
    "G12?: an image that is another": part(inline_data={"mime_type": "image/jpeg", "data": PIXEL}),
    "G12: bytes that are no base64": part(inline_data={"mime_type": "a/b", "data": "%"}),
    "G12: bytes of no type": part(inline_data={"data": PIXEL}),
    "G12: an image on the disk": part(file_data={"file_uri": "file:///a.png"}),
    "G13: no parts": {"contents.0.parts": []},
    "G14: JSON next to functions": {**OLDER, "config.response_mime_type": "application/json"},
    "G15: a choice of an unknown mode": {
        "config.tool_config": {"function_calling_config": {"mode": "SOME"}}
    },
    "G15?: a choice without functions": {
        "config.tools": [],
        "config.tool_config": {"function_calling_config": {"mode": "AUTO"}},
    },
    "G15: a choice of what is not declared": {
        "config.tool_config": {
            "function_calling_config": {"mode": "ANY", "allowed_function_names": ["x"]}
        }
    },
    "G16: server tools without the flag": {"config.tools.1": {"google_search": {}}},
    "G16: server tools on an older model": {**OLDER, "config.tools.1": {"google_search": {}}},
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
    f"{provider}: {name}": (provider, name.partition(":")[0], changes)
    for provider, rows in ROWS.items()
    for name, changes in rows.items()
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
