"""What of a block that we do not interpret can be sent elsewhere."""

from typing import Any

import pytest

from context_assembler.values.native.unfolding import is_label, media_in, unfold
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Opaque,
    ResultPart,
    Text,
    UrlSource,
)
from tests.providers.drafts import PIXEL

PICTURE = Image(source=Base64Source(media_type="image/png", data=PIXEL))
FAR = "https://x/a.png"


def inline(media_type: str, data: str = "QUJD") -> Base64Source:
    return Base64Source(media_type=media_type, data=data)


def file_of(provider: str) -> FileIdSource:
    return FileIdSource(provider=provider, file_id="f")


MEDIA: dict[str, tuple[str, dict[str, Any], list[Image | Document]]] = {
    "a generated picture": (
        "openai_responses",
        {"type": "image_generation_call", "result": PIXEL},
        [PICTURE],
    ),
    "a generated picture that says its format": (
        "openai_responses",
        {"type": "image_generation_call", "result": "QUJD", "output_format": "webp"},
        [Image(source=inline("image/webp"))],
    ),
    "a picture that was not generated": (
        "openai_responses",
        {"type": "image_generation_call", "result": None},
        [],
    ),
    "a screenshot": (
        "openai_responses",
        {
            "type": "computer_call_output",
            "output": {
                "type": "computer_screenshot",
                "image_url": f"data:image/png;base64,{PIXEL}",
            },
        },
        [PICTURE],
    ),
    "a picture by its id": (
        "openai_responses",
        {"type": "input_image", "file_id": "f"},
        [Image(source=file_of("openai_responses"))],
    ),
    "a picture without a place": ("openai_responses", {"type": "input_image"}, []),
    "pictures that code made": (
        "openai_responses",
        {
            "type": "code_interpreter_call",
            "outputs": [
                {"type": "logs", "logs": "x"},
                {"type": "image", "url": FAR},
                {"type": "image", "url": f"{FAR}2"},
            ],
        },
        [Image(source=UrlSource(url=FAR)), Image(source=UrlSource(url=f"{FAR}2"))],
    ),
    "a file at an address": (
        "openai_responses",
        {"type": "input_file", "file_url": FAR, "filename": "a"},
        [Document(source=UrlSource(url=FAR), title="a")],
    ),
    "a file without a place": ("openai_responses", {"type": "input_file"}, []),
    "a file's bytes": (
        "openai_chat",
        {"type": "file", "file": {"file_data": "QUJD"}},
        [Document(source=inline(""))],
    ),
    "a picture of Chat": (
        "openai_chat",
        {"type": "image_url", "image_url": {"url": FAR}},
        [Image(source=UrlSource(url=FAR))],
    ),
    "a recording of Chat": (
        "openai_chat",
        {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}},
        [Document(source=inline("audio/mp3"))],
    ),
    "a recording without bytes": ("openai_chat", {"type": "input_audio"}, []),
    "a film": (
        "openai_chat",
        {"type": "video_url", "video_url": {"url": "https://x/v"}},
        [Document(source=UrlSource(url="https://x/v", media_type="video/mp4"))],
    ),
    "a file that another server fetches": (
        "openai_chat",
        {"type": "file_url", "file_url": {"url": FAR}},
        [Document(source=UrlSource(url=FAR))],
    ),
    "a film without an address": ("openai_chat", {"type": "video_url"}, []),
    "pictures in a document of blocks": (
        "anthropic",
        {
            "type": "document",
            "source": {
                "type": "content",
                "content": [
                    {"type": "text", "text": "a"},
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
                    },
                ],
            },
        },
        [PICTURE],
    ),
    "a document at an address": (
        "anthropic",
        {"type": "document", "title": "T", "source": {"type": "url", "url": FAR}},
        [Document(source=UrlSource(url=FAR), title="T")],
    ),
    "an uploaded picture": (
        "anthropic",
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        [Image(source=file_of("anthropic"))],
    ),
    "what code wrote": (
        "anthropic",
        {
            "type": "code_execution_tool_result",
            "content": {"content": [{"type": "code_execution_output", "file_id": "f"}]},
        },
        [Document(source=file_of("anthropic"))],
    ),
    "bytes of Gemini": (
        "gemini",
        {"inline_data": {"mime_type": "image/png", "data": PIXEL}, "thought_signature": "c2ln"},
        [PICTURE],
    ),
    "a recording of Gemini": (
        "gemini",
        {"inlineData": {"mimeType": "audio/wav", "data": "QUJD"}},
        [Document(source=inline("audio/wav"))],
    ),
    "a file in Google's storage": (
        "gemini",
        {"fileData": {"fileUri": "gs://b/x.pdf", "mimeType": "application/pdf"}},
        [Document(source=UrlSource(url="gs://b/x.pdf", media_type="application/pdf"))],
    ),
    "a type that is no name": ("anthropic", {"type": 3, "source": [1]}, []),
}


@pytest.mark.parametrize(("provider", "block", "media"), MEDIA.values(), ids=MEDIA.keys())
def test_media_are_found_wherever_they_stand(
    provider: str, block: dict[str, Any], media: list[Image | Document]
) -> None:
    assert list(media_in(Opaque(provider=provider, block=block))) == media


GENERATED: dict[str, Any] = {"type": "image_generation_call", "result": PIXEL}
UNFOLDED: dict[str, tuple[dict[str, Any], str, tuple[ResultPart, ...]]] = {
    "a text": ({"type": "x"}, "said", (Text("said"),)),
    "a name alone": ({"type": "x"}, "[x]", (Text("[x]"),)),
    "a name beside media": (GENERATED, "[image_generation_call]", (PICTURE,)),
    "a text beside media": (GENERATED, "[drawn: a cat]", (Text("[drawn: a cat]"), PICTURE)),
    "media alone": (GENERATED, " ", (PICTURE,)),
    "neither": ({"type": "x"}, "", ()),
}


@pytest.mark.parametrize(("block", "text", "parts"), UNFOLDED.values(), ids=UNFOLDED.keys())
def test_a_block_is_its_text_and_the_media_in_it(
    block: dict[str, Any], text: str, parts: tuple[ResultPart, ...]
) -> None:
    assert unfold(Opaque(provider="openai_responses", block=block, text=text)) == parts


def test_a_label_names_and_says_nothing() -> None:
    assert is_label("[image/png]")
    assert not is_label("[web_search_call: cats]")
    assert not is_label("image")


def test_what_is_nested_without_end_is_no_trouble() -> None:
    deep: Any = GENERATED
    for _ in range(5_000):
        deep = {"content": [deep]}

    assert list(media_in(Opaque(provider="openai_responses", block=deep))) == [PICTURE]
