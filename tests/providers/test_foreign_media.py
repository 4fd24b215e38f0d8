"""Media reach the model, or a row says that they did not: whoever made them, wherever they go."""

import base64
import json
from collections.abc import Iterable
from typing import Any

import pytest

from context_assembler.providers import PROVIDERS
from context_assembler.values.events import Provenance
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.parts import (
    Base64Source,
    Document,
    Image,
    MediaSource,
    Opaque,
    Part,
    Text,
    UrlSource,
)
from context_assembler.values.report import ReportEntry
from tests.providers.drafts import (
    GEMINI_4,
    GPT_4O,
    GPT_62,
    MISTRAL,
    OPUS,
    PIXEL,
    assistant,
    call,
    draft,
    result,
    results,
    user,
)

MODELS: dict[str, ModelLimits] = {
    "anthropic": OPUS,
    "openai_chat": GPT_4O,
    "openai_responses": GPT_62,
    "gemini": GEMINI_4,
}
SOUND = "UklGRgAAAABXQVZF"
BLOCKS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a generated picture": (
        "openai_responses",
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PIXEL},
        "[image_generation_call]",
    ),
    "a signed picture": (
        "gemini",
        {"inline_data": {"mime_type": "image/png", "data": PIXEL}, "thought_signature": "c2ln"},
        "[image/png]",
    ),
    "a recording": (
        "openai_chat",
        {"type": "input_audio", "input_audio": {"data": SOUND, "format": "wav"}},
        "[input_audio]",
    ),
    "a recording of Gemini": (
        "gemini",
        {"inline_data": {"mime_type": "audio/wav", "data": SOUND}},
        "[audio/wav]",
    ),
    "a file in Google's storage": (
        "gemini",
        {"file_data": {"mime_type": "application/pdf", "file_uri": "gs://b/x.pdf"}},
        "[application/pdf gs://b/x.pdf]",
    ),
    "an uploaded file": ("anthropic", {"type": "container_upload", "file_id": "file_9"}, "file_9"),
}
BYTES = (PIXEL, SOUND, "gs://b/x.pdf")


def talks(part: Opaque) -> dict[str, list[Message]]:
    return {
        "of the user": [user(part, "look", id="m")],
        "of the model": [user("go"), assistant(part, "done", id="m"), user("and?")],
        "of a tool": [user("go"), assistant(call("c")), results(result("c", part))],
    }


def lost(rows: Iterable[ReportEntry]) -> list[ReportEntry]:
    return [row for row in rows if row.decision in ("dropped", "shortened")]


PLACES = tuple(talks(Opaque(provider="gemini", block={})))
MOVES = {
    f"{name} to {target}": (Opaque(provider=provider, block=block, text=text), target)
    for name, (provider, block, text) in BLOCKS.items()
    for target in MODELS
    if target != provider
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("part", "target"), MOVES.values(), ids=MOVES.keys())
def test_media_arrive_or_their_loss_has_a_row(part: Opaque, target: str, place: str) -> None:
    made = draft(talks(part)[place], limits=MODELS[target])

    adapted, rows = PROVIDERS[target].adapt(made)

    payload = PROVIDERS[target].render(made)
    sent = json.dumps(payload)
    arrives = any(held in sent and "left out" not in sent for held in BYTES)
    assert arrives != bool(lost(rows))
    assert "content.foreign" in {row.rule for row in rows}
    assert PROVIDERS[target].adapt(adapted) == (adapted, ())
    assert [
        v
        for v in PROVIDERS[target].check_payload(payload, limits=MODELS[target])
        if v.level == "refused"
    ] == []


def test_a_recording_is_played_to_gemini() -> None:
    provider, block, text = BLOCKS["a recording"]
    made = draft([user(Opaque(provider=provider, block=block, text=text))], limits=GEMINI_4)

    [part] = PROVIDERS["gemini"].render(made)["contents"][0]["parts"]

    assert part == {"inline_data": {"mime_type": "audio/wav", "data": SOUND}}


# ---- what OpenAI's own items lose with their reasoning ----

REASONED = Provenance(provider="openai_responses", model="gpt-6-astra")
DRAWN = Opaque(
    provider="openai_responses",
    block={"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PIXEL},
    text="[image_generation_call]",
)
LINE = "[image left out: image/png; the reasoning that led to it is not sent]"


def drawn(*parts: Part | str) -> list[Message]:
    return [user("draw"), assistant(*parts, id="m", made_by=REASONED), user("and?")]


def test_a_picture_that_cannot_go_back_with_its_item_is_named_and_told() -> None:
    made = draft(drawn(DRAWN, DRAWN, "done"), limits=GPT_62)

    adapted, rows = PROVIDERS["openai_responses"].adapt(made)

    sent = PROVIDERS["openai_responses"].render(adapted)["input"]
    assert [entry["content"] for entry in sent if entry.get("role") == "assistant"] == [
        LINE,
        LINE,
        "done",
    ]
    assert [(row.id, row.decision, row.rule, row.reason) for row in rows] == [
        (
            "m",
            "shortened",
            "media.reasoning",
            "2 times: An image is left out: the reasoning that led to it is not sent.",
        )
    ]
    assert PROVIDERS["openai_responses"].adapt(adapted) == (adapted, ())


def test_what_an_item_says_stands_before_the_line() -> None:
    block = {"type": "code_interpreter_call", "outputs": [{"type": "image", "url": "https://x/a"}]}
    ran = Opaque(provider="openai_responses", block=block, text="[code_interpreter_call: 1 + 1]")

    adapted, _ = PROVIDERS["openai_responses"].adapt(draft(drawn(ran), limits=GPT_62))

    [part] = adapted.messages[1].parts
    assert isinstance(part, Opaque)
    assert part.block == block
    assert part.text.splitlines()[0] == "[code_interpreter_call: 1 + 1]"
    assert part.text.splitlines()[1].startswith("[image left out: https://x/a; ")


def test_a_file_that_stays_behind_is_told_as_one() -> None:
    block = {"type": "x_call", "output": [{"type": "input_file", "file_id": "file-1"}]}
    read = Opaque(provider="openai_responses", block=block, text="[x_call]")

    _, [row] = PROVIDERS["openai_responses"].adapt(draft(drawn(read), limits=GPT_62))

    assert row.reason == "A document is left out: the reasoning that led to it is not sent."


def test_fingerprints_do_not_depend_on_what_is_told() -> None:
    made = draft(drawn(DRAWN), limits=GPT_62)
    adapted, _ = PROVIDERS["openai_responses"].adapt(made)

    both = [PROVIDERS["openai_responses"].fingerprints(one) for one in (made, adapted)]

    assert both[0] == both[1]


PIECES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a picture": (
        {"type": "input_image", "image_url": "https://x/a.png"},
        "[image left out: https://x/a.png; not taken from an assistant]",
        "repaired",
    ),
    "nothing": ({"type": "input_text"}, "", "shortened"),
}


@pytest.mark.parametrize(("block", "line", "decision"), PIECES.values(), ids=PIECES.keys())
def test_a_piece_of_user_content_in_a_reply_is_told(
    block: dict[str, Any], line: str, decision: str
) -> None:
    piece = Opaque(provider="openai_responses", block=block)

    adapted, rows = PROVIDERS["openai_responses"].adapt(draft(drawn(piece, "a"), limits=GPT_62))

    assert adapted.messages[1].parts == ((Text(line), Text("a")) if line else (Text("a"),))
    assert (rows[0].rule, rows[0].decision) == ("content.type", decision)


OWN_OF_CHAT: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "a recording by its name": (BLOCKS["a recording"][1], "[input_audio]", "shortened", "document"),
    "a name alone": ({"type": "x"}, "[x]", "shortened", "[x left out"),
    "a text": ({"type": "x"}, "said", "repaired", "said"),
}


@pytest.mark.parametrize(
    ("block", "text", "decision", "shown"), OWN_OF_CHAT.values(), ids=OWN_OF_CHAT.keys()
)
def test_a_part_that_chat_does_not_take_from_a_model_is_told(
    block: dict[str, Any], text: str, decision: str, shown: str
) -> None:
    own = Opaque(provider="openai_chat", block=block, text=text)
    made = draft([user("go"), assistant(own, id="m"), user("and?")], limits=MISTRAL)

    adapted, rows = PROVIDERS["openai_chat"].adapt(made)

    assert rows[-1].decision == decision
    assert shown in adapted.messages[1].text


# ---- addresses, and bytes that are something else ----

ADDRESSES: dict[str, tuple[str, frozenset[str]]] = {
    "the web": ("https://x/a.png", frozenset(MODELS)),
    "the web without a lock": ("http://x/a.png", frozenset(MODELS)),
    "the web in capitals": (" HTTPS://x/a.png", frozenset(MODELS)),
    "Google's storage": ("gs://b/a.png", frozenset({"gemini"})),
    "Amazon's storage": ("s3://b/a.png", frozenset()),
    "this machine": ("file:///home/a.png", frozenset()),
    "a browser": ("blob:https://x/1", frozenset()),
    "nowhere": ("img/a.png", frozenset()),
    "a drive": ("C:\\a.png", frozenset()),
    "no data": ("data:image/png", frozenset()),
}


@pytest.mark.parametrize("target", MODELS)
@pytest.mark.parametrize(("url", "fetchers"), ADDRESSES.values(), ids=ADDRESSES.keys())
def test_an_address_is_sent_to_whoever_can_fetch_it(
    url: str, fetchers: frozenset[str], target: str
) -> None:
    source = UrlSource(url=url, media_type="image/png")

    adapted, rows = PROVIDERS[target].adapt(
        draft([user(Image(source=source))], limits=MODELS[target])
    )

    assert isinstance(adapted.messages[0].parts[0], Image) == (target in fetchers)
    assert [row.rule for row in rows] == ([] if target in fetchers else ["media.source"])


@pytest.mark.parametrize("target", ["anthropic", "openai_responses", "gemini"])
@pytest.mark.parametrize("url", ["file:///a.pdf", "s3://b/a.pdf"])
def test_a_document_nobody_can_fetch_is_told(url: str, target: str) -> None:
    paper = Document(source=UrlSource(url=url, media_type="application/pdf"))

    _, [row] = PROVIDERS[target].adapt(draft([user(paper)], limits=MODELS[target]))

    assert row.rule == "media.source"


PDF = base64.b64encode(b"%PDF-1.4\n%%EOF\n").decode()
MISTAKEN: dict[str, tuple[Part, str, str]] = {
    "a PDF that is a picture": (
        Document(source=Base64Source(media_type="application/pdf", data=PIXEL), title="scan.pdf"),
        "image/png",
        "What came as a document is sent as an image: it is one.",
    ),
    "a picture that is a PDF": (
        Image(source=Base64Source(media_type="image/png", data=PDF)),
        "application/pdf",
        "What came as an image is sent as a document: it is one.",
    ),
}


@pytest.mark.parametrize("target", MODELS)
@pytest.mark.parametrize(("part", "media_type", "reason"), MISTAKEN.values(), ids=MISTAKEN.keys())
def test_bytes_are_sent_as_what_they_are(
    part: Part, media_type: str, reason: str, target: str
) -> None:
    made = draft([user(part)], limits=MODELS[target])

    _, [row] = PROVIDERS[target].adapt(made)

    payload = PROVIDERS[target].render(made)
    assert (row.decision, row.rule, row.reason) == ("repaired", "media.retyped", reason)
    assert media_type in json.dumps(payload)
    assert ("scan.pdf" in json.dumps(payload)) == isinstance(part, Document)
    assert PROVIDERS[target].check_payload(payload, limits=MODELS[target]) == []


MISNAMED: dict[str, tuple[MediaSource, str]] = {
    "no PDF": (Base64Source(media_type="application/pdf", data="aGVsbG8="), "its bytes are no PDF"),
    "a film": (
        UrlSource(url="https://x/v", media_type="video/mp4"),
        "only PDF and plain text are taken",
    ),
}


@pytest.mark.parametrize(("source", "reason"), MISNAMED.values(), ids=MISNAMED.keys())
def test_what_is_no_document_is_left_out(source: MediaSource, reason: str) -> None:
    _, [row] = PROVIDERS["anthropic"].adapt(draft([user(Document(source=source))]))

    assert (row.rule, row.reason) == ("media.type", f"A document is left out: {reason}.")


PLAIN: dict[str, str] = {
    "with parameters": "application/pdf; charset=binary",
    "in capitals": "Application/PDF",
    "of no known type": "application/octet-stream",
}


@pytest.mark.parametrize("target", MODELS)
@pytest.mark.parametrize("declared", PLAIN.values(), ids=PLAIN.keys())
def test_a_pdf_is_sent_as_one_whatever_is_said_of_it(declared: str, target: str) -> None:
    paper = Document(source=Base64Source(media_type=declared, data=PDF))
    made = draft([user(paper)], limits=MODELS[target])

    payload = PROVIDERS[target].render(made)

    assert PROVIDERS[target].adapt(made) == (made, ())
    assert declared not in json.dumps(payload)
    assert PROVIDERS[target].check_payload(payload, limits=MODELS[target]) == []
