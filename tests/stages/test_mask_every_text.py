"""Whatever a message tells in words is masked, in whichever part and field it stands."""

import base64
import json
import re
from typing import Any

import pytest

from context_assembler import (
    AssemblerConfig,
    Base64Source,
    ContextAssembler,
    Document,
    Text,
    ToolCall,
    assistant_event,
)
from context_assembler.config import SafetySettings
from context_assembler.providers import PROVIDERS
from context_assembler.stages.mask_secrets import SecretMasker
from context_assembler.values.events import CompactionBody, SessionEvent
from context_assembler.values.messages import Message
from context_assembler.values.parts import Image, Opaque, Part, ResultPart, ToolResult, UrlSource
from tests.values.test_secrets_across import BEGIN, END, LINE, TOKEN

MASKER = SecretMasker(["tool_results", "user"])
CONFIG = AssemblerConfig(safety=SafetySettings(masks_secrets_in=("tool_results", "user")))


def encoded(text: str, codec: str = "utf-8") -> str:
    return base64.b64encode(text.encode(codec)).decode()


def plain(text: str, **fields: Any) -> Document:
    source = Base64Source(media_type="text/plain", data=encoded(text))
    return Document(source=source, **fields)


def file_of(media_type: str, text: str, codec: str = "utf-8") -> Document:
    return Document(source=Base64Source(media_type=media_type, data=encoded(text, codec)))


SEARCHED = {
    "type": "search_result",
    "source": "notes.md",
    "title": f"uses {TOKEN}",
    "content": [{"type": "text", "text": f"token {TOKEN}"}],
}
TELLING: dict[str, ResultPart] = {
    "a text": Text(f"token {TOKEN}"),
    "a text with a NUL in it": Text(f"token {TOKEN[:9]}\0{TOKEN[9:]}"),
    "a text of UTF-16 that was read as UTF-8": Text(TOKEN.encode("utf-16-le").decode()),
    "a document": plain(f"token {TOKEN}"),
    "a document of UTF-16": plain(TOKEN.encode("utf-16-le").decode()),
    "the title of a document": plain("x", title=TOKEN),
    "the context of a document": plain("x", extras={"anthropic": {"context": TOKEN}}),
    "a document whose text is given": Document(
        source=UrlSource(url="https://example.org/a.txt"), text=f"token {TOKEN}"
    ),
    "a document of JSON": file_of("application/json", json.dumps({"token": TOKEN})),
    "a document in another encoding": file_of("text/plain", f"Schlüssel {TOKEN}", "latin-1"),
    "a document with the mark of UTF-16": file_of("text/csv", f"a;{TOKEN}", "utf-16"),
    "the text of a provider's block": Opaque(
        provider="gemini", block={"kind": "note"}, text=f"token {TOKEN}"
    ),
    "a provider's block": Opaque(provider="anthropic", block=SEARCHED, text=f"token {TOKEN}"),
    "the fields of a text": Text("x", extras={"openai_chat": {"name": TOKEN}}),
}


async def payloads(content: Any) -> dict[str, str]:
    """Return what every provider is sent of a session in which a tool returned this."""
    assembler = ContextAssembler("memory:", config=CONFIG)
    await assembler.add_user("s", "Read it.")
    call = ToolCall(call_id="c1", name="read", arguments={})
    await assembler.sessions.append("s", [assistant_event([call])])
    await assembler.add_tool_result("s", "c1", content)
    context = await assembler.assemble("s", model="gpt-5.5")
    return {name: json.dumps(context.to_request(name)) for name in PROVIDERS}


def carried(payload: str) -> list[str]:
    """Return what the base64 texts in a payload stand for, as UTF-8 and as UTF-16."""
    found = [base64.b64decode(one) for one in re.findall(r"base64,([A-Za-z0-9+/]{20,}=*)", payload)]
    return [held.decode(codec, "replace") for held in found for codec in ("utf-8", "utf-16")]


@pytest.mark.parametrize("part", TELLING.values(), ids=TELLING.keys())
async def test_no_provider_is_sent_a_secret_that_a_part_tells(part: ResultPart) -> None:
    spelled = await payloads([part])

    for text in spelled.values():
        assert TOKEN not in text
        assert not any(TOKEN in decoded for decoded in carried(text))


@pytest.mark.parametrize("part", TELLING.values(), ids=TELLING.keys())
@pytest.mark.parametrize("role", ["user", "tool"])
def test_every_masked_message_has_a_row_and_stays_as_it_is(role: str, part: ResultPart) -> None:
    held: Part = part if role == "user" else ToolResult(call_id="c1", content=(part,))
    message = Message(role="user" if role == "user" else "tool", parts=(held,), id="e1")

    [masked], [row], _ = MASKER.mask_messages([message])

    assert (row.id, row.rule) == ("e1", "secrets.masked")
    assert "GitHub Token" in row.reason
    assert MASKER.mask_messages([masked]) == ((masked,), (), False)


LEFT_WHOLE: dict[str, Part] = {
    "an image at an address": Image(source=UrlSource(url="https://u:pw12345@example.org/a.png")),
    "a PDF": file_of("application/pdf", f"%PDF-1.4 {TOKEN}"),
    "a block that names an address": Opaque(
        provider="anthropic",
        block={"type": "image", "source": {"type": "url", "url": "https://u:pw12345@e.org/a"}},
    ),
    "bytes in a block": Opaque(
        provider="gemini", block={"inline_data": {"mime_type": "image/png", "data": TOKEN}}
    ),
    "what a provider sealed": Opaque(
        provider="openai_responses", block={"type": "x", "encrypted_content": TOKEN}
    ),
}


@pytest.mark.parametrize("part", LEFT_WHOLE.values(), ids=LEFT_WHOLE.keys())
def test_what_is_worth_nothing_but_whole_stays(part: Part) -> None:
    message = Message(role="user", parts=(part,), id="e1")

    assert MASKER.mask_messages([message]) == ((message,), (), False)


def test_bytes_of_text_in_a_block_are_masked() -> None:
    held = {"inline_data": {"mime_type": "text/plain", "data": encoded(f"a {TOKEN}")}}
    message = Message(role="user", parts=(Opaque(provider="gemini", block=held),))

    [masked], _, _ = MASKER.mask_messages([message])

    [part] = masked.parts
    assert isinstance(part, Opaque)
    told = base64.b64decode(part.block["inline_data"]["data"]).decode()
    assert told == "a [masked: GitHub Token]"


def test_what_was_signed_bears_no_signature_once_it_is_masked() -> None:
    block = {"text": f"a {TOKEN}", "thoughtSignature": "c2ln"}
    parts = (Text(TOKEN, signature="c2ln"), Opaque(provider="gemini", block=block), Text("x"))

    [masked], _, _ = MASKER.mask_messages([Message(role="user", parts=parts)])

    assert masked.parts[0] == Text("[masked: GitHub Token]")
    assert masked.parts[1:] == (
        Opaque(provider="gemini", block={"text": "a [masked: GitHub Token]"}),
        Text("x"),
    )


# ---- across parts ----


async def test_a_key_in_three_parts_reaches_no_provider() -> None:
    spelled = await payloads([Text(f"{BEGIN}\n"), Text(f"{LINE}\n{LINE}\n"), Text(END)])

    assert not any(LINE in text for text in spelled.values())


def test_a_key_in_a_providers_blocks_is_masked_in_each() -> None:
    said_there = (f"- {BEGIN[:9]}", BEGIN[9:], f"{LINE}\n{END}")
    blocks = tuple(
        Opaque(provider="anthropic", block={"type": "text", "text": text}, text=text)
        for text in said_there
    )

    [masked], _, _ = MASKER.mask_messages([Message(role="user", parts=blocks)])

    assert [(LINE in str(part), "[masked: " in str(part)) for part in masked.parts] == [
        (False, True)
    ] * 3
    assert all(part.block["text"] == part.text for part in masked.parts if isinstance(part, Opaque))


def result(call_id: str, *texts: str) -> ToolResult:
    return ToolResult(call_id=call_id, content=tuple(map(Text, texts)))


def test_a_key_that_was_read_in_two_calls_is_masked_in_both() -> None:
    parts = (result("c1", BEGIN, LINE), result("c2", f"{LINE}\n{END}"), result("c3", LINE))

    [masked], [row], _ = MASKER.mask_messages([Message(role="tool", parts=parts)])

    assert [LINE in one.text for one in masked.tool_results] == [False, False, True]
    assert "Private Key" in row.reason


def test_a_key_that_was_read_in_two_steps_is_masked_in_both() -> None:
    first = Message(role="tool", parts=(result("c1", f"{BEGIN}\n{LINE}"),))
    asked = Message(role="assistant", parts=(ToolCall(call_id="c2", name="read"),))
    rest = Message(role="tool", parts=(result("c2", f"{LINE}\n{END}"),))

    masked, rows, _ = MASKER.mask_messages([first, asked, rest])

    assert [message.tool_results[0].text for message in (masked[0], masked[2])] == [
        "[masked: Private Key]"
    ] * 2
    assert len(rows) == 2


def said(text: str, role: Any = "user") -> Message:
    return Message(role=role, parts=(Text(text),), id=text[:12])


def test_a_key_in_messages_behind_each_other_is_masked_as_far_as_it_goes() -> None:
    told = [said(BEGIN), said(LINE), said(END), said(LINE), said(BEGIN), said("ok", "assistant")]

    masked, rows, is_open = MASKER.mask_messages([*told, said(LINE)])

    assert [LINE in one.text for one in masked] == [False] * 3 + [True] + [False] * 2 + [True]
    assert [row.id for row in rows] == [m.id for m in (*told[:3], told[4])]
    assert not is_open


def test_no_message_is_masked_by_what_follows_it() -> None:
    messages = [said(f"a {TOKEN[:9]}"), said(f"{TOKEN[9:]}"), said(BEGIN), said(LINE)]

    whole = MASKER.mask_messages(messages).messages

    for end in range(len(messages)):
        assert MASKER.mask_messages(messages[:end]).messages == whole[:end]


# ---- what is told in other places ----


async def test_a_summary_is_masked_as_what_it_stands_for() -> None:
    assembler = ContextAssembler("memory:", config=CONFIG)
    await assembler.add_user("s", "Use the token.")
    summary = CompactionBody(summary=f"They use {TOKEN}.", first_seq=1, last_seq=1)
    await assembler.sessions.append("s", [SessionEvent(body=summary)])
    await assembler.add_user("s", "And?")

    context = await assembler.assemble("s", model="gpt-4.1")

    assert TOKEN not in json.dumps(context.to_request())
    assert [row.rule for row in context.report.of("repaired")] == ["secrets.masked"]


def test_a_summary_keeps_the_block_that_a_provider_wrote() -> None:
    block = {"type": "compaction", "content": f"They use {TOKEN}."}
    told = f"They use {TOKEN}."
    parts = (Text(told), Opaque(provider="anthropic", block=block, text=told))

    [masked], _, _ = MASKER.mask_messages([Message(role="user", kind="summary", parts=parts)])

    hidden = "They use [masked: GitHub Token]."
    assert masked.parts == (Text(hidden), Opaque(provider="anthropic", block=block, text=hidden))


async def test_arguments_that_are_told_in_a_result_are_masked_there() -> None:
    assembler = ContextAssembler("memory:", config=CONFIG)
    await assembler.add_user("s", "Go.")
    call = ToolCall(call_id="c1", name="put", arguments_json=f'{{"token": {TOKEN}')
    await assembler.sessions.append("s", [assistant_event([call])])

    context = await assembler.assemble("s", model="gpt-4.1")

    assert TOKEN not in json.dumps(context.to_request())


def test_what_a_server_returned_is_masked_for_others_and_goes_back_as_it_came() -> None:
    ran = {"type": "bash_code_execution_tool_result", "content": {"stdout": f"[ran: {TOKEN}]"}}
    block = Opaque(provider="anthropic", block=ran, text=f"[ran: {TOKEN}]")
    said_itself = Opaque(provider="anthropic", block={"type": "text", "text": TOKEN}, text=TOKEN)
    message = Message(role="assistant", parts=(block, said_itself, Text(TOKEN)), id="e2")

    [masked], [row], _ = MASKER.mask_messages([message])

    [first, *others] = masked.parts
    assert first == Opaque(provider="anthropic", block=ran, text="[ran: [masked: GitHub Token]]")
    assert tuple(others) == (said_itself, Text(TOKEN))
    assert row.reason == (
        "In what other providers are told of a server's tools a secret was masked (GitHub Token)."
    )
