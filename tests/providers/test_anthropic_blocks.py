"""Every content block that the API knows: read, stored, and sent back as it came."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, get_args, get_type_hints

import pytest
from anthropic.types import ContentBlockParam, ToolResultBlockParam
from anthropic.types.beta import (
    BetaContentBlockParam,
    BetaSystemMessageParam,
    BetaToolResultBlockParam,
)
from pydantic import BaseModel

from context_assembler.providers import PROVIDERS
from context_assembler.providers.anthropic import ANTHROPIC
from context_assembler.stages.transform_messages import MessageTransformer
from context_assembler.testing.sdk_types import find_type_errors
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.codec import dump_event, load_event
from context_assembler.values.events import AssistantBody, SessionEvent
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Opaque
from tests.providers.drafts import GEMINI_4, GPT_4O, OPUS, PIXEL, READ_FILE, draft

Block = dict[str, Any]

SERVER = "srvtoolu_01"
CALLER: Block = {"type": "code_execution_20260120", "tool_id": SERVER}
PAGE: Block = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "Page one."},
    "title": "A page",
}
CITATION: Block = {
    "type": "char_location",
    "cited_text": "x",
    "document_index": 0,
    "document_title": None,
    "start_char_index": 0,
    "end_char_index": 1,
}


def server_result(kind: str, content: Any, **fields: Any) -> Block:
    return {"type": f"{kind}_tool_result", "tool_use_id": SERVER, "content": content, **fields}


ASSISTANT: dict[str, list[Block]] = {
    "text": [
        {"type": "text", "text": "Hello."},
        {"type": "text", "text": "Cited.", "citations": [CITATION]},
    ],
    "thinking": [{"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}],
    "redacted_thinking": [{"type": "redacted_thinking", "data": "AAAA"}],
    "tool_use": [
        {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a"}},
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "click",
            "input": {"x": 1},
            "caller": CALLER,
            "toolset_name": "computer",
        },
    ],
    "server_tool_use": [
        {
            "type": "server_tool_use",
            "id": SERVER,
            "name": "web_search",
            "input": {"query": "q"},
            "caller": {"type": "direct"},
        }
    ],
    "web_search_tool_result": [
        server_result(
            "web_search",
            [
                {
                    "type": "web_search_result",
                    "url": "https://example.com",
                    "title": "A page",
                    "encrypted_content": "Eqg",
                    "page_age": None,
                }
            ],
            caller={"type": "direct"},
        ),
        server_result(
            "web_search",
            {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
        ),
    ],
    "web_fetch_tool_result": [
        server_result(
            "web_fetch",
            {
                "type": "web_fetch_result",
                "url": "https://example.com",
                "content": PAGE,
                "retrieved_at": "2026-11-27T00:00:00Z",
            },
        )
    ],
    "advisor_tool_result": [
        server_result("advisor", {"type": "advisor_result", "text": "Wait.", "stop_reason": None})
    ],
    "code_execution_tool_result": [
        server_result(
            "code_execution",
            {
                "type": "code_execution_result",
                "stdout": "2\n",
                "stderr": "",
                "return_code": 0,
                "content": [{"type": "code_execution_output", "file_id": "file_1"}],
            },
        )
    ],
    "bash_code_execution_tool_result": [
        server_result(
            "bash_code_execution",
            {
                "type": "bash_code_execution_result",
                "stdout": "ok",
                "stderr": "",
                "return_code": 0,
                "content": [],
            },
        )
    ],
    "text_editor_code_execution_tool_result": [
        server_result(
            "text_editor_code_execution",
            {"type": "text_editor_code_execution_create_result", "is_file_update": False},
        )
    ],
    "tool_search_tool_result": [
        server_result(
            "tool_search",
            {
                "type": "tool_search_tool_search_result",
                "tool_references": [{"type": "tool_reference", "tool_name": "read_file"}],
            },
        )
    ],
    "mcp_tool_use": [
        {
            "type": "mcp_tool_use",
            "id": "mcptoolu_1",
            "name": "find",
            "server_name": "files",
            "input": {"glob": "*"},
        }
    ],
    "mcp_tool_result": [
        {
            "type": "mcp_tool_result",
            "tool_use_id": "mcptoolu_1",
            "is_error": False,
            "content": [{"type": "text", "text": "a.txt"}],
        }
    ],
    "mcp_tool_listing": [
        {
            "type": "mcp_tool_listing",
            "mcp_server_name": "files",
            "tools": [{"name": "find", "input_schema": {"type": "object"}}],
        }
    ],
    "container_upload": [{"type": "container_upload", "file_id": "file_1"}],
    "compaction": [
        {"type": "compaction", "content": "They met.", "signature": "s", "tool_changes": []},
        {"type": "compaction", "content": None, "encrypted_content": None},
    ],
    "fallback": [
        {
            "type": "fallback",
            "from": {"model": "claude-fable-5"},
            "to": {"model": "claude-opus-5"},
            "trigger": {"type": "refusal"},
        }
    ],
}
USER: dict[str, list[Block]] = {
    "image": [
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
        },
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    ],
    "document": [
        {**PAGE, "citations": {"enabled": True}, "context": "Of last year."},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            "citations": {"enabled": True},
        },
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        {
            "type": "document",
            "source": {"type": "content", "content": [{"type": "text", "text": "A part."}]},
        },
    ],
    "search_result": [
        {
            "type": "search_result",
            "source": "https://example.com",
            "title": "A page",
            "content": [{"type": "text", "text": "Found."}],
            "citations": {"enabled": True},
        }
    ],
}
SYSTEM: dict[str, list[Block]] = {
    "text": [{"type": "text", "text": "Be brief."}],
    "tool_addition": [
        {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "read_file"}},
        {
            "type": "tool_addition",
            "tool": {
                "type": "tool_definition",
                "definition": {"name": "book", "input_schema": {"type": "object"}},
            },
        },
    ],
    "tool_removal": [
        {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "read_file"}}
    ],
}
IN_RESULTS: dict[str, list[Block]] = {
    "text": [{"type": "text", "text": "done"}],
    "image": USER["image"],
    "document": USER["document"],
    "search_result": USER["search_result"],
    "tool_reference": [{"type": "tool_reference", "tool_name": "read_file"}],
    "browser_state": [
        {
            "type": "browser_state",
            "tabs": [
                {"tab_id": "1", "title": "A page", "url": "https://example.com", "active": True}
            ],
        }
    ],
}


def named(table: Mapping[str, list[Block]]) -> dict[str, Block]:
    return {
        f"{kind} {n}": block for kind, blocks in table.items() for n, block in enumerate(blocks)
    }


def kinds_in(hint: Any) -> Iterator[str]:
    """Yield the types of the blocks in a union of the SDK's TypedDicts and models."""
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield from get_args(hint.model_fields["type"].annotation)
    elif isinstance(hint, type):
        yield from get_args(get_type_hints(hint)["type"])
    else:
        for member in get_args(hint):
            if isinstance(member, type) or get_args(member):
                yield from kinds_in(member)


def listed_in(message: type) -> Any:
    """Return what may stand in a list that is a block's or a message's content."""
    _, listed = get_args(get_type_hints(message)["content"])
    return listed


def test_the_table_holds_every_block_that_the_sdk_knows() -> None:
    known = {*kinds_in(ContentBlockParam), *kinds_in(BetaContentBlockParam)}
    results = (ToolResultBlockParam, BetaToolResultBlockParam)
    inner = {kind for result in results for kind in kinds_in(listed_in(result))}
    system = {*kinds_in(listed_in(BetaSystemMessageParam))}

    assert known == {*ASSISTANT, *USER, *SYSTEM, "tool_result"}
    assert inner == IN_RESULTS.keys()
    assert system == SYSTEM.keys()


def stored(events: list[SessionEvent]) -> list[SessionEvent]:
    """Return the events as a store gives them back."""
    numbered = [replace(event, id=f"e{n}", seq=n) for n, event in enumerate(events, start=1)]
    return [load_event(dump_event(event), where="row") for event in numbered]


def carry(events: list[SessionEvent], provider: str = "anthropic") -> dict[str, Any]:
    """Return the payload of a stored session."""
    limits = {"anthropic": OPUS, "gemini": GEMINI_4}.get(provider, GPT_4O)
    messages = MessageTransformer(takes_leading_system=False).transform(stored(events)).messages
    tools = (READ_FILE, replace(READ_FILE, name="click"))
    payload = PROVIDERS[provider].render(draft(messages, limits=limits, tools=tools))
    json.dumps(payload, allow_nan=False)
    return payload


def read(role: str, *blocks: Block) -> list[SessionEvent]:
    said: Block = {"role": "user", "content": "go"}
    found = TRANSCRIPTS["anthropic"].read([said, {"role": role, "content": list(blocks)}])
    assert found.issues == ()
    return list(found.events)


def sent_blocks(payload: dict[str, Any], role: str) -> list[Block]:
    return [b for m in payload["messages"] if m["role"] == role for b in m["content"]]


@pytest.mark.parametrize("block", named(ASSISTANT).values(), ids=named(ASSISTANT).keys())
def test_a_block_of_a_reply_goes_back_as_it_came(block: Block) -> None:
    body = {"type": "message", "role": "assistant", "model": "m", "content": [block]}
    reply = ANTHROPIC.read_reply(body, None)
    events = read("user")[:1]
    events.append(SessionEvent(body=AssistantBody(parts=reply.parts)))

    payload = carry(events)

    assert block in sent_blocks(payload, "assistant")
    assert [e for e in find_type_errors("anthropic", payload) if "tool_use" not in e] == []
    assert reply.warnings == () or block["type"] == "tool_use"


@pytest.mark.parametrize("block", named(ASSISTANT).values(), ids=named(ASSISTANT).keys())
def test_an_imported_block_of_a_reply_goes_back_as_it_came(block: Block) -> None:
    assert block in sent_blocks(carry(read("assistant", block)), "assistant")


@pytest.mark.parametrize("block", named(USER).values(), ids=named(USER).keys())
def test_a_block_of_the_user_goes_back_as_it_came(block: Block) -> None:
    payload = carry(read("user", block))

    assert block in sent_blocks(payload, "user")
    assert find_type_errors("anthropic", payload) == []


@pytest.mark.parametrize("block", named(SYSTEM).values(), ids=named(SYSTEM).keys())
def test_a_block_of_a_system_message_goes_back_as_it_came(block: Block) -> None:
    payload = carry(read("system", block))

    assert block in sent_blocks(payload, "system")
    assert find_type_errors("anthropic", payload) == []


@pytest.mark.parametrize("block", named(IN_RESULTS).values(), ids=named(IN_RESULTS).keys())
def test_a_block_inside_a_result_goes_back_as_it_came(block: Block) -> None:
    call = ASSISTANT["tool_use"][1]
    result: Block = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [block],
        "toolset_name": "computer",
    }
    events = [*read("assistant", call), *read("user", result)[1:]]

    payload = carry(events)

    assert result in sent_blocks(payload, "user")
    assert find_type_errors("anthropic", payload) == []


def test_a_result_names_the_toolset_of_its_call() -> None:
    call = ASSISTANT["tool_use"][1]
    result: Block = {"type": "tool_result", "tool_use_id": "toolu_1"}

    payload = carry([*read("assistant", call), *read("user", result)[1:]])

    assert {**result, "toolset_name": "computer"} in sent_blocks(payload, "user")


def test_a_block_nobody_knows_goes_back_wherever_it_stands() -> None:
    strange: Block = {"type": "hologram", "z": [1, {"cache_control": 2}]}

    assert strange in sent_blocks(carry(read("assistant", strange)), "assistant")
    assert strange in sent_blocks(carry(read("user", strange)), "user")


def test_cache_markers_inside_a_block_stay_behind() -> None:
    found = USER["search_result"][0]
    marked = {"type": "text", "text": "Found.", "cache_control": {"type": "ephemeral"}}
    events = read("user", {**found, "content": [marked], "cache_control": {"type": "ephemeral"}})

    assert found in sent_blocks(carry(events), "user")


READABLE = {
    "text 1": "Cited.",
    "server_tool_use 0": "web_search",
    "web_search_tool_result 0": "https://example.com",
    "web_search_tool_result 1": "max_uses_exceeded",
    "web_fetch_tool_result 0": "Page one.",
    "advisor_tool_result 0": "Wait.",
    "code_execution_tool_result 0": "file_1",
    "bash_code_execution_tool_result 0": "ok",
    "mcp_tool_use 0": "find",
    "mcp_tool_result 0": "a.txt",
    "container_upload 0": "file_1",
    "compaction 0": "They met.",
}


@pytest.mark.parametrize("provider", sorted(PROVIDERS.keys() - {"anthropic"}))
@pytest.mark.parametrize("name", named(ASSISTANT))
def test_elsewhere_a_block_of_a_reply_is_text_or_nothing(provider: str, name: str) -> None:
    block = named(ASSISTANT)[name]

    payload = carry(read("assistant", block), provider)

    assert not any(_has_type(payload, kind) for kind in (block["type"], "anthropic"))
    if name in READABLE:
        assert READABLE[name] in json.dumps(payload)


def _has_type(value: Any, kind: str) -> bool:
    """Whether a block of Anthropic's own type stands anywhere in a payload."""
    if kind in ("text", "thinking", "tool_use", "compaction"):
        return False  # names that other APIs use as well
    if is_object(value):
        return value.get("type") == kind or any(_has_type(v, kind) for v in value.values())
    return is_array(value) and any(_has_type(entry, kind) for entry in value)


@pytest.mark.parametrize("provider", sorted(PROVIDERS.keys() - {"anthropic"}))
def test_elsewhere_what_cannot_be_read_has_a_row(provider: str) -> None:
    listing = ASSISTANT["fallback"][0]
    messages = MessageTransformer().transform(stored(read("assistant", listing))).messages

    _, rows = PROVIDERS[provider].adapt(draft(messages, limits=GPT_4O))

    assert [row.rule for row in rows] == ["content.foreign"]
    assert any(isinstance(part, Opaque) for part in messages[1].parts)
