"""What can be sent elsewhere of a block that we do not interpret: its text, and the media in it.

The text of such a block names media at most, so they are taken out of it as what they are. Whether
a provider takes them is decided where it is decided for all others.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.native.gemini_fields import snake_fields
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Json,
    JsonObject,
    MediaSource,
    Opaque,
    ResultPart,
    Text,
    UrlSource,
)
from context_assembler.values.reading import as_object, as_text

_Media: TypeAlias = Image | Document
_Read: TypeAlias = Callable[[JsonObject, str], _Media | None]

_LABEL: Final = re.compile(r"\s*\[[\w./+-]*\]\s*")
_FETCHED_TYPES: Final[Mapping[str, str]] = {"video_url": "video/mp4", "audio_url": "audio/mpeg"}
_PICTURE_TYPE: Final = "image/png"  # of a generated picture that does not say otherwise


def unfold(part: Opaque) -> tuple[ResultPart, ...]:
    """Return the text of a block and the media in it, in their order; empty where there is neither.

    A text that only names what the block is, such as `[input_audio]`, is left out beside media.
    """
    media = tuple(media_in(part))
    if not part.text.strip() or (media and is_label(part.text)):
        return media
    return (Text(part.text), *media)


def is_label(text: str) -> bool:
    """Whether a text names what stood there, and says nothing of it."""
    return _LABEL.fullmatch(text) is not None


def media_in(part: Opaque) -> Iterator[_Media]:
    """Yield the pictures, documents and recordings in a block; the last two are documents."""
    waiting: list[Json] = [part.block]
    while waiting:
        current = waiting.pop()
        if is_object(current):
            media = _read_object(current, part.provider)
            if media is None:
                waiting.extend(reversed(list(current.values())))
            else:
                yield media
        elif is_array(current):
            waiting.extend(reversed(current))


def _read_object(fields: JsonObject, provider: str) -> _Media | None:
    kind = fields.get("type")
    read = _READERS.get(kind) if isinstance(kind, str) else None
    return _read_gemini(fields) if read is None else read(fields, provider)


def _read_gemini(fields: JsonObject) -> _Media | None:
    named = snake_fields(fields) if {"inlineData", "fileData"} & fields.keys() else fields
    inline, fetched = (snake_fields(named.get(key)) for key in ("inline_data", "file_data"))
    media_type = as_text(inline.get("mime_type")) or as_text(fetched.get("mime_type"))
    if encoded := as_text(inline.get("data")):
        return _media(Base64Source(media_type=media_type, data=encoded), media_type)
    url = as_text(fetched.get("file_uri"))
    return _media(UrlSource(url=url, media_type=media_type or None), media_type) if url else None


def _media(source: MediaSource, media_type: str) -> _Media:
    return Image(source=source) if media_type.startswith("image/") else Document(source=source)


def _read_block(fields: JsonObject, provider: str) -> _Media | None:
    """Read a block of Anthropic; one whose source is text, or blocks, is read by its text."""
    source = _block_source(as_object(fields.get("source")), provider)
    if source is None:
        return None
    if fields.get("type") == "image":
        return Image(source=source)
    return Document(source=source, title=as_text(fields.get("title")) or None)


def _block_source(source: JsonObject, provider: str) -> MediaSource | None:
    match source:
        case {"type": "base64", "data": str(encoded)}:
            return Base64Source(media_type=as_text(source.get("media_type")), data=encoded)
        case {"type": "url", "url": str(url)}:
            return UrlSource(url=url)
        case {"type": "file", "file_id": str(file_id)}:
            return FileIdSource(provider=provider, file_id=file_id)
        case _:
            return None


def _read_picture(fields: JsonObject, provider: str) -> _Media | None:
    """Read a picture of OpenAI: at an address, as `data:` URL, or by the id of a file."""
    given = fields.get("image_url", fields.get("url"))
    url = as_text(as_object(given).get("url")) or as_text(given)
    source = UrlSource(url=url) if url else _file_source(fields, provider)
    return None if source is None else Image(source=source)


def _read_image(fields: JsonObject, provider: str) -> _Media | None:
    """Read what both Anthropic and the code interpreter of OpenAI call an image."""
    read = _read_block if "source" in fields else _read_picture
    return read(fields, provider)


def _read_generated(fields: JsonObject, _provider: str) -> _Media | None:
    encoded = as_text(fields.get("result"))
    output_format = as_text(fields.get("output_format"))
    media_type = f"image/{output_format}" if output_format else _PICTURE_TYPE
    return Image(source=Base64Source(media_type=media_type, data=encoded)) if encoded else None


def _read_file(fields: JsonObject, provider: str) -> _Media | None:
    inner = as_object(fields.get("file")) or fields
    title = as_text(inner.get("filename")) or None
    if encoded := as_text(inner.get("file_data")):
        return Document(source=Base64Source(media_type="", data=encoded), title=title)
    url = as_text(inner.get("file_url"))
    source = UrlSource(url=url) if url else _file_source(inner, provider)
    return None if source is None else Document(source=source, title=title)


def _file_source(fields: JsonObject, provider: str) -> FileIdSource | None:
    file_id = as_text(fields.get("file_id"))
    return FileIdSource(provider=provider, file_id=file_id) if file_id else None


def _read_recording(fields: JsonObject, _provider: str) -> _Media | None:
    inner = as_object(fields.get("input_audio")) or fields
    media_type = f"audio/{as_text(inner.get('format')) or 'wav'}"
    encoded = as_text(inner.get("data"))
    return Document(source=Base64Source(media_type=media_type, data=encoded)) if encoded else None


def _read_fetched(fields: JsonObject, _provider: str) -> _Media | None:
    """Read what other servers of Chat fetch: films, recordings and files."""
    kind = as_text(fields.get("type"))
    given = fields.get(kind)
    url = as_text(as_object(given).get("url")) or as_text(given)
    source = UrlSource(url=url, media_type=_FETCHED_TYPES.get(kind))
    return Document(source=source) if url else None


_READERS: Final[Mapping[str, _Read]] = {
    "image": _read_image,
    "document": _read_block,
    "container_upload": _read_file,
    "code_execution_output": _read_file,
    "bash_code_execution_output": _read_file,
    "input_image": _read_picture,
    "image_url": _read_picture,
    "computer_screenshot": _read_picture,
    "image_generation_call": _read_generated,
    "input_file": _read_file,
    "file": _read_file,
    "input_audio": _read_recording,
    "video_url": _read_fetched,
    "audio_url": _read_fetched,
    "file_url": _read_fetched,
}
"""By the type of a block, an item or a piece of content.

Source:
    types of the anthropic package 2.14 and of the openai package 3.57 (read 2026-11-27)
"""
