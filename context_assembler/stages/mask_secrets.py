"""The step that masks secrets in what tools returned and users wrote."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from cachetools import LRUCache

from context_assembler.values.messages import Message, Role
from context_assembler.values.options import MaskedPlace
from context_assembler.values.parts import Part, ResultPart, Text, ToolResult
from context_assembler.values.report import ReportEntry

if TYPE_CHECKING:
    from context_assembler.values.texts.secret_masking import MaskedText

_PLACES_BY_ROLE: Final[dict[Role, MaskedPlace]] = {"tool": "tool_results", "user": "user"}
_MAX_REMEMBERED: Final = 16_384  # texts, by digest: the masked ones alone are kept whole

_P = TypeVar("_P", bound=Part | ResultPart)


class SecretMasker:
    """Masks secrets in messages; what is stored is never touched.

    Args:
        places: Where secrets are masked.
    """

    def __init__(self, places: Collection[MaskedPlace] = ()) -> None:
        self.places = frozenset(places)
        self._masked: LRUCache[bytes, MaskedText | None] = LRUCache(maxsize=_MAX_REMEMBERED)
        self._lock = Lock()

    def mask_messages(
        self, messages: Sequence[Message]
    ) -> tuple[tuple[Message, ...], tuple[ReportEntry, ...]]:
        """Return the messages without the secrets of the chosen places, and a row for each of them.

        Raises:
            MissingExtraError: Something is to be masked, and detect-secrets is not installed.
        """
        if self.places.isdisjoint(_PLACES_BY_ROLE.values()):
            return tuple(messages), ()
        entries: list[ReportEntry] = []
        return tuple(self._mask_message(message, entries) for message in messages), tuple(entries)

    def finds_secret(self, texts: Iterable[str]) -> bool:
        """Whether one of these texts of instruction files holds what is to be masked there.

        Raises:
            MissingExtraError: Files are to be masked, and detect-secrets is not installed.
        """
        return "files" in self.places and any(self._mask_text(text) is not None for text in texts)

    def _mask_message(self, message: Message, entries: list[ReportEntry]) -> Message:
        if _PLACES_BY_ROLE.get(message.role) not in self.places or message.kind != "said":
            return message
        kinds: list[str] = []
        parts = tuple(self._mask_part(part, kinds) for part in message.parts)
        if not kinds:
            return message
        from context_assembler.values.texts.secret_masking import MaskedText  # noqa: PLC0415 - see below

        notice = MaskedText(text="", kinds=tuple(kinds)).notice
        reason = f"{notice[:1].upper()}{notice[1:]}."
        entries.append(
            ReportEntry(
                kind="message",
                id=message.id,
                decision="repaired",
                reason=reason,
                rule="secrets.masked",
            )
        )
        return replace(message, parts=parts)

    def _mask_part(self, part: _P, kinds: list[str]) -> _P:
        if isinstance(part, ToolResult):
            content = tuple(self._mask_part(inner, kinds) for inner in part.content)
            return part if _is_same(content, part.content) else replace(part, content=content)
        if not isinstance(part, Text):
            return part
        masked = self._mask_text(part.text)
        if masked is None:
            return part
        kinds += masked.kinds
        return replace(part, text=masked.text)

    def _mask_text(self, text: str) -> "MaskedText | None":
        """Return the masked text; `None` where there is nothing to mask."""
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            if digest in self._masked:
                return self._masked[digest]
        # Most assemblers mask nothing, and the patterns are slow to import.
        from context_assembler.values.texts.secret_masking import mask_secrets  # noqa: PLC0415

        found = mask_secrets(text)
        masked = found if found.kinds else None
        with self._lock:
            self._masked[digest] = masked
        return masked


def _is_same(new: Iterable[ResultPart], old: Iterable[ResultPart]) -> bool:
    return all(one is other for one, other in zip(new, old, strict=True))
