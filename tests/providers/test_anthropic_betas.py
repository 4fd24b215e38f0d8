"""Which beta a payload needs, and the header that asks for it."""

from dataclasses import replace
from typing import Any, get_args

import pytest
from anthropic.types.anthropic_beta_param import AnthropicBetaParam

from context_assembler.providers.anthropic import ANTHROPIC
from context_assembler.providers.anthropic.betas import BETAS, add_beta_header, needed_betas
from context_assembler.testing.sdk_types import find_type_errors
from context_assembler.values.messages import Message
from context_assembler.values.parts import FileIdSource, Image, Opaque, Text
from context_assembler.values.tools import ToolSpec
from tests.providers.drafts import HAIKU_45, OPUS, assistant, draft, user
from tests.providers.wires import anthropic_client, json_answer

COMPACTION: dict[str, Any] = {"type": "compaction", "content": "They met."}


def says(*blocks: dict[str, Any], role: str = "assistant", **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": list(blocks), **fields}]}


def edits(*kinds: str) -> dict[str, Any]:
    return {"context_management": {"edits": [{"type": kind} for kind in kinds]}}


def added(tool: dict[str, Any]) -> dict[str, Any]:
    return says({"type": "tool_addition", "tool": tool}, role="system")


FILE = {"type": "image", "source": {"type": "file", "file_id": "file_1"}}
TOOLSET = {"type": "mcp_toolset", "mcp_server_name": "files"}
NEEDS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({"model": "m", "system": "x", "thinking": {"type": "adaptive"}}, []),
    "nulls": ({"compaction": None, "thinking": {"block_binding": None}}, []),
    "a compaction by threshold": (says(COMPACTION), ["compact-2026-01-12"]),
    "a failed compaction": (
        says({"type": "compaction", "content": None}),
        ["compact-2026-01-12"],
    ),
    "a signed compaction": (says({**COMPACTION, "signature": "s"}), ["compact-2026-09-04"]),
    "compacting on demand": ({"compaction": {"type": "summarize"}}, ["compact-2026-09-04"]),
    "compacting at a threshold": (edits("compact_20260112"), ["compact-2026-01-12"]),
    "context editing": (
        edits("clear_thinking_20251015", "clear_tool_uses_20250919"),
        ["context-management-2025-06-27"],
    ),
    "a tool that comes later": (
        added({"type": "tool_reference", "name": "t"}),
        ["mid-conversation-tool-changes-2026-07-01"],
    ),
    "a tool defined later": (
        added({"type": "tool_definition", "definition": {"name": "t", "input_schema": {}}}),
        ["inline-tools-2026-09-15", "mid-conversation-tool-changes-2026-07-01"],
    ),
    "a toolset defined later": (
        added({"type": "tool_definition", "definition": TOOLSET}),
        [
            "inline-tools-2026-09-15",
            "mcp-client-2026-09-15",
            "mid-conversation-tool-changes-2026-07-01",
        ],
    ),
    "a message that goes": (
        says({"type": "text", "text": "x"}, role="system", clear_at="next_user_message"),
        ["mid-conversation-system-clear-at-2026-08-21"],
    ),
    "a message with its effort": (
        says({"type": "text", "text": "x"}, role="system", output_config={"effort": "low"}),
        ["mid-conversation-output-config-2026-07-01"],
    ),
    "clear_at of another role means nothing": (says(role="user", clear_at="never"), []),
    "a file": (says(FILE, role="user"), ["files-api-2025-04-14"]),
    "a file inside a result": (
        says({"type": "tool_result", "content": [FILE]}, role="user"),
        ["files-api-2025-04-14"],
    ),
    "a file inside a document": (
        says({"type": "document", "source": {"type": "content", "content": [FILE]}}, role="user"),
        ["files-api-2025-04-14"],
    ),
    "how signatures are bound": (
        {"thinking": {"type": "adaptive", "block_binding": {}}},
        ["thinking-binding-controls-2026-08-01"],
    ),
    "a task budget": (
        {"output_config": {"task_budget": {"total": 1}}},
        ["task-budgets-2026-03-13"],
    ),
    "what travels in the extra body": (
        {"extra_body": {"mcp_servers": [], "speed": "fast"}},
        ["fast-mode-2026-02-01", "mcp-client-2025-11-20"],
    ),
    "a native tool": (
        {"tools": [{"type": "computer_20251124"}, TOOLSET]},
        ["computer-use-2025-11-24", "mcp-client-2025-11-20"],
    ),
    "any JSON": ({"messages": [1, {"content": 2}], "tools": "x", "extra_body": []}, []),
}


@pytest.mark.parametrize(("payload", "betas"), NEEDS.values(), ids=NEEDS.keys())
def test_what_a_payload_needs(payload: dict[str, Any], betas: list[str]) -> None:
    assert needed_betas(payload) == betas


def test_every_beta_is_one_that_the_sdk_knows() -> None:
    _, names = get_args(AnthropicBetaParam)

    assert set(get_args(names)) >= BETAS.keys()


def test_the_header_joins_those_that_are_there() -> None:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "zzz-1, compact-2026-01-12"}
    payload = {**says(COMPACTION), "betas": ["aaa-1"], "extra_headers": headers}

    add_beta_header(payload)

    assert payload["extra_headers"] == {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "aaa-1,compact-2026-01-12,zzz-1",
    }


def summary(block: dict[str, Any]) -> Message:
    native = Opaque(provider="anthropic", block=block, text="They met.")
    return Message(role="user", kind="summary", parts=(Text("They met."), native))


def test_a_payload_with_a_compaction_is_valid_and_reaches_the_wire() -> None:
    made = draft([summary({**COMPACTION, "signature": "s"}), assistant("Hi."), user("Go on.")])

    payload = ANTHROPIC.render(made)

    assert payload["messages"][0]["content"][0] == {**COMPACTION, "signature": "s"}
    assert payload["extra_headers"] == {"anthropic-beta": "compact-2026-09-04"}
    assert ANTHROPIC.check_payload(payload, limits=OPUS) == []
    assert find_type_errors("anthropic", payload) == []
    body: dict[str, Any] = {"type": "message", "content": [], "model": "m", "role": "assistant"}
    create: Any = anthropic_client(json_answer(body)).messages.create
    assert create(**payload).role == "assistant"


def test_sampling_and_betas_share_the_headers() -> None:
    picture = Image(source=FileIdSource(provider="anthropic", file_id="file_1"))

    payload = ANTHROPIC.render(draft([user(picture, "?")], limits=HAIKU_45, temperature=0.5))

    assert payload["extra_headers"] == {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "files-api-2025-04-14",
    }


def test_without_beta_features_there_is_no_header() -> None:
    assert "extra_headers" not in ANTHROPIC.render(draft())


def test_a_native_tool_brings_its_beta_along() -> None:
    spec = {"type": "computer_20251124", "name": "computer"}
    tool = ToolSpec(name="computer", native_specs={"anthropic": spec})

    payload = ANTHROPIC.render(draft(tools=(tool,)))

    assert payload["extra_headers"] == {"anthropic-beta": "computer-use-2025-11-24"}


def test_fingerprints_begin_anew_with_a_compaction() -> None:
    block = summary(COMPACTION)
    reply = assistant("Hi.")
    long = draft([user("a"), assistant("b"), block, reply, user("c")])
    short = draft([block, reply, user("c")])
    other = draft([user("other"), block, reply])

    assert ANTHROPIC.fingerprints(long)[3:] == ANTHROPIC.fingerprints(short)[1:]
    assert ANTHROPIC.fingerprints(other)[2:] == ANTHROPIC.fingerprints(short)[1:3]
    assert ANTHROPIC.fingerprints(replace(short, tools=()))[1] != ANTHROPIC.fingerprints(short)[1]


def test_within_a_reply_what_stands_before_its_compaction_does_not_count() -> None:
    native = Opaque(provider="anthropic", block=COMPACTION)
    failed = Opaque(provider="anthropic", block={"type": "compaction", "content": None})

    first, second = (
        ANTHROPIC.fingerprints(draft([user(said), assistant(said, native, "Hi.")]))[-1]
        for said in ("a", "b")
    )
    third, fourth = (
        ANTHROPIC.fingerprints(draft([user(said), assistant(failed, "Hi.")]))[-1]
        for said in ("a", "b")
    )

    assert first == second
    assert third != fourth


def test_elsewhere_a_summary_is_its_plain_text() -> None:
    foreign = Opaque(provider="openai_responses", block={"type": "compaction"}, text="They met.")
    message = Message(role="user", kind="summary", parts=(Text("They met."), foreign))

    payload = ANTHROPIC.render(draft([message, user("Go on.")]))

    assert [block["text"] for block in payload["messages"][0]["content"]] == [
        "<summary>\nThey met.\n</summary>",
        "Go on.",
    ]


def test_with_a_thinking_budget_a_compaction_may_stand_before_the_thinking() -> None:
    use: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {}}
    thought = {"type": "thinking", "thinking": "", "signature": "x"}
    budget = {"type": "enabled", "budget_tokens": 1024}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]}

    def rules(*blocks: dict[str, Any]) -> list[str]:
        said = {"role": "assistant", "content": list(blocks)}
        payload = {"model": "m", "max_tokens": 2000, "messages": [said, result]}
        found = ANTHROPIC.check_payload({**payload, "thinking": budget})
        return [violation.rule for violation in found if violation.level == "refused"]

    assert rules(COMPACTION, thought, use) == []
    assert rules(COMPACTION, use) == ["A15"]
