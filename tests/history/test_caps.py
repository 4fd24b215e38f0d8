"""An entry longer than it may be is shortened when it is first sent, each by itself."""

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import PIL.Image
import pytest

from context_assembler import Image, Text
from context_assembler.events import (
    ASSISTANT,
    COMPACTION,
    PINNED,
    TOOL_RESULT,
    USER,
    Base64Source,
    UrlSource,
    to_json,
)
from context_assembler.history import Caps
from context_assembler.options import TruncationSettings
from tests.history.talk import result, text_of

CAPS = {
    "max_result_tokens": 50,
    "max_result_tokens_by_tool": {"read_log": 20, "web.*": 30},
    "max_user_tokens": 40,
}
LONG = "\n".join(f"line {number}" for number in range(100))
PICTURE = Image(source=UrlSource(url="https://example.com/a.png"))


def count_words(text: str) -> int:
    return len(text.split())


def fitted(
    kind: int, *parts: Any, caps: Mapping[str, Any] = CAPS, tool: str = ""
) -> tuple[Sequence[Any], str]:
    """Return the parts within their caps, and what was done; the same object if nothing was."""
    made = Caps(TruncationSettings(**caps), count_words)
    stored = to_json(parts)
    if not made.candidates([kind], [10**6]):
        return stored, ""
    after, done = made.fit(kind, stored, tool_of=lambda _: tool)
    assert (after is stored) == (done == [])
    return after, " ".join(reason for _, _, reason in done)


@pytest.mark.parametrize(
    ("tool", "cap_tokens"), [("read_log", 20), ("web.fetch", 30), ("other", 50), (None, 50)]
)
def test_each_tool_has_its_cap(tool: str | None, cap_tokens: int) -> None:
    [part], said = fitted(TOOL_RESULT, result("c1", LONG, tool_name=tool))

    text = text_of(part["content"])
    assert cap_tokens * 0.5 < count_words(text) <= cap_tokens
    assert "shortened: 200 tokens in full" in text
    assert (text[:7], text[-7:]) == ("line 0\n", "line 99")
    assert said


def test_a_result_that_names_no_tool_belongs_to_the_tool_of_its_call() -> None:
    [part], _ = fitted(TOOL_RESULT, result("c1", LONG), tool="read_log")

    assert count_words(text_of(part["content"])) <= 20


WHOLE: dict[str, tuple[int, Any]] = {
    "a short text": (USER, Text("short")),
    "what is pinned": (USER | PINNED, Text(LONG)),
    "a summary": (COMPACTION, Text(LONG)),
    "a reply": (ASSISTANT, Text(LONG)),
    "a result within its cap": (TOOL_RESULT, result("c1", "word " * 30)),
    "what was signed": (USER, Text(LONG, signature="s")),
}


@pytest.mark.parametrize(("kind", "part"), WHOLE.values(), ids=WHOLE.keys())
def test_what_is_within_its_cap_or_has_none_stays(kind: int, part: Any) -> None:
    assert fitted(kind, part) == ([to_json(part)], "")
    assert fitted(kind, part, caps={"max_result_tokens": None}) == ([to_json(part)], "")


def test_several_texts_share_a_cap_and_pictures_stay() -> None:
    held = result("c1")
    content = (Text("first " * 30), PICTURE, Text(LONG), Text(LONG))

    [part], _ = fitted(TOOL_RESULT, type(held)(call_id="c1", content=content))

    assert part["content"][:2] == to_json(content[:2])
    assert "in full" in part["content"][2]["text"]


# ---- pictures ----


def picture_of(size: tuple[int, int], media_type: str = "image/png") -> Image:
    encoded = BytesIO()
    PIL.Image.new("RGB", size, "teal").save(encoded, media_type.removeprefix("image/").upper())
    data = base64.b64encode(encoded.getvalue()).decode()
    return Image(source=Base64Source(media_type=media_type, data=data))


SMALL = {"max_image_side_px": 200, "max_result_tokens": None}


@pytest.mark.parametrize("media_type", ["image/png", "image/jpeg", "image/webp", "image/gif"])
def test_a_large_picture_is_scaled_wherever_it_stands_and_always_alike(media_type: str) -> None:
    picture = picture_of((640, 320), media_type)
    returned = type(result("c1"))(call_id="c1", content=(picture,))

    [_, seen], said = fitted(USER, Text("See."), picture, caps=SMALL)
    [part], again = fitted(TOOL_RESULT, returned, caps=SMALL)

    assert (seen["width_px"], seen["height_px"]) == (200, 100)
    assert part["content"] == [seen]
    assert "640 × 320 pixels" in said
    assert again == said
    assert fitted(USER, picture, caps=SMALL)[0] == [seen]


BROKEN = Image(source=Base64Source(media_type="image/png", data="no base64"))


@pytest.mark.parametrize("picture", [picture_of((200, 10)), PICTURE, BROKEN])
def test_a_picture_within_the_cap_or_at_an_address_or_unreadable_stays(picture: Image) -> None:
    assert fitted(USER, picture, caps=SMALL) == ([to_json(picture)], "")
