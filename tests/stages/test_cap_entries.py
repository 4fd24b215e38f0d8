"""Entries that are longer than one may be are shortened at once, each by itself."""

import base64
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import PIL.Image
import pytest

from context_assembler import AssemblerConfig, ContextAssembler
from context_assembler.errors import InvalidParameterError, MissingExtraError
from context_assembler.stages.cap_entries import cap_entries
from context_assembler.values.events import assistant_event, tool_result_event, user_event
from context_assembler.values.media.image_sizes import measure_base64
from context_assembler.values.messages import Message
from context_assembler.values.options import TruncationSettings
from context_assembler.values.parts import (
    Base64Source,
    Image,
    Part,
    Text,
    ToolCall,
    ToolResult,
    UrlSource,
)

CAPS = TruncationSettings(
    max_result_tokens=50,
    max_result_tokens_by_tool={"read_log": 20, "web.*": 30},
    max_user_tokens=40,
)
LONG = "\n".join(f"line {number}" for number in range(100))
PICTURE = Image(source=UrlSource(url="https://example.com/a.png"))


def count_words(text: str) -> int:
    return len(text.split())


def capped(messages: Sequence[Message], caps: TruncationSettings = CAPS) -> tuple[Message, ...]:
    return cap_entries(messages, caps=caps, count_text=count_words)[0]


def picture_of(size: tuple[int, int], media_type: str) -> Image:
    encoded = BytesIO()
    file_format = media_type.removeprefix("image/").upper()
    PIL.Image.new("RGB", size, "teal").save(encoded, file_format)
    data = base64.b64encode(encoded.getvalue()).decode()
    return Image(source=Base64Source(media_type=media_type, data=data))


def result(*content: Text | Image, tool: str | None = None) -> Message:
    part = ToolResult(call_id="c1", content=content, tool_name=tool)
    return Message(role="tool", parts=(part,), origin="tool", id="r1")


def texts(message: Message) -> list[str]:
    held: list[Part] = list(message.parts)
    inner = [part for one in held if isinstance(one, ToolResult) for part in one.content]
    return [part.text for part in (*held, *inner) if isinstance(part, Text)]


@pytest.mark.parametrize(
    ("tool", "cap_tokens"),
    [("read_log", 20), ("web.fetch", 30), ("other", 50), (None, 50)],
)
def test_each_tool_has_its_cap(tool: str | None, cap_tokens: int) -> None:
    [message] = capped([result(Text(LONG), tool=tool)])

    [text] = texts(message)
    assert cap_tokens * 0.5 < count_words(text) <= cap_tokens
    assert "shortened: 200 tokens in full" in text
    assert text.startswith("line 0\n")
    assert text.endswith("line 99")


def test_a_result_that_names_no_tool_belongs_to_the_call_before_it() -> None:
    call = Message(role="assistant", parts=(ToolCall(call_id="c1", name="read_log", arguments={}),))

    _, message = capped([call, result(Text(LONG))])

    assert count_words(texts(message)[0]) <= 20


def test_what_is_within_its_cap_or_pinned_or_not_capped_is_the_same_object() -> None:
    talk = [
        Message(role="user", parts=(Text("short"),)),
        Message(role="user", parts=(Text(LONG),), is_pinned=True),
        Message(role="user", parts=(Text(LONG),), kind="summary"),
        Message(role="assistant", parts=(Text(LONG),)),
        result(Text("short"), PICTURE),
        result(Text("word " * 30)),
        result(Text(LONG, signature="s")),
    ]

    assert all(new is old for new, old in zip(capped(talk), talk, strict=True))


def test_a_pasted_text_is_shortened_only_where_a_cap_is_set() -> None:
    pasted = Message(role="user", parts=(Text(LONG), PICTURE))

    [cut] = capped([pasted])
    [whole] = capped([pasted], TruncationSettings())

    assert count_words(texts(cut)[0]) <= 40
    assert cut.parts[1] is PICTURE
    assert whole is pasted


def test_several_texts_of_a_result_share_its_cap_and_pictures_stay() -> None:
    [message] = capped([result(Text("first " * 30), PICTURE, Text(LONG), Text(LONG))])

    [part] = message.parts
    assert isinstance(part, ToolResult)
    assert part.content[1] is PICTURE
    assert texts(message)[0] == "first " * 30
    assert "in full" in texts(message)[2]


def test_every_cut_has_a_row_with_both_sizes() -> None:
    _, rows = cap_entries([result(Text(LONG))], caps=CAPS, count_text=count_words)

    [row] = rows
    assert (row.rule, row.decision, row.id) == ("entry.cap", "shortened", "r1")
    assert row.tokens_before == 200
    assert row.tokens_after is not None
    assert row.tokens_after <= 50


SMALL = TruncationSettings(max_image_side_px=200)


@pytest.mark.parametrize("media_type", ["image/png", "image/jpeg", "image/webp", "image/gif"])
def test_a_large_image_is_scaled_wherever_it_stands_and_always_alike(media_type: str) -> None:
    picture = picture_of((640, 320), media_type)
    talk = [Message(role="user", parts=(Text("See."), picture), id="u1"), result(picture)]

    messages, rows = cap_entries(talk, caps=SMALL, count_text=count_words)

    [seen] = [part for part in messages[0].parts if isinstance(part, Image)]
    [returned] = [part for part in messages[1].parts if isinstance(part, ToolResult)]
    assert (seen.width_px, seen.height_px) == (200, 100)
    assert returned.content == (seen,)
    assert measure_base64(getattr(seen.source, "data", "")) == (200, 100)
    assert [(row.id, row.rule, row.decision) for row in rows] == [
        ("u1", "entry.cap", "shortened"),
        ("r1", "entry.cap", "shortened"),
    ]
    assert all("640 × 320 pixels" in row.reason for row in rows)
    assert cap_entries(talk[1:], caps=SMALL, count_text=count_words)[0] == messages[1:]
    assert cap_entries(messages, caps=SMALL, count_text=count_words) == (messages, ())


def test_an_image_within_the_cap_or_at_an_address_or_pinned_or_unreadable_is_the_same() -> None:
    small, large = picture_of((200, 10), "image/png"), picture_of((201, 10), "image/png")
    broken = Image(source=Base64Source(media_type="image/png", data="no base64"))
    talk = [
        Message(role="user", parts=(small, PICTURE, broken)),
        Message(role="user", parts=(large,), is_pinned=True),
    ]

    assert all(new is old for new, old in zip(capped(talk, SMALL), talk, strict=True))
    [untouched] = capped([Message(role="user", parts=(large,))], TruncationSettings())
    assert untouched.parts == (large,)


def test_without_the_package_for_images_the_cap_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("context_assembler.values.media.image_fitting.has_pillow", lambda: False)
    large = picture_of((640, 320), "image/png")

    with pytest.raises(MissingExtraError, match=r"context-assembler\[images\]"):
        capped([Message(role="user", parts=(large,))], SMALL)


async def test_a_scaled_image_costs_less_and_stays_as_it_was_sent() -> None:
    config = AssemblerConfig(truncation={"max_image_side_px": 200})
    async with ContextAssembler(sessions="memory:", config=config) as assembler:
        await assembler.sessions.append("s", [user_event(picture_of((1_200, 600), "image/png"))])

        first = await assembler.assemble("s", model="claude-opus-5-5")
        await assembler.sessions.append("s", [assistant_event("A plane.")])
        await assembler.add_user("s", "Sure?")
        second = await assembler.assemble("s", model="claude-opus-5-5")
    async with ContextAssembler(sessions=assembler.sessions) as as_it_is:
        whole = await as_it_is.assemble("s", model="claude-opus-5-5")

    sent = first.to_anthropic()["messages"][0]["content"][0]["source"]
    assert second.to_anthropic()["messages"][0]["content"][0]["source"] == sent
    assert second.metadata.ledger.used_tokens < whole.metadata.ledger.used_tokens


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_result_tokens": 0},
        {"max_result_tokens_by_tool": {"a": 0}},
        {"max_user_tokens": -1},
        {"max_image_side_px": 0},
    ],
)
def test_a_cap_of_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameterError, match=r"must be at least (1|64)"):
        TruncationSettings(**wrong)


async def test_a_payload_has_the_short_form_from_the_first_call_on_and_the_store_the_whole() -> (
    None
):
    config = AssemblerConfig(truncation={"max_result_tokens_by_tool": {"read_log": 60}})
    assembler = ContextAssembler(sessions="memory:", config=config)
    call = ToolCall(call_id="c1", name="read_log", arguments={})
    events = [user_event("Read."), assistant_event(call), tool_result_event("c1", LONG)]
    stored = await assembler.sessions.append("s", events)

    first = await assembler.assemble("s", model="gpt-5.5")
    await assembler.add_user("s", "And?")
    second = await assembler.assemble("s", model="gpt-5.5")

    sent = first.to_openai_chat()["messages"]
    assert second.to_openai_chat()["messages"][: len(sent)] == sent
    assert "tokens in full" in sent[-1]["content"]
    assert {row.rule for row in first.report.of("shortened")} == {"entry.cap"}
    assert stored[-1].text == LONG
