import base64
from typing import Literal, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.tokens.images import (
    FLAT_TOKENS,
    IMAGE_RULES,
    count_image,
)
from context_assembler.values.media.image_sizes import measure_image
from context_assembler.values.parts import Base64Source, FileIdSource, Image, UrlSource

Detail: TypeAlias = Literal["low", "high", "auto", "original"]


# (rule, width, height, detail) → tokens
COSTS: dict[tuple[str, int, int, Detail | None], int] = {
    ("claude-1568", 1000, 1000, None): 1296,
    ("claude-1568", 1920, 1080, None): 1560,
    ("claude-1568", 1080, 1920, None): 1560,
    ("claude-1568", 3840, 2160, None): 1560,
    ("claude-4784", 1000, 1000, None): 1296,
    ("claude-4784", 1920, 1080, None): 2691,
    ("claude-4784", 3840, 2160, None): 4784,
    ("claude-4784", 1, 1, None): 1,
    ("claude-4784", 100_000, 1, None): 92,
    ("openai-tiles-85-170", 1024, 1024, "high"): 765,
    ("openai-tiles-85-170", 2048, 4096, None): 1105,
    ("openai-tiles-85-170", 4096, 8192, "low"): 85,
    ("openai-tiles-85-170", 10, 10, "auto"): 255,
    ("openai-tiles-2833-5667", 512, 512, "low"): 2833,
    ("openai-patches-1.62", 1024, 1024, None): 1659,
    ("openai-patches-1.62", 1800, 2400, None): 2353,
    ("openai-patches-1.2", 1024, 1024, None): 1229,
    ("openai-patches-1.2", 8000, 8000, None): 12_000,
    ("openai-patches-1.2-high", 8000, 8000, None): 3_000,
    ("openai-patches-1.2", 8000, 8000, "low"): 308,
    ("openai-patches-1.2", 8000, 8000, "high"): 3_000,
    ("openai-patches-1.2", 2560, 1440, "auto"): 4_320,
    ("openai-patches-1.2-uncapped", 8000, 8000, None): 75_000,
    ("openai-patches-1.62", 1, 100_000, None): 2489,
    ("openai-patches-1.62", 1800, 2400, "low"): 415,
    ("gemini-258", 384, 384, None): 258,
    ("gemini-258", 640, 480, None): 1290,  # as charged
    ("gemini-258", 1000, 700, None): 258 * (1 + 3 * 2),
    ("gemini-258", 4000, 300, None): 258 * (1 + 16 * 2),
    ("gemini-1120", 4000, 3000, None): 1120,
    ("gemini-1120", 4000, 3000, "low"): 1120,
    ("", 4000, 3000, None): FLAT_TOKENS,
}


@pytest.mark.parametrize(
    "image",
    [
        Image(source=UrlSource(url="https://example.org/a.png")),
        Image(source=FileIdSource(provider="anthropic", file_id="file_1")),
        Image(source=Base64Source(media_type="image/png", data="not base64!")),
        Image(source=Base64Source(media_type="image/png", data="=é=")),
    ],
)
def test_an_image_nobody_can_measure_counts_as_the_dearest(image: Image) -> None:
    assert measure_image(image) is None
    assert count_image(image, rule="claude-4784") == 4784
    assert count_image(image, rule="claude-1568") == 1568
    assert count_image(image, rule="openai-tiles-85-170") == 85 + 8 * 170
    assert count_image(image) == FLAT_TOKENS


def test_what_the_bytes_say_of_its_size_wins_over_what_is_stated() -> None:
    header = (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (1920).to_bytes(4, "big") + (1080).to_bytes(4, "big")
    )
    data = base64.b64encode(header + b"\x08\x06\0\0\0").decode()
    source = Base64Source(media_type="image/png", data=data)
    liar = Image(source=source, width_px=1, height_px=1)

    assert count_image(liar, rule="claude-4784") == 2691


def test_an_image_whose_bytes_say_nothing_is_as_large_as_stated() -> None:
    source = Base64Source(media_type="image/avif", data="AAAA")
    image = Image(source=source, width_px=1920, height_px=1080)

    assert count_image(image, rule="claude-4784") == 2691


@pytest.mark.parametrize(("case", "tokens"), COSTS.items())
def test_an_image_costs_by_its_size(case: tuple[str, int, int, Detail | None], tokens: int) -> None:
    rule, width, height, detail = case
    source = UrlSource(url="https://example.org/a.png")

    image = Image(source=source, width_px=width, height_px=height, detail=detail)

    assert count_image(image, rule=rule) == tokens


@given(
    rule=st.sampled_from(sorted(IMAGE_RULES)),
    width=st.integers(1, 20_000),
    height=st.integers(1, 20_000),
)
def test_no_image_costs_more_than_its_rule_allows(rule: str, width: int, height: int) -> None:
    tokens = IMAGE_RULES[rule]((width, height), None)

    assert tokens > 0
    if rule.startswith("claude"):
        assert tokens <= int(rule.removeprefix("claude-"))
