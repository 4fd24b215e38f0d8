"""An image is sent within a provider's limits whatever else is sent, and what was done is told."""

import base64
import sys
from dataclasses import replace
from typing import Any

import pytest

from context_assembler.providers import PROVIDERS
from context_assembler.tokens.images import count_image
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.media.image_fitting import FittedImage, fit_image
from context_assembler.values.media.image_sizes import measure_base64
from context_assembler.values.media.media_rules import MediaRules
from context_assembler.values.messages import Message
from context_assembler.values.parts import Base64Source, Image, Text, UrlSource
from context_assembler.values.report import ReportEntry
from tests.providers.drafts import (
    GEMINI_4,
    GPT_4O,
    GPT_6_SOL,
    HAIKU_45,
    OPUS,
    assistant,
    call,
    draft,
    result,
    results,
    user,
)
from tests.values.test_image_scaling import drawn, encode, moving, noise

RULES = MediaRules(
    api="it", file_owner="it", image_types=("image/png", "image/jpeg"), image_words="PNG"
)
MODELS: dict[str, tuple[str, ModelLimits]] = {
    "anthropic": ("anthropic", OPUS),
    "anthropic's older": ("anthropic", HAIKU_45),
    "openai_chat": ("openai_chat", GPT_4O),
    "openai_responses": ("openai_responses", GPT_6_SOL),
    "gemini": ("gemini", GEMINI_4),
    "vertex": ("gemini", replace(GEMINI_4, host="vertex_ai")),
}
every_model = pytest.mark.parametrize(("provider", "limits"), MODELS.values(), ids=MODELS.keys())


def image(content: bytes, media_type: str = "image/png", **fields: Any) -> Image:
    data = base64.b64encode(content).decode()
    return Image(source=Base64Source(media_type=media_type, data=data), **fields)


PHOTO = image(encode(drawn(size=(2_400, 1_200)), "JPEG"), "image/jpeg")
BITMAP = image(encode(drawn(), "BMP"), "image/bmp")
MOVING = image(moving("GIF"), "image/gif")


def adapted(provider: str, *talk: Message, limits: ModelLimits) -> tuple[Draft, list[ReportEntry]]:
    """Return the draft and the rows; adapting twice changes nothing more."""
    made, rows = PROVIDERS[provider].adapt(draft(talk, limits=limits, tools=()))
    assert PROVIDERS[provider].adapt(made) == (made, ())
    return made, list(rows)


def images_in(made: Draft) -> list[Image]:
    parts = [part for message in made.messages for part in message.parts]
    inner = [one for part in parts for one in getattr(part, "content", (part,))]
    return [one for one in inner if isinstance(one, Image)]


@every_model
def test_a_format_that_is_not_taken_is_sent_in_another(provider: str, limits: ModelLimits) -> None:
    made, [row] = adapted(provider, user(BITMAP, id="m"), limits=limits)

    [sent] = images_in(made)
    assert isinstance(sent.source, Base64Source)
    assert (sent.source.media_type, sent.width_px, sent.height_px) == ("image/png", 400, 100)
    assert (row.id, row.decision, row.rule) == ("m", "shortened", "image.recoded")
    assert row.reason.startswith("An image of 400 × 100 pixels and 120,054 bytes is sent as PNG")


@every_model
def test_an_image_in_a_result_is_scaled_as_well(provider: str, limits: ModelLimits) -> None:
    made, rows = adapted(
        provider, user("go"), assistant(call("c1")), results(result("c1", BITMAP)), limits=limits
    )

    assert len(images_in(made)) == 1
    assert [row.rule for row in rows] == ["image.recoded"]


def test_a_large_image_is_scaled_for_anthropic_beside_none_or_many() -> None:
    alone, [row] = adapted("anthropic", user(PHOTO, "what is it?"), limits=OPUS)
    crowded, _ = adapted("anthropic", user(PHOTO, "what is it?"), user(*[PHOTO] * 40), limits=OPUS)

    [sent] = images_in(alone)
    assert isinstance(sent.source, Base64Source)
    assert (sent.width_px, sent.height_px) == measure_base64(sent.source.data) == (2_000, 1_000)
    assert row.rule == "image.scaled"
    assert "2,400 × 1,200 pixels" in row.reason
    assert "2,000 × 1,000 pixels" in row.reason
    assert crowded.messages[0] == alone.messages[0]
    assert len(images_in(crowded)) == 41


def test_the_tokens_are_those_of_the_scaled_image() -> None:
    made, _ = adapted("anthropic", user(replace(PHOTO, width_px=9, height_px=9)), limits=OPUS)

    [sent] = images_in(made)

    assert count_image(sent, rule="claude-4784") == 72 * 36  # patches of 28 pixels


def test_thirty_megabytes_reach_every_provider() -> None:
    heavy = image(encode(noise((4_000, 2_600)), "BMP"), "image/bmp")

    for provider, limits in MODELS.values():
        made, [row] = adapted(provider, user(heavy), limits=limits)

        [sent] = images_in(made)
        assert isinstance(sent.source, Base64Source)
        assert len(sent.source.data) < 10_000_000
        assert "31,200,054 bytes" in row.reason


def test_a_server_that_is_not_told_of_movement_gets_the_first_frame() -> None:
    made, [row] = adapted("openai_chat", user(MOVING), limits=GPT_4O)

    assert len(images_in(made)) == 1
    assert row.rule == "image.recoded"
    assert row.reason.endswith("its first frame alone.")
    assert adapted("anthropic", user(MOVING), limits=OPUS)[1] == []


def test_a_picture_that_stands_still_stays_a_gif() -> None:
    still = image(encode(drawn("P", (40, 30)), "GIF"), "image/gif")

    made, rows = adapted("openai_chat", user(still), limits=GPT_4O)

    assert (images_in(made), rows) == ([still], [])


BROKEN: dict[str, tuple[Image, str]] = {
    "no base64": (
        Image(source=Base64Source(media_type="image/bmp", data="not base64!")),
        "its text is no base64",
    ),
    "no picture": (image(b"<svg/>", "image/svg+xml"), "its bytes cannot be read as a picture"),
    "text that says it is a picture": (image(b"hello", "image/png"), "its bytes are no image/png"),
}


@pytest.mark.parametrize(("broken", "reason"), BROKEN.values(), ids=BROKEN.keys())
@every_model
def test_what_is_no_picture_is_left_out_and_told(
    provider: str, limits: ModelLimits, broken: Image, reason: str
) -> None:
    made, [row] = adapted(provider, user(broken, "and?"), limits=limits)

    [line, _] = made.messages[0].parts
    assert isinstance(line, Text)
    assert line.text.startswith("[image left out: image/")
    assert (row.decision, row.rule) == ("shortened", "media.type")
    assert reason in row.reason


def test_too_much_to_unpack_is_left_out() -> None:
    rules = replace(RULES, fit_image_chars=100, max_image_chars=100)
    huge = Image(source=Base64Source(media_type="image/png", data="A" * (256 * 1024 * 1024 + 4)))

    assert fit_image(huge, rules=rules) == (
        "its 268,435,460 characters of base64 are too many to unpack"
    )


def test_what_cannot_be_scaled_but_is_taken_goes_as_it_is() -> None:
    cut = image(encode(noise((2_400, 300)), "PNG")[:5_000])

    made, rows = adapted("anthropic", user(cut), limits=OPUS)

    assert (images_in(made), rows) == ([cut], [])


def test_an_image_at_an_address_is_not_looked_into() -> None:
    assert fit_image(Image(source=UrlSource(url="https://x/y.bmp")), rules=RULES) is None


def test_a_picture_that_fits_is_not_read() -> None:
    assert fit_image(image(b"\x89PNG\r\n\x1a\n and nothing more"), rules=RULES) is None


def test_the_same_image_is_scaled_once_and_again_for_other_rules() -> None:
    once, again = fit_image(BITMAP, rules=RULES), fit_image(BITMAP, rules=RULES)
    smaller = fit_image(BITMAP, rules=replace(RULES, fit_side_px=100))

    assert isinstance(once, FittedImage)
    assert isinstance(again, FittedImage)
    assert isinstance(smaller, FittedImage)
    assert again.image.source is once.image.source
    assert (once.is_smaller, smaller.is_smaller) == (False, True)


def test_without_pillow_the_limits_hold_and_the_report_says_what_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)

    made, [row] = adapted("anthropic", user(BITMAP), user(PHOTO), limits=OPUS)

    line = Text("[image left out: image/bmp; only JPEG, PNG, GIF and WebP are taken]")
    assert made.messages[0].parts == (line,)
    assert made.messages[1].parts == (PHOTO,)
    assert "pip install 'context-assembler[images]'" in row.reason
