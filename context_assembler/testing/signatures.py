"""Signed thinking: made over the prefix that the model saw, refused where the prefix changed.

Source:
    https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-27)
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

from context_assembler.testing.segments import LeftOut, Segment, prefix_digests
from context_assembler.values.limits import ModelLimits
from context_assembler.values.wire import compact_json

_SEAL_KEY: Final = b"context-assembler local provider"
_UNREADABLE: Final = "Invalid `signature` in `thinking` block"
_BOUND: Final = (
    "Invalid signature in thinking block. The block is bound to a different conversation: what "
    "stood before it when it was made is not what stands before it in this request."
)
_BROKEN_CHAIN: Final = (
    "Invalid signature in thinking block. A thinking block between this one and an earlier one is "
    "missing: blocks may be left out from the start of the conversation only."
)
_MESSAGES: Final[Mapping[str, str]] = {
    "seal": _UNREADABLE,
    "prefix": _BOUND,
    "chain": _BROKEN_CHAIN,
}

Fault: TypeAlias = Literal["seal", "model", "prefix", "chain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seal:
    model: str
    prefix: str
    previous: str
    text: str


def sign_thinking(text: str, *, limits: ModelLimits, segments: Sequence[Segment]) -> str:
    """Return the signature of a thinking block that is made behind these segments.

    Args:
        text: The block's text as it is sent, which may be empty.
    """
    readable = [s for s in segments if s.thinking is not None and is_readable(s, limits)]
    seal = _Seal(
        model=limits.id,
        prefix=_last(prefix_digests(segments, with_thinking=False)),
        previous=_signature(readable[-1]) if readable else "",
        text=_digest(text),
    )
    body = compact_json(asdict(seal) | {"previous": _digest(seal.previous)}).encode()
    return urlsafe_b64encode(_mac(body) + body).decode()


def find_bad_thinking(segments: Sequence[Segment], *, limits: ModelLimits) -> str | None:
    """Return the provider's message for the first thinking block that it would refuse.

    Blocks of another model pass: the provider leaves them out by itself. Only models whose row says
    so are bound to the prefix.
    """
    for segment, fault in _judge_thinking(segments, limits):
        if fault is not None and fault in _MESSAGES:
            return f"{segment.path}: {_MESSAGES[fault]}"
    return None


def find_left_out(segments: Sequence[Segment], *, limits: ModelLimits) -> tuple[LeftOut, ...]:
    """Return the thinking blocks that a provider which does not refuse them would not use."""
    return tuple(
        LeftOut(path=segment.path, reason=f"{fault}_mismatch")
        for segment, fault in _judge_thinking(segments, limits)
        if fault is not None
    )


def _judge_thinking(
    segments: Sequence[Segment], limits: ModelLimits
) -> Iterator[tuple[Segment, Fault | None]]:
    """Yield every thinking block, with what is wrong with it."""
    before = ["", *prefix_digests(segments, with_thinking=False)]
    previous: str | None = None
    for position, segment in enumerate(segments):
        if segment.thinking is None:
            continue
        seal = _open(segment)
        if seal is None:
            yield segment, "seal"
        elif seal.model != limits.id:
            yield segment, "model"
        elif not limits.thinking.is_prefix_bound:
            yield segment, None
        elif seal.prefix != before[position]:
            yield segment, "prefix"
        elif previous is not None and seal.previous != _digest(previous):
            yield segment, "chain"
        else:
            previous = _signature(segment)
            yield segment, None


def is_readable(segment: Segment, limits: ModelLimits | None = None) -> bool:
    """Whether a block of signed thinking was made here, by that model, and is as it was."""
    seal = _open(segment)
    return seal is not None and (limits is None or seal.model == limits.id)


def _open(segment: Segment) -> _Seal | None:
    """Return what a signature says; `None` when it, or the text it stands for, was tampered with."""
    assert segment.thinking is not None
    try:
        sealed = urlsafe_b64decode(_signature(segment).encode())
        seal = _Seal(**json.loads(sealed[16:]))
    except (ValueError, TypeError):
        return None
    is_ours = sealed[:16] == _mac(sealed[16:])
    return seal if is_ours and seal.text == _digest(segment.thinking.get("thinking")) else None


def _signature(segment: Segment) -> str:
    return str((segment.thinking or {}).get("signature", ""))


def _mac(body: bytes) -> bytes:
    return blake2b(body, key=_SEAL_KEY, digest_size=16).digest()


def _digest(text: object) -> str:
    return blake2b(str(text).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _last(digests: Iterable[str]) -> str:
    last = ""
    for digest in digests:
        last = digest
    return last
