"""What the prompt cache will have of a call, what its input costs, and a session replayed call by call.

All of it is computed from recorded call rows and from what is sent, when somebody asks.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate, zip_longest
from typing import Any, Final, Literal, NamedTuple

from context_assembler.context import Request
from context_assembler.errors import ContextOverflowError
from context_assembler.events import (
    ASSISTANT,
    KIND_MASK,
    NOTE,
    SYSTEM,
    TOOL_CALL,
    USER,
    CallRow,
    JsonObject,
)
from context_assembler.models import ModelLimits, Price, price_at, protocol_for
from context_assembler.options import CachePolicy, TruncationSettings
from context_assembler.ports import Turn
from context_assembler.providers import PROVIDERS
from context_assembler.report import (
    CacheForecast,
    CacheSplit,
    InputPrice,
    PrefixBreak,
    ReportEntry,
)
from context_assembler.truncation import Cut, History, Lines, Plan, Shortened, marker_parts

_LOOK_BACK_BLOCKS: Final = 20
_MARKING_PROTOCOL: Final = "anthropic"
_IMPLICIT_MIN_TOKENS: Final = 1024  # if the row names no minimum
_STEP_TOKENS: Final = {"openai": 128}
_LIFETIME: Final = re.compile(r"(\d+)(s|m|h|d)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
# Gone after 5 to 10 minutes without use.
# https://platform.openai.com/docs/guides/prompt-caching (read 2026-11-27)
_IN_MEMORY: Final = timedelta(minutes=5)
_TOKENS_PER_PRICE: Final = 1_000_000
_NO_BOUND: Final = 1 << 62
_ROLES: Final = {
    SYSTEM: "system",
    NOTE: "system",
    ASSISTANT: "assistant",
    TOOL_CALL: "assistant",
}

STALE: Final = "stale_seq"
"""Key of a call row's details: the last reply whose reasoning was left out; not there: none was."""

# Rules by which reasoning that was sent before may not be sent any more.
_STRIPPED: Final = ("reasoning.prefix", "reasoning.chain")
# What these did to a message depends on it alone: it was done in every call.
_AS_EVER: Final = ("entry.", "media.")
_COMPACTED: Final = "A compaction stands for what was sent before."
_CHANGED: Final = "What stands for a message of the last call is another one."


# ---- what a provider's cache holds ----


class KnownPrefix(NamedTuple):
    """A beginning of a call that an earlier call had as well.

    Attributes:
        end: Where it ends: after system prompt and tools, where the earlier call ended, or inside.
        blocks: Content blocks of messages in it.
        used_at: When a call last began with it; `None`: nobody knows.
    """

    end: Literal["head", "call", "inside"]
    tokens: int
    blocks: int = 0
    used_at: datetime | None = None


class CallSize(NamedTuple):
    """How large a call is: its tokens, those before the messages, and its content blocks.

    `blocks_before_step` are those before the last reply of the model.
    """

    total_tokens: int
    head_tokens: int = 0
    blocks: int = 0
    blocks_before_step: int = 0


class PromptCache(NamedTuple):
    """The prompt cache of a model over a wire protocol.

    Attributes:
        policy: Whether the payload asks for caching, if that has to be asked for.
        charges_writes: Whether a provider that caches by itself has a price for it.
    """

    limits: ModelLimits
    protocol: str
    policy: CachePolicy = "auto"
    charges_writes: bool = False

    def split(
        self, size: CallSize, known: Iterable[KnownPrefix], *, now: datetime | None = None
    ) -> CacheSplit:
        """Return what of a call is read, written, or neither.

        Args:
            known: What earlier calls have in common with it.
            now: What lifetimes are compared with; without it nothing has expired.
        """
        if why := self._why_not(size):
            return CacheSplit(uncached_tokens=size.total_tokens, remarks=(why,))
        fitting = [prefix for prefix in known if self._is_found(prefix, size)]
        expired = [prefix for prefix in fitting if self._has_expired(prefix, now)]
        alive = (self._readable(prefix) for prefix in fitting if prefix not in expired)
        read, remarks = max(alive, default=0), tuple[str, ...]()
        if now is not None and max(map(self._readable, fitting), default=0) > read:
            longest = max(expired, key=lambda prefix: prefix.tokens)
            idle = now - (longest.used_at or now)
            idle_for, kept_for = _duration(idle), _duration(self._lifetime(longest) or idle)
            last = f"{longest.tokens:,} tokens were last used {idle_for} ago"
            remarks = (f"{last}, and are kept for {kept_for}.",)
        rest = size.total_tokens - read
        if not (self.is_marked or self.charges_writes):
            return CacheSplit(read_tokens=read, uncached_tokens=rest, remarks=remarks)
        writes_head = self._marks_head(size) and read < size.head_tokens and self._long
        long = size.head_tokens - read if writes_head else 0
        return CacheSplit(read, rest, long, remarks=remarks)

    @property
    def is_marked(self) -> bool:
        """Whether only what the payload marks is cached."""
        return self.limits.cache.mode == "explicit"

    @property
    def min_tokens(self) -> int:
        """The shortest prefix that is cached."""
        stated = self.limits.cache.min_tokens
        return (0 if self.is_marked else _IMPLICIT_MIN_TOKENS) if stated is None else stated

    def _why_not(self, size: CallSize) -> str:
        """Say why nothing of the call can be in a cache; empty if it can."""
        model = self.limits.id
        if self.limits.cache.mode == "none":
            return f"No prompt cache is known for {model}."
        if self.is_marked and self.protocol != _MARKING_PROTOCOL:
            return f"A payload of {self.protocol} marks nothing for the prompt cache of {model}."
        if self.is_marked and self.policy == "off":
            return "Nothing is marked for the prompt cache: cache='off'."
        if size.total_tokens < self.min_tokens:
            return f"{model} caches no prompt of fewer than {self.min_tokens:,} tokens."
        return ""

    def _is_found(self, prefix: KnownPrefix, size: CallSize) -> bool:
        """Whether the provider finds the prefix.

        A provider that caches by itself finds every common prefix. If prefixes are marked, those are
        found that an earlier call marked, at most 20 blocks before a mark of this one: at its end, and
        inside a long step.

        Source:
            https://platform.claude.com/docs/en/build-with-claude/prompt-caching (read 2026-11-27)
        """
        if not self.is_marked:
            return True
        if prefix.tokens < self.min_tokens or prefix.end == "inside":
            return False
        if prefix.end == "head":
            return self._marks_head(size)
        inside = size.blocks_before_step + _LOOK_BACK_BLOCKS - 1
        marks = (size.blocks, min(size.blocks, inside))
        return any(0 <= mark - prefix.blocks < _LOOK_BACK_BLOCKS for mark in marks)

    def _readable(self, prefix: KnownPrefix) -> int:
        """Return the tokens of the prefix that are read.

        Source:
            https://platform.openai.com/docs/guides/prompt-caching (read 2026-11-27): from 1,024
            tokens on, in increments of 128.
        """
        if prefix.tokens < self.min_tokens:
            return 0
        step = 1 if self.is_marked else _STEP_TOKENS.get(self.limits.provider, 1)
        return prefix.tokens - prefix.tokens % step

    def _marks_head(self, size: CallSize) -> bool:
        return self.is_marked and 0 < size.head_tokens >= self.min_tokens

    @property
    def _long(self) -> bool:
        return self.is_marked and "1h" in self.limits.cache.ttls

    def _lifetime(self, prefix: KnownPrefix) -> timedelta | None:
        """Return how long a prefix is kept without being used, at the least; `None`: not known."""
        ttls = self.limits.cache.ttls
        if prefix.end == "head" and self._long:
            return timedelta(hours=1)
        if not ttls or ttls[0] == "in_memory":
            return _IN_MEMORY if ttls else None
        found = _LIFETIME.fullmatch(ttls[0])
        return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None

    def _has_expired(self, prefix: KnownPrefix, now: datetime | None) -> bool:
        lifetime = self._lifetime(prefix)
        if now is None or prefix.used_at is None or lifetime is None:
            return False
        return now - prefix.used_at > lifetime


def _duration(time: timedelta) -> str:
    minutes = round(time.total_seconds() / 60)
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"


def price_input(split: CacheSplit, price: Price | None, *, model: str) -> InputPrice:
    """Return what the input of a call costs at one row of prices.

    Tokens written to a cache cost what input does if the provider caches by itself and has no price
    for writes.
    """
    if price is None or price.input is None:
        why = f"model_limits.yaml has no price for the input of {model}."
        return InputPrice(usd=None, uncached_usd=None, why_unknown=why)
    uncached_usd = split.total_tokens * price.input / _TOKENS_PER_PRICE
    short = split.written_tokens - split.long_written_tokens
    charged = (
        ("cache reads", split.read_tokens, price.cache_read),
        ("cache writes", short, price.cache_write),
        ("cache writes for the long lifetime", split.long_written_tokens, price.cache_write_1h),
    )
    missing = [name for name, tokens, each in charged if tokens and each is None]
    if missing:
        why = f"model_limits.yaml has no price for the {' and '.join(missing)} of {model}."
        return InputPrice(usd=None, uncached_usd=uncached_usd, why_unknown=why)
    usd = split.uncached_tokens * price.input
    usd += sum(tokens * (each or 0.0) for _, tokens, each in charged)
    return InputPrice(usd=usd / _TOKENS_PER_PRICE, uncached_usd=uncached_usd)


def _forecast(
    cache: PromptCache,
    size: CallSize,
    known: Iterable[KnownPrefix],
    *,
    now: datetime | None,
    today: date,
) -> CacheForecast:
    price = price_at(cache.limits, today=today, input_tokens=size.total_tokens)
    charges_writes = price is not None and price.cache_write is not None
    split = cache._replace(charges_writes=charges_writes).split(size, known, now=now)
    return CacheForecast(split, price_input(split, price, model=cache.limits.id))


# ---- the forecast of one call ----


class Outlook(NamedTuple):
    """What the forecast of a call depends on.

    Attributes:
        row: What `record` will keep of it.
        turns: What is sent, with the tokens of each turn.
        total_tokens: Of the whole call.
        calls: The session's recorded calls, oldest first.
        prefixes: Returns the prefix hash before each turn and after the last.
        entries: Returns the report's entries: they know why a message is not what it was.
        text_of: Returns the system prompt or tool list that a hash stands for.
        reply_id: The event of the last call's reply.
    """

    row: CallRow
    request: Request
    turns: Sequence[Turn]
    tokens: Sequence[int]
    total_tokens: int
    calls: Sequence[CallRow] = ()
    prefixes: Callable[[], Sequence[str]] = tuple
    entries: Callable[[], Sequence[ReportEntry]] = tuple
    text_of: Callable[[str], str | None] = lambda _: None
    reply_id: str = ""


def forecast_call(outlook: Outlook, *, today: date, now: datetime | None = None) -> CacheForecast:
    """Return what the provider will read, write and charge of a call's input.

    Args:
        today: Whose prices hold.
        now: What lifetimes are compared with; without it nothing has expired.
    """
    row, turns = outlook.row, outlook.turns
    ours = [call for call in outlook.calls if _route(call) == _route(row)]
    prefixes = list(outlook.prefixes()) if ours else []
    shared = {prefixes.index(c.prefix): _utc(c.created_at) for c in ours if c.prefix in prefixes}
    broken = _find_break(outlook, prefixes, max(shared, default=0))
    cap = len(turns) if broken is None else _first_unsigned(outlook)
    head_tokens = outlook.total_tokens - sum(outlook.tokens)
    ends = list(accumulate(outlook.tokens, initial=head_tokens))
    blocks = list(accumulate((len(turn["parts"]) for turn in turns), initial=0))
    roles = [turn["role"] for turn in turns]
    known: list[KnownPrefix] = []
    used_at: datetime | None = None
    for at in sorted((at for at in shared if at <= cap), reverse=True):
        # Whoever reads a long prefix has used the shorter ones in it as well.
        used_at = _later(used_at, shared[at])
        alike = _rendered_alike(roles.__getitem__, at, len(turns), row.provider)
        end: Literal["call", "inside"] = "call" if alike == at else "inside"
        known.append(KnownPrefix(end, ends[alike], blocks[alike], used_at))
    has_head = bool(ours) and _head(ours[-1]) == _head(row)
    if known or has_head:
        used_at = _later(used_at, ours[-1].created_at if has_head else None)
        known.append(KnownPrefix("head", head_tokens, 0, used_at))
    replies = [at for at, role in enumerate(roles) if role == "assistant"]
    before = blocks[replies[-1]] if replies else blocks[-1]
    size = CallSize(outlook.total_tokens, head_tokens, blocks[-1], before)
    cache = PromptCache(outlook.request.limits, row.provider, outlook.request.cache)
    forecast = _forecast(cache, size, known, now=now, today=today)
    longest = max((prefix.tokens for prefix in known), default=0)
    return forecast._replace(
        after=outlook.reply_id if outlook.calls else "",
        broken=None if broken is None else broken._replace(shared_tokens=longest),
    )


def prefixes_of(request: Request, provider: str, turns: Iterable[Turn]) -> list[str]:
    """Return the prefix hash before each turn and after the last; it takes as long as rendering."""
    wire = PROVIDERS[provider].Wire(request)
    prefixes = [wire.prefix()]
    for turn in turns:
        wire.add(turn)
        prefixes.append(wire.prefix())
    return prefixes


def _route(row: CallRow) -> tuple[str, str, str | None]:
    return row.provider, row.model, row.account


def _head(row: CallRow) -> tuple[str, str]:
    return row.system_hash, row.tools_hash


def _utc(moment: datetime | None) -> datetime | None:
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    moments = [moment for moment in (_utc(one), _utc(other)) if moment is not None]
    return max(moments, default=None)


def _rendered_alike(roles: Callable[[int], str], length: int, whole: int, protocol: str) -> int:
    """Return how many of the first messages are rendered as they were when they ended a payload.

    Claude takes a message of the system at the end of a turn only: with a message of the user after
    it, it becomes text of the user.
    https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-27)
    """
    if protocol != _MARKING_PROTOCOL or length >= whole:
        return length
    while length and roles(length) != "assistant" and roles(length - 1) == "system":
        length -= 1
    return length


def _find_break(outlook: Outlook, prefixes: Sequence[str], shared: int) -> PrefixBreak | None:
    """Return where this call is not what the last one was; `None`: it begins with all of it."""
    row, turns = outlook.row, outlook.turns
    if not outlook.calls:
        return None
    last = outlook.calls[-1]
    if _route(last) != _route(row):
        where = f"{last.model} over {last.provider}"
        if (last.provider, last.model) == (row.provider, row.model):
            where += f" under the account {last.account!r}"
        reason = f"The last call went to {where}; each has a cache of its own."
        return PrefixBreak("model", row.model, reason)
    if last.prefix in prefixes:
        # Prefix hashes do not count reasoning: what is left out of it from this call on is named here.
        stale = range(last.details.get(STALE, 0) + 1, row.details.get(STALE, 0) + 1)
        replies = (turn for turn in turns if turn["role"] == "assistant")
        left = next((turn for turn in replies if turn.get("seq", 0) in stale), None)
        if left is None:
            return None
        said = (one.reason for one in outlook.entries() if one.rule in _STRIPPED)
        return PrefixBreak("message", _name(left), next(said, "Its reasoning is left out."))
    if _head(last) != _head(row):
        piece, name = _changed_head(outlook, last)
        return PrefixBreak(piece, name, f"The {piece} is not what it was in the last call.")
    return _changed_message(outlook, shared)


def _changed_head(outlook: Outlook, last: CallRow) -> tuple[Literal["section", "tool"], str]:
    """Return the first section or tool that is not what it was in the last call."""
    row = outlook.row
    if last.system_hash != row.system_hash:
        old = outlook.text_of(last.system_hash) or ""
        changed = (one.name for one in outlook.request.sections if one.content not in old)
        return "section", next(changed, "system")
    texts = (outlook.text_of(call.tools_hash) or "[]" for call in (last, row))
    before, after = map(json.loads, texts)
    # Settled tools are stored as [declared, changes, after_seq]; see `SentTools.text`.
    before, after = (one[0] if one and isinstance(one[0], list) else one for one in (before, after))
    for old, new in zip_longest(before, after):
        if old != new:
            return "tool", str((new or old).get("name", ""))
    return "tool", ""


def _changed_message(outlook: Outlook, shared: int) -> PrefixBreak:
    """Name the first message that the last call did not send at its place, and why.

    Args:
        shared: With how many messages both begin, at the least.
    """
    behind, is_recut = outlook.turns[shared:], outlook.row.cut != outlook.calls[-1].cut
    name = _name(behind[0]) if behind else "the end"
    if behind and behind[0].get("kind") == "summary":
        reason = "It stands in for what the last call was sent before it."
        return PrefixBreak("message", name, reason)
    entries = [one for one in outlook.entries() if one.kind == "message" and one.decision != "kept"]
    dropped = next((one.reason for one in entries if one.rule.endswith((".drop", ".window"))), "")
    entries = [one for one in entries if is_recut or not one.rule.endswith(".shorten")]
    changes = {one.id: one.reason for one in entries if not one.rule.startswith(_AS_EVER)}
    for turn in behind:
        if is_recut and dropped and turn.get("kind") == "marker":
            return PrefixBreak("message", _name(turn), dropped)
        if (event_id := turn.get("id") or "?") in changes:
            return PrefixBreak("message", event_id, changes[event_id])
    moved = "It did not stand at this place in the last call."
    return PrefixBreak("message", name, dropped if is_recut and dropped else moved)


def _name(turn: Turn) -> str:
    return turn.get("id") or turn.get("note") or turn.get("kind", "said")


def _first_unsigned(outlook: Outlook) -> int:
    """Return the first reply whose reasoning may have been sent before, and is not any more."""
    turns = outlook.turns
    if outlook.request.limits.thinking.is_prefix_bound and any(
        one.rule in _STRIPPED for one in outlook.entries()
    ):
        for at, turn in enumerate(turns):
            is_signed = any(part.get("block") is not None for part in turn["parts"])
            if turn["role"] == "assistant" and not is_signed:
                return at
    return len(turns)


# ---- a session replayed ----


class CutPolicy(NamedTuple):
    """How a replayed session is made to fit; what is `None` is as settled for the session.

    Attributes:
        budget_tokens: Upper bound for the whole input, below the model's own.
        budget_share: The same as a share of the whole session, system prompt and tools included.
    """

    strategy: str | None = None
    cache_stable: bool | None = None
    budget_tokens: int | None = None
    budget_share: float | None = None


class Segment(NamedTuple):
    """The lines of a session from one compaction to the next.

    Attributes:
        kinds: Of each line, as for `truncation.History`; so are `tokens` and `lines`.
        seqs: Of each line's event; 0: it has none.
        blocks: Content blocks of each line.
        created: When each line happened, as a POSIX time; 0: nobody knows.
        after_seq: Replies up to here belong to the segment before.
    """

    kinds: Sequence[int]
    tokens: Sequence[int]
    seqs: Sequence[int]
    blocks: Sequence[int]
    created: Sequence[float]
    lines: Lines
    after_seq: int = 0


class SimulatedStep(NamedTuple):
    """One call of a replayed session.

    Attributes:
        seq: The reply that the call led to.
        tokens: The whole input; 0 if it could not be made to fit.
        shared_tokens: What it begins with that the call before began with as well, in whole
            messages: what a cache without rules of its own would have.
        rewrite: Why it does not begin with all that the call before sent; empty if it does.
        overflow: Why it could not be made to fit; empty if it could.
    """

    seq: int
    tokens: int = 0
    budget_tokens: int = 0
    shared_tokens: int = 0
    cut_id: int = 0
    forecast: CacheForecast | None = None
    rewrite: str = ""
    overflow: str = ""

    @property
    def usd(self) -> float | None:
        """What its input costs; `None`: not known, or not sent."""
        return None if self.forecast is None else self.forecast.price.usd


class SimulatedRun(NamedTuple):
    """A session replayed under one policy; `name` says which."""

    name: str
    policy: CutPolicy
    steps: tuple[SimulatedStep, ...]

    @property
    def tokens(self) -> int:
        """The input of all steps."""
        return sum(step.tokens for step in self.steps)

    @property
    def read_share(self) -> float:
        """The share of the input that is read from the prompt cache."""
        read = sum(step.forecast.split.read_tokens for step in self.steps if step.forecast)
        return read / self.tokens if self.tokens else 0.0

    @property
    def usd(self) -> float | None:
        """What the input of the steps that fit costs; `None`: no step fits, or a price is not known.

        If steps overflow, this is less than the session would have cost: see `overflows`.
        """
        prices = [step.usd for step in self.steps if not step.overflow]
        known = [usd for usd in prices if usd is not None]
        return sum(known) if len(known) == len(prices) and (known or not self.steps) else None

    @property
    def mean_fill(self) -> float:
        """The mean share of the budget that is used, over the steps that fit."""
        fills = [step.tokens / step.budget_tokens for step in self.steps if not step.overflow]
        return sum(fills) / len(fills) if fills else 0.0

    @property
    def rewrites(self) -> int:
        """How many steps do not begin with all that the one before sent."""
        return sum(bool(step.rewrite) for step in self.steps)

    @property
    def overflows(self) -> int:
        """How many steps could not be made to fit."""
        return sum(bool(step.overflow) for step in self.steps)


class Simulation(NamedTuple):
    """A session replayed for one model: everything sent each time, and under each policy.

    `session_tokens` is the last call with everything in it.
    """

    model: str
    session_tokens: int
    everything: SimulatedRun
    runs: tuple[SimulatedRun, ...] = ()

    @property
    def distinct_runs(self) -> tuple[SimulatedRun, ...]:
        """Sending everything, and then the runs, those of one name once."""
        by_name: dict[str, SimulatedRun] = {}
        for run in (self.everything, *self.runs):
            by_name.setdefault(run.name, run)
        return tuple(by_name.values())

    def relative_usd(self, run: SimulatedRun) -> float | None:
        """Return what a run costs, sending everything being 1.

        `None`: not known, or calls that did not fit are missing from either.
        """
        whole, usd = self.everything.usd, run.usd
        if run.overflows or self.everything.overflows or usd is None or not whole:
            return None
        return usd / whole

    def to_json(self) -> JsonObject:
        """Return the sums of each run as plain JSON."""
        names = ("name", "tokens", "mean_fill", "read_share", "rewrites", "overflows", "usd")
        runs = [
            {name: getattr(run, name) for name in names} | {"relative_usd": self.relative_usd(run)}
            for run in self.distinct_runs
        ]
        return {"model": self.model, "session_tokens": self.session_tokens, "runs": runs}


class Replay(NamedTuple):
    """What every call of a replayed session is made from.

    Attributes:
        segments: The session's lines, in order.
        fixed_tokens: Of system prompt, tools and overhead, as they are at this moment.
        budget_tokens: What the whole input may take.
        settings: How histories are cut, unless a policy says otherwise.
        today: Whose prices hold.
    """

    segments: Sequence[Segment]
    limits: ModelLimits
    fixed_tokens: int
    budget_tokens: int
    settings: TruncationSettings
    today: date
    cache: CachePolicy = "auto"


def simulate(replay: Replay, policies: Iterable[CutPolicy] = (CutPolicy(),)) -> Simulation:
    """Return what every call of a session would have cost.

    Each reply of the session answers a call that was made from what stands before it. System prompt
    and tools are those that hold at this moment, as if they had from the beginning; notes that are
    not recorded yet are left out.

    Raises:
        UnknownOptionError: A policy names no strategy that there is.
    """
    whole = tuple(_steps(replay._replace(budget_tokens=_NO_BOUND)))
    session_tokens = max((step.tokens for step in whole), default=0)
    runs: list[SimulatedRun] = []
    for policy in policies:
        bound = policy.budget_tokens
        if policy.budget_share is not None:
            bound = max(1, int(policy.budget_share * session_tokens))
        given = {"strategy": policy.strategy, "cache_stable": policy.cache_stable}
        changes: dict[str, Any] = {
            name: value for name, value in given.items() if value is not None
        }
        settings = TruncationSettings(**{**vars(replay.settings), **changes})
        budget = replay.budget_tokens if bound is None else min(bound, replay.budget_tokens)
        steps = tuple(_steps(replay._replace(settings=settings, budget_tokens=budget)))
        manner = "in steps" if settings.cache_stable else "no steps"
        size = "whole window" if bound is None else f"{bound:,}"
        runs.append(SimulatedRun(f"{settings.strategy}, {manner}, {size}", policy, steps))
    everything = SimulatedRun("everything", CutPolicy(), whole)
    return Simulation(replay.limits.id, session_tokens, everything, tuple(runs))


class _Sent:
    """What a call sent, line by line, with running sums; it grows until the next cut."""

    def __init__(self, replay: Replay, segment: Segment, cut: Cut | None, lines: int) -> None:
        self.cut_id, self.segment, self.upto = cut.id if cut is not None else 0, segment, lines
        self.keys: list[tuple[int, int, int]] = []
        self.tokens, self.blocks = [replay.fixed_tokens], [0]
        self.ends: list[int] = []  # after how many lines it, and those before it, ended
        self.last_reply = -1
        self.answered_at: datetime | None = None
        for first, end in [(0, lines)] if cut is None else cut.kept:
            for line in range(first, end):
                if cut is not None and line == cut.marker:
                    marker = marker_parts(cut.left_out)
                    self._add((-cut.left_out, USER, segment.lines.count(USER, marker)), 1)
                self._add_line(line, None if cut is None else cut.shortened.get(line))

    def grow(self, lines: int) -> None:
        """Add the lines up to here."""
        for line in range(self.upto, lines):
            self._add_line(line)
        self.upto = lines

    def _add_line(self, line: int, short: Shortened | None = None) -> None:
        segment = self.segment
        tokens = segment.tokens[line] if short is None else short.tokens
        key = segment.seqs[line], segment.kinds[line] & KIND_MASK, tokens
        self._add(key, segment.blocks[line])

    def role(self, at: int) -> str:
        """Return whose line it is."""
        return _ROLES.get(self.keys[at][1], "user")

    def _add(self, key: tuple[int, int, int], blocks: int) -> None:
        follows = bool(self.keys) and self.role(-1) == "assistant"
        if key[1] == ASSISTANT or (key[1] == TOOL_CALL and not follows):
            self.last_reply = len(self.keys)
        self.keys.append(key)
        self.tokens.append(self.tokens[-1] + key[2])
        self.blocks.append(self.blocks[-1] + blocks)


def _steps(replay: Replay) -> Iterator[SimulatedStep]:
    """Yield one step for each call; the next one passes over a call that cannot be sent."""
    before: _Sent | None = None
    for segment in replay.segments:
        history = History(stub_tokens=replay.settings.stub_tokens)
        room = replay.budget_tokens - replay.fixed_tokens
        plan = Plan(history, segment.lines, room_tokens=room, settings=replay.settings)
        for line in _replies(segment):
            at, seq = len(history), segment.seqs[line]
            history.extend(segment.kinds[at:line], segment.tokens[at:line])
            try:
                cut = plan.cut()
            except ContextOverflowError as error:
                yield SimulatedStep(seq, overflow=error.problem)
                continue
            step, before = _step(replay, segment, cut, before, line)
            yield step


def _step(
    replay: Replay, segment: Segment, cut: Cut | None, before: _Sent | None, line: int
) -> tuple[SimulatedStep, _Sent]:
    """Compare a call with the one before it; return the step, and what was sent."""
    protocol = protocol_for(replay.limits)
    earlier = [] if before is None else before.keys
    shared, rewrite, known = len(earlier), "", list[KnownPrefix]()
    if before is not None and before.segment is segment and before.cut_id == (cut.id if cut else 0):
        sent = before
        sent.grow(line)
    else:
        sent = _Sent(replay, segment, cut, line)
        pairs = enumerate(zip(earlier, sent.keys, strict=False))
        most = min(len(earlier), len(sent.keys))
        shared = next((at for at, (old, new) in pairs if old != new), most)
        if shared < len(earlier):
            rewrite = _CHANGED if cut is None else _said(cut)
            if before is not None and before.segment is not segment:
                rewrite = _COMPACTED
    if before is not None:
        alike = _rendered_alike(sent.role, shared, len(sent.keys), protocol)
        used_at, ends = before.answered_at, [end for end in before.ends if end <= alike]
        known = [KnownPrefix("head", sent.tokens[0], 0, used_at)]
        known.append(KnownPrefix("inside", sent.tokens[alike], 0, used_at))
        if ends:
            tokens, blocks = sent.tokens[ends[-1]], sent.blocks[ends[-1]]
            known.append(KnownPrefix("call", tokens, blocks, used_at))
        sent.ends = ends
    sent.ends.append(len(sent.keys))
    size = CallSize(sent.tokens[-1], sent.tokens[0], sent.blocks[-1], sent.blocks[sent.last_reply])
    cache, now = PromptCache(replay.limits, protocol, replay.cache), segment.created[line - 1]
    forecast = _forecast(cache, size, known, now=_moment(now), today=replay.today)
    sent.answered_at = _moment(segment.created[line])
    step = SimulatedStep(
        seq=segment.seqs[line],
        tokens=sent.tokens[-1],
        budget_tokens=replay.budget_tokens,
        shared_tokens=sent.tokens[shared] if before is not None else 0,
        cut_id=sent.cut_id,
        forecast=forecast,
        rewrite=rewrite,
    )
    return step, sent


def _replies(segment: Segment) -> Iterator[int]:
    """Yield the first line of each reply that answers something."""
    has_input, before = False, ""
    for line, kind in enumerate(segment.kinds):
        role = _ROLES.get(kind & KIND_MASK, "user")
        opens = kind & KIND_MASK == ASSISTANT or (role == "assistant" and before != role)
        if opens and has_input and segment.seqs[line] > segment.after_seq:
            yield line
        has_input, before = has_input or role != "system", role


def _said(cut: Cut) -> str:
    left_out, shortened = cut.left_out, len(cut.shortened)
    return f"The history is cut: {left_out:,} messages left out, {shortened:,} shortened."


def _moment(created: float) -> datetime | None:
    return datetime.fromtimestamp(created, UTC) if created else None
