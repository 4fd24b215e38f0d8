"""Images and documents as providers take them: types, data URLs, limits, and words for the rest."""

import base64
import binascii
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from context_assembler.errors import with_article
from context_assembler.events import Json, JsonObject
from context_assembler.models import ModelLimits
from context_assembler.providers.wire import Change, as_list, as_object, as_text, text_part
from context_assembler.report import Rule
from context_assembler.texts import clean_text

Size: TypeAlias = tuple[int, int]
Objection: TypeAlias = tuple[Rule, str]  # the rule, and why in half a sentence

PDF: Final = "application/pdf"
WEB_SCHEMES: Final = ("https", "http")
WITHOUT_PILLOW: Final = "pip install 'context-assembler[images]' has such images scaled"

# A picture is refused if its bytes are of another type than it says, so the bytes decide.
_STARTS: Final = {
    b"\xff\xd8\xff": "image/jpeg",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
    b"II*\0": "image/tiff",
    b"MM\0*": "image/tiff",
}
_TELLING_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_DATA_URL: Final = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),", re.IGNORECASE)
_SCHEME: Final = re.compile(r"\s*([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_LOGIN: Final = re.compile(r"(?<=://)[^/?#\s]*@")
_MAX_NAME_CHARS: Final = 80


# ---- bytes and addresses ----


def decode_base64(encoded: str) -> bytes:
    """Return the bytes of base64 text, or of the beginning of one; none for anything else."""
    try:
        return base64.b64decode(encoded[: len(encoded) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def begins_as(encoded: str) -> str:
    """Return the type that base64 text begins as, a picture or a PDF; empty for anything else."""
    head = decode_base64(encoded[:32])
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    told = next((kind for start, kind in _STARTS.items() if head.startswith(start)), "")
    # ISO 32000 wants the mark at the very beginning; readers look for it in the first 1,024 bytes.
    return told or (PDF if b"%PDF-" in decode_base64(encoded[:1_368]) else "")


def bare_type(media_type: str) -> str:
    """Return a media type as providers write it, without parameters."""
    bare = media_type.partition(";")[0].strip().lower()
    return "image/jpeg" if bare == "image/jpg" else bare


def media_type_of(source: JsonObject) -> str:
    """Return the type that a base64 source's bytes have; the declared one if they do not tell."""
    return begins_as(source["data"]) or bare_type(source["media_type"])


def plain_base64(encoded: str) -> str:
    """Return base64 text in the usual alphabet, without blanks, with its padding."""
    bare = "".join(encoded.split()).replace("-", "+").replace("_", "/")
    missing = -len(bare) % 4
    return bare + "=" * (0 if missing == 3 or bare.endswith("=") else missing)


def source_of(url: str, media_type: str = "") -> JsonObject:
    """Return the stored source of an address; a `data:` URL becomes the bytes that it carries."""
    if (head := _DATA_URL.match(url[:1_000])) and head[2].lower().endswith(";base64"):
        declared, data = head[1].strip().lower() or "text/plain", url[head.end() :]  # RFC 2397
        return {"type": "base64", "media_type": declared, "data": plain_base64(data)}
    return {"type": "url", "url": url, **({"media_type": media_type} if media_type else {})}


def scheme_of(url: str) -> str:
    """Return the scheme of an address in lower case; empty if it has none."""
    found = _SCHEME.match(url)
    return "" if found is None else found[1].lower()


def measure_base64(encoded: str) -> Size | None:
    """Return the size in pixels that the header of an image in base64 states; `None`: unknown."""
    chars = 1_048_576 if encoded.startswith("/9") else 128  # a JPEG may have long metadata
    try:
        size = _read_size(decode_base64(encoded[:chars]))
    except (struct.error, IndexError, ValueError):
        return None
    return size if size and min(size) > 0 else None


def _read_size(header: bytes) -> Size | None:
    if header.startswith(b"\x89PNG\r\n\x1a\n"):
        return struct.unpack_from(">II", header, 16)
    if header.startswith((b"GIF87a", b"GIF89a")):
        return struct.unpack_from("<HH", header, 6)
    if header[:4] == b"RIFF" and header[8:12] == b"WEBP":
        if header[12:16] == b"VP8X":
            width, height = (int.from_bytes(header[at : at + 3], "little") for at in (24, 27))
            return (width + 1, height + 1) if len(header) >= 30 else None
        if header[12:16] == b"VP8L":
            (bits,) = struct.unpack_from("<I", header, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        width, height = struct.unpack_from("<HH", header, 26)
        return width & 0x3FFF, height & 0x3FFF
    at = 2
    while header.startswith(b"\xff\xd8"):  # the segments of a JPEG, up to a frame header
        while header[at] == 0xFF:
            at += 1
        marker, at = header[at], at + 1
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", header, at + 3)
            return width, height
        if marker != 0x01 and not 0xD0 <= marker <= 0xD8:
            at += max(2, struct.unpack_from(">H", header, at)[0])
        at = header.index(b"\xff", at)
    return None


@lru_cache(maxsize=16)
def pdf_facts(encoded: str) -> tuple[int | None, bool]:
    """Return the page count of a PDF in base64 (`None`: unknown), and whether it is encrypted."""
    pdf = decode_base64(encoded)
    pages = len(re.findall(rb"/Type\s*/Page(?![A-Za-z])", pdf))
    return pages or None, re.search(rb"/Encrypt\s*(?:\d+\s+\d+\s+R|<<)", pdf) is not None


# ---- media in blocks that are not interpreted ----

_IMAGES: Final = frozenset(
    "image input_image image_url computer_screenshot image_generation_call".split()
)
_TYPES_BY_KIND: Final = {  # what holds documents and recordings; empty: it says so itself, or nobody
    **dict.fromkeys(("document", "container_upload", "input_file", "file", "file_url"), ""),
    **dict.fromkeys(("code_execution_output", "bash_code_execution_output"), ""),
    "input_audio": "audio/wav",
    "video_url": "video/mp4",
    "audio_url": "audio/mpeg",
}


def media_in(block: Json, provider: str) -> Iterator[JsonObject]:
    """Yield the pictures, documents and recordings in a provider's block as stored parts.

    Source:
        types of the anthropic package 2.14, the openai package 3.57 and google-genai 3.6
        (read 2026-11-27)
    """
    part = media_of(as_object(block), provider)
    if part is not None:
        yield part
        return
    for held in as_object(block).values() or as_list(block):
        yield from media_in(held, provider)


def media_of(fields: JsonObject, provider: str) -> JsonObject | None:
    """Return what a block, an item or a piece itself shows, as a stored part; `None`: nothing."""
    kind = as_text(fields.get("type"))
    keys = ("inline_data", "inlineData", "file_data", "fileData")  # Gemini's parts have no type
    held = next((fields[k] for k in keys if not kind and isinstance(fields.get(k), Mapping)), None)
    if kind in _IMAGES or kind in _TYPES_BY_KIND:
        held = fields.get("source", fields.get(kind, fields))
    inner = {"url": held} if isinstance(held, str) else as_object(held)
    if inner.get("type") in ("text", "content"):  # Anthropic's documents of text
        return None

    def first(*names: str) -> str:
        return next((found for name in names if (found := as_text(inner.get(name)))), "")

    media_type = first("media_type", "mime_type", "mimeType") or _TYPES_BY_KIND.get(kind, "")
    if kind in ("input_audio", "image_generation_call") and (
        named := first("format", "output_format")
    ):
        media_type = f"{'audio' if kind == 'input_audio' else 'image'}/{named}"
    encoded = first("data", "result", "file_data")
    url = first("url", "image_url", "file_url", "file_uri", "fileUri")
    url = url or as_text(as_object(inner.get("image_url")).get("url"))
    if encoded.startswith("data:"):
        encoded, url = "", encoded
    source: JsonObject = {"type": "file", "provider": provider, "file_id": first("file_id")}
    if encoded:
        media_type = media_type or ("image/png" if kind in _IMAGES else "")
        source = {"type": "base64", "media_type": media_type, "data": plain_base64(encoded)}
    elif url:
        source = source_of(url, media_type)
    elif not source["file_id"]:
        return None
    shown = as_text(source.get("media_type")) or media_type
    if shown.startswith("image/") or (kind in _IMAGES and shown != "application/pdf"):
        return {"type": "image", "source": source}
    title = first("filename") or as_text(fields.get("title"))
    return {"type": "document", "source": source, **({"title": title} if title else {})}


# ---- words ----


def name_of_source(source: JsonObject) -> str:
    """Return a short name of where bytes come from, never the bytes, nor a login."""
    kind = source["type"]
    name = source["media_type"] if kind == "base64" else _LOGIN.sub("", source.get("url", ""))
    if kind == "file":
        name = f"{source['provider']} file {source['file_id']}"
    name = " ".join(clean_text(name).split()) or "unnamed"
    return name if len(name) <= _MAX_NAME_CHARS else f"{name[: _MAX_NAME_CHARS - 1]}…"


def about_document(document: JsonObject, *, has_title: bool = False) -> str:
    """Return title and context of a document as text, for an API without fields for them.

    Source:
        types of the anthropic package 2.14, DocumentBlockParam.context (read 2026-11-27)
    """
    title = "" if has_title else (document.get("title") or "")
    extras = as_object(as_object(document.get("extras")).get("anthropic"))
    told = (f"{title}:" if title.strip() else "", as_text(extras.get("context")))
    return "\n".join(clean_text(text) for text in told if text.strip())


def document_text(document: JsonObject) -> str:
    """Return a document of text as text: its title, its context, and what it says."""
    told = (about_document(document), clean_text(document.get("text") or ""))
    return "\n".join(text for text in told if text)


def left_out(part: JsonObject, reason: str) -> str:
    """Return the line that stands for an image or a document that is not sent."""
    return f"[{part['type']} left out: {name_of_source(part['source'])}; {reason}]"


# ---- what a provider takes ----


class MediaRules(NamedTuple):
    """What a provider's API takes of images and documents; `None`: no limit is known.

    Attributes:
        api: Its name, for people.
        file_owner: How the names of the providers begin whose uploaded files it knows.
        document_types: How the media types of documents begin; text is always taken.
        schemes: How the addresses begin that it fetches from.
        takes_image_ids: Whether it takes images by the id of an uploaded file.
        takes_from_assistant: Whether images and documents may stand in an assistant's message.
        fit_side_px: What the longer side of an image is scaled to, if it is longer: less than the
            limits that depend on other images, so that an image once sent never has to change.
        fit_image_chars: The same for its base64.
        crowd_images: With more images than that, none may have a side over `crowd_side_px`.
        max_media_chars: Of all base64 in one request.
        type_at: Returns the media type at an address, of an API that must be told; empty: unknown.
    """

    api: str
    file_owner: str
    image_types: tuple[str, ...] = _TELLING_TYPES
    image_words: str = "JPEG, PNG, GIF and WebP"
    document_types: tuple[str, ...] = (PDF,)
    document_words: str = "PDF and plain text"
    fetches_documents: bool = True
    schemes: tuple[str, ...] = WEB_SCHEMES
    takes_image_ids: bool = True
    takes_from_assistant: bool = False
    max_image_chars: int | None = None
    max_document_chars: int | None = None
    max_side_px: int | None = None
    fit_side_px: int | None = None
    fit_image_chars: int | None = None
    takes_animations: bool = True
    max_pdf_pages: int | None = None
    takes_locked_pdfs: bool = True
    max_images: int | None = None
    crowd_images: int | None = None
    crowd_side_px: int | None = None
    max_media_chars: int | None = None
    type_at: Callable[[JsonObject], str] | None = None


_EMPTY: Final = ("media.empty", "it is empty")


def settle_media(
    part: JsonObject, role: str, changes: list[Change], *, rules: MediaRules, limits: ModelLimits
) -> list[JsonObject]:
    """Return what is sent for an image or a document: itself, a scaled image, or a line of text."""
    objection: Objection | None = ("media.role", "not taken from an assistant")
    fitted: Any = None
    if role != "assistant" or rules.takes_from_assistant:
        objection = find_objection(part, rules, limits)
        is_curable = objection is None or objection[0] in ("media.type", "media.size")
        if part["type"] == "image" and is_curable:
            fitted = fit_image(part, rules)
    if isinstance(fitted, tuple):
        changes.append(Change("shortened", *fitted[1:]))
        return [fitted[0]]
    if objection is None:
        return [part]
    rule, why = objection
    told = f"{why}; {fitted}" if fitted else why
    kind = with_article(part["type"], begins_sentence=True)
    changes.append(Change("dropped", rule, f"{kind} is left out: {told}."))
    return [text_part(left_out(part, why))]


def find_objection(
    part: JsonObject, rules: MediaRules, limits: ModelLimits | None, *, is_sent: bool = False
) -> Objection | None:
    """Return why an image or a document cannot be sent; `None` if it can.

    Args:
        is_sent: Whether its declared type is sent as it is, right or wrong.
    """
    source, is_image, text = part["source"], part["type"] == "image", part.get("text")
    if text is not None and not is_image:
        return None if text.strip() else _EMPTY
    if limits and limits.features.get("vision" if is_image else "pdf") is False:
        return "media.unsupported", f"the model takes no {part['type']}s"
    place = clean_text(source.get("url") or source.get("file_id") or "")
    if not source.get("data") and not place.strip():
        return _EMPTY
    taken = rules.image_types if is_image else rules.document_types
    only = f"only {rules.image_words if is_image else rules.document_words} are taken"
    if source["type"] == "file":
        if is_image and not rules.takes_image_ids:
            return "media.source", f"{rules.api} takes no image by file id"
        is_own = source["provider"].startswith(rules.file_owner)
        return None if is_own else ("media.source", "the file lies with another provider")
    if source["type"] == "url":
        declared, url = bare_type(source.get("media_type") or ""), source["url"].strip()
        scheme, mark, _ = url.partition("://")
        if not is_image and not rules.fetches_documents:
            return "media.source", f"{rules.api} fetches no documents"
        if declared and not is_image and not declared.startswith((*taken, "text/")):
            return "media.type", only
        if not (mark and scheme.lower() in rules.schemes):
            return "media.source", f"{rules.api} fetches nothing from such an address"
        is_known = rules.type_at is None or rules.type_at(source)
        return None if is_known else ("media.type", "its media type is not known")
    encoded, told = source["data"], begins_as(source["data"])
    media_type = bare_type(source["media_type"]) if is_sent else media_type_of(source)
    if not media_type.startswith(taken):
        return "media.type", only
    if told != media_type and (told or media_type in (*_TELLING_TYPES, PDF)):
        return "media.type", f"its bytes are no {'PDF' if media_type == PDF else media_type}"
    size = measure_base64(encoded) if is_image else None
    counts_pages = media_type == PDF and rules.max_pdf_pages is not None
    pages, is_locked = pdf_facts(encoded) if counts_pages else (0, False)
    if is_locked and not rules.takes_locked_pdfs:
        return "media.locked", f"{rules.api} takes no encrypted PDF"
    chars = rules.max_image_chars if is_image else rules.max_document_chars
    rule: Any
    for number, most, what, rule in (
        (max(size or (0,)), rules.max_side_px, "pixels", "media.size"),
        (len(encoded), chars, "characters of base64", "media.size"),
        (pages or part.get("page_count") or 0, rules.max_pdf_pages, "pages", "media.pages"),
    ):
        if most is not None and number > most:
            return rule, f"its {number:,} {what} are more than {most:,}"
    return None


def count_oldest(weights: Sequence[int], most: int | None) -> int:
    """Return how many of the oldest make way, so that the rest weigh at most so much.

    They go in steps of a quarter of what is allowed, so that the payloads of the next calls begin
    alike, and are found in the provider's cache.
    """
    excess = 0 if most is None else sum(weights) - most
    if most is None or excess <= 0:
        return 0
    step = max(1, most // 4)
    target, total = -(-excess // step) * step, 0
    for number, weight in enumerate(weights):
        if total >= target:
            return number
        total += weight
    return len(weights)


def find_surplus(media: Sequence[JsonObject], rules: MediaRules) -> dict[int, Objection]:
    """Return the places of images and documents that make way, oldest first: rule and reason.

    Args:
        media: Stored parts that are sent as bytes or by address, oldest first.
    """
    images = [at for at, part in enumerate(media) if part["type"] == "image"]
    reason = f"at most {rules.max_images} images are taken, the oldest make way"
    number = count_oldest([1] * len(images), rules.max_images)
    surplus: dict[int, Objection] = dict.fromkeys(images[:number], ("media.count", reason))
    number = count_oldest([len(p["source"].get("data", "")) for p in media], rules.max_media_chars)
    reason = "a request takes no more bytes, the oldest make way"
    surplus |= dict.fromkeys(range(number), ("media.bytes", reason))
    most, side_px = rules.crowd_images, rules.crowd_side_px
    images = [at for at in images if at not in surplus]
    if most is None or side_px is None or len(images) <= most:
        return surplus
    sizes = {at: measure_base64(media[at]["source"].get("data", "")) for at in images}
    large = [at for at, size in sizes.items() if size and max(size) > side_px]
    reason = f"of more than {most} images none may have a side over {side_px} pixels"
    return surplus | dict.fromkeys(large, ("media.crowd", reason))


def put_instead(value: Any, others: Mapping[int, JsonObject]) -> Any:
    """Return a copy of JSON in which others stand for some objects, which are named by `id`."""
    if id(value) in others:
        return others[id(value)]
    if fields := as_object(value):
        return {key: put_instead(held, others) for key, held in fields.items()}
    return [put_instead(held, others) for held in as_list(value)] or value


# ---- scaling ----

_MAX_PNG_BYTES: Final = 2 * 1024 * 1024  # a larger PNG is a photograph: other formats take a tenth
_READ_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
_LOSSLESS: Final = ("PNG", "GIF", "BMP", "TIFF")


def fit_image(image: JsonObject, rules: MediaRules) -> tuple[JsonObject, str, str] | str | None:
    """Return what is sent instead of an image, rule and reason; text: why nothing is; `None`: it fits.

    It depends on the image and the rules alone, never on what else is sent: what was sent once stays
    the same. Images at addresses are not looked into.
    """
    source = image["source"]
    if source["type"] != "base64":
        return None
    media_type, encoded = media_type_of(source), source["data"]
    most_px = rules.fit_side_px or rules.max_side_px
    most_chars = rules.fit_image_chars or rules.max_image_chars or max(len(encoded), 1_000_000)
    size = measure_base64(encoded) if most_px is not None else None
    fits = media_type in rules.image_types and len(encoded) <= most_chars
    fits = fits and max(size or (0,)) <= (most_px or 0)
    if fits and (media_type != "image/gif" or rules.takes_animations):
        return None
    from importlib.util import find_spec

    if find_spec("PIL") is None:
        return WITHOUT_PILLOW
    made = _redraw(encoded, most_px, most_chars, fits=fits)
    if made is None or isinstance(made, str):
        return made
    picture, told, is_smaller = made
    return {**image, **picture}, "image.scaled" if is_smaller else "image.recoded", told


@lru_cache(maxsize=16)
def _redraw(encoded: str, most_px: int | None, most_chars: int, *, fits: bool) -> Any:
    """Return a picture within bounds, turned upright, of a moving one the first frame; else why not.

    Args:
        fits: Whether it is sent as it is if it does not move.
    """
    from io import BytesIO

    from PIL import Image, ImageOps

    try:
        with Image.open(BytesIO(decode_base64(encoded)), formats=_READ_FORMATS) as opened:
            given, moves = opened.size, bool(getattr(opened, "is_animated", False))
            if fits and not moves:
                return None
            is_lossless = opened.format in _LOSSLESS
            picture: Any = ImageOps.exif_transpose(opened)
            has_alpha = picture.has_transparency_data
            picture = picture.convert("RGBA" if has_alpha else "RGB")
    except Exception:
        return "its bytes cannot be read as a picture"
    picture.info.clear()  # no place, no camera, no profile: nothing but the picture
    lossy = "WEBP" if has_alpha else "JPEG"
    side_px = min(max(picture.size), most_px or max(picture.size))
    while side_px:
        picture.thumbnail((side_px, side_px), Image.Resampling.LANCZOS, reducing_gap=3.0)
        for form, quality in (("PNG", 0), (lossy, 90), (lossy, 75)):
            stream = BytesIO()
            if form != "PNG" or is_lossless or has_alpha:
                picture.save(stream, form, quality=quality)
            content = stream.getvalue()
            is_photograph = form == "PNG" and len(content) > _MAX_PNG_BYTES
            if content and not is_photograph and len(content) <= most_chars // 4 * 3:
                width, height = picture.size
                told = f"An image of {given[0]:,} × {given[1]:,} pixels and {len(encoded):,} "
                told += f"characters of base64 is sent as {form} of {width:,} × {height:,} pixels."
                data = base64.b64encode(content).decode("ascii")
                source = {"type": "base64", "media_type": f"image/{form.lower()}", "data": data}
                made = {"source": source, "width_px": width, "height_px": height}
                return made, told, sorted(picture.size) != sorted(given)
        side_px = int(side_px * 0.7)
    return "it cannot be made small enough"
