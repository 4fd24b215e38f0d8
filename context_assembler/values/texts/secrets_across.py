"""Secrets in texts that are read one behind the other: masked in each, and across them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.key_ends import KEY_FRONT
from context_assembler.values.texts.secret_masking import (
    MOST_PASSES,
    PRIVATE_KEY,
    Secret,
    find_secrets,
    mask_secrets,
    put_lines,
)

# How providers and models read texts that follow each other: on lines of their own, or in a row.
_SEAMS: Final = ("\n", "")

# A key that is begun and not ended, lines that go on with it, and how it ends. Nothing goes back, so that no text takes long.
_BEGUN: Final = re.compile(
    r"-----BEGIN[ ](?:[A-Z0-9]+[ ]){0,4}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----[^-]{0,20000}\Z"
)
_END: Final = r"-----END[ ][A-Z0-9 ]{0,40}-----"
_REST: Final = re.compile(
    rf"""(?x) (?: {KEY_FRONT} [A-Za-z0-9+/]{{32,}}+ ={{0,2}}+ )*+
    (?: (?: {KEY_FRONT} [A-Za-z0-9+/=]{{1,80}}+ )? {KEY_FRONT} {_END} )?"""
)
_ENDED: Final = re.compile(rf"{_END}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedTexts:
    """Texts without their secrets, and the kinds of those that were there.

    `leaves_open`: whether a private key that begins in them may go on behind the last one.
    """

    texts: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    leaves_open: bool = False


def mask_across(texts: Sequence[str], *, is_open: bool = False) -> MaskedTexts:
    """Return the texts with a line of its kind in place of every secret; twice is as once.

    Of a secret that stands in several of them a line is in each, and no text becomes empty.

    Args:
        texts: In the order in which they are read.
        is_open: Whether a private key was begun before the first one.

    Raises:
        MissingExtraError: detect-secrets is not installed.
    """
    bare = list(map(clean_text, texts))
    masked, kinds, leaves_open = _mask_each(bare, is_open=is_open)
    if len(masked) > 1:
        for seam in _SEAMS:
            masked, more = _mask_joined(masked, seam=seam)
            kinds += more
    told = tuple(
        text if new == old else new for text, old, new in zip(texts, bare, masked, strict=True)
    )
    return MaskedTexts(texts=told, kinds=tuple(kinds), leaves_open=leaves_open)


def _mask_each(texts: Sequence[str], *, is_open: bool) -> tuple[list[str], list[str], bool]:
    """Return texts without what is a secret in each, and without lines that go on with a key."""
    masked, kinds = list[str](), list[str]()
    for at, text in enumerate(texts):
        key = _find_rest(text) if is_open else None
        if key is not None and at == 0:
            kinds.append(key.kind)  # of any other the text that it begins in has told
        is_open = _is_open_behind(text, key, was_open=is_open)
        found = mask_secrets(text if key is None else put_lines(text, [key]))
        masked.append(found.text)
        kinds += found.kinds
    return masked, kinds, is_open


def _find_rest(text: str) -> Secret | None:
    """Return what a text goes on with a private key with, if it does."""
    rest = _REST.match(text)
    return Secret(kind=PRIVATE_KEY, start=0, end=rest.end()) if rest and rest[0] else None


def _is_open_behind(text: str, key: Secret | None, *, was_open: bool) -> bool:
    if _BEGUN.search(text) is not None:
        return True
    if key is None:
        return was_open and not text.strip()
    return not text[key.end :].strip() and not _ENDED.search(text[: key.end])


def _mask_joined(texts: Sequence[str], *, seam: str) -> tuple[list[str], list[str]]:
    """Return texts without what is a secret where they are read in a row, and the kinds of that."""
    masked, kinds = list(texts), list[str]()
    for _ in range(MOST_PASSES):
        secrets = find_secrets(seam.join(masked))
        if not secrets:
            break
        kinds += (secret.kind for secret in secrets)
        starts = accumulate((len(text) + len(seam) for text in masked), initial=0)
        masked = [
            put_lines(text, _pieces_in(secrets, start=start, end=start + len(text)))
            for text, start in zip(masked, starts, strict=False)
        ]
    return masked, kinds


def _pieces_in(secrets: Sequence[Secret], *, start: int, end: int) -> Iterator[Secret]:
    """Yield the pieces of secrets that stand in a text, by their places in it."""
    for secret in secrets:
        if secret.start < end and secret.end > start:
            yield Secret(
                kind=secret.kind,
                start=max(secret.start, start) - start,
                end=min(secret.end, end) - start,
            )
