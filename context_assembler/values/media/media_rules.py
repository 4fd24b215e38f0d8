"""Images and documents as providers take them: types, limits, and words for what is left out."""

import re
from dataclasses import dataclass
from typing import Final, assert_never

from context_assembler.values.limits import ModelLimits
from context_assembler.values.media.image_sizes import measure_base64
from context_assembler.values.media.media_types import (
    PDF,
    TELLING_TYPES,
    begins_as,
    declared_type,
    media_type_of,
)
from context_assembler.values.media.pdf_facts import read_pdf_facts
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    MediaSource,
    UrlSource,
)
from context_assembler.values.texts.cleaning import clean_text

_FETCHED: Final = ("https", "http")
_MAX_NAME_CHARS: Final = 80
_LOGIN: Final = re.compile(r"(?<=://)[^/?#\s]*@")


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaRules:
    """What a provider's API takes of images and documents; `None`: no limit is known.

    Attributes:
        api: Its name, for people.
        file_owner: How the names of the providers begin whose uploaded files it knows.
        image_types: Media types of images.
        image_words: The same, for people.
        document_types: How the media types of documents begin; text is always taken.
        fetches_documents: Whether it fetches documents from URLs.
        schemes: How the addresses begin that it fetches from.
        takes_image_ids: Whether it takes images by the id of an uploaded file.
        fit_side_px: What the longer side of an image is scaled to, if it is longer: below the limits
            that depend on the other images, so that an image once sent never has to change.
        fit_image_chars: The same for its base64.
        takes_animations: Whether it takes images that move.
        max_pdf_pages: Of one document.
        takes_locked_pdfs: Whether it takes PDFs that are encrypted.
        crowd_images: Above so many images, none may have a side over `crowd_side_px`.
        max_media_chars: Of all base64 in one request.
    """

    api: str
    file_owner: str
    image_types: tuple[str, ...]
    image_words: str
    document_types: tuple[str, ...] = ("application/pdf",)
    document_words: str = "PDF and plain text"
    fetches_documents: bool = True
    schemes: tuple[str, ...] = _FETCHED
    takes_image_ids: bool = True
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """Why something is not sent: a short stable word, and half a sentence for people."""

    rule: str
    reason: str


CURABLE: Final = frozenset({"media.type", "media.size"})
"""Rules of objections to an image that scaling or another format may meet."""

NO_VISION: Final = Objection(rule="media.unsupported", reason="the model takes no images")
NO_DOCUMENTS: Final = Objection(rule="media.unsupported", reason="the model takes no documents")
_FOREIGN_FILE: Final = Objection(rule="media.source", reason="the file lies with another provider")
_EMPTY: Final = Objection(rule="media.empty", reason="it is empty")


def object_to_image(image: Image, *, rules: MediaRules, limits: ModelLimits) -> Objection | None:
    """Return why the image cannot be sent, whatever else is sent; `None` where it can."""
    if limits.features.get("vision") is False:
        return NO_VISION
    match image.source:
        case Base64Source():
            return _object_to_bytes(image.source, rules=rules)
        case UrlSource(url=url):
            return _object_to_address(url, rules=rules)
        case FileIdSource(provider=provider):
            if not rules.takes_image_ids:
                return Objection(
                    rule="media.source", reason=f"{rules.api} takes no image by file id"
                )
            return None if provider.startswith(rules.file_owner) else _FOREIGN_FILE
        case _:
            assert_never(image.source)


def object_to_document(
    document: Document, *, rules: MediaRules, limits: ModelLimits
) -> Objection | None:
    """Return why the document cannot be sent; `None` where it can."""
    if document.text is not None:
        return None if document.text.strip() else _EMPTY
    if limits.features.get("pdf") is False:
        return NO_DOCUMENTS
    match document.source:
        case Base64Source():
            return _object_to_file(document, document.source, rules=rules)
        case UrlSource(url=url, media_type=media_type):
            if not rules.fetches_documents:
                return Objection(rule="media.source", reason=f"{rules.api} fetches no documents")
            taken = (*rules.document_types, "text/")
            if media_type and not declared_type(media_type).startswith(taken):
                return _only(rules.document_words)
            return _object_to_address(url, rules=rules)
        case FileIdSource(provider=provider):
            return None if provider.startswith(rules.file_owner) else _FOREIGN_FILE
        case _:
            assert_never(document.source)


def _object_to_address(url: str, *, rules: MediaRules) -> Objection | None:
    if not url.strip():
        return _EMPTY
    scheme, mark, _ = url.strip().partition("://")
    if mark and scheme.lower() in rules.schemes:
        return None
    reason = f"{rules.api} fetches nothing from such an address"
    return Objection(rule="media.source", reason=reason)


def _object_to_file(
    document: Document, source: Base64Source, *, rules: MediaRules
) -> Objection | None:
    if not source.data:
        return _EMPTY
    media_type = media_type_of(source)
    if not media_type.startswith(rules.document_types):
        return _only(rules.document_words)
    objection = _over(len(source.data), most=rules.max_document_chars)
    if objection is None and media_type == PDF:
        return _object_to_pdf(document, source.data, rules=rules)
    return objection


def _object_to_pdf(document: Document, encoded: str, *, rules: MediaRules) -> Objection | None:
    if begins_as(encoded) != PDF:
        return Objection(rule="media.type", reason="its bytes are no PDF")
    if rules.max_pdf_pages is None and rules.takes_locked_pdfs:
        return None
    facts = read_pdf_facts(encoded)
    if facts.is_locked and not rules.takes_locked_pdfs:
        return Objection(rule="media.locked", reason=f"{rules.api} takes no encrypted PDF")
    pages = facts.page_count or document.page_count or 0
    if rules.max_pdf_pages is not None and pages > rules.max_pdf_pages:
        reason = f"its {pages:,} pages are more than {rules.max_pdf_pages:,}"
        return Objection(rule="media.pages", reason=reason)
    return None


def _object_to_bytes(source: Base64Source, *, rules: MediaRules) -> Objection | None:
    if not source.data:
        return _EMPTY
    media_type = media_type_of(source)
    if media_type not in rules.image_types:
        return _only(rules.image_words)
    if media_type in TELLING_TYPES and begins_as(source.data) != media_type:
        return Objection(rule="media.type", reason=f"its bytes are no {media_type}")
    size = measure_base64(source.data) if rules.max_side_px else None
    if size is not None and max(size) > (rules.max_side_px or 0):
        reason = f"its {max(size):,} pixels are more than {rules.max_side_px:,}"
        return Objection(rule="media.size", reason=reason)
    return _over(len(source.data), most=rules.max_image_chars)


def _only(words: str) -> Objection:
    return Objection(rule="media.type", reason=f"only {words} are taken")


def _over(chars: int, *, most: int | None) -> Objection | None:
    if most is None or chars <= most:
        return None
    reason = f"its {chars:,} characters of base64 are more than {most:,}"
    return Objection(rule="media.size", reason=reason)


def left_out(kind: str, source: MediaSource, *, reason: str) -> str:
    """Return the line that names a picture or document which cannot be sent."""
    return f"[{kind} left out: {name_source(source)}; {reason}]"


def name_source(source: MediaSource) -> str:
    """Return a short name of where bytes come from, never the bytes, nor who may fetch them."""
    match source:
        case Base64Source(media_type=media_type):
            name = media_type
        case UrlSource(url=url):
            name = _LOGIN.sub("", url)
        case FileIdSource(provider=provider, file_id=file_id):
            name = f"{provider} file {file_id}"
        case _:
            assert_never(source)
    name = " ".join(clean_text(name).split()) or "unnamed"
    return name if len(name) <= _MAX_NAME_CHARS else f"{name[: _MAX_NAME_CHARS - 1]}…"
