"""What Responses is sent for turns and parameters, and what its replies are read as."""

import json
from typing import Any

import pytest

from context_assembler.ports import ToolChange, ToolPlan, ToolSpec, change_part
from context_assembler.providers import PROVIDERS
from tests.providers.builders import (
    PICTURE,
    PIXEL,
    READ,
    SCHEMA,
    SEALED,
    call,
    note,
    opaque,
    render,
    render_with_entries,
    reply,
    request,
    result,
    results,
    summary,
    thought,
    user,
)

NAME = "openai_responses"
RESPONSES = PROVIDERS[NAME]
PICTURE_PIECE = {
    "type": "input_image",
    "detail": "auto",
    "image_url": f"data:image/png;base64,{PIXEL}",
}
THOUGHT = thought(SEALED, NAME)
MADE_BY = {"provider": NAME, "model": "gpt-6.2-sol", "usage": {"reasoning_tokens": 9}}
NO_REASONING = {**MADE_BY, "usage": {"output_tokens": 9}}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}}
ASKED = {"name": "ask", "arguments": "{}"}
REQUEST = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "w", **ASKED}
APPROVAL = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
COMPACTION = {"type": "compaction", "id": "cmp_1", "encrypted_content": "Z0FB"}
PROGRAM = {"type": "program", "id": "p_1", "call_id": "prog_1", "code": "go()"}
SHOT = {"type": "computer_screenshot", "image_url": "https://a.org/s.png"}
SEEN = {"type": "computer_call_output", "output": SHOT}
SCREEN = {"type": "input_image", "detail": "auto", "image_url": "https://a.org/s.png"}
CHECK = {"id": "sc_1", "code": "odd_domain", "message": "Careful."}
CLICK: dict[str, Any] = {
    "type": "computer_call",
    "id": "cu_1",
    "call_id": "c1",
    "action": {"type": "click"},
}
PENDING = {**CLICK, "pending_safety_checks": [CHECK]}


def own(**fields: Any) -> dict[str, Any]:
    return {"extras": {NAME: fields}}


def items(*turns: Any, **options: Any) -> list[dict[str, Any]]:
    made = render(NAME, *turns, system="", **options)["input"]
    plain: list[dict[str, Any]] = json.loads(json.dumps(made))
    return plain


def said(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **fields}


def asked(call_id: str, arguments: str = "{}", **fields: Any) -> dict[str, Any]:
    made = {"type": "function_call", "call_id": call_id, "name": "read", "arguments": arguments}
    return {**made, **fields}


def answered(call_id: str, output: Any, **fields: Any) -> dict[str, Any]:
    return {**fields, "type": "function_call_output", "call_id": call_id, "output": output}


def piece(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def opaque_own(block: dict[str, Any], text: str = "") -> dict[str, Any]:
    return opaque(NAME, block, text)


TEXT = {"type": "text", "text": "b"}
CALL = call("c1", path="x")
RENDERED: dict[str, tuple[list[Any], list[dict[str, Any]]]] = {
    "failures, silence, and pictures of tools": (
        [
            *(user("a"), reply(call("c1"), call("c2"), call("c3"))),
            results(result("c1", "no", is_error=True), result("c2"), result("c3", "d", PICTURE)),
        ],
        [
            *(
                said("user", "a"),
                asked("c1"),
                asked("c2"),
                asked("c3"),
                answered("c1", "ERROR: no"),
            ),
            *(answered("c2", "(no output)"), answered("c3", [piece("d"), PICTURE_PIECE])),
        ],
    ),
    "reasoning goes back with the ids that came with it": (
        [
            user("a"),
            reply(THOUGHT, TEXT | own(id="msg_1", status="completed", phase="commentary"))
            | {"made_by": MADE_BY},
            reply(
                {**THOUGHT, "block": {**SEALED, "id": "rs_2"}},
                CALL | own(id="fc_1", status="completed"),
            ),
            results(result("c1", "d")),
        ],
        [
            *(said("user", "a"), SEALED),
            said(
                "assistant",
                [{"type": "output_text", "text": "b", "annotations": []}],
                id="msg_1",
                status="completed",
                phase="commentary",
            ),
            {**SEALED, "id": "rs_2"},
            asked("c1", '{"path":"x"}', id="fc_1", status="completed"),
            answered("c1", "d"),
        ],
    ),
    "without its reasoning a reply goes without ids": (
        [
            user("a"),
            reply(TEXT | own(id="msg_1", phase="final_answer"), CALL | own(id="fc_1"))
            | {"made_by": MADE_BY},
            results(result("c1", "d")),
        ],
        [
            *(said("user", "a"), said("assistant", "b", phase="final_answer")),
            *(asked("c1", '{"path":"x"}'), answered("c1", "d")),
        ],
    ),
    "reasoning that nothing follows stays away": (
        [user("a"), reply("b", THOUGHT), user("c")],
        [said("user", "a"), said("assistant", "b"), said("user", "c")],
    ),
    "a server's item goes back if no reasoning is missing": (
        [user("a"), reply(opaque_own(SEARCH, "[search]"), "b", made_by=NO_REASONING), user("c")],
        [said("user", "a"), SEARCH, said("assistant", "b"), said("user", "c")],
    ),
    "so does an import's": (
        [user("a"), reply(opaque_own(SEARCH, "[search]"), "b"), user("c")],
        [said("user", "a"), SEARCH, said("assistant", "b"), said("user", "c")],
    ),
    "or its text does": (
        [user("a"), reply(opaque_own(SEARCH, "[search]"), "b", made_by=MADE_BY), user("c")],
        [
            said("user", "a"),
            said("assistant", "[search]"),
            said("assistant", "b"),
            said("user", "c"),
        ],
    ),
    "an approval refers to a request that is sent": (
        [user("a"), reply(opaque_own(REQUEST, "?")), user(opaque_own(APPROVAL), "b")],
        [said("user", "a"), REQUEST, APPROVAL, said("user", "b")],
    ),
    "or is told in words": (
        [user("a"), reply(opaque_own(REQUEST, "?"), made_by=MADE_BY), user(opaque_own(APPROVAL))],
        [
            said("user", "a"),
            said("assistant", "?"),
            said("user", "[mcp_approval_response: approved]"),
        ],
    ),
    "a reference to an item goes back": (
        [user("a", opaque_own({"type": "item_reference", "id": "msg_1"}), "b")],
        [said("user", "a"), {"type": "item_reference", "id": "msg_1"}, said("user", "b")],
    ),
    "a reference to reasoning, whose reply is with the provider, is sent in words": (
        [user(opaque_own({"type": "item_reference", "id": "rs_1"}, "[item_reference]"))],
        [said("user", "[item_reference]")],
    ),
    "programs are told in words": (
        [
            user("a"),
            reply(
                THOUGHT,
                opaque_own(PROGRAM, "[program]"),
                CALL | own(id="fc_1", caller={"type": "program", "caller_id": "prog_1"}),
            ),
            results(result("c1", "d")),
            reply(opaque_own({"type": "program_output", "call_id": "prog_1", "result": "x"}, "x")),
            user("b"),
        ],
        [
            *(said("user", "a"), SEALED, said("assistant", "[program]")),
            *(asked("c1", '{"path":"x"}', id="fc_1"), answered("c1", "d")),
            *(said("assistant", "x"), said("user", "b")),
        ],
    ),
    "a refusal goes back with its id": (
        [
            user("a"),
            reply(
                opaque_own(
                    said("assistant", [{"type": "refusal", "refusal": "No."}], id="msg_1"), "No."
                )
            ),
            user("b"),
        ],
        [
            said("user", "a"),
            said("assistant", [{"type": "refusal", "refusal": "No."}], id="msg_1"),
            said("user", "b"),
        ],
    ),
    "one that is not sealed is its text": (
        [summary("We met.", opaque_own({"type": "compaction"})), user("a")],
        [said("user", "<summary>\nWe met.\n</summary>"), said("user", "a")],
    ),
    "late instructions keep their role": (
        [user("a"), note("Be kind.", origin="developer")],
        [said("user", "a"), said("developer", "Be kind.")],
    ),
    "the user speaks first": (
        [reply("a"), user("b")],
        [
            said("user", "(The conversation starts with the assistant.)"),
            *(said("assistant", "a"), said("user", "b")),
        ],
    ),
    "an answer that nobody awaits is not made up": (
        [
            *(user("a"), reply(CALL | {"extras": {NAME: {"async": True}}})),
            results(
                result(
                    "c1",
                    "No result was recorded for this call; it may or may not have run.",
                    is_error=True,
                )
            ),
            user("b"),
        ],
        [said("user", "a"), {**asked("c1", '{"path":"x"}'), "async": True}, said("user", "b")],
    ),
}


@pytest.mark.parametrize(("turns", "expected"), RENDERED.values(), ids=RENDERED.keys())
def test_turns_become_items(turns: list[Any], expected: list[dict[str, Any]]) -> None:
    assert items(*turns) == expected


NATIVE: dict[str, tuple[dict[str, Any], Any, dict[str, Any], dict[str, Any]]] = {
    "custom": (
        {"type": "custom_tool_call", "call_id": "c1", "name": "grep", "input": "x"},
        "found",
        {"type": "custom_tool_call", "call_id": "c1", "name": "grep", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "found"},
    ),
    "shell": (
        {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {"commands": ["ls"]}},
        "a.txt",
        {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}, "id": "sh_1"},
        {
            "type": "shell_call_output",
            "call_id": "c1",
            "output": [
                {"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
            ],
        },
    ),
    "local shell": (
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "c1", "action": {"command": ["ls"]}},
        "a.txt",
        asked("c1", '{"command":["ls"]}', name="local_shell"),
        answered("c1", "a.txt"),
    ),
    "patch": (
        {"type": "apply_patch_call", "id": "apc_1", "call_id": "c1", "operation": {"path": "a"}},
        "done",
        {"type": "apply_patch_call", "call_id": "c1", "operation": {"path": "a"}, "id": "apc_1"},
        {
            "type": "apply_patch_call_output",
            "call_id": "c1",
            "status": "completed",
            "output": "done",
        },
    ),
    "tool search": (
        {"type": "tool_search_call", "id": "tsc_1", "call_id": "c1", "arguments": {"q": "x"}},
        "none",
        {"type": "tool_search_call", "call_id": "c1", "arguments": {"q": "x"}, "id": "tsc_1"},
        {"type": "function_call_output", "call_id": "c1", "output": "none"},
    ),
    "computer, its checks acknowledged": (
        PENDING,
        opaque_own({**SEEN, "call_id": "c1", "acknowledged_safety_checks": [CHECK]}),
        {**PENDING, "status": "completed"},
        {**SEEN, "call_id": "c1", "acknowledged_safety_checks": [CHECK]},
    ),
    "computer, acknowledged without the id of the call": (
        PENDING,
        opaque_own({**SEEN, "acknowledged_safety_checks": [CHECK]}),
        {**PENDING, "status": "completed"},
        {**SEEN, "call_id": "c1", "acknowledged_safety_checks": [CHECK]},
    ),
    "computer, its checks not acknowledged": (
        PENDING,
        opaque_own({**SEEN, "call_id": "c1"}),
        asked("c1", '{"type":"click"}', name="computer"),
        answered("c1", [SCREEN]),
    ),
    "computer, seen": (
        CLICK,
        opaque_own({**SEEN, "call_id": "c1"}),
        {**CLICK, "status": "completed", "pending_safety_checks": []},
        {**SEEN, "call_id": "c1"},
    ),
    "computer, with several actions, seen by a picture of one's own": (
        {**CLICK, "action": None, "actions": [{"type": "click"}]},
        PICTURE,
        {
            **{key: CLICK[key] for key in ("type", "id", "call_id")},
            "actions": [{"type": "click"}],
            "status": "completed",
            "pending_safety_checks": [],
        },
        {**SEEN, "call_id": "c1", "output": {**SHOT, "image_url": PICTURE_PIECE["image_url"]}},
    ),
    "computer, without its id": (
        {key: held for key, held in CLICK.items() if key != "id"},
        opaque_own({**SEEN, "call_id": "c1"}),
        asked("c1", '{"type":"click"}', name="computer"),
        answered("c1", [SCREEN]),
    ),
    "computer, failed": (
        {"type": "computer_call", "id": "cu_1", "call_id": "c1", "action": {"type": "click"}},
        "no screen",
        asked("c1", '{"type":"click"}', name="computer"),
        answered("c1", "no screen"),
    ),
}


@pytest.mark.parametrize(("item", "content", "sent", "output"), NATIVE.values(), ids=NATIVE.keys())
def test_calls_of_own_tools_are_read_and_go_back_as_their_kind(
    item: dict[str, Any], content: Any, sent: dict[str, Any], output: dict[str, Any]
) -> None:
    read = RESPONSES.read_reply(response(item))
    assert [part["type"] for part in read.parts] == ["tool_call"]

    made = items(user("a"), reply(*read.parts), results(result("c1", content)), tools=())

    assert made[1:] == [sent, output]


def test_an_item_that_comes_twice_is_sent_once() -> None:
    found = reply(opaque_own(SEARCH, "[search]"), made_by=NO_REASONING)
    other = reply(opaque_own({**SEARCH, "status": "failed"}, "[search]"), made_by=NO_REASONING)

    payload, entries = render_with_entries(NAME, user("a"), found, user("b"), found, other)

    sent = [one for one in payload["input"] if one["type"] == SEARCH["type"]]
    assert sent == [SEARCH, {k: v for k, v in SEARCH.items() if k != "id"} | {"status": "failed"}]
    assert [rule for _, rule in entries] == ["content.repeated"]


FOREIGN: dict[str, tuple[Any, Any, str]] = {
    "another provider's block": (opaque("gemini", {"x": 1}, "Found."), "Found.", "content.foreign"),
    "a document in another provider's block": (
        opaque(
            "anthropic", {"type": "document", "source": {"type": "url", "url": "https://a.org/b"}}
        ),
        [{"type": "input_file", "file_url": "https://a.org/b"}],
        "content.foreign",
    ),
    "a recording": (
        opaque(
            "openai_chat", {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}
        ),
        "[document left out: audio/mp3; only PDF, office documents and text are taken]",
        "media.type",
    ),
    "what only the model says": (
        opaque_own({"type": "output_text", "text": "b"}, "b"),
        "b",
        "content.malformed",
    ),
    "a picture without a place": (
        opaque_own({"type": "input_image", "detail": "high"}, "[input_image]"),
        "[input_image]",
        "content.malformed",
    ),
}


@pytest.mark.parametrize(("part", "sent", "rule"), FOREIGN.values(), ids=FOREIGN.keys())
def test_what_cannot_be_sent_is_sent_as_text_with_an_entry(part: Any, sent: Any, rule: str) -> None:
    payload, entries = render_with_entries(NAME, user(part), system="")

    assert [item["content"] for item in payload["input"]] == [sent]
    assert rule in {entry for _, entry in entries}


def test_the_users_pieces_in_a_reply_are_sent_as_text() -> None:
    made = items(
        user("a"), reply(opaque_own({"type": "input_file", "file_id": "f"}, "a file")), user("b")
    )

    assert made[1] == said("assistant", "a file")


@pytest.mark.parametrize(("supports", "is_marked"), [("gpt-6.2-sol", True), ("gpt-4o", False)])
def test_a_long_system_prompt_is_the_first_message_with_a_cache_mark(
    supports: str, is_marked: bool
) -> None:
    payload = render(NAME, user("a"), model=supports, system="Be brief. " * 400, cache="auto")

    first = payload["input"][0]
    assert (first["role"], "instructions" in payload) == ("developer", False)
    assert ("prompt_cache_breakpoint" in str(first["content"])) is is_marked
    assert payload["prompt_cache_key"] == "trip-42"


PARAMETERS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "nothing is stored": (
        "gpt-6.2-sol",
        {},
        {"store": False, "max_output_tokens": 4000, "include": ["reasoning.encrypted_content"]},
    ),
    "effort": ("gpt-6.2-sol", {"thinking_level": "low"}, {"reasoning": {"effort": "low"}}),
    "no reasoning": ("gpt-5.5", {"thinking_budget": 0}, {"reasoning": {"effort": "none"}}),
    "sampling": ("gpt-4o", {"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
    "a threshold": (
        "gpt-5.5",
        {"provider_compaction": 9_999},
        {"context_management": [{"type": "compaction", "compact_threshold": 9_999}]},
    ),
    "a forced call": (
        "gpt-4o",
        {"tool_choice": {"mode": "tool", "name": "read"}},
        {"tool_choice": {"type": "function", "name": "read"}},
    ),
    "an own tool is chosen by its kind": (
        "gpt-4o",
        {
            "tool_choice": {"mode": "tool", "name": "w"},
            "tools": (
                ToolSpec(name="w", native_specs={NAME: {"type": "mcp", "server_label": "l"}}),
            ),
        },
        {"tool_choice": {"type": "mcp", "server_label": "l"}},
    ),
    "some tools only": (
        "gpt-4o",
        {"tool_choice": {"mode": "any", "allowed": ("read",)}},
        {
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "read"}],
            }
        },
    ),
}


@pytest.mark.parametrize(("model", "given", "sent"), PARAMETERS.values(), ids=PARAMETERS.keys())
def test_parameters(model: str, given: dict[str, Any], sent: dict[str, Any]) -> None:
    payload = render(NAME, user("a"), model=model, **given)

    assert {key: payload.get(key) for key in sent} == sent


def test_tools_say_whether_they_are_strict_and_deferred_ones_are_searched_for() -> None:
    deferred = ToolSpec(name="later", input_schema=SCHEMA, is_deferred=True)
    untyped = ToolSpec(name="u", native_specs={NAME: {}})

    payload, entries = render_with_entries(NAME, user("a"), tools=(READ, deferred, untyped))

    function = {"type": "function", "name": "read", "description": "Read one file."}
    later = {"type": "function", "name": "later", "parameters": SCHEMA, "strict": False}
    assert list(payload["tools"]) == [
        {"type": "tool_search"},
        {**function, "parameters": SCHEMA, "strict": False},
        {**later, "defer_loading": True},
    ]
    assert entries == [("dropped", "tool.native")]


def test_tools_that_came_are_added_behind_the_history() -> None:
    new = ToolSpec(name="new", input_schema=SCHEMA, is_strict=True)
    forms = RESPONSES.change_forms(request(NAME).limits)
    offered = (READ, new)
    plan = ToolPlan(NAME, declared=(READ,), offered=offered, added=(new,), forms=forms)
    told = note(change_part(ToolChange(added=(new,))), note="tools")

    added = items(user("a"), reply("b"), told, user("c"), plan=plan)
    elsewhere = items(user("a"), told, plan=plan._replace(provider="anthropic"))

    tool = {"type": "function", "name": "new", "parameters": SCHEMA, "strict": True}
    assert added[2] == {"type": "additional_tools", "role": "developer", "tools": [tool]}
    assert elsewhere[1] == said("developer", "From here on these tools can be called: new.")


def test_the_prefix_hash_restarts_at_a_compaction() -> None:
    def prefix(*turns: Any) -> str:
        wire = RESPONSES.Wire(request(NAME))
        for turn in turns:
            wire.add(turn)
        return str(wire.prefix())

    compacted = (reply(opaque_own(COMPACTION), "b"), user("c"))

    assert prefix(user("a"), *compacted) == prefix(user("other"), *compacted)
    assert prefix(user("a"), reply("b")) != prefix(user("other"), reply("b"))


# ---- replies ----


def response(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    made = {"object": "response", "id": "resp_1", "model": "m", "status": "completed"}
    return {**made, "output": list(output), **fields}
