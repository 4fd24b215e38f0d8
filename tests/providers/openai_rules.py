"""Valid payloads of OpenAI's protocols, and what breaks their rules."""

from typing import Any, Final

from tests.providers.builders import GONE, PIXEL, SCHEMA, SEALED


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

CHAT_ROWS: Final[dict[str, dict[str, Any]]] = {
    "C0: what is no JSON": {"seed": float("nan")},
    "C0?: no model": {"model": GONE},
    "C0: no messages": {"messages": []},
    "C0: an unknown role": {"messages.1.role": "human"},
    "C0: content of no kind": {"messages.1.content": 1},
    "C0: a part without a type": said({"text": "x"}),
    "C0: a part that nobody knows": said({"type": "video"}),
    "C0?: a part that others may know": {"model": "x", **said({"type": "video_url"})},
    "C1: an answer too few": {"messages.4": ASK},
    "C1: calls left open at the end": {"messages.4": GONE},
    "C1: an answer twice": {"messages.4.tool_call_id": "c1"},
    "C1: an answer to nothing": {"messages.5": {"role": "tool", "tool_call_id": "c9"}},
    "C1: a message between call and answer": {"messages.3": ASK},
    "C1: the user calls": {"messages.1.tool_calls": [chat_call("c0")]},
    "C2: tools next to reasoning": {"model": "gpt-5.4", "reasoning_effort": "low"},
    "C2: tools of a model that always reasons": {"model": "gpt-6.2-sol"},
    "C3: heat while it reasons": {**THINKS, "temperature": 0.5},
    "C3: a penalty while it reasons": {**THINKS, "presence_penalty": 0.5},
    "C3: log probabilities while it reasons": {**THINKS, "logprobs": True},
    **{
        f"C3: stop sequences of {model}": {"model": model, "tools": GONE, "stop": ["x"]}
        for model in ("gpt-5-mini", "o3", "azure/o3", "o4-mini-2025-04-16")
    },
    **{
        f"C3: {name} of {value}": {name: value}
        for name, value in (("temperature", -1), ("top_p", 2), ("presence_penalty", -3))
    },
    "C3: heat below zero, anywhere": {"model": "x", "temperature": -1},
    "C3?: great heat, of a server that may take it": {"model": "x", "temperature": 3},
    "C4?: the old name of the limit": {"max_tokens": 4},
    "C4: the old name, on a model that reasons": {**THINKS, "max_tokens": 4},
    "C5: an unknown role of old models": {
        "model": "o1-mini",
        "messages.0.role": "developer",
        "tools": GONE,
    },
    "C6: a choice without tools": {"tools": GONE, "tool_choice": "auto"},
    "C6: a choice of no tool": {"tool_choice": {"type": "function", "function": {"name": "x"}}},
    "C6: a choice among no tools": {
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "auto",
                "tools": [{"type": "function", "function": {"name": "x"}}],
            },
        }
    },
    "C6: a long id": {f"{CALL_AT}.id": "c" * 41, "messages.3.tool_call_id": "c" * 41},
    "C6: many tools": {
        "tools": [{"type": "function", "function": function(name=f"t{i}")} for i in range(129)]
    },
    "C6: many calls": {
        "messages.2.tool_calls": [chat_call(f"c{i}") for i in range(129)],
        **{
            f"messages.{3 + i}": {"role": "tool", "tool_call_id": f"c{i}", "content": "x"}
            for i in range(129)
        },
    },
    "C7: a name with a dot": {f"{CALL_AT}.function.name": "fs.read"},
    "C7: arguments as an object": {f"{CALL_AT}.function.arguments": {}},
    "C7?: arguments that are no JSON": {f"{CALL_AT}.function.arguments": "{"},
    "C7: no id": {f"{CALL_AT}.id": ""},
    "C7: an id twice": {f"{CALL_AT}.id": "c2"},
    "C7: no calls": {"messages.0": {"role": "assistant", "content": "x", "tool_calls": []}},
    "C7: a tool's name with a dot": {f"{FUNCTION_AT}.name": "fs.read"},
    "C8: a schema of a list": schema(type="array", items={}),
    "C8: a union at the root": schema(anyOf=[{}]),
    "C8: an array without items": schema(properties={"a": {"type": "array"}}),
    "C8: a pattern that Python does not know": schema(properties={"a": {"pattern": "\\p{L}"}}),
    "C8: strict, but open": strict(additionalProperties=True),
    "C8: strict, but optional": strict(required=[]),
    "C8: strict with a union": property_of(oneOf=[{"type": "string"}]),
    "C8: strict with a format": property_of(type="string", format="uri"),
    "C8: strict with a look around": property_of(type="string", pattern="(?=a)"),
    "C8: strict without a type": property_of(description="x"),
    "C8: strict beside a reference": property_of(**{"$ref": "#", "description": "x"}),
    "C9: JSON that nobody asks for": {"response_format": {"type": "json_object"}},
    "C9: five stop sequences": {"stop": list("abcde")},
    "C9: no reply": {"max_completion_tokens": 0},
    "C9: a long reply": {"max_completion_tokens": 32_769},
    "C10: neither text nor calls": {"messages.0": {"role": "assistant"}},
    "C10: nothing said": {"messages.1.content": GONE},
    "C11: a picture from a tool": SEEN,
    "C11?: a picture from a tool, to others": {"model": "x", **SEEN},
    "C11: a file from a tool": {"messages.3.content": [{"type": "file", "file": {}}]},
    "C12: a schema for an old model": {
        "model": "gpt-4",
        "response_format": {"type": "json_schema"},
    },
    "C12: a search by a model without": {"web_search_options": {}},
    "C13: an effort that the model lacks": {"model": "o3", "reasoning_effort": "minimal"},
    "C13: an effort of a gateway's": {"model": "o3", "reasoning": {"effort": "minimal"}},
    "C13: no reasoning, of a model that always does": {
        "model": "gpt-oss-120b",
        "reasoning": {"enabled": False},
    },
    "C14: a picture for the blind": {"model": "gpt-4", **shown(DATA_URL)},
    **{
        f"C14: sound for {model}": {"model": model, **said(SOUND)}
        for model in ("gpt-5-mini", "gpt-4.1", "gpt-4o")
    },
    "C14: no picture": shown(" "),
    "C14: a picture on the disk": shown("file:///a.png"),
    "C14: a file by address": filed(file_url="https://a.org/b.pdf"),
    "C14: a file without its type": filed(file_data=PIXEL, filename="a.pdf"),
    "C16: late instructions to Mistral": {
        "model": "mistral-large",
        "messages.5": {"role": "system", "content": "x"},
    },
    "C16?: late instructions to others": {
        "model": "x",
        "messages.5": {"role": "system", "content": "x"},
    },
    "C18: calls without the reasoning that led to them": {"model": "deepseek-flash"},
    "C18: calls with reasoning that is empty": {
        "model": "kimi-k3",
        "messages.2.reasoning_content": "",
    },
    "C18?: calls that would be better with their reasoning": {"model": "glm-5.3"},
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

RESPONSES_ROWS: Final[dict[str, dict[str, Any]]] = {
    "R0?: no model": {"model": GONE},
    "R0: no input": {"input": GONE},
    "R0: input of no kind": {"input": 1},
    "R0: an item of no kind": {"input.1": {"content": "x"}},
    "R0: an unknown role": {"input.1.role": "human"},
    "R0: no content": {"input.1.content": GONE},
    "R0: no output": {"input.5.output": GONE},
    "R0: a piece without a type": {"input.1.content": [{"text": "x"}]},
    "R0: a piece of Chat's": {"input.1.content": [{"type": "text", "text": "x"}]},
    "R0: what the model says, from the user": {
        "input.1.content": [{"type": "output_text", "text": "x"}]
    },
    "R0: reasoning without a summary": {"input.2.summary": GONE},
    "R1: an answer too few": {"input.6": ITEM},
    "R20: an answer twice": {"input.7": answered("c2")},
    "R1: an answer to nothing": {"input.7": answered("c9")},
    "R1?: a message between call and answer": {"input.4": ITEM, "input.6": ITEM},
    "R1: a reply between call and answer, to DeepSeek": {
        **OLDER,
        "model": "deepseek-flash",
        "input.4": SAID,
        "input.6": ITEM,
    },
    "R1?: a shell that nobody answers": {
        "input.7": {"type": "shell_call", "call_id": "c3", "action": {}}
    },
    "R2: reasoning that led to nothing": {"input.7": SEALED},
    "R2: stored reasoning without its neighbour": {
        "store": True,
        "input.7": {**SEALED, "id": "rs_2"},
        "input.8": SAID,
    },
    "R4: reasoning that nobody stored": {"input.2.encrypted_content": GONE},
    "R5: two memories": {**STATEFUL, "conversation": "conv_1"},
    "R6: a long id": {"input.7": asked("c" * 65), "input.8": answered("c" * 65)},
    "R6: no id": {"input.7": answered("")},
    "R7: a name with a dot": {"input.3.name": "fs.read"},
    "R7: arguments as an object": {"input.3.arguments": {}},
    "R7?: arguments that are no JSON": {"input.3.arguments": "{"},
    "R21: safety checks that nobody acknowledged": {
        "input.7": {"type": "computer_call", "call_id": "c3", "pending_safety_checks": [CHECK]},
        "input.8": {"type": "computer_call_output", "call_id": "c3", "output": {}},
    },
    "R20: a call twice": {"input.4.call_id": "c1", "input.6": ITEM},
    "R20: an item twice": {"input.7": SEALED, "input.8": asked("c3"), "input.9": answered("c3")},
    "R7: a tool's name with a dot": {"tools.0.name": "fs.read"},
    "R7: a tool of no kind": tool(name="x"),
    "R7: a search in no store": tool(type="file_search"),
    "R7: a schema of a list": {"tools.0.parameters": {"type": "array", "items": {}}},
    "R7: many tools": {
        "tools": [{"type": "function", "strict": False, "name": f"t{i}"} for i in range(129)]
    },
    "R8: a short reply": {"max_output_tokens": 15},
    "R8: a long reply": {"max_output_tokens": 128_001},
    "R9: a compaction too early": {
        "context_management": [{"type": "compaction", "compact_threshold": 999}]
    },
    "R9: a compaction before the end": {"input.1": {"type": "compaction_trigger"}},
    "R9: an open compaction": {"input.1": {"type": "compaction"}},
    "R10: heat that the model never takes": {"temperature": 1},
    "R10: heat while it reasons": {"model": "gpt-5", "temperature": 0.5},
    "R10: log probabilities while it reasons": {"top_logprobs": 2},
    "R11: JSON that nobody asks for": {"text": {"format": {"type": "json_object"}}},
    "R12: a picture for the blind": {
        **OLDER,
        "model": "gpt-4",
        **piece("image", image_url=DATA_URL),
    },
    "R12: no picture": piece("image", detail="auto"),
    "R12: a picture on the disk": piece("image", detail="auto", image_url="file:///a.png"),
    "R12: no file": piece("file"),
    "R12: a file on the disk": piece("file", file_url="file:///a.pdf"),
    "R12: a file that sounds": piece("file", file_data="data:audio/mpeg;base64,AAAA"),
    "R13: an effort that the model lacks": {"reasoning.effort": "minimal"},
    "R13: none, of a model that always reasons": {
        "model": "gpt-5.5-pro",
        "reasoning.effort": "none",
    },
    "R13: an effort of a model without": {"model": "gpt-4.1"},
    "R13: all turns, of an older model": {"model": "o3", "reasoning.context": "all_turns"},
    **{
        f"R13: a mode of {model}": {"model": model, "reasoning": {"mode": "pro"}}
        for model in ("gpt-5", "gpt-5.5", "gpt-4.1", "o3")
    },
    **{
        f"R13: no reasoning, of {model}": {"model": model, "reasoning.effort": "none"}
        for model in ("gpt-5-codex", "gpt-5.1-codex-max", "gpt-5.3-codex", "codex-mini-latest")
    },
    **{
        f"R10: {name} of {value}": {**OLDER, name: value}
        for name, value in (("temperature", -1), ("temperature", 2.5), ("top_p", 1.5))
    },
    "R14: research in nothing": {"model": "o3-deep-research"},
    "R15: a parameter of Chat's": {"reasoning_effort": "low"},
    "R15: a model of Chat's": {"model": "gpt-5-search-api", "reasoning": GONE},
    "R16: a choice of no tool": {"tool_choice": {"type": "function", "name": "x"}},
    "R16: a choice among no tools": {
        "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "x"}]}
    },
    "R16: a call without tools": {"tools": GONE, "tool_choice": "required"},
    "R18: strict, but open": {"tools.0.parameters.additionalProperties": True},
    "R18: a strict format of the reply": {
        "text": {"format": {"type": "json_schema", "strict": True, "schema": {}}}
    },
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
