"""What images cost, by their size in pixels."""

from collections.abc import Callable, Mapping
from functools import partial
from math import ceil, floor, sqrt
from typing import Final, TypeAlias

from context_assembler.values.media.image_sizes import Size, measure_base64, measure_image
from context_assembler.values.parts import Base64Source, Image

ImageRule: TypeAlias = Callable[[Size, str | None], int]

_SCALED_PATCHES: Final = 1_536
_HIGH_PATCHES: Final = 2_500
_LOW_PATCHES: Final = 256

# What an image may be whose size nobody knows. It counts as the dearest of these does.
UNKNOWN_SIZES_PX: Final[tuple[Size, ...]] = (
    *((3840, 2160), (4096, 2048), (2048, 2048)),
    *((2048, 768), (768, 2048), (2160, 3840)),
)
FLAT_TOKENS: Final = 1_600


def count_image(image: Image, *, rule: str = "") -> int:
    """Return the tokens of an image, never those of its base64 text.

    What the bytes say of its size wins over what is stated. Of an image elsewhere whose size is not
    stated, or that has none to be read, the worst is assumed: a 4K picture of the dearest shape.

    Args:
        rule: A row of `IMAGE_RULES`; any other name counts `FLAT_TOKENS`.
    """
    count = IMAGE_RULES.get(rule)
    if count is None:
        return FLAT_TOKENS
    size = _true_size(image)
    if size is not None:
        return count(size, image.detail)
    return max(count(possible, image.detail) for possible in UNKNOWN_SIZES_PX)


def _true_size(image: Image) -> Size | None:
    read = measure_base64(image.source.data) if isinstance(image.source, Base64Source) else None
    return read or measure_image(image)


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


def _openai_scaled_patches(size: Size, detail: str | None, *, factor: float) -> int:
    """Count 32-pixel patches times the model's factor; what has over 1,536 is scaled to have less.

    Source:
        https://platform.openai.com/docs/guides/images-vision (copies read 2026-11-27)
    """
    width, height = size
    patches = ceil(width / 32) * ceil(height / 32)
    if patches > _SCALED_PATCHES:
        shrink = sqrt(32 * 32 * _SCALED_PATCHES / (width * height))
        columns, rows = width * shrink / 32, height * shrink / 32
        # Scaled once more, so that one side is a whole number of patches.
        shrink *= min(max(1, floor(columns)) / columns, max(1, floor(rows)) / rows)
        patches = ceil(round(width * shrink) / 32) * ceil(round(height * shrink) / 32)
    cap = _LOW_PATCHES if detail == "low" else _SCALED_PATCHES
    return ceil(factor * min(max(1, patches), cap))


def _openai_patches(
    size: Size, detail: str | None, *, factor: float, max_patches: int | None
) -> int:
    """Count 32-pixel patches, capped, times the model's factor.

    Source:
        Fitted on a public table of measurements (GPT-5.5 and later), exactly: detail `high` has no
        more than 2,500 patches, `auto` and `original` of GPT-5.5 no more than 10,000.
        https://huggingface.co/datasets/JOHNISKING/image-token-cost (read 2026-11-27)
    """
    patches = ceil(size[0] / 32) * ceil(size[1] / 32)
    cap = {"low": _LOW_PATCHES, "high": _HIGH_PATCHES}.get(detail or "", max_patches)
    return ceil(factor * (patches if cap is None else min(patches, cap)))


def _gemini_tiles(size: Size, _detail: str | None) -> int:
    """Count tiles of 258 tokens, of two thirds of the short side but 256 to 768 pixels, and a whole.

    A small image is one tile.

    Source:
        https://ai.google.dev/gemini-api/docs/tokens (read 2026-11-27), which has tiles of 768 pixels
        alone; a recorded image of 640 by 480 was charged 5 tiles.
    """
    if max(size) <= 384:
        return 258
    tile_px = min(768, max(256, floor(min(size) / 1.5)))
    return 258 * (1 + ceil(size[0] / tile_px) * ceil(size[1] / tile_px))


def _gemini_flat(_size: Size, _detail: str | None) -> int:
    """Count what `media_resolution` grants by default, high: no other is asked for.

    Source:
        https://ai.google.dev/gemini-api/docs/media-resolution (copies read 2026-11-27)
    """
    return 1_120


IMAGE_RULES: Final[Mapping[str, ImageRule]] = {
    "claude-1568": partial(_claude, long_edge_px=1568, max_tokens=1568),
    "claude-4784": partial(_claude, long_edge_px=2576, max_tokens=4784),
    "openai-tiles-85-170": partial(_openai_tiles, base=85, per_tile=170),
    "openai-tiles-75-150": partial(_openai_tiles, base=75, per_tile=150),
    "openai-tiles-70-140": partial(_openai_tiles, base=70, per_tile=140),
    "openai-tiles-2833-5667": partial(_openai_tiles, base=2833, per_tile=5667),
    "openai-patches-1.62": partial(_openai_scaled_patches, factor=1.62),
    "openai-patches-1.72": partial(_openai_scaled_patches, factor=1.72),
    "openai-patches-2.46": partial(_openai_scaled_patches, factor=2.46),
    "openai-patches-1.2-high": partial(_openai_patches, factor=1.2, max_patches=2_500),
    "openai-patches-1.2-uncapped": partial(_openai_patches, factor=1.2, max_patches=None),
    "openai-patches-1.2": partial(_openai_patches, factor=1.2, max_patches=10_000),
    "gemini-258": _gemini_tiles,
    "gemini-1120": _gemini_flat,
}
