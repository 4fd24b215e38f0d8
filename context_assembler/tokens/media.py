"""What images, documents and encrypted text cost, by their size."""

import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import ceil, floor, sqrt
from typing import Final, TypeAlias

from context_assembler.events import JsonObject
from context_assembler.tokens.definitions import words_of

Size: TypeAlias = tuple[int, int]
ImageRule: TypeAlias = Callable[[Size, str | None], int]

_SCALED_PATCHES: Final = 1_536
_HIGH_PATCHES: Final = 2_500
_LOW_PATCHES: Final = 256
# What an image may be whose size nobody knows.
_SIZES: Final = ((3840, 2160), (4096, 2048), (2048, 2048), (2048, 768), (768, 2048), (2160, 3840))


# ---- images ----


def count_image(image: JsonObject, *, rule: str = "") -> int:
    """Return the tokens of an image part, never those of its base64 text.

    What the bytes say of its size wins over what is stated. If neither does, the worst is assumed: a
    4K picture of the dearest shape.

    Args:
        rule: A key of `IMAGE_RULES`; any other counts a flat figure.
    """
    count, source, detail = IMAGE_RULES.get(rule), image["source"], image.get("detail")
    if count is None:
        return 1_600  # a flat figure
    size = None
    if source["type"] == "base64":
        from context_assembler.providers.media import measure_base64

        size = measure_base64(source["data"])
    if size is None and image.get("width_px") and image.get("height_px"):
        size = image["width_px"], image["height_px"]
    sizes = _SIZES if size is None else (size,)
    return max(count(possible, detail) for possible in sizes)


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
    long, short = max(size), min(size)
    scale = min(1.0, 2048 / long, 768 / short)
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


def _openai_patches(size: Size, detail: str | None, *, factor: float, max_patches: int) -> int:
    """Count 32-pixel patches, capped, times the model's factor.

    Source:
        Fitted on a public table of measurements (GPT-5.5 and later), exactly: detail `high` has no
        more than 2,500 patches, `auto` and `original` of GPT-5.5 no more than 10,000.
        https://huggingface.co/datasets/JOHNISKING/image-token-cost (read 2026-11-27)
    """
    patches = ceil(size[0] / 32) * ceil(size[1] / 32)
    cap = {"low": _LOW_PATCHES, "high": _HIGH_PATCHES}.get(detail or "", max_patches)
    return ceil(factor * min(patches, cap))


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
    "openai-patches-1.2": partial(_openai_patches, factor=1.2, max_patches=10_000),
    "gemini-258": _gemini_tiles,
    # What `media_resolution` grants by default, high: no other is asked for.
    # Source: https://ai.google.dev/gemini-api/docs/media-resolution (copies read 2026-11-27)
    "gemini-1120": lambda _size, _detail: 1_120,
}


# ---- documents ----

# A page is sent as a picture and as its text.
# Source: https://platform.claude.com/docs/en/build-with-claude/pdf-support (1,500 to 3,000 per
# page), https://ai.google.dev/gemini-api/docs/document-processing (read 2026-11-27)
_PAGE_TOKENS: Final[Mapping[str, int]] = {"anthropic": 3_000, "google": 560}
_OTHER_PAGE_TOKENS: Final = 2_000
_PICTURE_TOKENS: Final = 1_568  # of a page for Claude, whose text is known to be short
_CHARS_PER_PAGE: Final = 50_000  # of base64
_BYTES_PER_TOKEN: Final = 3  # of an unpacked PDF, of which text is a part
_MOST_PAGES: Final = 100_000  # more is no statement about pages, and no column holds its tokens
_PACKED_OBJECTS: Final = rb"/Type\s*/ObjStm\b[^\0]{0,400}?\bstream\r?\n"


def count_document(document: JsonObject, *, provider: str, image_rule: str = "") -> int:
    """Return the tokens of a document's pages; fewer if a PDF shows that it says little."""
    from context_assembler.providers.media import decode_base64

    source = document["source"]
    is_inline = source["type"] == "base64"
    content = decode_base64(source["data"]) if is_inline else b""
    is_pdf = b"%PDF" in content[:1_024]
    # What the PDF says wins; what claims to be one and cannot be read is guessed by its size.
    pages = sum(map(_pages_in, (content, *_unpacked(content)))) if is_pdf else 0
    guess = 1 + len(source["data"]) // _CHARS_PER_PAGE if is_inline else 10
    pages = min(max(1, pages or document.get("page_count") or guess), _MOST_PAGES)
    each = 258 if image_rule == "gemini-258" else _PAGE_TOKENS.get(provider, _OTHER_PAGE_TOKENS)
    if provider == "anthropic" and is_pdf and b"/Filter" not in content:  # nothing is packed
        return min(pages * each, pages * _PICTURE_TOKENS + len(content) // _BYTES_PER_TOKEN)
    return pages * each


def _pages_in(content: bytes) -> int:
    """Return the page objects, or the largest count next to a page tree; outlines have counts too."""
    trees = (tree.span() for tree in re.finditer(rb"/Type\s*/Pages(?![a-zA-Z])", content))
    near = (content[max(0, start - 400) : end + 400] for start, end in trees)
    stated = (int(count) for text in near for count in re.findall(rb"/Count\s+(\d{1,5})", text))
    return max(len(re.findall(rb"/Type\s*/Page(?![a-zA-Z])", content)), *stated, 0)


def _unpacked(content: bytes) -> Iterator[bytes]:
    """Yield the packed objects of a PDF, within bounds: since PDF 1.5 pages may be among them."""
    left_bytes = 8_388_608
    for found in re.finditer(_PACKED_OBJECTS, content):
        end = content.find(b"endstream", found.end())
        try:
            piece = zlib.decompressobj().decompress(content[found.end() : end], left_bytes)
        except zlib.error:
            continue
        left_bytes -= len(piece)
        yield piece
        if left_bytes <= 0:
            return


# ---- encrypted reasoning, signatures, results ----

_CHARS_PER_TOKEN: Final = 5  # base64 of encrypted reasoning, per token of that reasoning
_MOST_RUN_TOKENS: Final = 4_000  # of one base64 run in a block: it may as well be an image


def count_sealed(block: JsonObject) -> int:
    """Return about how many tokens of reasoning a signed or encrypted block hides.

    Fitted on recorded requests whose reasoning belongs to the turn at hand (the benchmark `usage`):
    OpenAI's items begin with some 850 characters that hold none, and longer ones hold more in each.
    """
    if isinstance(sealed := block.get("encrypted_content"), str):
        chars = max(0, len(sealed) - 850)
        return int(min(0.05 * chars**1.15, chars / 4.7))
    hidden_chars = max(map(len, words_of(block)), default=0)
    return -(-hidden_chars // _CHARS_PER_TOKEN)


def count_signature(signature: str, *, host: str | None) -> int:
    """Return about how many tokens of reasoning Gemini keeps in the signature of a call or text.

    A signature that hides nothing has 44 characters. The rest, of Gemini's own API, was fitted on
    half A of replies that report their reasoning next to it, and is off by 5 % in the median of half
    B (worst 35 %); that of Vertex AI is read off the few rows of both halves that were charged.
    """
    return int(max(0, len(signature) - 44) / (6.6 if host == "vertex_ai" else 5.6))


def split_sealed(text: str) -> tuple[str, int]:
    """Return a block's JSON text without its base64 runs, and about what those hold."""
    pattern = r"[A-Za-z0-9+/_=-]{256,}"
    runs = map(len, re.findall(pattern, text))
    hidden = sum(min(chars // _CHARS_PER_TOKEN, _MOST_RUN_TOKENS) for chars in runs)
    return re.sub(pattern, "", text), hidden
