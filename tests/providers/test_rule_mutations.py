"""Valid payloads with one thing wrong: each rule of the tables finds it, and says how bad it is."""

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import date
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from context_assembler.providers import PROVIDERS
from context_assembler.providers.anthropic import rule_book as anthropic_book
from context_assembler.providers.gemini import rule_book as gemini_book
from context_assembler.providers.openai_chat import rule_book as chat_book
from context_assembler.providers.openai_responses import rule_book as responses_book
from context_assembler.values.limits import ModelLimits
from tests.providers.drafts import GEMINI_4, GEMINI_25, GPT_6_SOL, GPT_62, HAIKU_45, OPUS, PIXEL

TODAY: Final = date(2026, 11, 27)
SCHEMA: Final = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
GPT_ASTRA: Final = replace(GPT_62, id="gpt-6-astra")
O3: Final = replace(GPT_62, id="o3")

Made: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[Made], object]


class Row(NamedTuple):
    """One thing done to a valid payload, and the rule that finds it."""

    rule: str
    change: Change
    level: str = "refused"
    limits: ModelLimits | None = None


def put(*path: Any) -> Change:
    """Put the last of the path to where the rest of it leads."""
    *steps, key, value = path

    def change(made: Made) -> None:
        held: Any = made
        for step in steps:
            held = held[step]
        held[key] = value

    return change


def drop(*path: Any) -> Change:
    *steps, key = path

    def change(made: Made) -> None:
        held: Any = made
        for step in steps:
            held = held[step]
        del held[key]

    return change


def add(*path: Any) -> Change:
    """Append the last of the path to the list where the rest of it leads."""
    *steps, value = path

    def change(made: Made) -> None:
        held: Any = made
        for step in steps:
            held = held[step]
        held.append(value)

    return change


def insert(key: str, at: int, entry: Made) -> Change:
    def change(made: Made) -> None:
        made[key].insert(at, entry)

    return change


def all_of(*changes: Change) -> Change:
    def change(made: Made) -> None:
        for one in changes:
            one(made)

    return change


def messages(*entries: Any) -> Change:
    return put("messages", list(entries))


# ---- Anthropic ----

CLAUDE: Final[Made] = {
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
                {"type": "text", "text": "Reading."},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "t2", "name": "read", "input": {"path": "b"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "alpha"}],
                },
                {"type": "tool_result", "tool_use_id": "t2", "is_error": True, "content": "none"},
                {"type": "text", "text": "It is gone."},
            ],
        },
        {"role": "system", "content": "In French."},
    ],
}
SAID, ANSWERED = CLAUDE["messages"][1], CLAUDE["messages"][2]
ASK: Final = {"role": "user", "content": "go"}
SAY: Final = {"role": "assistant", "content": "done"}
NOTE: Final = {"role": "system", "content": "In French."}
SEARCH: Final[Made] = {
    "role": "assistant",
    "content": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
    ],
}
MARK: Final = {"type": "ephemeral"}
MARK_1H: Final = {"type": "ephemeral", "ttl": "1h"}
BUDGET: Final = {"type": "enabled", "budget_tokens": 2000}
BETAS: Final = {"anthropic-beta": "compact-2026-09-04,context-management-2025-06-27"}
CLEAR_USES: Final = {"type": "clear_tool_uses_20250919"}
CLEAR_THINKING: Final = {"type": "clear_thinking_20251015", "keep": "all"}


def block(kind: str, **source: Any) -> Change:
    """Put a block with that source in front of the first message."""
    return put("messages", 0, "content", [{"type": kind, "source": source}])


def inline(kind: str, media_type: str, data: str = PIXEL) -> Change:
    return block(kind, type="base64", media_type=media_type, data=data)


def strict(**schema: Any) -> Change:
    tool = {"name": "read", "strict": True, "input_schema": {**SCHEMA, **schema}}
    return put("tools", [tool])


def marks(*blocks: dict[str, Any]) -> Change:
    return messages(
        {"role": "user", "content": [{"type": "text", "text": "x", **one} for one in blocks]}
    )


RECURSIVE: Final = {
    "$defs": {
        "Tree": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/Leaf"}},
            "additionalProperties": False,
        },
        "Leaf": {"$ref": "#/$defs/Tree"},
    },
    "properties": {"path": {"$ref": "#/$defs/Tree"}},
}
TWENTY_ONE: Final = [
    {"name": f"t{index}", "strict": True, "input_schema": SCHEMA} for index in range(21)
]
OPTIONAL: Final = {"properties": {f"p{i}": {"type": "string"} for i in range(26)}}

ANTHROPIC_ROWS: Final[Mapping[str, Row]] = {
    "a result is missing": Row("A1", put("messages", 2, "content", ANSWERED["content"][1:])),
    "no result follows": Row("A1", messages(ASK, SAID, ASK)),
    "text stands before results": Row(
        "A2", put("messages", 2, "content", list(reversed(ANSWERED["content"])))
    ),
    "a result has another id": Row("A3", put("messages", 2, "content", 0, "tool_use_id", "t9")),
    "a pending search is talked over": Row("A4", messages(ASK, SEARCH, ASK)),
    "an id has a dot": Row(
        "A5",
        all_of(
            put("messages", 1, "content", 2, "id", "a.b"),
            put("messages", 2, "content", 0, "tool_use_id", "a.b"),
        ),
    ),
    "an id is used twice": Row("A5", put("messages", 1, "content", 3, "id", "t1")),
    "a server's id is not one": Row(
        "A5",
        messages(ASK, {"role": "assistant", "content": [{**SEARCH["content"][0], "id": "x"}]}),
    ),
    "a tool's name has a dot": Row("A6", put("tools", 0, "name", "read.it")),
    "a tool's name is long": Row("A6", put("tools", 0, "name", "r" * 65)),
    "two tools have one name": Row("A6", add("tools", CLAUDE["tools"][0])),
    "a called name has a blank": Row(
        "A6", put("messages", 1, "content", 2, "name", "git diff"), "avoid"
    ),
    "a called name is very long": Row("A6", put("messages", 1, "content", 2, "name", "r" * 201)),
    "a schema is a union": Row("A7", put("tools", 0, "input_schema", "anyOf", [SCHEMA])),
    "a schema is no object": Row("A7", put("tools", 0, "input_schema", "type", "string")),
    "a parameter's name has a sign": Row(
        "A32", put("tools", 0, "input_schema", "properties", "$filter", {})
    ),
    "a parameter's name is long": Row(
        "A32", put("tools", 0, "input_schema", "properties", "x" * 65, {})
    ),
    "items by position are of an older draft": Row(
        "A33", put("tools", 0, "input_schema", "properties", "path", "items", [{}])
    ),
    "an example has another type": Row("A7", put("tools", 0, "input_examples", [{"path": 5}])),
    "an example has unknown keys": Row(
        "A7", put("tools", 0, "input_examples", [{"path": "a", "way": "b"}])
    ),
    "an example lacks a key": Row("A7", put("tools", 0, "input_examples", [{}])),
    "21 tools are strict": Row("A8", put("tools", TWENTY_ONE)),
    "a strict object is open": Row("A8", strict(additionalProperties=True)),
    "a strict number has a bound": Row(
        "A8", strict(properties={"path": {"type": "integer", "minimum": 1}})
    ),
    "a strict schema holds itself": Row("A8", strict(**RECURSIVE)),
    "26 strict parameters are optional": Row("A8", strict(**OPTIONAL)),
    "text is blank": Row("A9", put("messages", 0, "content", 0, "text", " \n")),
    "text in a result is empty": Row(
        "A9", put("messages", 2, "content", 0, "content", 0, "text", "")
    ),
    "the system prompt is blank": Row("A9", put("system", 0, "text", "")),
    "text in a document is blank": Row(
        "A9", block("document", type="content", content=[{"type": "text", "text": " "}])
    ),
    "the final text ends in a blank": Row(
        "A10", messages(ASK, {"role": "assistant", "content": "x "}), limits=HAIKU_45
    ),
    "the assistant speaks last": Row("A11", messages(ASK, SAY)),
    "the assistant speaks first": Row("A12", messages(SAY, ASK), "avoid"),
    "a system message comes first": Row("A13", messages(NOTE, ASK)),
    "a system message follows the assistant": Row("A13", messages(ASK, SAY, NOTE)),
    "a system message precedes the user": Row("A13", messages(ASK, NOTE, ASK)),
    # Recorded requests to claude-sonnet-5 with system messages were accepted.
    "a system message for an older model": Row("A13", messages(ASK, NOTE), "avoid", HAIKU_45),
    "a temperature is set": Row("A14", put("temperature", 1)),
    "the assistant holds a document": Row(
        "A14", messages(ASK, {"role": "assistant", "content": [{"type": "document"}]}, ASK)
    ),
    "the user's text has citations": Row(
        "A14", put("messages", 0, "content", 0, "citations", [{}])
    ),
    "a budget on an adaptive model": Row("A15", put("thinking", BUDGET)),
    "thinking is off where it cannot be": Row("A15", put("thinking", {"type": "disabled"})),
    "adaptive thinking on a model with budgets": Row(
        "A15", all_of(messages(ASK), put("thinking", {"type": "adaptive"})), limits=HAIKU_45
    ),
    "a budget is small": Row(
        "A15",
        all_of(messages(ASK), put("thinking", {**BUDGET, "budget_tokens": 5})),
        limits=HAIKU_45,
    ),
    "a budget exceeds the reply": Row(
        "A15",
        all_of(messages(ASK), put("thinking", {**BUDGET, "budget_tokens": 9000})),
        limits=HAIKU_45,
    ),
    "thinking is unsigned": Row("A16", put("messages", 1, "content", 0, "signature", "")),
    "a tool is forced": Row("A18", put("tool_choice", {"type": "any"})),
    "five breakpoints": Row("A19", marks(*[{"cache_control": MARK}] * 5)),
    "a short breakpoint stands before a long one": Row(
        "A19", marks({"cache_control": MARK}, {"cache_control": MARK_1H})
    ),
    "thinking has a breakpoint": Row(
        "A19", put("messages", 1, "content", 0, "cache_control", MARK)
    ),
    "the last breakpoint is not the automatic one": Row(
        "A19", all_of(marks({"cache_control": MARK_1H}), put("cache_control", MARK))
    ),
    "all tools are deferred": Row("A20", put("tools", 0, "defer_loading", True)),
    "a reference names no tool": Row(
        "A20",
        put(
            "messages",
            2,
            "content",
            0,
            "content",
            [{"type": "tool_reference", "tool_name": "write"}],
        ),
    ),
    "an image of another type": Row("A21", inline("image", "image/bmp")),
    "an image that is not what it says": Row("A21", inline("image", "image/jpeg")),
    "an image that is no base64": Row("A21", inline("image", "image/png", "%%%")),
    "an image in a file": Row("A21", block("image", type="url", url="file:///a.png")),
    "an image in a bucket": Row("A21", block("image", type="url", url="gs://a/b.png")),
    "an image without a scheme": Row("A21", block("image", type="url", url="a/b.png")),
    "a PDF that is an image": Row("A22", inline("document", "application/pdf")),
    "a PDF that is none": Row("A22", inline("document", "application/pdf", "QUJD")),
    "a PDF that is no base64": Row("A22", inline("document", "application/pdf", "{}")),
    "a document that is an image": Row("A22", inline("document", "image/png")),
    "a document in a file": Row("A22", block("document", type="url", url="file:///a.pdf")),
    "a reply longer than the model's": Row("A23", put("max_tokens", 128_001)),
    "warming up by stream": Row("A24", all_of(put("max_tokens", 0), put("stream", True))),
    "warming up with a format": Row(
        "A24", all_of(put("max_tokens", 0), put("output_config", {"format": {"type": "x"}}))
    ),
    "compaction beside editing": Row(
        "A25",
        all_of(
            put("extra_headers", BETAS),
            put("compaction", {"type": "summarize"}),
            put("context_management", {"edits": [CLEAR_USES]}),
        ),
    ),
    "thinking is cleared second": Row(
        "A26",
        all_of(
            put("extra_headers", BETAS),
            put("context_management", {"edits": [CLEAR_USES, CLEAR_THINKING]}),
        ),
    ),
    "null is sent": Row("A0", put("system", None), "avoid"),
    "a long reply is not streamed": Row("A31", put("max_tokens", 21_334), "avoid"),
}

# ---- Chat Completions ----

FUNCTION: Final = {"name": "read", "description": "Reads.", "parameters": SCHEMA, "strict": True}
CHAT: Final[Made] = {
    "model": "gpt-6-sol",
    "reasoning_effort": "none",
    "max_completion_tokens": 4000,
    "tools": [{"type": "function", "function": FUNCTION}],
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Compare."}]},
        {
            "role": "assistant",
            "content": "Reading.",
            "tool_calls": [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path":"a"}'},
                }
                for call_id in ("c1", "c2")
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "alpha"},
        {"role": "tool", "tool_call_id": "c2", "content": "none"},
        {"role": "user", "content": "It is gone."},
    ],
}
MANY: Final = [{"type": "function", "function": {"name": f"f{i}"}} for i in range(129)]
WITHOUT_TOOLS: Final = all_of(drop("tools"), messages(ASK))


def picture(url: Any) -> Change:
    return put("messages", 1, "content", 0, {"type": "image_url", "image_url": {"url": url}})


def attached(data: str) -> Change:
    file = {"filename": "a.pdf", "file_data": data}
    return put("messages", 1, "content", 0, {"type": "file", "file": file})


CHAT_ROWS: Final[Mapping[str, Row]] = {
    "a result is missing": Row("C1", drop("messages", 4)),
    "a result stands alone": Row("C1", drop("messages", 2)),
    "somebody speaks before the results": Row("C1", insert("messages", 3, ASK)),
    "tools beside reasoning": Row("C2", put("reasoning_effort", "high")),
    # Some routes took requests that named no effort.
    "tools beside reasoning by default": Row("C2", drop("reasoning_effort"), "avoid"),
    "tools on a model that always reasons": Row(
        "C2", all_of(put("model", "gpt-6-astra"), put("reasoning_effort", "low")), limits=GPT_ASTRA
    ),
    "a temperature while reasoning": Row(
        "C3", all_of(WITHOUT_TOOLS, put("reasoning_effort", "high"), put("temperature", 0.5))
    ),
    "stop sequences for o3": Row(
        "C3",
        all_of(WITHOUT_TOOLS, put("model", "o3"), put("stop", ["x"]), drop("reasoning_effort")),
        limits=O3,
    ),
    "the old name of the length": Row("C4", put("max_tokens", 5)),
    "two roles of instructions": Row(
        "C5", insert("messages", 0, {"role": "system", "content": "x"}), "avoid"
    ),
    "129 tools": Row("C6", put("tools", MANY)),
    "a long id": Row(
        "C6",
        all_of(
            put("messages", 2, "tool_calls", 0, "id", "c" * 41),
            put("messages", 3, "tool_call_id", "c" * 41),
        ),
    ),
    "a name with a dot": Row("C7", put("tools", 0, "function", "name", "read.it")),
    "arguments as an object": Row(
        "C7", put("messages", 2, "tool_calls", 0, "function", "arguments", {})
    ),
    # Recorded requests with arguments that are no JSON were accepted.
    "arguments that are cut off": Row(
        "C7", put("messages", 2, "tool_calls", 0, "function", "arguments", '{"pa'), "avoid"
    ),
    "a strict schema is open": Row(
        "C8", put("tools", 0, "function", "parameters", "additionalProperties", True)
    ),
    "a strict schema has options": Row(
        "C8", put("tools", 0, "function", "parameters", "required", [])
    ),
    "a schema is a union": Row("C8", put("tools", 0, "function", "parameters", "anyOf", [SCHEMA])),
    "an array has no items": Row(
        "C8", put("tools", 0, "function", "parameters", "properties", "path", "type", "array")
    ),
    "a pattern is of another language": Row(
        "C8", put("tools", 0, "function", "parameters", "properties", "path", "pattern", r"\p{L}")
    ),
    "JSON is not mentioned": Row("C9", put("response_format", {"type": "json_object"})),
    "five stop sequences": Row("C9", put("stop", list("abcde"))),
    "17 keys of metadata": Row("C9", put("metadata", {str(key): "x" for key in range(17)})),
    "no content": Row("C10", put("messages", 1, "content", [])),
    "nothing said and nothing called": Row(
        "C10", all_of(drop("messages", 2, "tool_calls"), drop("messages", 2, "content"))
    ),
    # Recorded requests with empty text were accepted.
    "empty text": Row("C10", put("messages", 1, "content", 0, "text", ""), "avoid"),
    "an image that is not what it says": Row(
        "C14", picture(f"data:image/jpeg;base64,{PIXEL}"), "avoid"
    ),
    "an image that is no base64": Row("C14", picture("data:image/png;base64,%%%"), "avoid"),
    "an image in a bucket": Row("C14", picture("gs://a/b.png")),
    "an image in a file": Row("C14", picture("file:///b.png")),
    "an image without a scheme": Row("C14", picture("b.png")),
    "a PDF that is an image": Row("C14", attached(f"data:application/pdf;base64,{PIXEL}"), "avoid"),
}

# ---- Responses ----

SEALED: Final[Made] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gAAAAABk",
}
RESPONSES: Final[Made] = {
    "model": "gpt-6.2-astra",
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "high"},
    "max_output_tokens": 8000,
    "tools": [{"type": "function", **FUNCTION}],
    "input": [
        {"type": "message", "role": "developer", "content": "Be brief."},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Compare."}],
        },
        SEALED,
        {"type": "message", "role": "assistant", "content": "Reading."},
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "read",
            "arguments": '{"path":"a"}',
        },
        {
            "type": "function_call",
            "call_id": "c2",
            "name": "read",
            "arguments": '{"path":"b"}',
        },
        {"type": "function_call_output", "call_id": "c1", "output": "alpha"},
        {"type": "function_call_output", "call_id": "c2", "output": "none"},
        {"type": "message", "role": "user", "content": "It is gone."},
    ],
}


def piece(kind: str, **fields: Any) -> Change:
    return put("input", 1, "content", 0, {"type": kind, **fields})


RESPONSES_ROWS: Final[Mapping[str, Row]] = {
    "an output is missing": Row("R1", drop("input", 7)),
    "an output stands alone": Row("R1", drop("input", 4)),
    "reasoning stands last": Row("R2", add("input", SEALED)),
    "reasoning precedes the user": Row("R2", insert("input", 8, SEALED)),
    "reasoning was left out before an id": Row(
        "R2", all_of(put("input", 4, "id", "fc_1"), drop("input", 2)), "avoid"
    ),
    "reasoning that is not sealed": Row("R4", drop("input", 2, "encrypted_content")),
    # The item may have been stored by an earlier request.
    "a reference without a store": Row(
        "R4", insert("input", 1, {"type": "item_reference", "id": "m"}), "avoid"
    ),
    "two kinds of state": Row(
        "R5", all_of(put("previous_response_id", "resp_1"), put("conversation", "conv_1"))
    ),
    "a long id": Row(
        "R6", all_of(put("input", 4, "call_id", "c" * 65), put("input", 6, "call_id", "c" * 65))
    ),
    "an output of ten million characters": Row("R6", put("input", 6, "output", "x" * 10_485_761)),
    "a name with a dot": Row("R7", put("tools", 0, "name", "read.it")),
    "a schema is a union": Row("R7", put("tools", 0, "parameters", "anyOf", [SCHEMA])),
    "an array has no items": Row(
        "R7", put("tools", 0, "parameters", "properties", "path", "type", "array")
    ),
    "a pattern is of another language": Row(
        "R7", put("tools", 0, "parameters", "properties", "path", "pattern", r"\p{L}")
    ),
    "a tool of Chat Completions": Row("R7", put("tools", 0, CHAT["tools"][0])),
    "a short reply": Row("R8", put("max_output_tokens", 15)),
    "a trigger in the middle": Row("R9", insert("input", 1, {"type": "compaction_trigger"})),
    "a small threshold": Row(
        "R9", put("context_management", [{"type": "compaction", "compact_threshold": 999}])
    ),
    "a temperature": Row("R10", put("temperature", 0.5)),
    "the default temperature on a model that takes none": Row("R10", put("temperature", 1)),
    "the default temperature, and no effort named": Row(
        "R10", all_of(put("top_p", 1), drop("reasoning"))
    ),
    "probabilities of tokens": Row("R10", put("top_logprobs", 3)),
    "17 keys of metadata": Row("R11", put("metadata", {str(key): "x" for key in range(17)})),
    "an image that is not what it says": Row(
        "R12",
        piece("input_image", detail="auto", image_url=f"data:image/jpeg;base64,{PIXEL}"),
        "avoid",
    ),
    "an image in a bucket": Row("R12", piece("input_image", detail="auto", image_url="gs://a/b")),
    "a file in a file": Row("R12", piece("input_file", file_url="file:///a.pdf")),
    "a PDF that is an image": Row(
        "R12",
        piece("input_file", filename="a.pdf", file_data=f"data:application/pdf;base64,{PIXEL}"),
        "avoid",
    ),
    "a reply's pieces without id and status": Row(
        "R0", put("input", 3, "content", [{"type": "output_text", "text": "x"}]), "avoid"
    ),
}

# ---- Gemini ----

GEMINI: Final[Made] = {
    "model": "gemini-4-argon",
    "contents": [
        {"role": "user", "parts": [{"text": "Compare."}]},
        {
            "role": "model",
            "parts": [
                {"text": "Reading."},
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
        "system_instruction": "Be brief.",
        "tools": [
            {
                "function_declarations": [
                    {"name": "read", "description": "Reads.", "parameters_json_schema": SCHEMA}
                ]
            }
        ],
        "thinking_config": {"thinking_level": "HIGH"},
        "max_output_tokens": 8000,
        "automatic_function_calling": {"disable": True},
    },
}
DECLARED: Final = ("config", "tools", 0, "function_declarations", 0)
ANSWERS: Final = GEMINI["contents"][2]["parts"]
TELLS: Final = {"role": "model", "parts": [{"text": "x"}]}
LEVELLESS: Final = replace(GEMINI_25, id="gemini-2.5-flash")


def part(**fields: Any) -> Change:
    return put("contents", 0, "parts", 0, fields)


def bytes_of(media_type: str, data: str = PIXEL) -> Change:
    return part(inline_data={"mime_type": media_type, "data": data})


def responses_apart(made: Made) -> None:
    made["contents"][2:] = [{"role": "user", "parts": [answer]} for answer in ANSWERS]


def budgeted(made: Made) -> None:
    made |= {"model": "gemini-2.5-flash"}
    made["config"]["thinking_config"] = {"thinking_budget": 1024}


GEMINI_ROWS: Final[Mapping[str, Row]] = {
    "a role of another API": Row("G1", put("contents", 0, "role", "system")),
    # A recorded request whose last content was the model's was accepted.
    "the model speaks last": Row("G1", add("contents", TELLS), "avoid"),
    "a response is missing": Row("G2", drop("contents", 2, "parts", 1)),
    "responses stand apart": Row("G2", responses_apart),
    # Recorded requests to gemini-2.5-flash with one content per response were accepted.
    "responses stand apart for an older model": Row(
        "G2", all_of(budgeted, responses_apart), "avoid", LEVELLESS
    ),
    "text stands beside responses": Row("G2", add("contents", 2, "parts", {"text": "z"}), "avoid"),
    "a call comes first": Row("G3", drop("contents", 0)),
    "a call follows the model": Row("G3", insert("contents", 1, TELLS)),
    "responses follow the user": Row("G3", insert("contents", 2, GEMINI["contents"][0])),
    "a call is unsigned": Row("G4", drop("contents", 1, "parts", 1, "thought_signature")),
    "a signature was changed": Row(
        "G5", put("contents", 1, "parts", 1, "thought_signature", "not base64!")
    ),
    "a response is text": Row(
        "G6", put("contents", 2, "parts", 0, "function_response", "response", "x")
    ),
    "a response has no name": Row(
        "G6", drop("contents", 2, "parts", 0, "function_response", "name")
    ),
    "a name begins with a digit": Row("G7", put(*DECLARED, "name", "9f")),
    "two schemas": Row("G8", put(*DECLARED, "parameters", {"type": "OBJECT"})),
    "a keyword beyond the subset": Row(
        "G8",
        put(*DECLARED, {"name": "read", "parameters": {"type": "OBJECT", "oneOf": []}}),
    ),
    "a list of types": Row(
        "G8",
        put(
            *DECLARED,
            {
                "name": "read",
                "parameters": {"type": "OBJECT", "properties": {"a": {"type": ["STRING", "NULL"]}}},
            },
        ),
    ),
    "an array without items": Row(
        "G8",
        put(
            *DECLARED,
            {
                "name": "read",
                "parameters": {"type": "OBJECT", "properties": {"a": {"type": "ARRAY"}}},
            },
        ),
    ),
    "tools beside cached content": Row(
        "G9",
        all_of(budgeted, put("config", "cached_content", "cachedContents/x")),
        limits=LEVELLESS,
    ),
    "cached content on a model without": Row(
        "G9",
        all_of(
            put("config", {"cached_content": "cachedContents/x"}),
            put("contents", [GEMINI["contents"][0]]),
        ),
    ),
    "a level and a budget": Row("G10", put("config", "thinking_config", "thinking_budget", 100)),
    # That levels replace budgets is documented; that a budget is refused is not.
    "a budget on a model with levels": Row(
        "G10", put("config", "thinking_config", {"thinking_budget": 100}), "avoid"
    ),
    "a level on a model with budgets": Row(
        "G10", put("model", "gemini-2.5-flash"), limits=LEVELLESS
    ),
    "a level that the model lacks": Row(
        "G10", put("config", "thinking_config", {"thinking_level": "MINIMAL"})
    ),
    "a reply longer than the model's": Row("G10", put("config", "max_output_tokens", 65_537)),
    "a temperature that is ignored": Row("G10", put("config", "temperature", 0.5), "avoid"),
    "an alias on the stable API": Row("G11", put("model", "gemini-flash-latest")),
    "a resolution on the stable API": Row(
        "G11",
        part(
            inline_data={"mime_type": "image/png", "data": PIXEL},
            media_resolution={"level": "MEDIA_RESOLUTION_LOW"},
        ),
    ),
    "an image that is not what it says": Row("G12", bytes_of("image/jpeg"), "avoid"),
    "a PDF that is an image": Row("G12", bytes_of("application/pdf"), "avoid"),
    "bytes that are no base64": Row("G12", bytes_of("image/png", "%%%")),
    "an image in a file": Row(
        "G12", part(file_data={"file_uri": "file:///a.png", "mime_type": "image/png"})
    ),
    "a file's name for its address": Row("G12", part(file_data={"file_uri": "files/a"}), "avoid"),
    "no parts": Row("G13", put("contents", 0, "parts", [])),
    # Recorded requests with empty text were accepted.
    "empty text": Row("G13", put("contents", 0, "parts", 0, "text", ""), "avoid"),
    "an unknown field": Row("G0", put("contents", 0, "parts", 0, "cache_control", MARK)),
}

# ---- what is taken ----

REFERRED: Final[Made] = {
    "$defs": {
        "Way": {"type": "object", "properties": {}, "additionalProperties": False},
        "One": {"anyOf": [{"$ref": "#/$defs/Way"}, {"$ref": "#/$defs/Two"}]},
        "Two": {"$ref": "#/$defs/Way"},
    },
    "properties": {"path": {"$ref": "#/$defs/One"}},
}
ADDITION: Final = {
    "type": "tool_addition",
    "tool": {
        "type": "tool_definition",
        "definition": {"name": "write", "input_schema": SCHEMA},
    },
}
NATIVE_ADDITION: Final = {
    "type": "tool_addition",
    "tool": {
        "type": "tool_definition",
        "definition": {"type": "bash_20250124", "name": "bash"},
    },
}
TAKEN: Final[Mapping[str, tuple[str, Change]]] = {
    "an image on the web": ("anthropic", block("image", type="url", url="https://a.org/b.png")),
    "a document on the web": ("anthropic", block("document", type="url", url="https://a.org/b")),
    "an image": ("anthropic", inline("image", "image/png")),
    "an uploaded document": ("anthropic", block("document", type="file", file_id="file_1")),
    "references that lead to an end": ("anthropic", strict(**REFERRED)),
    "a long reply by stream": (
        "anthropic",
        all_of(put("max_tokens", 64_000), put("stream", True)),
    ),
    "a long reply with a timeout": (
        "anthropic",
        all_of(put("max_tokens", 64_000), put("timeout", 900)),
    ),
    "a tool that is added behind": (
        "anthropic",
        messages(ASK, {"role": "system", "content": [ADDITION]}),
    ),
    "a native tool that is added behind": (
        "anthropic",
        messages(ASK, {"role": "system", "content": [NATIVE_ADDITION]}),
    ),
    "an example that suits": ("anthropic", put("tools", 0, "input_examples", [{"path": "a"}])),
    "a picture on the web": ("openai_chat", picture("https://a.org/b.png")),
    "a picture as data": ("openai_chat", picture(f"data:image/png;base64,{PIXEL}")),
    "an input image on the web": (
        "openai_responses",
        piece("input_image", detail="auto", image_url="https://a.org/b.png"),
    ),
    "an input file on the web": (
        "openai_responses",
        piece("input_file", file_url="https://a.org/b.pdf"),
    ),
    "a call's id behind its reasoning": ("openai_responses", put("input", 4, "id", "fc_1")),
    "a file in a bucket": (
        "gemini",
        part(file_data={"file_uri": "gs://a/b.png", "mime_type": "image/png"}),
    ),
    "bytes of a type that does not show": ("gemini", bytes_of("audio/mpeg", "QUJD")),
}
BAD_ADDITION: Final = {
    "type": "tool_addition",
    "tool": {"type": "tool_definition", "definition": {"name": "write it"}},
}

# ---- the tables ----


class Table(NamedTuple):
    """A valid payload of one provider, its mutations, and the rules that they have to cover."""

    valid: Made
    limits: ModelLimits
    rows: Mapping[str, Row]
    rules: Iterable[str]
    unchecked: Mapping[str, str]


TABLES: Final[Mapping[str, Table]] = {
    "anthropic": Table(
        CLAUDE,
        OPUS,
        ANTHROPIC_ROWS,
        [f"A{number}" for number in range(1, 27)],
        anthropic_book.UNCHECKED,
    ),
    "openai_chat": Table(
        CHAT, GPT_6_SOL, CHAT_ROWS, [f"C{number}" for number in range(1, 11)], chat_book.UNCHECKED
    ),
    "openai_responses": Table(
        RESPONSES,
        GPT_62,
        RESPONSES_ROWS,
        [*(f"R{number}" for number in range(1, 13)), "R3b"],
        responses_book.UNCHECKED,
    ),
    "gemini": Table(
        GEMINI,
        GEMINI_4,
        GEMINI_ROWS,
        [f"G{number}" for number in range(1, 14)],
        gemini_book.UNCHECKED,
    ),
}
CASES: Final = [
    pytest.param(provider, name, id=f"{provider}: {name}")
    for provider, table in TABLES.items()
    for name in table.rows
]


@pytest.mark.parametrize("provider", TABLES)
def test_the_payload_is_valid_before_it_is_changed(provider: str) -> None:
    table = TABLES[provider]

    found = PROVIDERS[provider].check_payload(table.valid, limits=table.limits, today=TODAY)

    assert found == []


@pytest.mark.parametrize(("provider", "name"), CASES)
def test_one_change_is_found_by_its_rule(provider: str, name: str) -> None:
    table = TABLES[provider]
    row = table.rows[name]
    made = deepcopy(table.valid)
    row.change(made)

    found = PROVIDERS[provider].check_payload(made, limits=row.limits or table.limits, today=TODAY)

    assert (row.rule, row.level) in {(violation.rule, violation.level) for violation in found}
    if row.level == "avoid":
        assert [str(violation) for violation in found if violation.level == "refused"] == []


@pytest.mark.parametrize("provider", TABLES)
def test_every_rule_of_the_table_is_mutated_or_says_why_not(provider: str) -> None:
    table = TABLES[provider]

    silent = set(table.rules) - {row.rule for row in table.rows.values()} - table.unchecked.keys()

    assert silent == set()
    assert all(reason.endswith(".") for reason in table.unchecked.values())


@pytest.mark.parametrize(("provider", "change"), TAKEN.values(), ids=TAKEN.keys())
def test_a_change_that_harms_nothing_is_let_through(provider: str, change: Change) -> None:
    table = TABLES[provider]
    made = deepcopy(table.valid)
    change(made)

    found = PROVIDERS[provider].check_payload(made, limits=table.limits, today=TODAY)

    assert [str(violation) for violation in found if violation.level == "refused"] == []
    assert {violation.rule for violation in found} <= {"A8", "A30"}


def test_an_added_tool_keeps_to_the_rules_of_tools() -> None:
    made = {**CLAUDE, "messages": [ASK, {"role": "system", "content": [BAD_ADDITION]}]}

    found = PROVIDERS["anthropic"].check_payload(made, limits=OPUS, today=TODAY)

    assert {violation.rule for violation in found if violation.level == "refused"} == {"A6", "A7"}


def test_reasoning_is_not_missed_where_none_was_asked_for() -> None:
    made = deepcopy(RESPONSES)
    made |= {"model": "gpt-6-sol", "reasoning": {"effort": "none"}}
    made["input"][4]["id"] = "fc_1"
    del made["input"][2]

    found = PROVIDERS["openai_responses"].check_payload(made, limits=GPT_6_SOL, today=TODAY)

    assert found == []
