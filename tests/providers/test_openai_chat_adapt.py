"""What Chat Completions cannot take of a draft, and what is told about it."""

from dataclasses import replace
from typing import Any

import pytest

from context_assembler.providers.openai_chat import OPENAI_CHAT
from context_assembler.values.draft import Draft
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Opaque,
    Part,
    Text,
    UrlSource,
)
from context_assembler.values.tools import ToolSpec
from tests.providers.drafts import (
    GPT_4O,
    GPT_6_SOL,
    MISTRAL,
    PDF,
    PICTURE,
    READ_FILE,
    assistant,
    call,
    draft,
    result,
    results,
    user,
)

SOUND = {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
HOLO = Opaque(provider="openai_chat", block={"type": "holo"})
REFUSAL = Opaque(provider="openai_chat", block={"type": "refusal", "refusal": "No."}, text="No.")


def of(*talk: Message, **options: Any) -> Draft:
    given: dict[str, Any] = {"limits": GPT_4O, "tools": (), **options}
    return draft(talk, **given)


CHANGED: dict[str, tuple[Draft, str, str]] = {
    "an image by id": (
        of(user(Image(source=FileIdSource(provider="openai", file_id="file-1")))),
        "media.source",
        "[image left out: openai file file-1; Chat Completions takes no image by file id]",
    ),
    "a document at a URL": (
        of(user(Document(source=UrlSource(url="https://example.com/a.pdf")))),
        "media.source",
        "[document left out: https://example.com/a.pdf; Chat Completions fetches no documents]",
    ),
    "another provider's document": (
        of(user(Document(source=FileIdSource(provider="anthropic", file_id="file_1")))),
        "media.source",
        "[document left out: anthropic file file_1; the file lies with another provider]",
    ),
    "bytes for a blind model": (
        of(user(PICTURE), limits=replace(GPT_4O, features={"vision": False})),
        "media.unsupported",
        "[image left out: image/png; the model takes no images]",
    ),
    "an image of the assistant": (
        of(user("go"), assistant(PICTURE), user("ok")),
        "media.role",
        "[image left out: image/png; not taken from an assistant]",
    ),
    "an image of too many bytes": (
        of(user(Image(source=Base64Source(media_type="", data="iVBORw0KGgo" + "A" * 21_000_001)))),
        "media.size",
        "[image left out: unnamed; its 21,000,012 characters of base64 are more than 20,900,000]",
    ),
    "a part that OpenAI does not know": (
        of(user(HOLO)),
        "content.type",
        "[holo left out: not taken from the user]",
    ),
    "a part of the assistant": (
        of(user("go"), assistant(HOLO), user("ok")),
        "content.type",
        "[holo left out: not taken from the assistant]",
    ),
    "a refusal by the user": (of(user(REFUSAL)), "content.type", "No."),
}


@pytest.mark.parametrize(("made", "rule", "line"), CHANGED.values(), ids=CHANGED.keys())
def test_what_cannot_be_sent_is_named_and_told(made: Draft, rule: str, line: str) -> None:
    adapted, rows = OPENAI_CHAT.adapt(made)

    assert [row.rule for row in rows] == [rule]
    assert (Text(line),) in [message.parts for message in adapted.messages]
    assert OPENAI_CHAT.check_payload(OPENAI_CHAT.render(made), limits=made.limits) == []


TAKEN: dict[str, Draft] = {
    "a PDF": of(user(PDF)),
    "an uploaded document": of(user(Document(source=FileIdSource(provider="openai", file_id="f")))),
    "sound": of(user(Opaque(provider="openai_chat", block=SOUND))),
    "a refusal": of(user("go"), assistant(REFUSAL), user("ok")),
    "a part that another server may know": of(user(HOLO), limits=MISTRAL),
    "501 images elsewhere": of(user(*[PICTURE] * 501), limits=MISTRAL),
}


@pytest.mark.parametrize("made", TAKEN.values(), ids=TAKEN.keys())
def test_what_can_be_sent_stays_as_it_is(made: Draft) -> None:
    assert OPENAI_CHAT.adapt(made) == (made, ())


def test_no_more_images_are_sent_than_are_taken() -> None:
    _, rows = OPENAI_CHAT.adapt(of(user(*[PICTURE] * 501)))

    assert [(row.rule, row.decision) for row in rows] == [("media.count", "shortened")]


@pytest.mark.parametrize("level", [None, "low", "high"])
def test_a_model_that_cannot_reason_beside_tools_is_told_not_to(level: str | None) -> None:
    adapted, rows = OPENAI_CHAT.adapt(draft(limits=GPT_6_SOL, thinking_level=level))

    assert adapted.parameters.thinking_level == "none"
    assert [(row.kind, row.id, row.rule) for row in rows] == [
        ("note", "thinking_level", "parameter.thinking_level")
    ]


@pytest.mark.parametrize("options", [{"thinking_level": "none"}, {"thinking_budget": 0}])
def test_nothing_is_told_where_no_reasoning_is_asked_for(options: dict[str, Any]) -> None:
    assert OPENAI_CHAT.adapt(draft(limits=GPT_6_SOL, **options))[1] == ()


def test_tools_that_cannot_be_strict_or_offered_are_told() -> None:
    open_ended = ToolSpec(name="open", is_strict=True, input_schema={"type": "object"})
    theirs = ToolSpec(name="search", native_specs={"gemini": {}})

    adapted, rows = OPENAI_CHAT.adapt(of(tools=(open_ended, theirs, READ_FILE)))

    assert [tool.name for tool in adapted.tools] == ["open", "read_file"]
    assert [(row.id, row.rule) for row in rows] == [
        ("search", "tool.native"),
        ("open", "tool.strict"),
    ]


@pytest.mark.parametrize(("calls", "sizes"), [(128, [128]), (129, [128, 1]), (300, [128, 128, 44])])
def test_more_calls_than_a_message_takes_go_into_several(calls: int, sizes: list[int]) -> None:
    parts: list[Part | str] = ["Reading.", *(call(f"c{i}") for i in range(calls))]
    answers = results(*(result(f"c{i}", f"text {i}") for i in range(calls)))

    payload = OPENAI_CHAT.render(of(user("go"), assistant(*parts), answers, tools=(READ_FILE,)))

    asked = [message for message in payload["messages"] if message["role"] == "assistant"]
    assert [len(message["tool_calls"]) for message in asked] == sizes
    assert [message.get("content") for message in asked] == ["Reading."] + [None] * (len(sizes) - 1)
    assert OPENAI_CHAT.check_payload(payload, limits=GPT_4O) == []


def test_an_answer_without_its_call_stays_behind_the_calls() -> None:
    parts = [call(f"c{i}") for i in range(129)]
    answers = results(*(result(f"c{i}", "x") for i in range(129)), result("other", "y"))

    payload = OPENAI_CHAT.render(of(user("go"), assistant(*parts), answers, tools=(READ_FILE,)))

    assert payload["messages"][-1]["content"] == "y"


def test_nuls_are_not_sent() -> None:
    silent = replace(READ_FILE, description="\0")

    payload = OPENAI_CHAT.render(of(user("\0", "x\0"), system="\0", tools=(silent,)))

    assert payload["messages"] == [{"role": "user", "content": "x"}]
    assert "description" not in payload["tools"][0]["function"]
