"""What the prompt cache will have of a call, what its input costs, and a session replayed call by call.

All of it is computed from recorded call rows and from what is sent, when somebody asks.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from itertools import accumulate, zip_longest
from typing import Final, Literal, NamedTuple

from context_assembler.context import Request
from context_assembler.errors import ContextOverflowError
from context_assembler.events import ASSISTANT, KIND_MASK, NOTE, SYSTEM, TOOL_CALL, USER, CallRow
from context_assembler.models import ModelLimits, Price, price_at, protocol_for
from context_assembler.options import CachePolicy, TruncationSettings
from context_assembler.ports import Turn
from context_assembler.providers import PROVIDERS
from context_assembler.report import CacheForecast, CacheSplit, InputPrice, PrefixBreak, ReportEntry
from context_assembler.truncation import Cut, History, Lines, Plan, Shortened

_LOOK_BACK_BLOCKS: Final = 20
_MARKING_PROTOCOL: Final = "anthropic"
_IMPLICIT_MIN_TOKENS: Final = 1024  # if the row names no minimum
_STEP_TOKENS: Final = {"openai": 128}
# By the names of model_limits.yaml. What is kept in memory is gone after 5 to 10 minutes without use.
# https://platform.openai.com/docs/guides/prompt-caching (read 2026-11-27)
_LIFETIME_MINUTES: Final = {"in_memory": 5, "5m": 5, "30m": 30, "1h": 60, "24h": 1440}
_TOKENS_PER_PRICE: Final = 1_000_000
_NO_BOUND: Final = 1 << 62
_NO_PRICE: Final = Price()
_CUT: Final = ("strategy", "cache_stable")  # what a policy says of `TruncationSettings`

STALE: Final = "stale_seq"
"""Key of a call row's details: the last reply whose reasoning was left out; not there: none was."""

# Rules by which reasoning that was sent before may not be sent any more.
_STRIPPED: Final = ("reasoning.prefix", "reasoning.chain")
# What these did to a message depends on it alone: it was done in every call.
_AS_EVER: Final = ("entry.", "media.")
_COMPACTED: Final = "A compaction stands for what was sent before."


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

    `policy` is whether the payload asks for caching, if that has to be asked for.
    """

    limits: ModelLimits
    protocol: str
    policy: CachePolicy = "auto"

    def forecast(
        self, size: CallSize, known: Iterable[KnownPrefix], *, now: datetime | None, today: date
    ) -> CacheForecast:
        """Return what of a call is read or written, and what its input costs on a day.

        Args:
            known: What earlier calls have in common with it.
            now: What lifetimes are compared with; without it nothing has expired.
        """
        price = price_at(self.limits, today=today, input_tokens=size.total_tokens) or _NO_PRICE
        split = self._split(size, known, now, price)
        return CacheForecast(split, price_input(split, price, model=self.limits.id))

    def _split(
        self, size: CallSize, known: Iterable[KnownPrefix], now: datetime | None, price: Price
    ) -> CacheSplit:
        """Return what of a call is read, written, or neither.

        A provider that caches by itself writes what there is a price for.
        """
        if why := self._why_not(size):
            return CacheSplit(uncached_tokens=size.total_tokens, remarks=(why,))
        read, longest, remark = 0, 0, ""
        for prefix in known:
            tokens, expired = self._readable(prefix, size), self._expired(prefix, now)
            if not expired:
                read = max(read, tokens)
            elif tokens > longest:
                longest, remark = tokens, expired
        remarks = (remark,) if longest > read else ()
        rest = size.total_tokens - read
        if not self.is_marked and price.cache_write is None:
            return CacheSplit(read, uncached_tokens=rest, remarks=remarks)
        has_long = self._marks_head(size) and self._has_long
        long = max(0, size.head_tokens - read) if has_long else 0
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

    def _readable(self, prefix: KnownPrefix, size: CallSize) -> int:
        """Return the tokens of the prefix that the provider finds.

        A provider that caches by itself finds every common prefix, some in steps of 128 tokens. If
        prefixes are marked, those are found that an earlier call marked, at most 20 blocks before a
        mark of this one: at its end, and inside a long step.

        Source:
            https://platform.claude.com/docs/en/build-with-claude/prompt-caching (read 2026-11-27)
            https://platform.openai.com/docs/guides/prompt-caching (read 2026-11-27)
        """
        if prefix.tokens < self.min_tokens:
            return 0
        if not self.is_marked:
            return prefix.tokens - prefix.tokens % _STEP_TOKENS.get(self.limits.provider, 1)
        inside = size.blocks_before_step + _LOOK_BACK_BLOCKS - 1
        marks = (size.blocks, min(size.blocks, inside))
        is_found = {
            "head": self._marks_head(size),
            "call": any(0 <= mark - prefix.blocks < _LOOK_BACK_BLOCKS for mark in marks),
            "inside": False,
        }
        return prefix.tokens if is_found[prefix.end] else 0

    def _marks_head(self, size: CallSize) -> bool:
        return self.is_marked and 0 < size.head_tokens >= self.min_tokens

    @property
    def _has_long(self) -> bool:
        return self.is_marked and "1h" in self.limits.cache.ttls

    def _expired(self, prefix: KnownPrefix, now: datetime | None) -> str:
        """Say that the prefix was kept too long without use; empty if it was not, as far as is known."""
        ttls = self.limits.cache.ttls
        is_long = prefix.end == "head" and self._has_long
        kept = _LIFETIME_MINUTES.get("1h" if is_long else ttls[0] if ttls else "")
        if now is None or prefix.used_at is None or kept is None:
            return ""
        idle = (now - prefix.used_at).total_seconds() / 60
        if idle <= kept:
            return ""
        last = f"{prefix.tokens:,} tokens were last used {_duration(idle)} ago"
        return f"{last}, and are kept for {_duration(kept)}."


def _duration(minutes: float) -> str:
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def price_input(split: CacheSplit, price: Price, *, model: str) -> InputPrice:
    """Return what the input of a call costs at one row of prices.

    Tokens written to a cache cost what input does if the provider caches by itself and has no price
    for writes.
    """
    short = split.written_tokens - split.long_written_tokens
    charged = (
        ("input", split.uncached_tokens, price.input),
        ("cache reads", split.read_tokens, price.cache_read),
        ("cache writes", short, price.cache_write),
        ("cache writes for the long lifetime", split.long_written_tokens, price.cache_write_1h),
    )
    uncached = None
    if price.input is not None:
        uncached = split.total_tokens * price.input / _TOKENS_PER_PRICE
    if missing := [name for name, tokens, each in charged if tokens and each is None]:
        why = f"model_limits.yaml has no price for the {' and '.join(missing)} of {model}."
        return InputPrice(None, uncached, why)
    usd = sum(tokens * (each or 0.0) for _, tokens, each in charged)
    return InputPrice(usd / _TOKENS_PER_PRICE, uncached)


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
        cleared_tokens: What the provider cleared of the last call, and will clear again.
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
    cleared_tokens: int = 0


def forecast_call(outlook: Outlook, *, today: date, now: datetime | None = None) -> CacheForecast:
    """Return what the provider will read, write and charge of a call's input.

    Args:
        today: Whose prices hold.
        now: What lifetimes are compared with; without it nothing has expired.
    """
    row, turns = outlook.row, outlook.turns
    ours = [call for call in outlook.calls if _route(call) == _route(row)]
    prefixes = list(outlook.prefixes()) if ours else []
    ends_at = {prefixes.index(call.prefix): call for call in ours if call.prefix in prefixes}
    stale_at = _first_stale(outlook)
    head_tokens, cleared = outlook.total_tokens - sum(outlook.tokens), outlook.cleared_tokens
    tokens = list(accumulate(outlook.tokens, initial=head_tokens))
    tokens = [max(head_tokens, each - cleared) for each in tokens]
    blocks = list(accumulate((len(turn["parts"]) for turn in turns), initial=0))
    known: list[KnownPrefix] = []
    used_at: datetime | None = None
    for at in sorted((at for at in ends_at if at <= stale_at), reverse=True):
        # Whoever reads a long prefix has used the shorter ones in it as well.
        used_at = _later(used_at, ends_at[at].created_at)
        known.append(KnownPrefix("call", tokens[at], blocks[at], used_at))
    has_head = bool(ours) and _head(ours[-1]) == _head(row)
    if known or has_head:
        used_at = _later(used_at, ours[-1].created_at if has_head else None)
        known.append(KnownPrefix("head", head_tokens, 0, used_at))
    replies = [at for at, turn in enumerate(turns) if turn["role"] == "assistant"]
    before = blocks[replies[-1] if replies else -1]
    size = CallSize(tokens[-1], head_tokens, blocks[-1], before)
    cache = PromptCache(outlook.request.limits, row.provider, outlook.request.cache)
    forecast = cache.forecast(size, known, now=now, today=today)
    if cleared:
        # https://platform.claude.com/docs/en/build-with-claude/context-editing (read 2026-11-30)
        told = f"The provider clears {cleared:,} tokens; if it clears more, less is read."
        remarks = (*forecast.split.remarks, told)
        forecast = forecast._replace(split=forecast.split._replace(remarks=remarks))
    if not outlook.calls:
        return forecast
    broken = _find_break(outlook, prefixes, max(ends_at, default=0), stale_at)
    return forecast._replace(after=outlook.reply_id, broken=broken)


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


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    known = [at if at.tzinfo else at.replace(tzinfo=UTC) for at in (one, other) if at is not None]
    return max(known, default=None)


def _first_stale(outlook: Outlook) -> int:
    """Return the first reply whose reasoning the last call sent, and this one leaves out.

    Prefix hashes do not count reasoning.
    """
    turns, before = outlook.turns, 0
    if outlook.calls:
        before = outlook.calls[-1].details.get(STALE, 0)
    stale = range(before + 1, outlook.row.details.get(STALE, 0) + 1)
    replies = (at for at, turn in enumerate(turns) if turn["role"] == "assistant")
    return next((at for at in replies if turns[at].get("seq", 0) in stale), len(turns))


def _find_break(
    outlook: Outlook, prefixes: Sequence[str], shared: int, stale_at: int
) -> PrefixBreak | None:
    """Return where this call is not what the last one was; `None`: it begins with all of it."""
    row, last = outlook.row, outlook.calls[-1]
    if _route(last) != _route(row):
        where = f"{last.model} over {last.provider}"
        if (last.provider, last.model) == (row.provider, row.model):
            where += f" under the account {last.account!r}"
        reason = f"The last call went to {where}; each has a cache of its own."
        return PrefixBreak("model", row.model, reason)
    if last.prefix in prefixes:
        if stale_at == len(outlook.turns):
            return None
        reasons = (one.reason for one in outlook.entries() if one.rule in _STRIPPED)
        reason = next(reasons, "Its reasoning is left out.")
        return PrefixBreak("message", _name(outlook.turns[stale_at]), reason)
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
    # Settled tools are stored as [declared, changes, after_seq]; see `SentTools.text`.
    before, after = (
        tools[0] if tools and isinstance(tools[0], list) else tools
        for tools in map(json.loads, texts)
    )
    pairs = zip_longest(before, after)
    return "tool", next((str((new or old)["name"]) for old, new in pairs if old != new), "")


def _changed_message(outlook: Outlook, shared: int) -> PrefixBreak:
    """Name the first message that the last call did not send at its place, and why.

    Args:
        shared: With how many messages both begin, at the least.
    """
    later, is_recut = outlook.turns[shared:], outlook.row.cut != outlook.calls[-1].cut
    name = _name(later[0]) if later else "the end"
    if later and later[0].get("kind") == "summary":
        return PrefixBreak("message", name, _COMPACTED)
    entries = [one for one in outlook.entries() if one.kind == "message" and one.decision != "kept"]
    dropped = next((one.reason for one in entries if one.rule.endswith((".drop", ".window"))), "")
    entries = [one for one in entries if is_recut or not one.rule.endswith(".shorten")]
    changes = {one.id: one.reason for one in entries if not one.rule.startswith(_AS_EVER)}
    for turn in later:
        if is_recut and dropped and turn.get("kind") == "marker":
            return PrefixBreak("message", _name(turn), dropped)
        if (event_id := turn.get("id") or "?") in changes:
            return PrefixBreak("message", event_id, changes[event_id])
    moved = "It did not stand at this place in the last call."
    return PrefixBreak("message", name, dropped if is_recut and dropped else moved)


def _name(turn: Turn) -> str:
    return turn.get("id") or turn.get("note") or turn.get("kind", "said")


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
    shared_tokens: int = 0
    forecast: CacheForecast | None = None
    rewrite: str = ""
    overflow: str = ""


class SimulatedRun(NamedTuple):
    """A session replayed under one policy."""

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
        """What the input costs; `None`: a price is not known, or a step does not fit."""
        prices = [step.forecast.price.usd if step.forecast else None for step in self.steps]
        known = [usd for usd in prices if usd is not None]
        return sum(known) if len(known) == len(prices) else None

    @property
    def rewrites(self) -> int:
        """How many steps do not begin with all that the one before sent."""
        return sum(bool(step.rewrite) for step in self.steps)


class Simulation(NamedTuple):
    """A session replayed for one model: everything sent each time, and under each policy."""

    model: str
    everything: SimulatedRun
    runs: tuple[SimulatedRun, ...] = ()


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
        bounds = [replay.budget_tokens]
        if policy.budget_tokens is not None:
            bounds.append(policy.budget_tokens)
        if policy.budget_share is not None:
            bounds.append(max(1, int(policy.budget_share * session_tokens)))
        given = {name: value for name in _CUT if (value := getattr(policy, name)) is not None}
        settings = TruncationSettings(**(vars(replay.settings) | given))
        bounded = replay._replace(settings=settings, budget_tokens=min(bounds))
        runs.append(SimulatedRun(policy, tuple(_steps(bounded))))
    return Simulation(replay.limits.id, SimulatedRun(CutPolicy(), whole), tuple(runs))


class _Sent:
    """What a call sent, line by line, with running sums; it grows until the next cut."""

    def __init__(self, replay: Replay, segment: Segment, cut: Cut | None, end: int) -> None:
        self.segment, self.cut_id, self.end = segment, cut.id if cut is not None else 0, end
        self.keys: list[tuple[int, ...]] = []  # of each line: what makes it another one
        self.tokens, self.blocks = [replay.fixed_tokens], [0]
        self.calls: list[int] = []  # after how many lines it, and those before it, ended
        for first, stop in [(0, end)] if cut is None else cut.kept:
            for line in range(first, stop):
                if cut is not None and line == cut.marker:
                    tokens = segment.lines.count(USER, cut.marker_parts)
                    self._add((cut.id,), tokens, 1)
                self._add_line(line, None if cut is None else cut.shortened.get(line))

    def grow(self, end: int) -> None:
        """Add the lines up to here."""
        for line in range(self.end, end):
            self._add_line(line)
        self.end = end

    def shared(self, other: "_Sent") -> int:
        """Return with how many lines both begin."""
        pairs = enumerate(zip(self.keys, other.keys, strict=False))
        most = min(len(self.keys), len(other.keys))
        return next((at for at, (mine, its) in pairs if mine != its), most)

    def _add_line(self, line: int, short: Shortened | None = None) -> None:
        segment = self.segment
        tokens = segment.tokens[line] if short is None else short.tokens
        self._add((segment.seqs[line], segment.kinds[line]), tokens, segment.blocks[line])

    def _add(self, key: tuple[int, ...], tokens: int, blocks: int) -> None:
        self.keys.append((*key, tokens))
        self.tokens.append(self.tokens[-1] + tokens)
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
    cut_id = cut.id if cut is not None else 0
    rewrite, shared, known = "", 0, list[KnownPrefix]()
    used_at = _moment(before.segment.created[before.end]) if before is not None else None
    if before is not None and before.segment is segment and before.cut_id == cut_id:
        sent, shared = before, len(before.keys)
        sent.grow(line)
        last_reply = shared
    else:
        sent = _Sent(replay, segment, cut, line)
        last_reply = len(sent.keys)
        if before is not None and (shared := sent.shared(before)) < len(before.keys):
            rewrite = _COMPACTED if before.segment is not segment else _describe(cut)
    if before is not None:
        sent.calls = [end for end in before.calls if end <= shared]
        known.append(KnownPrefix("head", sent.tokens[0], 0, used_at))
        known.append(KnownPrefix("inside", sent.tokens[shared], 0, used_at))
        for end in sent.calls[-1:]:
            known.append(KnownPrefix("call", sent.tokens[end], sent.blocks[end], used_at))
    sent.calls.append(len(sent.keys))
    size = CallSize(sent.tokens[-1], sent.tokens[0], sent.blocks[-1], sent.blocks[last_reply])
    cache = PromptCache(replay.limits, protocol_for(replay.limits), replay.cache)
    now = _moment(segment.created[line - 1])
    step = SimulatedStep(
        seq=segment.seqs[line],
        tokens=sent.tokens[-1],
        shared_tokens=sent.tokens[shared] if before is not None else 0,
        forecast=cache.forecast(size, known, now=now, today=replay.today),
        rewrite=rewrite,
    )
    return step, sent


def _replies(segment: Segment) -> Iterator[int]:
    """Yield the first line of each reply that answers something."""
    has_input, was_reply = False, False
    for line, kind in enumerate(segment.kinds):
        number = kind & KIND_MASK
        opens = number == ASSISTANT or (number == TOOL_CALL and not was_reply)
        if opens and has_input and segment.seqs[line] > segment.after_seq:
            yield line
        was_reply = number in (ASSISTANT, TOOL_CALL)
        has_input = has_input or number not in (SYSTEM, NOTE)


def _describe(cut: Cut | None) -> str:
    if cut is None:
        return "What stands for a message of the last call is another one."
    left_out, shortened = cut.left_out, len(cut.shortened)
    return f"The history is cut: {left_out:,} messages left out, {shortened:,} shortened."


def _moment(created: float) -> datetime | None:
    return datetime.fromtimestamp(created, UTC) if created else None
