from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from context_assembler.errors import UnsupportedRequestError
from context_assembler.providers.gemini import GEMINI
from context_assembler.providers.gemini.generations import generation_of
from context_assembler.providers.gemini.units import PLACEHOLDER
from context_assembler.values.events import Provenance
from context_assembler.values.limits import ModelLimits, ThinkingRule
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Base64Source,
    Document,
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
    GEMINI_4,
    GEMINI_25,
    PDF,
    PICTURE,
    PIXEL,
    READ_FILE,
    assistant,
    call,
    draft,
    note,
    result,
    results,
    user,
)
from tests.providers.rendering import render_valid

PIXEL_PART = {"inline_data": {"mime_type": "image/png", "data": PIXEL}}
SEARCH = ToolSpec(name="google_search", native_specs={"gemini": {"google_search": {}}})
GEMINI_20 = replace(GEMINI_25, id="gemini-2.0-flash", thinking=ThinkingRule())
BLIND = replace(GEMINI_4, features={"vision": False, "pdf": False})
SIGNATURE = "EqQBCkYIBxgCKkD"


render = partial(render_valid, GEMINI)


def contents(
    *talk: Message, limits: ModelLimits = GEMINI_4, tools: tuple[ToolSpec, ...] = (READ_FILE,)
) -> list[dict[str, Any]]:
    held: list[dict[str, Any]] = render(draft(talk, limits=limits, tools=tools))["contents"]
    return held


def config(limits: ModelLimits = GEMINI_4, **options: Any) -> dict[str, Any]:
    held: dict[str, Any] = render(draft(limits=limits, **options))["config"]
    return held


def said(*parts: Part | str, limits: ModelLimits = GEMINI_4) -> list[dict[str, Any]]:
    held: list[dict[str, Any]] = contents(user(*parts), limits=limits)[0]["parts"]
    return held


def answers(
    *parts: Any, limits: ModelLimits = GEMINI_4, is_error: bool = False
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the response of a function that returned the parts, and the contents behind it."""
    made = contents(
        user("go"),
        assistant(call("c1")),
        results(result("c1", *parts, is_error=is_error)),
        limits=limits,
    )
    return made[2]["parts"][0]["function_response"], made[3:]


def test_instructions_stand_in_the_config_and_roles_are_user_and_model() -> None:
    payload = render(draft([user("Hi."), assistant("Hello."), user("Bye.")], limits=GEMINI_4))

    assert payload["config"]["system_instruction"] == "You are a coding agent."
    assert [content["role"] for content in payload["contents"]] == ["user", "model", "user"]


def test_a_blank_system_prompt_is_not_sent() -> None:
    assert "system_instruction" not in config(system=" \n")


def test_neighbours_of_one_role_become_one_content_of_separate_parts() -> None:
    made = contents(user("a"), user("b"), assistant("c"), assistant("d"), user("e"))

    assert [[part["text"] for part in content["parts"]] for content in made] == [
        ["a", "b"],
        ["c", "d"],
        ["e"],
    ]


def test_blank_text_is_not_sent() -> None:
    assert said("", " \n", "x") == [{"text": "x"}]


def test_what_the_model_cannot_have_said_is_not_sent() -> None:
    made = draft([user("a"), assistant(" ", "b", result("c1", "x")), user("c")], limits=GEMINI_4)

    assert GEMINI.render(made)["contents"][1]["parts"] == [{"text": "b"}]


def test_a_history_begins_and_ends_with_the_user() -> None:
    made = contents(assistant("Hello."))

    assert [content["role"] for content in made] == ["user", "model", "user"]
    assert made[2]["parts"] == [{"text": "Continue."}]


def test_responses_stand_alone_in_one_content_in_the_order_of_the_calls() -> None:
    made = contents(
        user("go"),
        assistant("Both.", call("c1", path="a"), call("c2", path="b")),
        note("Noon."),
        results(result("c1", "one")),
        results(result("c2", "two")),
        user("And?"),
    )

    responses = [part["function_response"] for part in made[2]["parts"]]
    assert [response["id"] for response in responses] == ["c1", "c2"]
    assert [response["response"] for response in responses] == [
        {"output": "one"},
        {"output": "two"},
    ]
    assert made[3]["parts"][0]["text"].startswith("<system-reminder>\nNoon.")
    assert made[3]["parts"][1] == {"text": "And?"}


RESPONSES: dict[str, tuple[tuple[Any, ...], bool, dict[str, Any]]] = {
    "text": (("alpha",), False, {"output": "alpha"}),
    "an error": (("ENOENT",), True, {"error": "ENOENT"}),
    "nothing": ((), False, {"output": ""}),
    "an error without a word": ((), True, {"error": "The tool failed without saying why."}),
    "several texts": (("a", " ", "b"), False, {"output": ["a", "b"]}),
    "an object": (('{"rows":[1,null]}',), False, {"rows": [1, None]}),
    "an object in a spelling of its own": (('{"a": 1}',), False, {"output": '{"a": 1}'}),
    "an object that would be taken for an error": (
        ('{"error":"x"}',),
        False,
        {"output": '{"error":"x"}'},
    ),
    "an error that is an object": (('{"code":4}',), True, {"error": {"code": 4}}),
    "broken JSON": (('{"a":',), False, {"output": '{"a":'}),
    "another provider's block": (
        (Opaque(provider="anthropic", block={"type": "x"}, text="found"),),
        False,
        {"output": "found"},
    ),
    "a text document": (
        (Document(source=Base64Source(media_type="text/plain", data="aGk=")),),
        False,
        {"output": "hi"},
    ),
}


@pytest.mark.parametrize(
    ("parts", "is_error", "expected"), RESPONSES.values(), ids=RESPONSES.keys()
)
def test_a_function_answers_with_an_object(
    parts: tuple[Any, ...], is_error: bool, expected: dict[str, Any]
) -> None:
    response, _ = answers(*parts, is_error=is_error)

    assert response == {"id": "c1", "name": "read_file", "response": expected}


def test_media_stand_inside_the_response_from_gemini_3_on() -> None:
    response, behind = answers("see", PICTURE, PDF)

    assert response["parts"][0] == PIXEL_PART
    assert response["parts"][1]["inline_data"]["mime_type"] == "application/pdf"
    assert behind == []


def test_media_stand_behind_the_responses_before_gemini_3() -> None:
    response, behind = answers("see", PICTURE, PDF, limits=GEMINI_25)

    assert response["response"]["output"] == [
        "see",
        "[image attached in the next user message]",
        "[document attached in the next user message]",
    ]
    assert behind[0]["parts"][:2] == [{"text": "Image returned by read_file (c1):"}, PIXEL_PART]
    assert behind[0]["parts"][2] == {"text": "Document returned by read_file (c1):"}


def test_what_a_response_cannot_hold_stands_behind_it() -> None:
    picture = Image(source=UrlSource(url="https://example.com/a.png"))

    _, behind = answers(picture, PDF)

    assert behind[0]["parts"][1] == {
        "file_data": {"file_uri": "https://example.com/a.png", "mime_type": "image/png"}
    }


def test_a_result_without_its_call_still_names_a_function() -> None:
    made = GEMINI.render(draft([results(result("c9", "x"))], limits=GEMINI_4))

    assert made["contents"][0]["parts"][0]["function_response"]["name"].startswith("unknown_")


def test_a_name_that_gemini_refuses_is_respelled_one_to_one() -> None:
    tools = tuple(replace(READ_FILE, name=name) for name in ("1st tool!", "fs.read", "läs"))
    made = render(
        draft(
            [user("go"), assistant(call("c1", "1st tool!")), results(result("c1", "x"))],
            limits=GEMINI_4,
            tools=tools,
        )
    )

    declared = [f["name"] for f in made["config"]["tools"][0]["function_declarations"]]
    assert declared[1] == "fs.read"
    assert declared[0].startswith("_1st_tool_")
    assert len(set(declared)) == 3
    sent = [content["parts"][0] for content in made["contents"][1:]]
    assert sent[0]["function_call"]["name"] == sent[1]["function_response"]["name"] == declared[0]


# ---- signatures ----


def steps(*replies: Message) -> list[dict[str, Any]]:
    talk = [user("go")]
    for reply in replies:
        talk += [reply, results(*(result(c.call_id, "ok") for c in reply.tool_calls))]
    return [content for content in contents(*talk) if content["role"] == "model"]


def signatures(contents_of_model: Sequence[dict[str, Any]]) -> list[list[str | None]]:
    return [
        [part.get("thought_signature") for part in content["parts"]]
        for content in contents_of_model
    ]


def signed(call_id: str, signature: str | None = SIGNATURE) -> ToolCall:
    return replace(call(call_id), signature=signature)


def test_signatures_go_back_as_they_came_to_where_they_stood() -> None:
    made = steps(
        assistant(Text("Reading.", signature="T="), signed("c1", "A=="), call("c2")),
        assistant(signed("c3", "B_-")),
    )

    assert signatures(made) == [["T=", "A==", None], ["B_-"]]


def test_each_step_whose_first_call_is_unsigned_gets_the_documented_placeholder() -> None:
    made = steps(assistant("Reading.", call("c1"), call("c2")), assistant(call("c3")))

    assert signatures(made) == [[None, PLACEHOLDER, None], [PLACEHOLDER]]


def test_the_signature_of_another_provider_is_not_sent() -> None:
    made_by = Provenance(provider="openai_responses", model="gpt-6")
    reply = assistant(Text("x", signature="X"), signed("c1", "Y"), made_by=made_by)

    assert signatures(steps(reply)) == [[None, PLACEHOLDER]]


def test_a_model_from_before_signatures_is_sent_no_placeholder() -> None:
    made = contents(
        user("go"), assistant(call("c1")), results(result("c1", "ok")), limits=GEMINI_20
    )

    assert "thought_signature" not in made[1]["parts"][0]


def test_signed_thoughts_go_back_verbatim_in_the_sdk_s_spelling_and_others_stay_here() -> None:
    block = {"text": "Hm.", "thought": True, "thoughtSignature": SIGNATURE}
    bare = {"text": "", "thoughtSignature": "S2"}
    made = contents(
        user("go"),
        assistant(
            Thinking(text="Hm.", provider="gemini", block=block),
            Thinking(text="unsigned", provider="gemini"),
            Thinking(provider="anthropic", block={"type": "thinking", "signature": "x"}),
            "Done.",
            Thinking(provider="gemini", block=bare),
        ),
        user("Thanks."),
    )

    assert made[1]["parts"] == [
        {"text": "Hm.", "thought": True, "thought_signature": SIGNATURE},
        {"text": "Done."},
        {"text": "", "thought_signature": "S2"},
    ]


def test_thoughts_and_signatures_change_no_fingerprint() -> None:
    bare = Thinking(provider="gemini", block={"text": "", "thoughtSignature": "S2"})
    thought = Thinking(
        provider="gemini", block={"text": "Hm.", "thought": True, "thoughtSignature": "S"}
    )
    talk = [user("go"), assistant("Hi.", call("c1")), results(result("c1", "x"))]
    signed_talk = [
        talk[0],
        assistant(thought, Text("Hi.", signature="A"), signed("c1"), bare),
        talk[2],
    ]

    assert GEMINI.fingerprints(draft(talk, limits=GEMINI_4)) == GEMINI.fingerprints(
        draft(signed_talk, limits=GEMINI_4)
    )


def test_system_tools_and_messages_change_the_fingerprint() -> None:
    made = draft([user("a")], limits=GEMINI_4)
    others = [
        draft([user("a")], limits=GEMINI_4, system="Else."),
        draft([user("a")], limits=GEMINI_4, system=""),
        draft([user("a")], limits=GEMINI_4, tools=()),
        draft([user("b")], limits=GEMINI_4),
    ]

    assert len({GEMINI.fingerprints(one)[-1] for one in (made, *others)}) == 5


# ---- media and other parts ----


def file_id(provider: str) -> FileIdSource:
    return FileIdSource(provider=provider, file_id="https://generativelanguage.googleapis.com/f/1")


MEDIA: dict[str, tuple[Part, dict[str, Any]]] = {
    "a picture": (PICTURE, PIXEL_PART),
    "a picture of the URL-safe alphabet": (
        Image(source=Base64Source(media_type="image/jpg", data="_9j_4A")),
        {"inline_data": {"mime_type": "image/jpeg", "data": "/9j/4A=="}},
    ),
    "a picture that says it is another": (
        Image(source=Base64Source(media_type="image/png", data="/9j/4AAQ")),
        {"inline_data": {"mime_type": "image/jpeg", "data": "/9j/4AAQ"}},
    ),
    "a GIF": (
        Image(source=Base64Source(media_type="image/gif", data="R0lGODlh")),
        {"text": "[image left out: image/gif; only PNG, JPEG, WebP, HEIC and HEIF are taken]"},
    ),
    "an address without a type": (
        Image(source=UrlSource(url="https://example.com/picture")),
        {"text": "[image left out: https://example.com/picture; its media type is not known]"},
    ),
    "an address with a query": (
        Document(source=UrlSource(url="https://example.com/a.PDF?x=1")),
        {
            "file_data": {
                "file_uri": "https://example.com/a.PDF?x=1",
                "mime_type": "application/pdf",
            }
        },
    ),
    "an uploaded file": (
        Image(source=file_id("gemini")),
        {"file_data": {"file_uri": "https://generativelanguage.googleapis.com/f/1"}},
    ),
    "another provider's file": (
        Document(source=FileIdSource(provider="openai", file_id="file-1")),
        {"text": "[document left out: openai file file-1; the file lies with another provider]"},
    ),
    "a spreadsheet": (
        Document(source=Base64Source(media_type="application/vnd.ms-excel", data="0M8=")),
        {
            "text": "[document left out: application/vnd.ms-excel; "
            "only PDF, plain text, audio and video are taken]"
        },
    ),
    "text that is no text": (
        Document(source=Base64Source(media_type="text/plain", data="/w==")),
        {
            "text": "[document left out: text/plain; only PDF, plain text, audio and video are taken]"
        },
    ),
    "text with a title": (
        Document(source=UrlSource(url="x"), text="hello", title="a.txt"),
        {"text": "a.txt:\nhello"},
    ),
    "an empty document": (
        Document(source=UrlSource(url="x"), text=" "),
        {"text": "[document left out: x; it is empty]"},
    ),
    "a part of the provider's own": (
        Opaque(provider="gemini", block={"fileData": {"fileUri": "gs://a/b", "mimeType": "a/b"}}),
        {"file_data": {"file_uri": "gs://a/b", "mime_type": "a/b"}},
    ),
    "another provider's block": (
        Opaque(provider="anthropic", block={"type": "x"}, text="found"),
        {"text": "found"},
    ),
}


@pytest.mark.parametrize(("part", "expected"), MEDIA.values(), ids=MEDIA.keys())
def test_a_user_s_part_becomes(part: Part, expected: dict[str, Any]) -> None:
    assert said(part) == [expected]


@pytest.mark.parametrize("part", [PICTURE, PDF])
def test_a_model_without_eyes_is_told_what_is_left_out(part: Part) -> None:
    [made] = said(part, limits=BLIND)

    assert "left out" in made["text"]
    assert "the model takes no" in made["text"]


def test_server_tools_of_the_model_go_back_verbatim_and_sources_do_not() -> None:
    code = Opaque(provider="gemini", block={"executableCode": {"language": "PYTHON", "code": "1"}})
    used = Opaque(
        provider="gemini",
        block={"toolCall": {"id": "t", "toolType": "URL_CONTEXT", "args": {"someUrls": ["x"]}}},
    )
    sources = Opaque(provider="gemini", block={"groundingMetadata": {}}, text="Sources:\nx")
    silent = Opaque(provider="anthropic", block={"type": "x"})
    made = contents(user("go"), assistant(code, used, sources, silent, PICTURE), user("on"))

    assert made[1]["parts"] == [
        {"executable_code": {"language": "PYTHON", "code": "1"}},
        {"tool_call": {"id": "t", "tool_type": "URL_CONTEXT", "args": {"someUrls": ["x"]}}},
        PIXEL_PART,
    ]


def test_a_reminder_with_a_picture_keeps_it() -> None:
    look = Message(role="system", parts=(Text("Look."), PICTURE), origin="developer")
    picture_alone = Message(role="system", parts=(PICTURE,), origin="developer")

    made = contents(user("go"), look, picture_alone)

    fenced = {"text": "<system-reminder>\nLook.\n</system-reminder>"}
    assert made[0]["parts"] == [{"text": "go"}, fenced, PIXEL_PART, PIXEL_PART]


# ---- config ----


def test_functions_stand_in_one_tool_and_server_tools_behind_it() -> None:
    other = ToolSpec(name="web_search", native_specs={"anthropic": {"type": "web_search"}})
    terse = replace(READ_FILE, name="terse", description=" ", input_schema={})

    made = config(tools=(SEARCH, other, READ_FILE, terse))

    declared = made["tools"][0]["function_declarations"]
    assert made["tools"][1:] == [{"google_search": {}}]
    assert declared[1] == {
        "name": "terse",
        "parameters_json_schema": {"type": "object", "properties": {}},
    }
    assert made["tool_config"] == {"include_server_side_tool_invocations": True}
    assert made["automatic_function_calling"] == {"disable": True}


def test_the_flag_for_mixed_tools_is_not_sent_to_vertex() -> None:
    made = config(limits=replace(GEMINI_4, host="vertex_ai"), tools=(SEARCH, READ_FILE))

    assert "tool_config" not in made


def test_without_tools_nothing_is_said_of_them() -> None:
    assert not {"tools", "tool_config", "automatic_function_calling"} & config(tools=()).keys()


CHOICES: dict[str, tuple[ToolChoice, dict[str, Any]]] = {
    "auto": (ToolChoice(), {"mode": "AUTO"}),
    "none": (ToolChoice(mode="none"), {"mode": "NONE"}),
    "any": (ToolChoice(mode="any", allows_parallel=False), {"mode": "ANY"}),
    "one": (
        ToolChoice(mode="tool", name="read_file"),
        {"mode": "ANY", "allowed_function_names": ["read_file"]},
    ),
}


@pytest.mark.parametrize(("choice", "expected"), CHOICES.values(), ids=CHOICES.keys())
def test_a_tool_choice_is_a_mode(choice: ToolChoice, expected: dict[str, Any]) -> None:
    assert config(tool_choice=choice)["tool_config"] == {"function_calling_config": expected}


def test_beside_server_tools_auto_is_left_to_the_server() -> None:
    made = config(tools=(SEARCH, READ_FILE), tool_choice=ToolChoice())

    assert made["tool_config"] == {"include_server_side_tool_invocations": True}


def test_a_choice_without_functions_is_left_out() -> None:
    assert "tool_config" not in config(tools=(SEARCH,), tool_choice=ToolChoice(mode="none"))


THINKING: dict[str, tuple[ModelLimits, dict[str, Any], dict[str, Any]]] = {
    "a level": (
        GEMINI_4,
        {"thinking_level": "high"},
        {"thinking_level": "HIGH", "include_thoughts": True},
    ),
    "a budget": (
        GEMINI_25,
        {"thinking_budget": 512},
        {"thinking_budget": 512, "include_thoughts": True},
    ),
    "none": (GEMINI_25, {"thinking_budget": 0}, {"thinking_budget": 0}),
    "none by level": (GEMINI_25, {"thinking_level": "none"}, {"thinking_budget": 0}),
}


@pytest.mark.parametrize(("limits", "options", "expected"), THINKING.values(), ids=THINKING.keys())
def test_thinking_is_asked_for_by(
    limits: ModelLimits, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert config(limits, **options)["thinking_config"] == expected


def test_nothing_is_said_of_thinking_unless_it_is_set() -> None:
    assert "thinking_config" not in config()
    assert "thinking_config" not in config(GEMINI_20, thinking_budget=0)
    assert "thinking_config" not in config(GEMINI_4, thinking_budget=512)


def test_sampling_is_sent_only_to_models_that_heed_it() -> None:
    sampling = {"temperature": 0.2, "top_p": 0.9, "top_k": 40}

    assert config(GEMINI_25, **sampling).items() >= sampling.items()
    assert not config(GEMINI_4, **sampling).keys() & sampling.keys()


REFUSED: dict[str, tuple[ModelLimits, dict[str, Any], str]] = {
    "six stop sequences": (GEMINI_4, {"stop_sequences": tuple("abcdef")}, "at most 5"),
    "thinking that cannot be off": (GEMINI_4, {"thinking_budget": 0}, "cannot be switched off"),
    "a forced tool that is not offered": (
        GEMINI_4,
        {"tool_choice": ToolChoice(mode="tool", name="write_file")},
        "'write_file'",
    ),
    "a forced server tool": (
        GEMINI_4,
        {"tool_choice": ToolChoice(mode="tool", name="google_search"), "tools": (SEARCH,)},
        "no function",
    ),
    "a forced call without functions": (
        GEMINI_4,
        {"tool_choice": ToolChoice(mode="any"), "tools": ()},
        "no function is offered",
    ),
}


@pytest.mark.parametrize(("limits", "options", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_gemini_cannot_express_is_refused_with_a_remedy(
    limits: ModelLimits, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnsupportedRequestError, match=reason) as caught:
        GEMINI.render(draft(limits=limits, **options))

    assert caught.value.remedy


GENERATIONS = {
    "gemini-2.5-flash": (2, 5),
    "models/gemini-3-pro-preview": (3, 0),
    "gemini-4-argon": (4, 0),
    "gemini-flash-latest": None,
    "claude-opus-5": None,
}


@pytest.mark.parametrize(("model", "generation"), GENERATIONS.items(), ids=GENERATIONS.keys())
def test_a_model_s_id_tells_its_generation(model: str, generation: Any) -> None:
    assert generation_of(model) == generation


def test_a_call_without_name_and_id_is_answered_by_its_response() -> None:
    talk = [user("go"), assistant(call("", "")), results(result("", "ok"))]

    payload = GEMINI.render(draft(talk, limits=GEMINI_4))

    assert GEMINI.check_payload(payload, limits=GEMINI_4) == []
