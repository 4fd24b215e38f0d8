"""Encryption at rest: of bodies, derived forms, calls, sent texts and the records of sessions.

Columns are not encrypted: decisions are made on them, and what is old is found by them.
"""

import os
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final

from context_assembler.errors import MissingExtraError, StoreLockedError

_MARK: Final = b"\xff\xc0ca"  # no text and no JSON begins like this
_NONCE_BYTES: Final = 12


class Plain:
    """What a store without a key does: it encrypts nothing, and takes nothing encrypted for text."""

    def seal(self, raw: bytes) -> bytes:
        """Return what is stored for a value."""
        return raw

    def open(self, stored: bytes) -> bytes:
        """Return the value that was sealed, or that was stored without a key."""
        if stored[: len(_MARK)] == _MARK:
            raise _locked(_key_id(stored), "and no key was given")
        return stored


class Encryption(Plain):
    """Encrypts what a store keeps with AES-GCM; `open_store(url, encryption=Encryption(key_of))`.

    Each value names its key. To rotate, choose another `key_id`: what is stored from then on has
    that key, and `key_of` goes on returning the earlier ones for what was stored before.

    Args:
        key_of: Returns the key of an id, 16, 24 or 32 bytes; it is asked once for each id, in the
            thread that needs the key. If there is none, it raises a `LookupError`.
        key_id: Of the key that new values are encrypted with; at most 255 bytes.
    """

    def __init__(self, key_of: Callable[[str], bytes], *, key_id: str = "1") -> None:
        self.key_id, self._key_of = key_id, key_of
        self._ciphers: dict[str, Any] = {}

    def seal(self, raw: bytes) -> bytes:
        """Return what is stored for a value: mark, key id, nonce and the encrypted value."""
        name, nonce = self.key_id.encode(), os.urandom(_NONCE_BYTES)
        head = b"%b%c%b" % (_MARK, len(name), name)
        return head + nonce + bytes(self._cipher(self.key_id).encrypt(nonce, raw, head))

    def open(self, stored: bytes) -> bytes:
        """Return the value that was sealed, or that was stored without a key."""
        if stored[: len(_MARK)] != _MARK:
            return stored
        from cryptography.exceptions import InvalidTag

        key_id = _key_id(stored)
        at = len(_MARK) + 1 + len(key_id.encode())
        nonce, sealed = stored[at : at + _NONCE_BYTES], stored[at + _NONCE_BYTES :]
        try:
            return bytes(self._cipher(key_id).decrypt(nonce, sealed, stored[:at]))
        except (InvalidTag, ValueError) as error:
            reason = "and the key given is another one, or the value is damaged"
            raise _locked(key_id, reason) from error

    def _cipher(self, key_id: str) -> Any:
        if key_id not in self._ciphers:
            try:
                from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            except ImportError as error:
                raise MissingExtraError("Encryption at rest", extra="encryption") from error
            try:
                self._ciphers[key_id] = AESGCM(self._key_of(key_id))
            except (LookupError, TypeError, ValueError) as error:
                reason = f"and key_of returned no such key: {error}"
                raise _locked(key_id, reason) from error
        return self._ciphers[key_id]


def encryption_from_environment() -> Plain:
    """Return the encryption with the keys of the environment, the first for what is new, or none."""
    if not (given := os.environ.get("CONTEXT_ASSEMBLER_SESSIONS_KEY")):
        return Plain()
    pairs = (one.strip().rpartition(":") for one in given.split(","))
    keys = {key_id or "1": key for key_id, _, key in pairs}
    return Encryption(lambda name: b64decode(keys[name], validate=True), key_id=next(iter(keys)))


def _key_id(stored: bytes) -> str:
    start = len(_MARK) + 1
    return stored[start : start + stored[start - 1]].decode(errors="replace")


def _locked(key_id: str, reason: str) -> StoreLockedError:
    remedy = (
        "Open it with open_store(url, encryption=Encryption(key_of)) and have key_of return the 16, "
        "24 or 32 bytes of that key, or write them in base64 as "
        f"CONTEXT_ASSEMBLER_SESSIONS_KEY={key_id}:KEY."
    )
    return StoreLockedError(key_id, reason, remedy=remedy)
