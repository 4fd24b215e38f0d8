"""The step that tells what the provider will read from its prompt cache, write to it, and charge."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import accumulate, zip_longest
from typing import TypeAlias, TypeVar

from context_assembler.limits import price_at
from context_assembler.stages.name_break import STRIPPED, may_break_chains, name_break
from context_assembler.values.answered_calls import AnsweredCall, with_zone
from context_assembler.values.changing import changed
from context_assembler.values.draft import Draft
from context_assembler.values.epochs import Epoch, SentEpoch
from context_assembler.values.forecasts import BrokenPiece, CacheForecast, PrefixBreak
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message
from context_assembler.values.options import CachePolicy
from context_assembler.values.prices import price_input
from context_assembler.values.prompt import PromptSection
from context_assembler.values.prompt_caches import (
    CallSize,
    KnownPrefix,
    PromptCache,
    spelled_alike,
)
from context_assembler.values.report import ReportEntry
from context_assembler.values.tool_changes import is_told_alike
from context_assembler.values.tools import ToolSpec

LastSent: TypeAlias = Callable[[AnsweredCall], Draft | None]

_Named = TypeVar("_Named", PromptSection, ToolSpec)


def forecast_cache(
    size: CallSize,
    known: Iterable[KnownPrefix],
    *,
    limits: ModelLimits,
    protocol: str,
    policy: CachePolicy = "auto",
    now: datetime | None = None,
    today: date,
) -> CacheForecast:
    """Return what of a call is read, written, or neither, and what that costs.

    Args:
        known: What earlier calls have in common with it.
        now: Against which lifetimes are judged; without it nothing has expired.
        today: Whose prices hold.
    """
    price = price_at(limits, today=today, input_tokens=size.total_tokens)
    cache = PromptCache(
        limits=limits,
        protocol=protocol,
        policy=policy,
        charges_writes=price is not None and price.cache_write is not None,
    )
    split = cache.split(size, known, now=now)
    return CacheForecast(split=split, price=price_input(split, price, model=limits.id))


@dataclass(frozen=True, kw_only=True)
class CacheOutlook:
    """Everything that the forecast of one call depends on.

    Attributes:
        message_tokens: Of each message of the draft.
        total_tokens: Of the whole call; what the messages leave of it stands before them.
        calls: The session's answered calls, the last one last.
        account: What a reply is bound to beside its model, as it is recorded.
        fingerprints: Those of the draft's boundaries, as the protocol spells it.
        epoch: What stands in front of the conversation, and what stood there in the last call.
        entries: The rows of the report: they know why a message is not what it was.
        last_sent: Makes once more what a call sent; `None`: it was sent under other settings.
        held_messages: How many messages it keeps in memory for that.
        now: Against which lifetimes are judged; without it nothing has expired.
    """

    draft: Draft
    protocol: str
    message_tokens: Sequence[int]
    total_tokens: int
    fingerprints: Callable[[Draft], tuple[str, ...]]
    calls: Sequence[AnsweredCall] = ()
    account: str | None = None
    last_sent: LastSent = field(repr=False, compare=False)
    held_messages: int = field(default=0, compare=False)
    epoch: Epoch
    epoch_before: SentEpoch | None = None
    entries: Sequence[ReportEntry] = ()
    now: datetime | None = None
    today: date

    def at(self, now: datetime) -> "CacheOutlook":
        """Return the same for a call that is made at this time."""
        return changed(self, now=with_zone(now), today=now.date())

    def forecast(self) -> CacheForecast:
        """Return what the provider will read, write and charge."""
        ours = [call for call in self.calls if self._is_ours(call)]
        prints = self.fingerprints(self.draft) if ours else ()
        shared = _shared_boundaries(ours, prints)
        broken = self._find_break(prints, shared_messages=max(shared, default=0))
        cap = len(self.draft.messages) if broken is None else self._first_unsigned()
        known = list(self._known({at: used for at, used in shared.items() if at <= cap}, ours))
        forecast = forecast_cache(
            self._size(),
            known,
            limits=self.draft.limits,
            protocol=self.protocol,
            policy=self.draft.cache,
            now=self.now,
            today=self.today,
        )
        longest = max((prefix.tokens for prefix in known), default=0)
        return replace(
            forecast,
            after=self.calls[-1].event_id if self.calls else "",
            broken=None if broken is None else replace(broken, shared_tokens=longest),
        )

    def _is_ours(self, call: AnsweredCall) -> bool:
        made_by = call.made_by
        asked = (self.protocol, self.draft.limits.id, self.account)
        return (made_by.provider, made_by.model, made_by.account) == asked

    def _known(
        self, shared: Mapping[int, datetime | None], ours: Sequence[AnsweredCall]
    ) -> Iterator[KnownPrefix]:
        """Yield what earlier calls have in common with this one.

        Who reads a long prefix has used the shorter ones in it as well.
        """
        tokens = [self._size().head_tokens, *self.message_tokens]
        ends = list(accumulate(tokens))
        blocks = [0, *accumulate(map(_blocks_of, self.draft.messages))]
        used_at: datetime | None = None
        for at in sorted(shared, reverse=True):
            used_at = _later(used_at, shared[at])
            alike = spelled_alike(self.draft.messages, at, protocol=self.protocol)
            yield KnownPrefix(
                end="call" if alike == at else "inside",
                tokens=ends[alike],
                blocks=blocks[alike],
                used_at=used_at,
            )
        if ours and self._has_head_of(ours[-1]):
            used_at = _later(used_at, ours[-1].at)
        elif not shared:
            return
        yield KnownPrefix(end="head", tokens=ends[0], used_at=used_at)

    def _has_head_of(self, call: AnsweredCall) -> bool:
        """Whether the system prompt and the tools are those of a call."""
        sent = self.epoch_before
        return sent is not None and sent.made_by == call.made_by and not self._changed_head(sent)

    def _changed_head(self, sent: SentEpoch) -> tuple[BrokenPiece, str] | None:
        """Return the first section or tool that is another one than in the last call."""
        old, new = sent.epoch, self.epoch
        if name := _first_change(old.sections, new.sections, _says_the_same):
            return "section", name
        name = _first_change(old.tools, new.tools, is_told_alike)
        return ("tool", name) if name else None

    def _size(self) -> CallSize:
        messages = self.draft.messages
        replies = [at for at, message in enumerate(messages) if message.role == "assistant"]
        blocks = list(map(_blocks_of, messages))
        before = replies[-1] if replies else len(messages)
        return CallSize(
            total_tokens=self.total_tokens,
            head_tokens=self.total_tokens - sum(self.message_tokens),
            blocks=sum(blocks),
            blocks_before_step=sum(blocks[:before]),
        )

    def _find_break(self, prints: Sequence[str], *, shared_messages: int) -> PrefixBreak | None:
        """Return where this call is not what the last one was; `None`: it begins with all of it."""
        if not self.calls:
            return None
        last = self.calls[-1]
        if not self._is_ours(last):
            made_by = last.made_by
            where = f"{made_by.model} over {made_by.provider}"
            if (made_by.provider, made_by.model) == (self.protocol, self.draft.limits.id):
                where += f" under the account {made_by.account!r}"
            reason = f"The last call went to {where}; each has a cache of its own."
            return PrefixBreak(piece="model", id=self.draft.limits.id, reason=reason)
        if last.fingerprint in prints:
            return self._find_left_reasoning(last, shared=prints.index(last.fingerprint))
        sent = self.epoch_before
        if sent is not None and sent.made_by == last.made_by and (head := self._changed_head(sent)):
            piece, name = head
            reason = f"The {piece} is not what it was in the last call."
            return PrefixBreak(piece=piece, id=name, reason=reason)
        before = self.last_sent(last)
        if before is None:
            return name_break(self.draft.messages, self.entries, shared=shared_messages)
        old = self.fingerprints(before)
        shared = next(at for at, pair in enumerate(zip_longest(old, prints)) if len(set(pair)) > 1)
        return name_break(
            self.draft.messages, self.entries, shared=shared - 1, before=before.messages
        )

    def _find_left_reasoning(self, last: AnsweredCall, *, shared: int) -> PrefixBreak | None:
        """Return the first reply whose reasoning the last call sent, and this one does not.

        Fingerprints may not tell: a provider's own do not count reasoning. What is missing of a chain
        leaves out what stands before it, in this call for the first time where it stands behind
        all that the last one sent.
        """
        messages = self.draft.messages
        if not may_break_chains(self.entries, within={one.id for one in messages[:shared]}):
            return None
        before = self.last_sent(last)
        signed = {one.id for one in before.messages if one.is_signed} if before else set[str]()
        left = (at for at, one in enumerate(messages) if one.id in signed and not one.is_signed)
        at = next(left, None)
        if before is None or at is None:
            return None
        return name_break(messages, self.entries, shared=at, before=before.messages)

    def _first_unsigned(self) -> int:
        """Return the first reply whose reasoning may have been sent before, and is not any more."""
        messages = self.draft.messages
        if not self.draft.limits.thinking.is_prefix_bound:
            return len(messages)
        if not any(row.rule in STRIPPED for row in self.entries):
            return len(messages)
        replies = (
            at
            for at, message in enumerate(messages)
            if message.role == "assistant" and not message.is_signed
        )
        return next(replies, len(messages))


def _shared_boundaries(
    calls: Iterable[AnsweredCall], prints: Sequence[str]
) -> dict[int, datetime | None]:
    """Return behind how many messages earlier calls ended that this one begins with, and when."""
    places = {fingerprint: at for at, fingerprint in enumerate(prints)}
    found: dict[int, datetime | None] = {}
    for call in calls:
        at = places.get(call.fingerprint)
        if at is not None:
            found[at] = call.at
    return found


def _says_the_same(one: PromptSection, other: PromptSection) -> bool:
    return one.content == other.content


def _first_change(
    before: Sequence[_Named], after: Sequence[_Named], is_same: Callable[[_Named, _Named], bool]
) -> str:
    """Return the name of the first that is not what stood there before; empty: all are."""
    for old, new in zip(before, after, strict=False):
        if not is_same(old, new):
            return new.name
    longer = max(before, after, key=len)
    rest = longer[min(len(before), len(after)) :]
    return rest[0].name if rest else ""


def _blocks_of(message: Message) -> int:
    return len(message.parts)


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    if one is None or other is None:
        return one or other
    return max(one, other)
