"""What Chat Completions is sent for turns and parameters, and what its replies are read as."""

import json
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
    note,
    opaque,
    render,
    render_with_entries,
    reply,
    request,
    result,
    results,
    user,
)

CHAT = PROVIDERS["openai_chat"]
IMAGE_PART = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
FUNCTION = {"name": "read", "description": "Read one file.", "parameters": SCHEMA}
OPENING = {"role": "user", "content": "(The conversation starts with the assistant.)"}
REFUSAL = opaque("openai_chat", {"type": "refusal", "refusal": "No."}, "No.")
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
UNHEARD = "[document left out: audio/wav; only PDF and plain text are taken]"


def messages(*turns: Any, **options: Any) -> list[dict[str, Any]]:
    made = render("openai_chat", *turns, system="", **options)["messages"]
    plain: list[dict[str, Any]] = json.loads(json.dumps(made))
    return plain


def asked(call_id: str, arguments: str = "{}", name: str = "read") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def answered(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


RENDERED: dict[str, tuple[list[Any], list[dict[str, Any]]]] = {
    "neighbours of the user stay apart": (
        [user("a"), user("b", " "), reply("c"), user("d")],
        [said("user", "a"), said("user", "b"), said("assistant", "c"), said("user", "d")],
    ),
    "neighbouring replies become one": (
        [user("a"), reply("b"), reply("c", call("c1")), results(result("c1", "d"))],
        [
            said("user", "a"),
            said("assistant", "b\nc") | {"tool_calls": [asked("c1")]},
            answered("c1", "d"),
        ],
    ),
    "the user speaks first": (
        [reply("a"), user("b")],
        [OPENING, said("assistant", "a"), said("user", "b")],
    ),
    "a reply of calls alone has no content": (
        [
            user("a"),
            reply(call("c1", path="x"), call("c2")),
            results(result("c1"), result("c2", "y")),
        ],
        [
            said("user", "a"),
            {"role": "assistant", "tool_calls": [asked("c1", '{"path":"x"}'), asked("c2")]},
            answered("c1", "(no output)"),
            answered("c2", "y"),
        ],
    ),
    "late instructions keep their role": (
        [user("a"), note("Be kind.", origin="developer")],
        [said("user", "a"), said("system", "Be kind.")],
    ),
    "a refusal goes back as one": (
        [user("a"), reply("b", REFUSAL), user("c")],
        [said("user", "a"), said("assistant", [text("b"), REFUSAL["block"]]), said("user", "c")],
    ),
    "sound that the model cannot hear is left out, in words": (
        [user("hear", opaque("openai_chat", AUDIO, "[input_audio]"))],
        [said("user", [text("hear"), text(UNHEARD)])],
    ),
    "unclean text": ([user("a\0b\ud800")], [said("user", "ab\ufffd")]),
}


@pytest.mark.parametrize(("turns", "expected"), RENDERED.values(), ids=RENDERED.keys())
def test_turns_become_messages(turns: list[Any], expected: list[dict[str, Any]]) -> None:
    assert messages(*turns) == expected


def test_own_content_parts_go_back_verbatim_to_servers_that_may_take_them() -> None:
    turn = user("hear", opaque("openai_chat", AUDIO, "[input_audio]"))

    assert messages(turn, model="grok-4.7") == [said("user", [text("hear"), AUDIO])]


def test_an_id_used_twice_is_changed_for_call_and_result_alike() -> None:
    once = [reply(call("c1")), results(result("c1", "1"))]

    made = messages(user("a"), *once, *once, reply(call("x" * 50)), results(result("x" * 50)))

    sent = [one["tool_calls"][0]["id"] for one in made if "tool_calls" in one]
    assert [one["tool_call_id"] for one in made if one["role"] == "tool"] == sent
    assert sent[0] == "c1" != sent[1]
    assert all(len(one) <= 40 for one in sent)


FOREIGN: dict[str, tuple[Any, Any, tuple[str, str]]] = {
    "another provider's block is its text": (
        opaque("anthropic", {"type": "search_result"}, "Found."),
        "Found.",
        ("repaired", "content.foreign"),
    ),
    "a block without text is a line": (
        opaque("anthropic", {"type": "odd"}),
        "[block of anthropic (odd) left out: it has no text]",
        ("shortened", "content.foreign"),
    ),
    "pictures in a block are sent": (
        opaque(
            "openai_responses",
            {"type": "input_image", "image_url": "https://a.org/b.png"},
            "[image]",
        ),
        [{"type": "image_url", "image_url": {"url": "https://a.org/b.png"}}],
        ("repaired", "content.foreign"),
    ),
    "a broken part of its own is its text": (
        opaque("openai_chat", {"type": "image_url", "image_url": {}}, "a picture"),
        "a picture",
        ("repaired", "content.malformed"),
    ),
    "a picture of which only the detail is known": (
        opaque("openai_chat", {"type": "image_url", "image_url": {"url": None, "detail": "low"}}),
        "[block of openai_chat (image_url) left out: its image_url is empty]",
        ("shortened", "content.malformed"),
    ),
    "sound of which only the format is known": (
        opaque("openai_chat", {"type": "input_audio", "input_audio": {"format": "mp3"}}, "Hum."),
        "Hum.",
        ("repaired", "content.malformed"),
    ),
    "a refusal is not the user's": (REFUSAL, "No.", ("repaired", "content.malformed")),
    "a file at an address is not fetched": (
        {"type": "document", "source": {"type": "url", "url": "https://me:pw@a.org/b.pdf"}},
        "[document left out: https://a.org/b.pdf; Chat Completions fetches no documents]",
        ("shortened", "media.source"),
    ),
    "an image by id is not taken": (
        {"type": "image", "source": {"type": "file", "provider": "openai_chat", "file_id": "f1"}},
        "[image left out: openai_chat file f1; Chat Completions takes no image by file id]",
        ("shortened", "media.source"),
    ),
    "bytes that are not what they say": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        "[image left out: image/png; its bytes are no image/png]",
        ("shortened", "media.type"),
    ),
    "a film": (
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "video/mp4", "data": "AA=="},
        },
        "[document left out: video/mp4; only PDF and plain text are taken]",
        ("shortened", "media.type"),
    ),
}


@pytest.mark.parametrize(("part", "sent", "entry"), FOREIGN.values(), ids=FOREIGN.keys())
def test_what_cannot_be_sent_is_sent_as_text_with_an_entry(
    part: Any, sent: Any, entry: tuple[str, str]
) -> None:
    payload, entries = render_with_entries("openai_chat", user(part), system="")

    assert [message["content"] for message in payload["messages"]] == [sent]
    assert entry in entries


def test_documents_are_files_or_their_text() -> None:
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
    note_text = {"type": "document", "title": "n", "text": "hi", "source": {**pdf, "data": ""}}

    made = messages(user({"type": "document", "source": pdf, "title": "a.pdf"}, note_text))

    file = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQK"}
    assert made[0]["content"] == [{"type": "file", "file": file}, text("n:\nhi")]


def test_the_calls_of_custom_tools_are_text() -> None:
    custom = {"openai_chat": {"type": "custom"}}
    part = call("c1", "grep", input="x.*") | {"extras": custom}

    made = messages(user("a"), reply(part), results(result("c1")))

    assert made[1]["tool_calls"] == [
        {"id": "c1", "type": "custom", "custom": {"name": "grep", "input": "x.*"}}
    ]


@pytest.mark.parametrize(
    ("model", "sent"),
    [("gpt-4.1", '{"path": '), ("mistral-large-4", '{"INVALID_JSON":"{\\"path\\": "}')],
)
def test_arguments_go_back_as_the_model_wrote_them_if_the_server_takes_that(
    model: str, sent: str
) -> None:
    own = call("c1", path="x") | {"arguments_json": '{ "path": "x" }'}
    cut_off = call("c2", INVALID_JSON='{"path": ') | {"arguments_json": '{"path": '}
    turns = [user("a"), reply(own, cut_off), results(result("c1"), result("c2"))]

    made = messages(*turns, model=model)

    assert [one["function"]["arguments"] for one in made[1]["tool_calls"]] == [
        '{ "path": "x" }',
        sent,
    ]


def test_other_servers_have_the_user_merged_and_short_ids() -> None:
    turns = [user("a"), user("b", PICTURE), reply(call("call_123")), results(result("call_123"))]

    made = messages(*turns, note("Noon.", origin="developer"), model="mistral-large-4")

    assert [one["role"] for one in made] == ["user", "assistant", "tool", "user"]
    assert made[0]["content"][:2] == [text("a"), text("b")]
    assert len(made[1]["tool_calls"][0]["id"]) == 9
    assert made[3]["content"] == "<system-reminder>\nNoon.\n</system-reminder>"


THOUGHT = {"type": "thinking", "provider": "openai_chat", "text": "need f"}
DETAILS = [{"type": "reasoning.text", "text": "need f", "index": 0}]
DETAILED = {**THOUGHT, "block": {"reasoning_details": DETAILS}}
SHORT = {**THOUGHT, "extras": {"openai_chat": {"field": "reasoning"}}}
PLAIN = {"reasoning_content": "need f"}
BLANK = {"reasoning_content": " "}


@pytest.mark.parametrize(
    ("model", "thought", "behind_calls", "elsewhere"),
    [
        ("deepseek-flash", THOUGHT, PLAIN, PLAIN),
        ("kimi-k3", DETAILED, PLAIN, PLAIN),
        ("kimi-k2.6", THOUGHT, PLAIN, {}),
        ("qwen3.8-max", THOUGHT, PLAIN, {}),
        ("glm-5.3", THOUGHT, PLAIN, {}),
        ("MiniMax-M3", THOUGHT, PLAIN, PLAIN),
        ("MiniMax-M3", DETAILED, *[{"reasoning_details": DETAILS}] * 2),
        ("openrouter/kimi-k3", DETAILED, *[{"reasoning_details": DETAILS}] * 2),
        ("openrouter/google/gemini-4-argon", DETAILED, {"reasoning_details": DETAILS}, {}),
        ("groq/kimi-k3", SHORT, *[{"reasoning": "need f"}] * 2),
        ("groq/kimi-k3", DETAILED, PLAIN, PLAIN),
        ("kimi-k3", SHORT, PLAIN, PLAIN),
        ("gpt-4.1", THOUGHT, {}, {}),
        ("gemini-4-argon", DETAILED, {}, {}),
        ("mistral-large-4", THOUGHT, {}, {}),
        ("deepseek-flash", text("x"), BLANK, BLANK),
        ("deepseek-v4-pro", {**THOUGHT, "provider": "anthropic"}, BLANK, BLANK),
        ("kimi-k2.6", text("x"), BLANK, {}),
        ("glm-5.3", text("x"), {}, {}),
    ],
)
def test_reasoning_goes_back_to_models_that_need_it(
    model: str, thought: dict[str, Any], behind_calls: dict[str, Any], elsewhere: dict[str, Any]
) -> None:
    turns = [user("a"), reply(thought, "b"), user("c"), reply(thought, call("c1"))]
    turns.append(results(result("c1")))

    made = [message for message in messages(*turns, model=model) if message["role"] == "assistant"]

    others = ("role", "content", "tool_calls")
    found = [{k: held for k, held in one.items() if k not in others} for one in made]
    assert found == [elsewhere, behind_calls]


PARAMETERS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "OpenAI's own": ("gpt-4.1", {}, {"max_completion_tokens": 4000}),
    "another vendor's": (
        "deepseek-flash",
        {"top_k": 5},
        {"max_tokens": 4000, "extra_body": {"top_k": 5}},
    ),
    "sampling": (
        "gpt-4.1",
        {"temperature": 0.5, "top_p": 0.9, "stop_sequences": ["x"]},
        {"max_completion_tokens": 4000, "temperature": 0.5, "top_p": 0.9, "stop": ["x"]},
    ),
    "effort": ("o3", {"thinking_level": "low"}, {"reasoning_effort": "low"}),
    "no reasoning with tools": (
        "gpt-5.5",
        {"thinking_level": "high"},
        {"reasoning_effort": "none"},
    ),
    "a forced call": (
        "gpt-4.1",
        {"tool_choice": {"mode": "tool", "name": "read", "allows_parallel": False}},
        {"tool_choice": {"type": "function", "function": {"name": "read"}}}
        | {"parallel_tool_calls": False},
    ),
    "any call": ("gpt-4.1", {"tool_choice": {"mode": "any"}}, {"tool_choice": "required"}),
    "some tools only": (
        "gpt-4.1",
        {"tool_choice": {"allowed": ("read", "gone")}},
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "read"}}],
                },
            }
        },
    ),
    "a cache key": ("gpt-4.1", {"cache": "auto"}, {"prompt_cache_key": "trip-42"}),
}


@pytest.mark.parametrize(("model", "given", "sent"), PARAMETERS.values(), ids=PARAMETERS.keys())
def test_parameters(model: str, given: dict[str, Any], sent: dict[str, Any]) -> None:
    payload = render("openai_chat", user("a"), model=model, **given)

    assert {key: payload.get(key) for key in sent} == sent


def test_tools() -> None:
    strict = ToolSpec(name="strict one", input_schema=SCHEMA, is_strict=True)
    lax = ToolSpec(name="lax", input_schema={"anyOf": [SCHEMA, {"type": "object"}]}, is_strict=True)
    native = ToolSpec(name="web", native_specs={"openai_chat": {"type": "web_search"}})
    elsewhere = ToolSpec(name="other", native_specs={"anthropic": {"type": "bash"}})
    gateway = ToolSpec(name="g", native_specs={"openai_chat": {"type": "openrouter:search"}})
    tools = (READ, strict, lax, native, elsewhere, gateway)

    payload, entries = render_with_entries("openai_chat", user("a"), tools=tools)

    sent = payload["tools"]
    assert sent[0] == {"type": "function", "function": FUNCTION}
    assert sent[1]["function"]["strict"] is True
    assert sent[1]["function"]["name"].startswith("strict_one_")
    flat = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert sent[2]["function"] == {"name": "lax", "parameters": flat}
    assert sent[3] == {"type": "web_search"}
    assert len(sent) == 4
    assert sorted(entries) == [("dropped", "tool.native")] * 2 + [("repaired", "tool.strict")]


def test_only_so_many_tools_are_offered_and_the_forced_one_stays() -> None:
    tools = tuple(ToolSpec(name=f"t{number:03}") for number in range(130))

    payload, entries = render_with_entries(
        "openai_chat", user("a"), tools=tools, tool_choice={"mode": "tool", "name": "t129"}
    )

    names = [tool["function"]["name"] for tool in payload["tools"]]
    assert (len(names), names[-1]) == (128, "t129")
    assert entries == [("dropped", "tool.count")] * 2


def test_a_withdrawn_tool_stays_declared_and_is_not_allowed() -> None:
    gone = ToolSpec(name="gone", input_schema=SCHEMA)
    forms = CHAT.change_forms(request("openai_chat").limits)
    plan = ToolPlan("openai_chat", declared=(gone, READ), offered=(READ,), forms=forms)

    payload = render("openai_chat", user("a"), plan=plan)

    assert [tool["function"]["name"] for tool in payload["tools"]] == ["gone", "read"]
    allowed = payload["tool_choice"]["allowed_tools"]["tools"]
    assert [tool["function"]["name"] for tool in allowed] == ["read"]


# ---- replies ----


def completion(message: dict[str, Any], finish: str = "stop", **fields: Any) -> dict[str, Any]:
    choices = [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}]
    return {"object": "chat.completion", "id": "x", "model": "m", "choices": choices, **fields}


def test_tools_get_their_names_back() -> None:
    odd = request("openai_chat", tools=(ToolSpec(name="fs.read"),))
    sent = grown(odd, user("a")).write(odd)["tools"][0]["function"]["name"]

    answer = completion({"tool_calls": [asked("c1", name=sent)]})

    assert CHAT.read_reply(answer, odd).parts[0]["name"] == "fs.read"


def grown(asked_for: Any, *turns: Any) -> Any:
    wire = CHAT.Wire(asked_for)
    for turn in turns:
        wire.add(turn)
    return wire


def test_numbers_that_json_does_not_know_are_kept_as_words() -> None:
    read = CHAT.read_reply(completion({"content": [{"type": "odd", "score": float("nan")}]}))

    assert read.parts[0]["block"] == {"type": "odd", "score": "NaN"}
