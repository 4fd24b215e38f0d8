"""Payloads of which most was held against its provider's rules at an earlier step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.parts import Json
from context_assembler.values.reading import count_text_chars
from context_assembler.values.report import Violation
from context_assembler.values.spelled import facts_of
from context_assembler.values.wire import fresh_json

# What is limited over a whole payload is far away below these.
_MOST_CHARS: Final = 8 * 1024 * 1024
_MOST_ENTRIES: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SpelledPayload:
    """A payload, and what of its history was kept of an earlier one.

    Attributes:
        key: The field with the history.
        before: How many entries stand there before the conversation.
        settled: The first entries of the conversation as they are kept; the payload has copies.
        opening: What may stand in front of a reply, so that the rules take it as a beginning.
    """

    payload: dict[str, Json]
    key: str
    before: int
    settled: Sequence[dict[str, Json]] = ()
    opening: dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Approved:
    """The entries that break no rule beside these settings: the first `count` of a conversation.

    `last` is the last of them; an entry stands behind the same ones for as long as it is kept. `chars`
    are those of all text in both.
    """

    settings: Mapping[str, Json]
    limits: ModelLimits
    count: int
    last: dict[str, Json] | None
    chars: int


def is_approved(
    spelled: SpelledPayload,
    draft: Draft,
    *,
    provider: str,
    check: Callable[[dict[str, Json]], Sequence[Violation]],
) -> bool:
    """Whether the payload is known to break no rule that it would be refused for.

    Only what is not approved yet is held against the rules. It is parted in front of a reply, where no
    call waits and no turn goes on: what the rules say of both parts is what they say of the whole, but
    for what they limit over all of it, or look for further back. Where that may matter the answer is
    *no*.
    """
    kept, payload = draft.spelled, spelled.payload
    entries = payload[spelled.key]
    if kept is None or not spelled.settled or len(entries) > _MOST_ENTRIES:
        return False
    if not facts_of(draft.messages, kept).is_plain or "thinking" in payload:
        return False
    settings = {key: value for key, value in payload.items() if key != spelled.key}
    known = _known(kept.approved.get(provider), spelled, settings, draft.limits)
    new = spelled.settled[known.count :]
    chars = known.chars + count_text_chars(new)
    head = entries[: spelled.before]
    rest = entries[spelled.before + len(spelled.settled) :]
    if chars + count_text_chars([head, rest]) > _MOST_CHARS:
        return False
    opening = [spelled.opening] if known.count else []
    unknown = [*head, *opening, *entries[spelled.before + known.count :]]
    if _is_refused(check({**settings, spelled.key: unknown})):
        return False
    if new:
        kept.approved[provider] = _Approved(
            settings=known.settings if known.count else fresh_json(settings),
            limits=draft.limits,
            count=len(spelled.settled),
            last=spelled.settled[-1],
            chars=chars,
        )
    return True


def _known(
    approved: Any, spelled: SpelledPayload, settings: Mapping[str, Json], limits: ModelLimits
) -> _Approved:
    """Return what of the settled entries is approved: those of this very conversation."""
    if (
        isinstance(approved, _Approved)
        and approved.count <= len(spelled.settled)
        and spelled.settled[approved.count - 1] is approved.last
        and approved.limits == limits
        and approved.settings == settings
    ):
        return approved
    chars = count_text_chars(settings)
    return _Approved(settings=settings, limits=limits, count=0, last=None, chars=chars)


def _is_refused(violations: Sequence[Violation]) -> bool:
    return any(violation.level == "refused" for violation in violations)
