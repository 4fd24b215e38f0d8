"""Making a record ready to be kept: cleaned, without secrets, with a time and an id."""

import unicodedata
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Final, NoReturn, cast

from context_assembler.errors import ConfigurationError, MissingExtraError
from context_assembler.values.codec import dump_json
from context_assembler.values.json_bounds import shown
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.memories.codec import encode_details
from context_assembler.values.memories.kinds import KINDS
from context_assembler.values.memories.records import MAX_ID_CHARS, MemoryRecord
from context_assembler.values.parts import Json
from context_assembler.values.texts.cleaning import clean_object, clean_text
from context_assembler.values.texts.secret_masking import MaskedText, mask_secrets
from context_assembler.values.texts.secret_signs import may_hold_secret

__all__ = [
    "PreparedRecord",
    "may_hold_secret",
    "moved_notices",
    "names_unmasked",
    "normal_text",
    "prepare_record",
    "prepare_records",
    "text_leaves",
]

_CLEANED: Final = "Characters that no text may hold (NUL, lone surrogates) were taken out."
_HASH_BYTES: Final = 8
_SEPARATOR: Final = "\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRecord:
    """A record as it is kept.

    Attributes:
        record: As it was given, its author apart: `memory_id`, `text` and `details` are what is
            kept of it.
        line: What it stands in a row in; `None` where in nothing.
        digest: Equal where two records say the same; `None` where that does not matter.
    """

    record: MemoryRecord
    memory_id: str
    text: str
    created_at: datetime
    details: bytes | None
    line: int | None
    digest: int | None
    notices: tuple[str, ...]


def prepare_records(
    records: Iterable[MemoryRecord], *, now: datetime, masks_secrets: bool, finds_duplicates: bool
) -> list[PreparedRecord]:
    """Return the records as they are to be kept.

    Raises:
        ConfigurationError: Something among them is no record.
        MemoryFormatError: One holds something that JSON cannot say.
        MissingExtraError: Secrets are to be masked, and detect-secrets is not installed.
    """
    prepared: list[PreparedRecord] = []
    for at, record in enumerate(_checked(records)):
        with names_unmasked(at):
            prepared.append(
                prepare_record(
                    record, now=now, masks_secrets=masks_secrets, finds_duplicates=finds_duplicates
                )
            )
    return prepared


@contextmanager
def names_unmasked(at: int) -> Generator[None]:
    """Say which of the records it is that holds what cannot be masked, and that it need not be.

    Args:
        at: The record's place among those that are to be remembered, from 0.

    Raises:
        MissingExtraError: A secret is to be masked inside, and detect-secrets is not installed.
    """
    try:
        yield
    except MissingExtraError as error:
        raise MissingExtraError(
            f"Masking what looks like a secret in [{at}] of what is to be remembered",
            extra=error.extra,
            otherwise="open the store with masks_secrets=False, which keeps it as it is",
        ) from error


def _checked(given: object) -> Iterator[MemoryRecord]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        _refuse(given)
    for one in cast("Iterable[object]", given):
        if not isinstance(one, MemoryRecord):
            _refuse(one)
        yield one


def _refuse(given: object) -> NoReturn:
    raise ConfigurationError(
        f"{shown(given)} cannot be remembered.",
        remedy="Pass a list of MemoryRecord(text=…, kind=…); a MemoryAssembler takes texts as well.",
    )


def prepare_record(
    record: MemoryRecord, *, now: datetime, masks_secrets: bool, finds_duplicates: bool
) -> PreparedRecord:
    """Return the record as it is to be kept.

    Raises:
        MemoryFormatError: It holds something that JSON cannot say.
        MissingExtraError: Secrets are to be masked, and detect-secrets is not installed.
    """
    where = f"The memory {record.id or record.text[:40]!r}"
    kinds: list[str] = []
    text = clean_text(record.text)
    is_cleaned = text is not record.text
    if masks_secrets:
        text = _mask_text(text, kinds)
        record = _mask_author(record, kinds)
    details: dict[str, Json] = encode_details(record, where=where)
    if details:
        cleaned = clean_object(details)
        is_cleaned = is_cleaned or cleaned is not details
        details = {**cleaned}
        if masks_secrets:
            details = {key: _mask_value(value, kinds) for key, value in details.items()}
    created_at = record.created_at or now
    return PreparedRecord(
        record=record,
        memory_id=record.id or _id_of(record, text, created_at),
        text=text,
        created_at=created_at,
        details=dump_json(details, where=where) if details else None,
        line=_line_of(record),
        digest=_digest_of(record, text, details) if finds_duplicates else None,
        notices=tuple(_notices(is_cleaned=is_cleaned, kinds=kinds)),
    )


def moved_notices(prepared: PreparedRecord, *, before: object) -> tuple[str, ...]:
    """Return the notices of a record that took the place of another one.

    Ids are one for all namespaces: what belonged to somebody else is gone with it, so that is told.

    Args:
        before: The namespace of that one, as it stands in the row.
    """
    if before == prepared.record.namespace:
        return prepared.notices
    notice = f"It took the place of a memory of the namespace {shown(before)}, which had this id."
    return (*prepared.notices, notice)


def normal_text(text: str) -> str:
    """Return the text without what makes no difference: case, width, white space."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def text_leaves(value: Json) -> Iterator[str]:
    """Yield every text in a JSON value, keys left out, in order."""
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for inner in value.values():
            yield from text_leaves(inner)
    elif is_array(value):
        for inner in value:
            yield from text_leaves(inner)


def _mask_text(text: str, kinds: list[str]) -> str:
    if not may_hold_secret(text):
        return text
    masked = mask_secrets(text)
    kinds += masked.kinds
    return masked.text


def _mask_author(record: MemoryRecord, kinds: list[str]) -> MemoryRecord:
    if not record.author or not may_hold_secret(record.author):
        return record
    return replace(record, author=_mask_text(record.author, kinds)[:MAX_ID_CHARS])


def _mask_value(value: Json, kinds: list[str]) -> Json:
    if isinstance(value, str):
        return _mask_text(value, kinds)
    if is_object(value):
        return {key: _mask_value(inner, kinds) for key, inner in value.items()}
    if is_array(value):
        return [_mask_value(inner, kinds) for inner in value]
    return value


def _notices(*, is_cleaned: bool, kinds: list[str]) -> Iterator[str]:
    if is_cleaned:
        yield _CLEANED
    if kinds:
        notice = MaskedText(text="", kinds=tuple(kinds)).notice
        yield f"{notice[:1].upper()}{notice[1:]}."


def _line_of(record: MemoryRecord) -> int | None:
    follows = KINDS[record.kind].follows
    owner = record.session_id if follows == "session" else record.parent_id
    return None if owner is None else _hash_of_line(record.namespace, record.kind, owner)


def _digest_of(record: MemoryRecord, text: str, details: Mapping[str, Json]) -> int | None:
    spec = KINDS[record.kind]
    if spec.is_turn_like:
        return None
    metadata: Json = details.get("metadata", {})
    place = (str(metadata.get(name)) for name in spec.identity)
    return _hash(record.namespace, record.kind, normal_text(text), *place)


def _id_of(record: MemoryRecord, text: str, created_at: datetime) -> str:
    """Return an id of what the record says, behind the second it is of.

    Indexes of ids so grow at one end; where each new id falls anywhere, all their pages are written
    again and again.
    """
    told = (
        record.namespace,
        record.kind,
        record.session_id or "",
        record.parent_id or "",
        record.author or "",
        created_at.isoformat(),
        text,
    )
    joined = _SEPARATOR.join(told).encode()
    seconds = max(int(created_at.timestamp()), 0)
    return f"mem_{seconds:010x}{blake2b(joined, digest_size=8).hexdigest()}"


@lru_cache(1_024)
def _hash_of_line(namespace: str, kind: str, owner: str) -> int:
    return _hash(namespace, kind, owner)


def _hash(*words: str) -> int:
    digest = sha256(_SEPARATOR.join(words).encode()).digest()
    return int.from_bytes(digest[:_HASH_BYTES], signed=True)
