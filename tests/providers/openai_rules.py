"""Valid payloads of OpenAI's protocols, and what breaks their rules."""

from typing import Any, Final

from tests.providers.builders import GONE, PIXEL, SCHEMA, SEALED

Row = tuple[str, dict[str, Any]]  # the rule, with `?` if it merely harms, and the change


def function(**fields: Any) -> dict[str, Any]:
    return {"name": "read", "description": "Reads.", "parameters": SCHEMA, **fields}


def chat_call(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "read", "arguments": "{}"}}


CHAT: Final[dict[str, Any]] = {
    "model": "gpt-4.1",
    "max_completion_tokens": 4000,
    "tools": [{"type": "function", "function": function()}],
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Compare."}]},
        {"role": "assistant", "tool_calls": [chat_call("c1"), chat_call("c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": "alpha"},
        {"role": "tool", "tool_call_id": "c2", "content": "beta"},
    ],
}
ASK: Final = {"role": "user", "content": "go"}
CALL_AT: Final = "messages.2.tool_calls.0"
FUNCTION_AT: Final = "tools.0.function"
THINKS: Final = {"model": "gpt-5"}
DATA_URL: Final = f"data:image/png;base64,{PIXEL}"


def said(*content: Any) -> dict[str, Any]:
    return {"messages.1.content": list(content)}


def shown(url: Any) -> dict[str, Any]:
    return said({"type": "image_url", "image_url": {"url": url}})


def filed(**fields: Any) -> dict[str, Any]:
    return said({"type": "file", "file": fields})


def schema(**fields: Any) -> dict[str, Any]:
    return {f"{FUNCTION_AT}.parameters": {"type": "object", "properties": {"a": {}}, **fields}}


def strict(**fields: Any) -> dict[str, Any]:
    return {f"{FUNCTION_AT}.strict": True, f"{FUNCTION_AT}.parameters": {**SCHEMA, **fields}}


def property_of(**fields: Any) -> dict[str, Any]:
    return strict(properties={"path": fields})


SOUND: Final = {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
SEEN: Final = {"messages.3.content": [{"type": "image_url", "image_url": {"url": DATA_URL}}]}

CHAT_ROWS: Final[dict[str, Row]] = {
    "what is no JSON": ("C0", {"seed": float("nan")}),
    "no model": ("C0?", {"model": GONE}),
    "no messages": ("C0", {"messages": []}),
    "an unknown role": ("C0", {"messages.1.role": "human"}),
    "content of no kind": ("C0", {"messages.1.content": 1}),
    "a part without a type": ("C0", said({"text": "x"})),
    "a part that nobody knows": ("C0", said({"type": "video"})),
    "a part that others may know": ("C0?", {"model": "x", **said({"type": "video_url"})}),
    "an answer too few": ("C1", {"messages.4": ASK}),
    "calls left open at the end": ("C1", {"messages.4": GONE}),
    "an answer twice": ("C1", {"messages.4.tool_call_id": "c1"}),
    "an answer to nothing": ("C1", {"messages.5": {"role": "tool", "tool_call_id": "c9"}}),
    "a message between call and answer": ("C1", {"messages.3": ASK}),
    "the user calls": ("C1", {"messages.1.tool_calls": [chat_call("c0")]}),
    "tools next to reasoning": ("C2", {"model": "gpt-5.4", "reasoning_effort": "low"}),
    "tools of a model that always reasons": ("C2", {"model": "gpt-6.2-sol"}),
    "heat while it reasons": ("C3", {**THINKS, "temperature": 0.5}),
    "a penalty while it reasons": ("C3", {**THINKS, "presence_penalty": 0.5}),
    "log probabilities while it reasons": ("C3", {**THINKS, "logprobs": True}),
    **{
        f"stop sequences of {model}": ("C3", {"model": model, "tools": GONE, "stop": ["x"]})
        for model in ("gpt-5-mini", "o3", "azure/o3", "o4-mini-2025-04-16")
    },
    **{
        f"{name} of {value}": ("C3", {name: value})
        for name, value in (("temperature", -1), ("top_p", 2), ("presence_penalty", -3))
    },
    "heat below zero, anywhere": ("C3", {"model": "x", "temperature": -1}),
    "great heat, of a server that may take it": ("C3?", {"model": "x", "temperature": 3}),
    "the old name of the limit": ("C4?", {"max_tokens": 4}),
    "the old name, on a model that reasons": ("C4", {**THINKS, "max_tokens": 4}),
    "an unknown role of old models": (
        "C5",
        {"model": "o1-mini", "messages.0.role": "developer", "tools": GONE},
    ),
    "a choice without tools": ("C6", {"tools": GONE, "tool_choice": "auto"}),
    "a choice of no tool": ("C6", {"tool_choice": {"type": "function", "function": {"name": "x"}}}),
    "a choice among no tools": (
        "C6",
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "x"}}],
                },
            }
        },
    ),
    "a long id": ("C6", {f"{CALL_AT}.id": "c" * 41, "messages.3.tool_call_id": "c" * 41}),
    "many tools": (
        "C6",
        {"tools": [{"type": "function", "function": function(name=f"t{i}")} for i in range(129)]},
    ),
    "many calls": (
        "C6",
        {
            "messages.2.tool_calls": [chat_call(f"c{i}") for i in range(129)],
            **{
                f"messages.{3 + i}": {"role": "tool", "tool_call_id": f"c{i}", "content": "x"}
                for i in range(129)
            },
        },
    ),
    "a name with a dot": ("C7", {f"{CALL_AT}.function.name": "fs.read"}),
    "arguments as an object": ("C7", {f"{CALL_AT}.function.arguments": {}}),
    "arguments that are no JSON": ("C7?", {f"{CALL_AT}.function.arguments": "{"}),
    "no id": ("C7", {f"{CALL_AT}.id": ""}),
    "an id twice": ("C7", {f"{CALL_AT}.id": "c2"}),
    "no calls": ("C7", {"messages.0": {"role": "assistant", "content": "x", "tool_calls": []}}),
    "a tool's name with a dot": ("C7", {f"{FUNCTION_AT}.name": "fs.read"}),
    "a schema of a list": ("C8", schema(type="array", items={})),
    "a union at the root": ("C8", schema(anyOf=[{}])),
    "an array without items": ("C8", schema(properties={"a": {"type": "array"}})),
    "a pattern that Python does not know": ("C8", schema(properties={"a": {"pattern": "\\p{L}"}})),
    "strict, but open": ("C8", strict(additionalProperties=True)),
    "strict, but optional": ("C8", strict(required=[])),
    "strict with a union": ("C8", property_of(oneOf=[{"type": "string"}])),
    "strict with a format": ("C8", property_of(type="string", format="uri")),
    "strict with a look around": ("C8", property_of(type="string", pattern="(?=a)")),
    "strict without a type": ("C8", property_of(description="x")),
    "strict beside a reference": ("C8", property_of(**{"$ref": "#", "description": "x"})),
    "JSON that nobody asks for": ("C9", {"response_format": {"type": "json_object"}}),
    "five stop sequences": ("C9", {"stop": list("abcde")}),
    "no reply": ("C9", {"max_completion_tokens": 0}),
    "a long reply": ("C9", {"max_completion_tokens": 32_769}),
    "neither text nor calls": ("C10", {"messages.0": {"role": "assistant"}}),
    "nothing said": ("C10", {"messages.1.content": GONE}),
    "a picture from a tool": ("C11", SEEN),
    "a picture from a tool, to others": ("C11?", {"model": "x", **SEEN}),
    "a file from a tool": ("C11", {"messages.3.content": [{"type": "file", "file": {}}]}),
    "a schema for an old model": (
        "C12",
        {"model": "gpt-4", "response_format": {"type": "json_schema"}},
    ),
    "a search by a model without": ("C12", {"web_search_options": {}}),
    "an effort that the model lacks": ("C13", {"model": "o3", "reasoning_effort": "minimal"}),
    "an effort of a gateway's": ("C13", {"model": "o3", "reasoning": {"effort": "minimal"}}),
    "no reasoning, of a model that always does": (
        "C13",
        {"model": "gpt-oss-120b", "reasoning": {"enabled": False}},
    ),
    "a picture for the blind": ("C14", {"model": "gpt-4", **shown(DATA_URL)}),
    **{
        f"sound for {model}": ("C14", {"model": model, **said(SOUND)})
        for model in ("gpt-5-mini", "gpt-4.1", "gpt-4o")
    },
    "no picture": ("C14", shown(" ")),
    "a picture on the disk": ("C14", shown("file:///a.png")),
    "a file by address": ("C14", filed(file_url="https://a.org/b.pdf")),
    "a file without its type": ("C14", filed(file_data=PIXEL, filename="a.pdf")),
    "late instructions to Mistral": (
        "C16",
        {"model": "mistral-large", "messages.5": {"role": "system", "content": "x"}},
    ),
    "late instructions to others": (
        "C16?",
        {"model": "x", "messages.5": {"role": "system", "content": "x"}},
    ),
    "calls without the reasoning that led to them": ("C18", {"model": "deepseek-flash"}),
    "calls with reasoning that is empty": (
        "C18",
        {"model": "kimi-k3", "messages.2.reasoning_content": ""},
    ),
    "calls that would be better with their reasoning": ("C18?", {"model": "glm-5.3"}),
}


def asked(call_id: str, **fields: Any) -> dict[str, Any]:
    made = {"type": "function_call", "call_id": call_id, "name": "read", "arguments": "{}"}
    return {**made, **fields}


def answered(call_id: str, output: Any = "x", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output, **fields}


ITEM: Final = {"role": "user", "content": "Compare."}
SAID: Final = {"role": "assistant", "content": "Reading."}
RESPONSES: Final[dict[str, Any]] = {
    "model": "gpt-6.2-sol",
    "store": False,
    "max_output_tokens": 4000,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low"},
    "tools": [{"type": "function", "strict": True, **function()}],
    "input": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "Compare."}]},
        SEALED,
        asked("c1", id="fc_1"),
        asked("c2", id="fc_2"),
        answered("c1"),
        answered("c2"),
    ],
}
STATEFUL: Final = {"previous_response_id": "resp_1", "store": True}
OLDER: Final = {"model": "gpt-4.1", "reasoning": GONE, "include": GONE, "input.2": ITEM}


def piece(kind: str, **fields: Any) -> dict[str, Any]:
    return {"input.1.content": [{"type": f"input_{kind}", **fields}]}


def tool(**fields: Any) -> dict[str, Any]:
    return {"tools.1": {"strict": False, **fields}}


CHECK: Final = {"id": "sc_1", "code": "odd_domain", "message": "Careful."}

RESPONSES_ROWS: Final[dict[str, Row]] = {
    "no model": ("R0?", {"model": GONE}),
    "no input": ("R0", {"input": GONE}),
    "input of no kind": ("R0", {"input": 1}),
    "an item of no kind": ("R0", {"input.1": {"content": "x"}}),
    "an unknown role": ("R0", {"input.1.role": "human"}),
    "no content": ("R0", {"input.1.content": GONE}),
    "no output": ("R0", {"input.5.output": GONE}),
    "a piece without a type": ("R0", {"input.1.content": [{"text": "x"}]}),
    "a piece of Chat's": ("R0", {"input.1.content": [{"type": "text", "text": "x"}]}),
    "what the model says, from the user": (
        "R0",
        {"input.1.content": [{"type": "output_text", "text": "x"}]},
    ),
    "reasoning without a summary": ("R0", {"input.2.summary": GONE}),
    "an answer too few": ("R1", {"input.6": ITEM}),
    "an answer twice": ("R20", {"input.7": answered("c2")}),
    "an answer to nothing": ("R1", {"input.7": answered("c9")}),
    "a message between call and answer": ("R1?", {"input.4": ITEM, "input.6": ITEM}),
    "a reply between call and answer, to DeepSeek": (
        "R1",
        {**OLDER, "model": "deepseek-flash", "input.4": SAID, "input.6": ITEM},
    ),
    "a shell that nobody answers": (
        "R1?",
        {"input.7": {"type": "shell_call", "call_id": "c3", "action": {}}},
    ),
    "reasoning that led to nothing": ("R2", {"input.7": SEALED}),
    "stored reasoning without its neighbour": (
        "R2",
        {"store": True, "input.7": {**SEALED, "id": "rs_2"}, "input.8": SAID},
    ),
    "reasoning that nobody stored": ("R4", {"input.2.encrypted_content": GONE}),
    "two memories": ("R5", {**STATEFUL, "conversation": "conv_1"}),
    "a long id": ("R6", {"input.7": asked("c" * 65), "input.8": answered("c" * 65)}),
    "no id": ("R6", {"input.7": answered("")}),
    "a name with a dot": ("R7", {"input.3.name": "fs.read"}),
    "arguments as an object": ("R7", {"input.3.arguments": {}}),
    "arguments that are no JSON": ("R7?", {"input.3.arguments": "{"}),
    "safety checks that nobody acknowledged": (
        "R21",
        {
            "input.7": {"type": "computer_call", "call_id": "c3", "pending_safety_checks": [CHECK]},
            "input.8": {"type": "computer_call_output", "call_id": "c3", "output": {}},
        },
    ),
    "a call twice": ("R20", {"input.4.call_id": "c1", "input.6": ITEM}),
    "an item twice": (
        "R20",
        {"input.7": SEALED, "input.8": asked("c3"), "input.9": answered("c3")},
    ),
    "a tool's name with a dot": ("R7", {"tools.0.name": "fs.read"}),
    "a tool of no kind": ("R7", tool(name="x")),
    "a search in no store": ("R7", tool(type="file_search")),
    "a schema of a list": ("R7", {"tools.0.parameters": {"type": "array", "items": {}}}),
    "many tools": (
        "R7",
        {"tools": [{"type": "function", "strict": False, "name": f"t{i}"} for i in range(129)]},
    ),
    "a short reply": ("R8", {"max_output_tokens": 15}),
    "a long reply": ("R8", {"max_output_tokens": 128_001}),
    "a compaction too early": (
        "R9",
        {"context_management": [{"type": "compaction", "compact_threshold": 999}]},
    ),
    "a compaction before the end": ("R9", {"input.1": {"type": "compaction_trigger"}}),
    "an open compaction": ("R9", {"input.1": {"type": "compaction"}}),
    "heat that the model never takes": ("R10", {"temperature": 1}),
    "heat while it reasons": ("R10", {"model": "gpt-5", "temperature": 0.5}),
    "log probabilities while it reasons": ("R10", {"top_logprobs": 2}),
    "JSON that nobody asks for": ("R11", {"text": {"format": {"type": "json_object"}}}),
    "a picture for the blind": (
        "R12",
        {**OLDER, "model": "gpt-4", **piece("image", image_url=DATA_URL)},
    ),
    "no picture": ("R12", piece("image", detail="auto")),
    "a picture on the disk": ("R12", piece("image", detail="auto", image_url="file:///a.png")),
    "no file": ("R12", piece("file")),
    "a file on the disk": ("R12", piece("file", file_url="file:///a.pdf")),
    "a file that sounds": ("R12", piece("file", file_data="data:audio/mpeg;base64,AAAA")),
    "an effort that the model lacks": ("R13", {"reasoning.effort": "minimal"}),
    "none, of a model that always reasons": (
        "R13",
        {"model": "gpt-5.5-pro", "reasoning.effort": "none"},
    ),
    "an effort of a model without": ("R13", {"model": "gpt-4.1"}),
    "all turns, of an older model": ("R13", {"model": "o3", "reasoning.context": "all_turns"}),
    **{
        f"a mode of {model}": ("R13", {"model": model, "reasoning": {"mode": "pro"}})
        for model in ("gpt-5", "gpt-5.5", "gpt-4.1", "o3")
    },
    **{
        f"no reasoning, of {model}": ("R13", {"model": model, "reasoning.effort": "none"})
        for model in ("gpt-5-codex", "gpt-5.1-codex-max", "gpt-5.3-codex", "codex-mini-latest")
    },
    **{
        f"{name} of {value}": ("R10", {**OLDER, name: value})
        for name, value in (("temperature", -1), ("temperature", 2.5), ("top_p", 1.5))
    },
    "research in nothing": ("R14", {"model": "o3-deep-research"}),
    "a parameter of Chat's": ("R15", {"reasoning_effort": "low"}),
    "a model of Chat's": ("R15", {"model": "gpt-5-search-api", "reasoning": GONE}),
    "a choice of no tool": ("R16", {"tool_choice": {"type": "function", "name": "x"}}),
    "a choice among no tools": (
        "R16",
        {"tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "x"}]}},
    ),
    "a call without tools": ("R16", {"tools": GONE, "tool_choice": "required"}),
    "strict, but open": ("R18", {"tools.0.parameters.additionalProperties": True}),
    "a strict format of the reply": (
        "R18",
        {"text": {"format": {"type": "json_schema", "strict": True, "schema": {}}}},
    ),
}

CHAT_TAKEN: Final[dict[str, dict[str, Any]]] = {
    "a custom tool": {
        "tools.1": {"type": "custom", "custom": {"name": "grep"}},
        "messages.2.tool_calls.0": {"id": "c1", "type": "custom", "custom": {"name": "grep"}},
    },
    "no reasoning, so tools": {"model": "gpt-5.4", "reasoning_effort": "none"},
    "late instructions to OpenAI": {"messages.5": {"role": "system", "content": "x"}},
    "a picture": shown(DATA_URL),
    "a picture from a tool, to Mistral": {"model": "mistral-small-4", **SEEN},
    "sound for a model that hears": {"model": "gpt-audio", **said(SOUND)},
    "a file": filed(file_id="file-1"),
    "parameters of a gateway": {"extra_body": {"top_k": 3}},
    "JSON that is asked for": {
        "response_format": {"type": "json_object"},
        "messages.1.content": "As JSON.",
    },
    "a long limit of another server": {"model": "x", "max_tokens": 99_999},
    **{
        f"calls with their {field}": {"model": "deepseek-flash", f"messages.2.{field}": held}
        for field, held in {
            "reasoning_content": "hm",
            "reasoning": "hm",
            "reasoning_details": [{"type": "reasoning.text", "text": "hm"}],
        }.items()
    },
    "calls with their reasoning in the text, as MiniMax has it": {
        "model": "MiniMax-M3",
        "messages.2.content": "<think>hm</think>",
    },
    **{
        f"calls of a model that is asked not to think ({key})": {"model": "kimi-k2.6", key: value}
        for key, value in {
            "thinking": {"type": "disabled"},
            "extra_body": {"enable_thinking": False},
            "reasoning_effort": "none",
            "reasoning": {"enabled": False},
        }.items()
    },
}
RESPONSES_TAKEN: Final[dict[str, dict[str, Any]]] = {
    "input as text": {"input": "go"},
    "an answer to what the server stored": {**STATEFUL, "input": [answered("c9")]},
    "a call that may stay open": {"input.7": asked("c3", **{"async": True})},
    "a server's own search": {
        "input.7": {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    },
    "tools that came later": {
        "input.7": {"type": "additional_tools", "tools": [{"type": "web_search"}]},
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []},
    },
    "what OpenAI says in this order": {"input.4": SAID, "input.6": ITEM},
    "reasoning with an id, a call without": {"store": GONE, "input.3": asked("c1")},
    "a mode of a newer model": {"model": "gpt-5.6-sol", "reasoning": {"mode": "pro"}},
    "a picture": piece("image", detail="low", file_id="file-1"),
    "no reasoning, so heat": {"model": "gpt-5.5", "reasoning.effort": "none", "temperature": 0.5},
}
