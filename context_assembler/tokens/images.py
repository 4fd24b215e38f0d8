"""What images cost, by their size in pixels."""

from collections.abc import Callable, Mapping
from functools import partial
from math import ceil
from typing import Final, TypeAlias

from context_assembler.values.image_sizes import Size, measure_image
from context_assembler.values.parts import Image

ImageRule: TypeAlias = Callable[[Size, str | None], int]

# What an image is taken for whose size nobody knows: a screenshot of a full-HD screen.
ASSUMED_SIZE_PX: Final[Size] = (1920, 1080)
FLAT_TOKENS: Final = 1_600


def count_image(image: Image, *, rule: str = "") -> int:
    """Return the tokens of an image, never those of its base64 text.

    Args:
        rule: A row of `IMAGE_RULES`; any other name counts `FLAT_TOKENS`.
    """
    count = IMAGE_RULES.get(rule)
    if count is None:
        return FLAT_TOKENS
    return count(measure_image(image) or ASSUMED_SIZE_PX, image.detail)


def _claude(size: Size, _detail: str | None, *, long_edge_px: int, max_tokens: int) -> int:
    """Count 28-pixel patches after scaling down to the tier's edge and token limits.

    Source:
        https://platform.claude.com/docs/en/build-with-claude/vision (read 2026-11-27)
    """
    long, short = max(size), min(size)
    long_px = min(long, long_edge_px)
    columns = ceil(long_px / 28)
    tokens = columns * ceil(max(1, short * long_px / long) / 28)
    while tokens > max_tokens:
        columns -= 1
        tokens = columns * ceil(max(1, short * columns * 28 / long) / 28)
    return tokens


def _openai_tiles(size: Size, detail: str | None, *, base: int, per_tile: int) -> int:
    """Count 512-pixel tiles after fitting into 2048 squared, then a short side of 768.

    Source:
        https://platform.openai.com/docs/guides/images-vision (copies read 2026-11-27)
    """
    if detail == "low":
        return base
    long, short = (float(side) for side in (max(size), min(size)))
    scale = min(1.0, 2048 / long, 768 / short)
    scale = min(scale, 2048 / long)
    return base + per_tile * ceil(long * scale / 512) * max(1, ceil(short * scale / 512))


def _openai_patches(
    size: Size, detail: str | None, *, factor: float, max_patches: int, max_low: int = 256
) -> int:
    """Count 32-pixel patches, capped, times the model's factor.

    Source:
        https://platform.openai.com/docs/guides/images-vision (copies read 2026-11-27); the factor
        of GPT-5.5 and later is fitted on a public table of measurements, exactly.
    """
    patches = ceil(size[0] / 32) * ceil(size[1] / 32)
    cap = max_low if detail == "low" else max_patches
    return ceil(factor * min(patches, cap))


def _gemini_tiles(size: Size, _detail: str | None) -> int:
    """Count 768-pixel tiles of 258 tokens; a small image is one.

    Source:
        https://ai.google.dev/gemini-api/docs/tokens (read 2026-11-27)
    """
    if max(size) <= 384:
        return 258
    return 258 * ceil(size[0] / 768) * ceil(size[1] / 768)


def _gemini_flat(_size: Size, detail: str | None) -> int:
    """Count what `media_resolution` grants: high by default, less for detail `low`.

    Source:
        https://ai.google.dev/gemini-api/docs/media-resolution (copies read 2026-11-27)
    """
    return 280 if detail == "low" else 1_120


IMAGE_RULES: Final[Mapping[str, ImageRule]] = {
    "claude-1568": partial(_claude, long_edge_px=1568, max_tokens=1568),
    "claude-4784": partial(_claude, long_edge_px=2576, max_tokens=4784),
    "openai-tiles-85-170": partial(_openai_tiles, base=85, per_tile=170),
    "openai-tiles-75-150": partial(_openai_tiles, base=75, per_tile=150),
    "openai-tiles-70-140": partial(_openai_tiles, base=70, per_tile=140),
    "openai-tiles-2833-5667": partial(_openai_tiles, base=2833, per_tile=5667),
    "openai-patches-1.62": partial(_openai_patches, factor=1.62, max_patches=1_536),
    "openai-patches-1.72": partial(_openai_patches, factor=1.72, max_patches=1_536),
    "openai-patches-2.46": partial(_openai_patches, factor=2.46, max_patches=1_536),
    "openai-patches-1.2-high": partial(_openai_patches, factor=1.2, max_patches=2_500),
    "openai-patches-1.2": partial(_openai_patches, factor=1.2, max_patches=10_000),
    "gemini-258": _gemini_tiles,
    "gemini-1120": _gemini_flat,
}
