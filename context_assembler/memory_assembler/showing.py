"""What may be shown of what was found: clean, without secrets, and no longer than could be told."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final

from context_assembler.errors import MissingExtraError
from context_assembler.recall.dedupe import Deduplicated, dedupe
from context_assembler.recall.fit_budget import CHARS_PER_TOKEN
from context_assembler.values.json_shapes import is_array
from context_assembler.values.memories.metadata import Metadata
from context_assembler.values.memories.records import MAX_ID_CHARS, MemoryRecord
from context_assembler.values.recall import Candidate
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.secret_masking import mask_secrets
from context_assembler.values.texts.secret_signs import may_hold_secret

WITHHELD_TEXT: Final = "[left out: it may hold a secret]"
_LEAST_CHARS: Final = 20_000
_SLACK_CHARS: Final = 4_000  # read behind the end, so that no secret is cut in two
_REMEMBERED_TEXTS: Final = 8_192
_REMEMBERED_CHARS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Candidates as they may be shown, each thing once, and those that may not, with the reason."""

    once: Deduplicated
    withheld: tuple[tuple[Candidate, str], ...] = ()

    @property
    def left_out(self) -> tuple[tuple[Candidate, str], ...]:
        """What is not shown, whatever the budget, and why."""
        return (*self.once.duplicates, *self.withheld)

    @property
    def notes(self) -> dict[str, str]:
        """A sentence about what may not be shown, by what it is about."""
        return _notes([reason for _, reason in self.withheld])


def chars_within(max_tokens: int) -> int:
    """Return from how many characters on no text fits so many tokens."""
    return max(_LEAST_CHARS, CHARS_PER_TOKEN * max_tokens)


def show_once(
    candidates: Sequence[Candidate], *, near_duplicate: float, masks_secrets: bool, most_chars: int
) -> Shown:
    """Return the candidates as they may be shown.

    Args:
        most_chars: Of longer texts the rest is not read.
    """
    shown: list[Candidate] = []
    withheld: list[tuple[Candidate, str]] = []
    for candidate in candidates:
        is_beginning = candidate.is_beginning or len(candidate.record.text) > most_chars
        try:
            record = show_record(
                candidate.record, masks_secrets=masks_secrets, most_chars=most_chars
            )
        except MissingExtraError as error:
            withheld.append((candidate, _reason(error)))
            continue
        if record is not candidate.record:
            candidate = replace(candidate, record=record, is_beginning=is_beginning)  # noqa: PLW2901
        shown.append(candidate)
    return Shown(once=dedupe(shown, near_duplicate=near_duplicate), withheld=tuple(withheld))


def show_records(
    records: Iterable[MemoryRecord], *, masks_secrets: bool
) -> tuple[list[MemoryRecord], dict[str, str]]:
    """Return the records as they may be shown, and a sentence about those that may not."""
    shown: list[MemoryRecord] = []
    reasons: list[str] = []
    for record in records:
        try:
            shown.append(show_record(record, masks_secrets=masks_secrets, most_chars=_LEAST_CHARS))
        except MissingExtraError as error:
            reasons.append(_reason(error))
    return shown, _notes(reasons)


def show_record(record: MemoryRecord, *, masks_secrets: bool, most_chars: int) -> MemoryRecord:
    """Return the record with everything that is told of it clean, and without secrets.

    Args:
        most_chars: Of a longer text the rest is not read.

    Raises:
        MissingExtraError: It may hold a secret, and what masks it is not installed.
    """
    clean = _masked if masks_secrets else clean_text

    def show(text: str, most: int = _LEAST_CHARS) -> str:
        return clean(text[: most + _SLACK_CHARS])[:most]

    author = record.author if record.author is None else show(record.author, MAX_ID_CHARS)
    metadata = record.metadata if record.metadata is None else _show_fields(record.metadata, show)
    text = show(record.text, most_chars)
    if text == record.text and author == record.author and metadata is record.metadata:
        return record
    return replace(record, text=text, author=author, metadata=metadata)


def show_text(text: str, *, masks_secrets: bool) -> str:
    """Return the text clean and without secrets; where these cannot be masked, a remark."""
    try:
        return _masked(text) if masks_secrets else clean_text(text)
    except MissingExtraError:
        return WITHHELD_TEXT


def _reason(error: MissingExtraError) -> str:
    return f"it may hold a secret: {error}".rstrip(".")


def _notes(reasons: Sequence[str]) -> dict[str, str]:
    return {"secrets": f"{len(reasons)} left out: {reasons[0]}"} if reasons else {}


def _masked(text: str) -> str:
    if len(text) <= _REMEMBERED_CHARS and _is_harmless(text):
        return text
    text = clean_text(text)
    return mask_secrets(text).text if may_hold_secret(text) else text


@lru_cache(_REMEMBERED_TEXTS)  # one recall finds much of what the one before it found
def _is_harmless(text: str) -> bool:
    """Whether the text can be shown as it is."""
    return clean_text(text) == text and not may_hold_secret(text)


def _show_fields(metadata: Metadata, show: Callable[[str], str]) -> Metadata:
    shown: dict[str, Any] = {}
    for field in fields(metadata):
        value: Any = getattr(metadata, field.name)
        told: Any = value
        if isinstance(value, str):
            told = show(value)
        elif is_array(value) and value:
            told = tuple(show(str(one)) for one in value)
        if told != value:
            shown[field.name] = told
    return replace(metadata, **shown) if shown else metadata
