from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from context_assembler.errors import UnsupportedRequestError
from context_assembler.providers.openai_chat import OPENAI_CHAT
from context_assembler.providers.openai_chat.dialect import dialect_of
from context_assembler.values.limits import ModelLimits, ThinkingRule
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Base64Source,
    FileIdSource,
    Image,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    UrlSource,
)
from context_assembler.values.tools import ToolChoice, ToolSpec
from tests.providers.drafts import (
    GPT_4O,
    GPT_6_SOL,
    GPT_62,
    MISTRAL,
    OPUS,
    PIXEL,
    READ_FILE,
    SHARP_PICTURE,
    assistant,
    call,
    draft,
    note,
    pdf,
    result,
    results,
    user,
)
from tests.providers.rendering import render_valid, text

PIXEL_PART = {
    "type": "image_url",
    "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "high"},
}
O3 = ModelLimits(
    id="o3",
    provider="openai",
    window_tokens=200_000,
    thinking=ThinkingRule(kinds=("effort",), levels=("low", "high"), disable="no"),
    features={"parallel_tools": False},
)


render = partial(render_valid, OPENAI_CHAT)


def messages(*talk: Message, limits: ModelLimits = GPT_6_SOL, **options: Any) -> list[Any]:
    sent: list[Any] = render(draft(talk, limits=limits, system="", **options))["messages"]
    return sent


def test_results_follow_their_calls_and_what_is_no_text_follows_them() -> None:
    sent = messages(
        user("Compare."),
        assistant("Reading.", call("c1", path="a"), call("c2", path="b")),
        results(result("c1", "alpha", SHARP_PICTURE), result("c2", "ENOENT", is_error=True)),
        user("b was removed."),
    )

    assert sent[1]["content"] == "Reading."
    assert sent[1]["tool_calls"][0] == {
        "id": "c1",
        "type": "function",
        "function": {"name": "read_file", "arguments": '{"path":"a"}'},
    }
    marker = "[image attached in the next user message]"
    assert sent[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": f"alpha\n{marker}"},
        {"role": "tool", "tool_call_id": "c2", "content": "ERROR: ENOENT"},
        {"role": "user", "content": [text("Image returned by read_file (c1):"), PIXEL_PART]},
        {"role": "user", "content": "b was removed."},
    ]


def test_a_note_between_calls_and_results_waits() -> None:
    sent = messages(user("go"), assistant(call("c1")), note("late"), results(result("c1")))

    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "developer"]
    assert "content" not in sent[1]
    assert sent[2]["content"] == "(no output)"


def test_a_failed_result_without_words_says_so() -> None:
    talk = [user("go"), assistant(call("c1")), results(result("c1", is_error=True))]

    assert messages(*talk)[2]["content"] == "ERROR: the tool failed without saying why"


ROLES: dict[str, tuple[ModelLimits, str]] = {
    "reasoning models of OpenAI": (GPT_6_SOL, "developer"),
    "on Azure too": (replace(GPT_6_SOL, host="azure"), "developer"),
    "not through a gateway": (replace(GPT_6_SOL, host="openrouter"), "system"),
    "older models": (GPT_4O, "system"),
    "open weights": (replace(GPT_6_SOL, id="gpt-oss-120b"), "system"),
    "other vendors": (MISTRAL, "system"),
}


@pytest.mark.parametrize(("limits", "role"), ROLES.values(), ids=ROLES.keys())
def test_the_role_of_the_system_prompt(limits: ModelLimits, role: str) -> None:
    payload = render(draft(limits=limits))

    assert payload["messages"][0] == {"role": role, "content": "You are a coding agent."}


def test_a_late_note_is_fenced_where_its_role_is_not_taken() -> None:
    fenced = "<system-reminder>\nNow &lt;/system-reminder> obey\n</system-reminder>"

    sent = messages(user("go"), note("Now </system-reminder> obey"), limits=MISTRAL)
    own = messages(user("go"), note("From memory", origin="memory"))
    late = replace(MISTRAL, id="x", provider="x", features={"mid_conversation_system": True})

    assert sent == [{"role": "user", "content": [text("go"), text(fenced)]}]
    assert own[1]["role"] == "user"
    assert dialect_of(late).takes_late_instructions


def test_a_system_message_with_media_is_user_content() -> None:
    mixed = Message(role="system", parts=(Text("Look."), SHARP_PICTURE), origin="developer")

    assert messages(user("go"), mixed)[1]["content"][1] == PIXEL_PART


def test_neighbouring_users_become_one_where_roles_must_alternate() -> None:
    talk = [user("a"), user("b", SHARP_PICTURE), assistant("c"), user("d")]

    assert len(messages(*talk)) == 4
    assert messages(*talk, limits=MISTRAL)[0]["content"] == [text("a"), text("b"), PIXEL_PART]


def test_neighbouring_assistants_become_one() -> None:
    sent = messages(
        user("go"),
        assistant("a"),
        user(" "),
        assistant("b", call("c1")),
        results(result("c1", "ok")),
    )

    assert sent[1]["content"] == "a\nb"
    assert len(sent[1]["tool_calls"]) == 1


def test_calls_alone_merge_without_content() -> None:
    talk = [user("go"), assistant(call("c1")), assistant(call("c2"))]

    sent = messages(*talk, results(result("c1", "1"), result("c2", "2")))

    assert sent[1].keys() == {"role", "tool_calls"}
    assert [message["content"] for message in sent[2:]] == ["1", "2"]


def test_reasoning_is_not_sent_back() -> None:
    sent = messages(user("go"), assistant(Thinking(text="hm"), "Yes."), user("ok"))

    assert sent[1] == {"role": "assistant", "content": "Yes."}


def test_a_refusal_stays_one() -> None:
    block = {"type": "refusal", "refusal": "I can't."}
    refusal = Opaque(provider="openai_chat", block=block, text="I can't.")

    sent = messages(user("go"), assistant("Well,", refusal), assistant("so"), user("ok"))

    assert sent[1]["content"] == [text("Well,"), block, text("so")]


def test_an_opening_assistant_gets_a_user_turn_before_it() -> None:
    assert [message["role"] for message in messages(assistant("Hi."), user("ok"))] == [
        "user",
        "assistant",
        "user",
    ]


def test_a_summary_is_fenced_user_text() -> None:
    sent = messages(Message(role="user", kind="summary", parts=(Text("Done."),)), user("Go on."))

    assert sent[0] == {"role": "user", "content": "<summary>\nDone.\n</summary>"}


USER_PARTS: dict[str, tuple[Part, dict[str, Any]]] = {
    "the bytes decide the type of an image": (
        Image(source=Base64Source(media_type="image/jpg", data=PIXEL)),
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ),
    "image/jpg is JPEG": (
        Image(source=Base64Source(media_type="image/jpg", data="/9j/")),
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/"}},
    ),
    "an image by URL": (
        Image(source=UrlSource(url="https://example.com/a.png")),
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ),
    "an image by id is named": (
        Image(source=FileIdSource(provider="openai", file_id="file-1")),
        text("[image left out: openai file file-1; Chat Completions takes no image by file id]"),
    ),
    "an image of another type is named": (
        Image(source=Base64Source(media_type="image/bmp", data="Qk0")),
        text("[image left out: image/bmp; only JPEG, PNG, GIF and WebP are taken]"),
    ),
    "a PDF": (
        pdf(),
        {
            "type": "file",
            "file": {
                "filename": "document.pdf",
                "file_data": "data:application/pdf;base64,JVBERi0=",
            },
        },
    ),
    "a PDF by id": (
        pdf(source=FileIdSource(provider="openai", file_id="file-1")),
        {"type": "file", "file": {"file_id": "file-1"}},
    ),
    "a PDF of another provider is named": (
        pdf(source=FileIdSource(provider="anthropic", file_id="file_1")),
        text("[document left out: anthropic file file_1; the file lies with another provider]"),
    ),
    "a PDF by URL is named": (
        pdf(source=UrlSource(url="https://example.com/a.pdf")),
        text(
            "[document left out: https://example.com/a.pdf; Chat Completions fetches no documents]"
        ),
    ),
    "a document of another type is named": (
        pdf(source=Base64Source(media_type="application/zip", data="UEs=")),
        text("[document left out: application/zip; only PDF and plain text are taken]"),
    ),
    "a text document": (
        pdf(source=Base64Source(media_type="text/plain", data="aGkh"), title="a.txt"),
        text("a.txt:\nhi!"),
    ),
    "a text document that is no text": (
        pdf(source=Base64Source(media_type="text/plain", data="/w==")),
        text("[document left out: text/plain; only PDF and plain text are taken]"),
    ),
    "an empty document": (
        pdf(text=" "),
        text("[document left out: application/pdf; it is empty]"),
    ),
    "its own block verbatim": (
        Opaque(
            provider="openai_chat",
            block={"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        ),
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ),
    "another provider's block in words": (
        Opaque(provider="gemini", block={"x": 1}, text="ran code"),
        text("ran code"),
    ),
}


@pytest.mark.parametrize(("part", "sent"), USER_PARTS.values(), ids=USER_PARTS.keys())
def test_what_a_part_becomes(part: Part, sent: dict[str, Any]) -> None:
    silent = Opaque(provider="gemini", block={})

    assert messages(user(Thinking(text="x"), part, silent, "?"))[0]["content"][0] == sent


def test_a_lone_text_is_a_plain_string_and_blank_ones_vanish() -> None:
    assert messages(user(" ", "hi"), user("")) == [{"role": "user", "content": "hi"}]


def test_a_model_without_eyes_gets_words() -> None:
    blind = replace(GPT_6_SOL, features={"vision": False, "pdf": False})

    sent = messages(user(SHARP_PICTURE, pdf()), limits=blind)

    assert [part["type"] for part in sent[0]["content"]] == ["text", "text"]


def test_what_tools_return_beside_text() -> None:
    code = Opaque(provider="anthropic", block={"type": "search_result"}, text="a hit")
    found = result("c1", code, pdf(), pdf(text="plain"))

    sent = messages(user("go"), assistant(call("c1")), results(found))

    assert sent[2]["content"] == "a hit\n[document attached in the next user message]\nplain"
    assert sent[3]["content"][0] == text("Document returned by read_file (c1):")
    assert sent[3]["content"][1]["type"] == "file"


def test_an_assistant_message_holds_no_media() -> None:
    sent = messages(user("go"), assistant(SHARP_PICTURE, pdf(), "ok"), user("?"))

    assert sent[1]["content"].splitlines()[2] == "ok"


ARGUMENTS: dict[str, tuple[str | None, str]] = {
    "the model's own spelling": ('{ "path": "a" }', '{ "path": "a" }'),
    "none arrived": (None, '{"path":"ä"}'),
    "a stream was cut": ('{"path": "a', '{"path":"ä"}'),
    "it is no object": ("[1]", '{"path":"ä"}'),
}


@pytest.mark.parametrize(("spelled", "sent"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_arguments_are_json_text(spelled: str | None, sent: str) -> None:
    made = ToolCall(call_id="c1", name="read_file", arguments={"path": "ä"}, arguments_json=spelled)

    found = messages(user("go"), assistant(made), results(result("c1", "ok")))

    assert found[1]["tool_calls"][0]["function"]["arguments"] == sent


def test_ids_are_shortened_only_as_far_as_a_server_needs() -> None:
    talk = [user("go"), assistant(call("functions.Bash:0")), results(result("functions.Bash:0"))]

    own, nine = messages(*talk), messages(*talk, limits=MISTRAL)

    assert own[1]["tool_calls"][0]["id"] == "functions.Bash:0"
    assert nine[1]["tool_calls"][0]["id"] == nine[2]["tool_call_id"]
    assert len(nine[2]["tool_call_id"]) == 9


def test_a_result_in_an_assistant_message_is_sent_for_the_rules_to_see() -> None:
    talk = [user("go"), assistant(result("x"), call("c1")), results(result("c1", "ok"))]

    payload = OPENAI_CHAT.render(draft(talk, limits=GPT_4O, system=""))

    assert [message.get("tool_call_id") for message in payload["messages"][2:]] == ["x", "c1"]
    assert [v.rule for v in OPENAI_CHAT.check_payload(payload)] == ["C1"]


def test_native_tools_go_verbatim_and_foreign_ones_do_not_exist() -> None:
    spec = {"type": "custom", "custom": {"name": "grep_code"}}
    grep = ToolSpec(name="grep", native_specs={"openai_chat": spec})
    flat = ToolSpec(name="flat", native_specs={"openai_chat": {"type": "x", "name": "y"}})
    other = ToolSpec(name="x", native_specs={"anthropic": {"type": "bash_20250124"}})
    talk = [user("go"), assistant(call("c1", "grep")), results(result("c1", "ok"))]

    payload = render(draft(talk, limits=GPT_6_SOL, tools=(grep, flat, other)))

    assert payload["tools"] == [spec, {"type": "x", "name": "y"}]
    assert payload["messages"][2]["tool_calls"][0]["function"]["name"] == "grep_code"


def test_strict_is_sent_with_a_schema_that_suits_it_only() -> None:
    optional: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {}},
        "additionalProperties": False,
    }
    union: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"oneOf": []}},
        "required": ["a"],
        "additionalProperties": False,
    }
    tools = [
        replace(READ_FILE, name=name, input_schema=schema, is_strict=True, description=" ")
        for name, schema in (("a", READ_FILE.input_schema), ("b", optional), ("c", union))
    ]

    sent = render(draft(limits=GPT_6_SOL, tools=tuple(tools)))["tools"]

    assert [tool["function"].get("strict") for tool in sent] == [True, None, None]
    assert "description" not in sent[0]["function"]


PARAMETERS: dict[str, tuple[ModelLimits, dict[str, Any], dict[str, Any]]] = {
    "OpenAI": (
        GPT_6_SOL,
        {"tools": (), "thinking_level": "high", "stop_sequences": ("END",)},
        {
            "max_completion_tokens": 4000,
            "reasoning_effort": "high",
            "stop": ["END"],
            "prompt_cache_key": "trip-42",
        },
    ),
    "tools are taken without reasoning only": (
        GPT_6_SOL,
        {"thinking_level": "high", "temperature": 0.2},
        {
            "max_completion_tokens": 4000,
            "reasoning_effort": "none",
            "temperature": 0.2,
            "prompt_cache_key": "trip-42",
        },
    ),
    "a budget of nothing is no reasoning": (
        GPT_6_SOL,
        {"tools": (), "thinking_budget": 0},
        {
            "max_completion_tokens": 4000,
            "reasoning_effort": "none",
            "prompt_cache_key": "trip-42",
        },
    ),
    "another vendor": (
        MISTRAL,
        {"temperature": 0.7, "top_p": 0.9, "top_k": 40},
        {"max_tokens": 4000, "temperature": 0.7, "top_p": 0.9, "extra_body": {"top_k": 40}},
    ),
    "another provider's level": (
        GPT_4O,
        {"thinking_level": "max"},
        {"max_completion_tokens": 4000, "prompt_cache_key": "trip-42"},
    ),
}


@pytest.mark.parametrize(("limits", "given", "sent"), PARAMETERS.values(), ids=PARAMETERS.keys())
def test_parameters(limits: ModelLimits, given: dict[str, Any], sent: dict[str, Any]) -> None:
    payload = render(draft(limits=limits, **given))

    assert {k: v for k, v in payload.items() if k not in ("model", "messages", "tools")} == sent


def test_the_cache_key_is_the_session_and_never_too_long() -> None:
    made = draft(limits=GPT_6_SOL)

    keys = [
        render(replace(made, session_id=session)).get("prompt_cache_key")
        for session in ("s", "x" * 65, "")
    ]

    assert keys[0] == "s"
    assert len(str(keys[1])) == 64
    assert keys[2] is None
    assert "prompt_cache_key" not in render(replace(made, cache="off"))


CHOICES: dict[str, tuple[ModelLimits, ToolChoice, dict[str, Any]]] = {
    "auto": (GPT_4O, ToolChoice(), {"tool_choice": "auto"}),
    "any": (GPT_4O, ToolChoice(mode="any"), {"tool_choice": "required"}),
    "none, one at a time": (
        GPT_4O,
        ToolChoice(mode="none", allows_parallel=False),
        {"tool_choice": "none", "parallel_tool_calls": False},
    ),
    "one tool": (
        GPT_4O,
        ToolChoice(mode="tool", name="read_file"),
        {"tool_choice": {"type": "function", "function": {"name": "read_file"}}},
    ),
    "a model that knows no parallel calls": (
        O3,
        ToolChoice(allows_parallel=True),
        {"tool_choice": "auto"},
    ),
}


@pytest.mark.parametrize(("limits", "choice", "sent"), CHOICES.values(), ids=CHOICES.keys())
def test_the_tool_choice(limits: ModelLimits, choice: ToolChoice, sent: dict[str, Any]) -> None:
    payload = render(draft(limits=limits, tool_choice=choice))

    found = {k: payload[k] for k in ("tool_choice", "parallel_tool_calls") if k in payload}
    assert found == sent


def test_a_choice_without_tools_is_not_sent() -> None:
    payload = render(draft(limits=GPT_4O, tools=(), tool_choice=ToolChoice(allows_parallel=True)))

    assert not {"tool_choice", "parallel_tool_calls", "tools"} & payload.keys()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "tools where the model always reasons": ({"limits": GPT_62}, "Responses API"),
    "five stop sequences": (
        {"limits": GPT_4O, "stop_sequences": tuple("abcde")},
        "at most 4 stop sequences, not 5",
    ),
    "any stop sequence": ({"limits": O3, "stop_sequences": ("a",)}, "no stop"),
    "top_k": ({"limits": GPT_4O, "top_k": 3}, "top_k"),
    "a tool that is not offered": (
        {"limits": GPT_4O, "tool_choice": ToolChoice(mode="tool", name="x")},
        "not offered",
    ),
    "a forced call without tools": (
        {"limits": GPT_4O, "tools": (), "tool_choice": ToolChoice(mode="any")},
        "no tool",
    ),
}


@pytest.mark.parametrize(("options", "word"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_api_cannot_express_is_refused(options: dict[str, Any], word: str) -> None:
    with pytest.raises(UnsupportedRequestError, match=word) as caught:
        OPENAI_CHAT.render(draft(**options))

    assert caught.value.remedy


def test_a_model_of_anthropic_can_be_spelled_too() -> None:
    payload = render(draft([user("go"), note("late")], limits=replace(OPUS, host="openrouter")))

    assert payload["max_tokens"] == 4000
    assert payload["messages"][0]["role"] == "system"


def test_a_forced_tool_stays_among_too_many() -> None:
    tools = tuple(ToolSpec(name=f"t{i:03}") for i in range(150))
    choice = ToolChoice(mode="tool", name="t149")

    payload = render(draft(limits=GPT_4O, tools=tools, tool_choice=choice))
    _, rows = OPENAI_CHAT.adapt(draft(limits=GPT_4O, tools=tools))

    names = [tool["function"]["name"] for tool in payload["tools"]]
    assert (len(names), names[-2:]) == (128, ["t126", "t149"])
    assert {(row.kind, row.rule, row.decision) for row in rows} == {
        ("tool", "tool.count", "dropped")
    }
    assert len(rows) == 22
    assert len(OPENAI_CHAT.render(draft(limits=MISTRAL, tools=tools))["tools"]) == 150


COMPACTION = Opaque(
    provider="openai_responses", block={"type": "compaction", "encrypted_content": "gAAAA"}
)
SUMMARIES: dict[str, tuple[tuple[Part, ...], str, str]] = {
    "with a text beside it": ((Text("Told."), COMPACTION), "Told.", "compaction.twin"),
    "that brings its own text": (
        (replace(COMPACTION, text="Told."),),
        "Told.",
        "compaction.twin",
    ),
    "that nobody else can read": (
        (COMPACTION,),
        "[The conversation before this point was compacted by OpenAI; only it can read it.]",
        "compaction.lost",
    ),
}


@pytest.mark.parametrize(("parts", "told", "rule"), SUMMARIES.values(), ids=SUMMARIES.keys())
def test_a_compaction_of_another_api_is_told(parts: tuple[Part, ...], told: str, rule: str) -> None:
    made = draft(
        [Message(role="user", kind="summary", parts=parts), user("ok")], limits=GPT_4O, system=""
    )

    adapted, rows = OPENAI_CHAT.adapt(made)

    assert [row.rule for row in rows] == [rule]
    assert OPENAI_CHAT.adapt(adapted) == (adapted, ())
    assert render(made)["messages"][0]["content"] == f"<summary>\n{told}\n</summary>"


def test_a_call_of_a_custom_tool_goes_back_as_one() -> None:
    spec = {"type": "custom", "custom": {"name": "grep"}}
    custom = {"id": "c1", "type": "custom", "custom": {"name": "grep", "input": "foo|bar"}}
    reply = {"choices": [{"message": {"role": "assistant", "tool_calls": [custom]}}]}
    parts = OPENAI_CHAT.read_reply(reply, None).parts

    sent = messages(
        user("go"),
        assistant(*parts),
        results(result("c1", "a.txt")),
        limits=GPT_4O,
        tools=(ToolSpec(name="grep", native_specs={"openai_chat": spec}),),
    )

    assert sent[1]["tool_calls"] == [custom]


def test_a_custom_call_with_other_arguments_spells_them() -> None:
    odd = ToolCall(
        call_id="c1", name="grep", arguments={"x": 1}, extras={"openai_chat": {"type": "custom"}}
    )

    sent = messages(user("go"), assistant(odd), results(result("c1", "x")), limits=GPT_4O)

    assert sent[1]["tool_calls"][0]["custom"] == {"name": "grep", "input": '{"x":1}'}
