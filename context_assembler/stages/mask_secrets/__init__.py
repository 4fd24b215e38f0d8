"""The step that masks secrets in what tools returned and users wrote."""

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from cachetools import LRUCache

from context_assembler.values.messages import Message
from context_assembler.values.options import MaskedPlace
from context_assembler.values.report import ReportEntry

if TYPE_CHECKING:
    from context_assembler.values.texts.secrets_across import MaskedTexts

_IN_MESSAGES: Final[frozenset[MaskedPlace]] = frozenset({"tool_results", "user"})
_MAX_REMEMBERED: Final = 16_384  # texts, by digest: the masked ones alone are kept whole


class Masked(NamedTuple):
    """Messages without secrets, and a row for each that held any.

    `leaves_open`: whether a private key in the last one may go on in the next.
    """

    messages: tuple[Message, ...]
    rows: tuple[ReportEntry, ...] = ()
    leaves_open: bool = False


class SecretMasker:
    """Masks secrets in messages; what is stored is never touched.

    Args:
        places: Where secrets are masked.
    """

    def __init__(self, places: Collection[MaskedPlace] = ()) -> None:
        self.places = frozenset(places)
        self._masked: LRUCache[bytes, tuple[MaskedTexts | None, bool]] = LRUCache(_MAX_REMEMBERED)
        self._lock = Lock()

    def mask_messages(self, messages: Sequence[Message], *, is_open: bool = False) -> Masked:
        """Return the messages without the secrets of the chosen places, and a row for each of them.

        A message is masked as those before it and itself want it, whatever follows.

        Args:
            messages: A repaired history, or a part of one.
            is_open: Whether a private key in the message before them may go on in the first one.

        Raises:
            MissingExtraError: Something is to be masked, and detect-secrets is not installed.
        """
        if self.places.isdisjoint(_IN_MESSAGES):
            return Masked(tuple(messages))
        # Most assemblers mask nothing.
        from context_assembler.stages.mask_secrets.messages import MessageMasker  # noqa: PLC0415

        masker = MessageMasker(places=self.places, mask_texts=self._mask_texts, is_open=is_open)
        masked = tuple(map(masker.mask, messages))
        return Masked(masked, tuple(masker.rows), masker.is_open)

    def finds_secret(self, texts: Iterable[str]) -> bool:
        """Whether one of these texts of instruction files holds what is to be masked there.

        Raises:
            MissingExtraError: Files are to be masked, and detect-secrets is not installed.
        """
        return "files" in self.places and any(self._mask_texts([t])[0] is not None for t in texts)

    def _mask_texts(
        self, texts: Sequence[str], is_open: bool = False
    ) -> tuple["MaskedTexts | None", bool]:
        """Return the masked texts, `None` where there is nothing to mask, and if a key is left open."""
        digest = _digest_of(texts, is_open=is_open)
        with self._lock:
            if digest in self._masked:
                return self._masked[digest]
        # The patterns are slow to import.
        from context_assembler.values.texts.secrets_across import mask_across  # noqa: PLC0415

        found = mask_across(texts, is_open=is_open)
        masked = (found if found.kinds else None), found.leaves_open
        with self._lock:
            self._masked[digest] = masked
        return masked


def _digest_of(texts: Iterable[str], *, is_open: bool) -> bytes:
    digest = blake2b(b"+" if is_open else b"", digest_size=16)
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded))
        digest.update(encoded)
    return digest.digest()
