"""One call from columns to payload: the order of the steps, in one place."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from itertools import islice, takewhile
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_assembler import events, report
from context_assembler import options as declared
from context_assembler.context import (
    AssembledContext,
    Ledger,
    LedgerRow,
    Request,
    Sent,
    Truncation,
    divide_tokens,
)
from context_assembler.errors import (
    AssemblyError,
    ContextOverflowError,
    EmptySessionError,
    InvalidParameterError,
    UnknownOptionError,
)
from context_assembler.events import Body, Json, JsonObject, SessionEvent, SessionHead
from context_assembler.history.caps import Caps
from context_assembler.history.lines import (
    SYNTHETIC,
    Rules,
    Timeline,
    active_of,
    scaled,
    turns_of,
    unscaled,
)
from context_assembler.history.notes import Clock, fresh_notes, is_known
from context_assembler.history.reasoning import Reader, sum_up
from context_assembler.history.repair import unsigned
from context_assembler.models import ModelLimits, protocol_for
from context_assembler.ports import (
    HISTORY_SOURCE,
    TOOLS_NOTE,
    Payload,
    PromptSection,
    StoredColumns,
    ToolChange,
    ToolPlan,
    ToolSpec,
    Turn,
    change_part,
)
from context_assembler.providers import PROVIDERS, check_payload
from context_assembler.providers.wire import fresh_json
from context_assembler.report import Decision, ReportEntry, Rule, Violations
from context_assembler.tokens import CounterName, Family, family_for
from context_assembler.truncation import Cut, History, Plan, Shortened, cut_entries

if TYPE_CHECKING:
    from context_assembler.compaction import CompactionCheck
    from context_assembler.forecast import Replay
    from context_assembler.report import CacheForecast
    from context_assembler.sessions.sqlite import SqlStore

_AHEAD: Final = 4  # events that are read together if one of them is looked at
_MOST_AHEAD: Final = 256  # if the events before it were looked at one after the other
_NEAR: Final = 15  # events before a result among which its call is looked for
_NO_CAP: Final = 1 << 40
_LONGEST_SPAN: Final = 1_000_000, 9_999_999  # of events that a marker names
_MOST_LIVES: Final = 4  # of one session: models, protocols and settings in turn
_MOST_TRIES: Final = 8
_NO_ROOM: Final = ReportEntry(
    "memory",
    "memory",
    "dropped",
    reason="There is no room for what was recalled next to what may not be dropped.",
    rule="memory.no_room",
)
_THOUGHT: Final = {"type": "text", "text": "[The reply was reasoning alone.]"}
_WAIT: Final = ReportEntry(
    "note",
    "notes",
    "dropped",
    reason="A note waits until the provider's own tool has answered: only results may come first.",
    rule="note.waits",
)


_SOON: Final = "Older messages will be left out soon: note what is still needed of them."


class Inputs(NamedTuple):
    """What one call is made from, besides the session's events.

    Attributes:
        head: The session's record and how far it has come.
        budget_tokens: What the whole input may take.
        truncation: Settings with the call's own options laid over.
        masks: Where secrets are masked.
        on_refusal: What is sent of a reply that the provider refused to give.
        sections: Of the system prompt, in the order sent; `system` is their text, joined.
        tools: Those declared before the history.
        tools_text: What the row of the call keeps of the tools; by default their list as JSON.
        change: Changed tools that a note of this call reports.
        notes: Sections to be sent as notes after the history.
        said: By name, what the system prompt says of a note: the same is not sent again.
        factor: What reported usage corrects the counts of messages by that were not sent before.
        most_tokens: What the history may take, if that is less than there is room for.
        account: The caller's tag for the API account.
        provider: Wire protocol; empty: the model's own.
        digest: Identifies whatever decided about prompt and tools.
        details: Kept in the row of the call.
        compaction: When a session should be compacted, for whoever asks the context.
        now: When the call is made, for the forecast of the prompt cache.
    """

    head: SessionHead
    settled: declared.Settled
    parameters: declared.Parameters
    limits: ModelLimits
    budget_tokens: int
    clock: declared.ClockSettings
    truncation: declared.TruncationSettings
    masks: tuple[str, ...] = ()
    on_refusal: str = "replace"
    sections: tuple[PromptSection, ...] = ()
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    tool_plan: ToolPlan | None = None
    tools_text: str = ""
    change: ToolChange | None = None
    notes: tuple[PromptSection, ...] = ()
    said: tuple[tuple[str, str], ...] = ()
    entries: tuple[ReportEntry, ...] = ()
    warnings: tuple[str, ...] = ()
    factor: float = 1.0
    most_tokens: int | None = None
    account: str | None = None
    checks_payloads: bool = True
    provider: str = ""
    today: date | None = None
    digest: str = ""
    details: Mapping[str, Any] = {}
    compaction: declared.CompactionSettings | None = None
    now: datetime | None = None
    active_skills: tuple[str, ...] = ()
    skill_allowed_tools: Mapping[str, tuple[str, ...]] = {}

    @property
    def reserve_tokens(self) -> int:
        """What is kept free for the reply."""
        reserve = self.settled.options.reserve_tokens
        return self.parameters.max_tokens if reserve is None else reserve


class Opening(NamedTuple):
    """What a session begins with: its own system prompt's texts, and the time of its first event.

    `active` are the events that no rewind left behind.
    """

    system: tuple[str, ...]
    began_at: datetime | None
    active: Sequence[range]


class Core:
    """Assembles the sessions of one store; what it keeps of each only grows.

    Threads may share it: calls for one session wait for each other.

    Args:
        resolve_model: Turns a recorded model id into the registry's; `LookupError`: unknown.
        max_sessions: Sessions of which columns and rendered messages are kept.
    """

    def __init__(
        self,
        store: "SqlStore",
        *,
        resolve_model: Callable[[str], str],
        counter: CounterName = "auto",
        max_sessions: int = 64,
    ) -> None:
        self.store, self.resolve_model = store, resolve_model
        self.counter: CounterName = counter
        self._max_sessions = max_sessions
        self._lives: dict[str, list[_Live]] = {}
        self._lock = Lock()
        self._columns: tuple[Any, ...] = (None, "", None)  # read by `opening`, for the first call

    def family(self, limits: ModelLimits, provider: str = "") -> Family:
        """Return what counts for a model."""
        return family_for(limits, counter=self.counter, protocol=provider or None)

    def opening(self, head: SessionHead, limits: ModelLimits) -> Opening:
        """Return the session's own system prompt, and when its history begins."""
        session_id, family = head.session.id, self.family(limits)
        columns = self.store.columns(session_id, family)
        self._columns = head, family.key, columns
        kinds, active = columns.kinds, active_of(columns)

        def seqs(first: int) -> Iterator[int]:
            held = (
                seq for one in active for seq in range(one.start, min(one.stop, len(kinds) + 1))
            )
            return islice(held, first, None)

        lead = list(
            takewhile(lambda seq: kinds[seq - 1] & events.KIND_MASK == events.SYSTEM, seqs(0))
        )
        texts: list[str] = []
        for body in self.store.bodies(session_id, _spans(lead)) if lead else ():
            if any(part["type"] != "text" for part in body["parts"]):
                break
            texts.append("\n".join(part["text"] for part in body["parts"]))
        # Without anything more, a further instruction can join the opening.
        after = seqs(len(texts) if any(seqs(len(lead))) else len(kinds))
        began = next(filter(is_known, (columns.created[seq - 1] for seq in after)), None)
        moment = None if began is None else datetime.fromtimestamp(began, UTC)
        return Opening(tuple(text for text in texts if text.strip()), moment, active)

    def columns(self, head: SessionHead, family: Family, *, after_seq: int) -> StoredColumns:
        """Return the columns of a session; those that `opening` has read are not read again."""
        columns: StoredColumns
        known_head, key, columns = self._columns
        if after_seq == 0 and known_head == head and key == family.key:
            self._columns = (None, "", None)
            return columns
        name, last_seq = head.session.id, head.last_seq
        return self.store.columns(name, family, after_seq=after_seq, until_seq=last_seq)

    def forget(self, session_id: str | None = None) -> None:
        """Let go of what is kept of a session, or of all."""
        with self._lock:
            if session_id is None:
                self._lives.clear()
            else:
                self._lives.pop(session_id, None)

    def assemble(self, inputs: Inputs) -> AssembledContext:
        """Return the next request of a session.

        Raises:
            EmptySessionError: There is nothing to send.
            ContextOverflowError: What may not be dropped does not fit.
        """
        try:
            call = self.call(inputs)
        except ContextOverflowError:
            others = tuple(note for note in inputs.notes if note.origin != "memory")
            if len(others) == len(inputs.notes):
                raise
            entries = (*(e for e in inputs.entries if e.kind != "memory"), _NO_ROOM)
            call = self.call(inputs._replace(notes=others, entries=entries))
        return AssembledContext(call, checks_payloads=inputs.checks_payloads)

    def call(self, inputs: Inputs) -> "Call":
        """Return what `assemble` makes a context of."""
        live = self._live(inputs)
        with live.lock:
            if inputs.head.last_seq < live.last_seq:  # the session has grown since
                live = _Live(self, inputs)
            return live.call(inputs)

    def replay(self, inputs: Inputs) -> "Replay":
        """Return what every call of the session would be made from, for `forecast.simulate`."""
        from context_assembler.forecast import Replay, Segment

        live, head = _Live(self, inputs), inputs.head
        request, _ = live.prepare(inputs)
        columns = self.store.columns(head.session.id, live.family)
        kinds, active = [kind & events.KIND_MASK for kind in columns.kinds], active_of(columns)
        ends = [seq for seq, kind in enumerate(kinds, 1) if kind == events.COMPACTION]
        ends = [seq for seq in ends if any(seq in one for one in active)]
        segments: list[Segment] = []
        for after_seq, end in zip([0, *ends], [*ends, head.last_seq + 1], strict=True):
            lines = _Live(self, inputs)
            lines.read_all(SessionHead(session=head.session, last_seq=end - 1))
            timeline = lines.timeline
            segment = Segment(
                kinds=timeline.kinds,
                tokens=timeline.tokens,
                seqs=timeline.seqs,
                blocks=[len(timeline.parts_at(line)) for line in range(len(timeline.kinds))],
                created=[columns.created[max(0, seq - 1)] for seq in timeline.seqs],
                lines=lines,
                after_seq=after_seq,
            )
            segments.append(segment)
        return Replay(
            segments=segments,
            limits=inputs.limits,
            fixed_tokens=live.fixed_tokens,
            budget_tokens=inputs.budget_tokens,
            settings=inputs.truncation,
            today=inputs.today or datetime.now(UTC).date(),
            cache=request.cache,
        )

    def _live(self, inputs: Inputs) -> "_Live":
        session_id, basis = inputs.head.session.id, _basis_of(inputs)
        with self._lock:
            lives = self._lives.pop(session_id, [])
            found = next((live for live in lives if live.basis == basis), None)
            if found is None:
                found = _Live(self, inputs)
            others = [one for one in lives if one is not found and one.basis[0] == basis[0]]
            self._lives[session_id] = [found, *others[: _MOST_LIVES - 1]]
            if len(self._lives) > self._max_sessions:
                del self._lives[next(iter(self._lives))]
        return found


class _Shelf:
    """The bodies of one session that one call looks at, each read once."""

    def __init__(self, store: "SqlStore", session_id: str) -> None:
        self._store, self._session_id = store, session_id
        self.last_seq = self._end = 0
        self._ahead = _AHEAD
        self._held: dict[int, Body] = {}

    def body(self, seq: int) -> Body:
        """Return a body; the next ones are read with it, twice as many each time in a row."""
        found = self._held.get(seq)
        if found is None:
            goes_on = self._end <= seq < self._end + _AHEAD
            self._ahead = min(2 * self._ahead, _MOST_AHEAD) if goes_on else _AHEAD
            self._end = min(seq + self._ahead, self.last_seq + 1)
            found = self.take(range(seq, self._end))[seq]
        return found

    def take(self, seqs: Iterable[int]) -> Mapping[int, Body]:
        """Read the bodies of ascending numbers, and return all that are held."""
        held = self._held
        wanted = [seq for seq in seqs if seq not in held] if held else [*seqs]
        if wanted:
            bodies = self._store.bodies(self._session_id, _spans(wanted))
            held.update(zip(wanted, bodies, strict=True))
        return held

    def clear(self) -> None:
        """Let go of all bodies."""
        self._held = {}


def _spans(seqs: Sequence[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as ranges, both ends included."""
    if seqs[-1] - seqs[0] == len(seqs) - 1:
        return [(seqs[0], seqs[-1])]
    spans: list[tuple[int, int]] = []
    first = before = seqs[0]
    for seq in seqs[1:]:
        if seq != before + 1:
            spans.append((first, before))
            first = seq
        before = seq
    return [*spans, (first, before)]


class _Stubs(dict[int, Shortened]):
    """Results that were shortened, by line; kept next to their events, each made once."""

    def __init__(self, live: "_Live") -> None:
        super().__init__()
        self._live, self._fresh = live, dict[int, Shortened]()
        self._kept: Mapping[int, Json] | None = None  # by event; read when the first one is needed
        reads = f"|{live.reads_with}" if live.reads_with else ""
        self._purpose = f"stub|{live.family.key}|{live.settings.stub_tokens}{reads}"

    def __contains__(self, line: object) -> bool:
        if super().__contains__(line) or not isinstance(line, int):
            return super().__contains__(line)
        live, seq = self._live, self._live.timeline.seqs[line]
        if self._kept is None:
            self._kept = {}
            if live.settings.strategy == "smart":
                self._kept = live.store.derived(
                    live.session_id, self._purpose, after_seq=max(0, seq - 1)
                )
        if seq not in self._kept or line in live.timeline.parts:
            return False
        super().__setitem__(line, Shortened(*self._kept[seq]))
        return True

    def __setitem__(self, line: int, stub: Shortened) -> None:
        super().__setitem__(line, stub)
        timeline = self._live.timeline
        if line not in timeline.parts and timeline.seqs[line] and stub.rule:
            self._fresh[timeline.seqs[line]] = stub

    def keep(self) -> None:
        """Store what was made since."""
        if self._fresh and self._live.timeline.rules.factor is None:
            self._live.store.keep_derived(self._live.session_id, self._purpose, self._fresh)
        self._fresh = {}


def _basis_of(inputs: Inputs) -> tuple[Any, ...]:
    """Return what the lines of a session depend on besides its events."""
    provider = inputs.provider or protocol_for(inputs.limits)
    settings = inputs.clock, inputs.truncation, inputs.masks, inputs.on_refusal
    offered = inputs.tools if inputs.tool_plan is None else inputs.tool_plan.offered
    reads = next((tool.name for tool in offered if tool.source == HISTORY_SOURCE), "")
    return inputs.head.incarnation, provider, inputs.limits, inputs.account, reads, *settings


def take_back(timeline: Timeline, history: History, stubs: dict[int, Shortened]) -> None:
    """Take off what a call added at the end for itself alone."""
    for line in range(timeline.settled, len(timeline.kinds)):
        stubs.pop(line, None)
    timeline.reopen()
    history.shrink(timeline.settled)


def hand_over(timeline: Timeline, history: History) -> None:
    """Let the history, in which cuts are found, know the lines that it does not know yet."""
    first = len(history)
    if first < len(timeline.kinds):
        history.extend(timeline.kinds[first:], timeline.tokens[first:])
    timeline.handed = timeline.settled


class _Live:
    """What is kept of one session, for one reader and settings: columns, cuts, rendered messages."""

    def __init__(self, core: Core, inputs: Inputs) -> None:
        self.core, self.store, self.lock = core, core.store, Lock()
        self.session_id, self.incarnation = inputs.head.session.id, inputs.head.incarnation
        self.serial = self.settled_messages = 0
        self.basis = _basis_of(inputs)
        self.provider: str = self.basis[1]
        self.module = PROVIDERS[self.provider]
        self.reads_with: str = self.basis[4]  # what the tool `history` is called, if it is offered
        self._made_for, self.settings = inputs, inputs.truncation
        if self.reads_with:  # it makes pages itself; of caps the first match holds
            own, caps = {self.reads_with: _NO_CAP}, self.settings.max_result_tokens_by_tool
            given: Any = {"max_result_tokens_by_tool": {**own, **caps, **own}}
            self.settings = declared.TruncationSettings(**{**vars(self.settings), **given})
        self.family = core.family(inputs.limits, self.provider)
        self.caps = Caps(self.settings, self.family.count_text, inputs.masks)
        settings = [self.family.key, inputs.masks, repr(self.settings)]
        self._form_purpose = f"forms|{_digest(repr(settings))}"
        self._formed: dict[int, Any] = {}
        self._fresh: dict[int, Any] = {}
        self.shelf = _Shelf(self.store, self.session_id)
        self._tools_after_seq = 0
        self._factor = inputs.factor
        self._factors = self._recorded_factors(inputs)
        self._room = self.fixed_tokens = 0
        self._request: Request | None = None
        self._prepared: tuple[Any, ...] = ()  # the last request, and what it is made from
        self.fixed: tuple[LedgerRow, ...] = ()
        self._restart()

    def _restart(self) -> None:
        """Forget all lines: they are made again from the columns."""
        inputs = self._made_for
        limits, resolve_model = inputs.limits, self.core.resolve_model
        self.reader = Reader(self.provider, limits, inputs.account, resolve_model)
        self.last_seq = 0
        self._rules = Rules(
            body=self.shelf.body,
            measure=self.count_body,
            seqs_by_id=self._seqs_by_id,
            factor=None if self._factor == 1.0 and not self._factors else self._factor_of,
            objection=self.reader.objection,
            reads=self.reader.reads,
            form=self._form,
            candidates=self._candidates,
            quotes=self._quotes if self.family.frame.parallel[0] else None,
            clock=Clock(inputs.clock) if inputs.clock.is_enabled else None,
            keeps_thoughts=self.reader.keeps_thoughts,
            on_refusal=inputs.on_refusal,
            tools_after_seq=self._tools_after_seq,
            provider=self.provider,
            flaw_of=getattr(self.module, "find_flaw", None),
            accepts_prefill=bool(inputs.limits.supports("prefill")),
        )
        self.timeline = Timeline(self._rules)
        self.history = History(stub_tokens=inputs.truncation.stub_tokens)
        self.stubs = _Stubs(self)
        self.plan: Plan | None = None
        self.newest_at: float | None = None
        self._raw_ends = [0]
        self._forget_wire()

    def _forget_wire(self, *, stale_seq: int = 0) -> None:
        self.wire: Any = None
        self.turns: list[Turn] = []
        self.cut_id = self.rendered = self.checked = 0
        self.left: list[ReportEntry] = []  # of reasoning
        self.text_turns = 0
        self._mark: tuple[Any, int, int] | None = None
        self.stale_seq = stale_seq  # the last reply whose reasoning is bound to another prefix
        self.stale_tokens = 0

    # ---- counts ----

    def count_body(self, kind: int, body: Body) -> int:
        """Return the tokens of an event, with the reasoning in it."""
        kind = events.USER if kind & events.KIND_MASK == SYNTHETIC else kind
        return self.family.count_event(kind, body) + self.family.count_reasoning(body)

    def count(self, kind: int, parts: Sequence[JsonObject], line: int = -1) -> int:
        """Return the tokens of a line's parts, corrected as the line is; see `truncation.Lines`."""
        seq = self.timeline.seqs[line] if line >= 0 else 0
        tokens = self.count_body(kind, {"parts": list(parts)})
        factor = self._rules.factor
        return tokens if factor is None else scaled(tokens, factor(seq))

    def count_text(self, text: str) -> int:
        """Return the tokens of a text."""
        tokens = self.family.count_text(text)
        factor = self._rules.factor
        return tokens if factor is None else scaled(tokens, factor(0))

    def parts(self, line: int) -> Sequence[JsonObject]:
        """Return the parts of a line, as the provider can take them."""
        return self.family.settled(self.timeline.kinds[line], self.timeline.parts_at(line))

    def name(self, line: int) -> str:
        """Return the id of a line's event."""
        seq = self.timeline.seqs[line]
        return self.store.rows(self.session_id, [(seq, seq)])[0][1] if seq else ""

    def is_clock(self, line: int) -> bool:
        """Whether a line is a note that tells the time."""
        is_note = self.timeline.kinds[line] & events.KIND_MASK == events.NOTE
        return is_note and self.timeline.note_at(line)[0] == "clock"

    def handle(self, lines: Sequence[int]) -> str:
        """Return how lines are read; what the tool itself returned is not: its call stands there."""
        if not self.reads_with:
            return ""
        seqs = [seq for line in lines if (seq := self.timeline.seqs[line])]
        for part in self.shelf.body(seqs[0])["parts"] if len(seqs) == 1 else ():
            if self._tool(seqs[0], part.get("call_id", "")) == self.reads_with:
                return ""
        return self._handle(seqs if lines else _LONGEST_SPAN)

    def _handle(self, seqs: Sequence[int]) -> str:
        """Return how events are read, as a marker says it; empty if no tool for it is offered."""
        if not (self.reads_with and seqs):
            return ""
        until = f", last={max(seqs)}" if max(seqs) > min(seqs) else ""
        return f"; see {self.reads_with}(first={min(seqs)}{until})"

    def _with_handle(self, seq: int, parts: Sequence[JsonObject]) -> Sequence[JsonObject]:
        """Return what is sent of a summary, with how what it covers is read."""
        if not (self.reads_with and (covers := self.shelf.body(seq).get("covers"))):
            return parts
        told = f"\n\n[This is a summary{self._handle([covers['first_seq'], covers['last_seq']])}.]"
        return [{**p, "text": p["text"] + told} if p["type"] == "text" else p for p in parts]

    def _quotes(self, result: JsonObject) -> int:
        """Return what the text of a result costs more as a JSON string, as parallel results are read."""
        text = "\n".join(p["text"] for p in result.get("content", ()) if p["type"] == "text")
        count = self.family.count_text
        return max(0, count(events.compact_json(text)) - count(text))

    def _factor_of(self, seq: int) -> float:
        """Return what an event is corrected by: what held when it was first sent; 0: what held first."""
        place = bisect_left(self._factors, (seq, 0.0))
        return self._factors[place][1] if place < len(self._factors) else self._factor

    def corrected(self, timeline: Timeline, spans: Iterable[tuple[int, int]]) -> tuple[int, int]:
        """Return the tokens of lines that stay, as they are corrected and as they were counted."""
        factor, ends = self._factor_of, self._raw_ends if timeline is self.timeline else [0]
        sent = raw = 0
        for first, end in spans:
            for line in range(len(ends) - 1, end):
                raw_tokens = unscaled(timeline.tokens[line], factor(timeline.seqs[line]))
                ends.append(ends[-1] + raw_tokens)
            sent += sum(timeline.tokens[first:end])
            raw += ends[end] - ends[first]
        return sent, raw

    def _seqs_by_id(self, first: int, last: int) -> dict[str, int]:
        return {name: seq for seq, name, _ in self.store.rows(self.session_id, [(first, last)])}

    def _candidates(
        self, seqs: Sequence[int], kinds: Sequence[int], tokens: Sequence[int]
    ) -> list[int]:
        """Return the places of events that may be sent otherwise than they are stored."""
        places = self.caps.candidates(kinds, tokens)
        if places and not self._formed:
            self._formed = self.store.derived(self.session_id, self._form_purpose, after_seq=-1)
            self._formed.setdefault(0, 0)  # up to which event everything was looked at
        looked = self._formed[0] if places else 0
        return [at for at in places if seqs[at] > looked or seqs[at] in self._formed]

    def _form(self, seq: int, kind: int, parts: Sequence[JsonObject]) -> Sequence[JsonObject]:
        """Return an event's parts without secrets, and within their caps."""
        is_stored = parts is self.shelf.body(seq)["parts"]
        made: Sequence[JsonObject]
        said: list[tuple[Decision, Rule, str]]
        kept = self._formed.get(seq) if is_stored else None
        if kept is not None:
            made, said = kept
        else:
            handle, tool_of = self._handle([seq]), partial(self._tool, seq)
            made, said = self.caps.fit(kind, parts, tool_of=tool_of, handle=handle)
            if kind & events.KIND_MASK == events.COMPACTION:
                made = self._with_handle(seq, made)
            if made is parts:
                return parts
            if is_stored:
                self._formed[seq] = self._fresh[seq] = [made, said]
        self.timeline.log += (
            ReportEntry("message", str(seq), decision, reason=reason, rule=rule)
            for decision, rule, reason in said
        )
        return made

    def _tool(self, seq: int, call_id: str) -> str:
        """Return the tool of the call that an event answers; empty if it is not near."""
        active = reversed(self.timeline.active)
        before_it = (s for one in active for s in range(min(one.stop, seq) - 1, one.start - 1, -1))
        for before in islice(before_it, _NEAR):
            for part in self.shelf.body(before)["parts"]:
                if part["type"] == "tool_call" and part["call_id"] == call_id:
                    name: str = part["name"]
                    return name
        return ""

    # ---- one call ----

    def call(self, inputs: Inputs) -> "Call":
        """Return the call that these inputs ask for."""
        try:
            return self._call(inputs)
        finally:
            self.shelf.clear()
            self.stubs.keep()
            if self._fresh:
                values = {**self._fresh, 0: self.last_seq}
                self.store.keep_derived(self.session_id, self._form_purpose, values)
                self._formed[0], self._fresh = self.last_seq, {}

    def _call(self, inputs: Inputs) -> "Call":
        self.serial += 1
        # 1. What the last call added at the end is taken off again.
        if self.timeline.is_closed:
            take_back(self.timeline, self.history, self.stubs)
            if self.timeline.is_late:
                self._restart()
        # 2. New events extend the columns.
        self._correct(inputs)
        self._read(inputs.head)
        if inputs.tool_plan is not None and self.timeline.tool_notes:
            after_seq = inputs.tool_plan.after_seq
            seqs = self.timeline.tool_notes
            if bisect_right(seqs, after_seq) != bisect_right(seqs, self._tools_after_seq):
                self._tools_after_seq = after_seq
                self._restart()
                self._read(inputs.head)
        # 3. System prompt and tools.
        request, room = self.prepare(inputs)
        # 4. The lines of this call, and the cut.
        self._close(inputs.head)
        if inputs.parameters.provider_compaction == "now" and self.timeline.is_unanswered:
            rule, remedy = "must wait for the results of calls", "Record them, then compact."
            raise InvalidParameterError("provider_compaction", "now", rule=rule, remedy=remedy)
        if self.timeline.is_pending and inputs.notes:
            told = (e for e in inputs.entries if e.kind != "memory" and e.rule != "note")
            inputs = inputs._replace(notes=(), entries=(*told, _WAIT))
        cut = self._cut(inputs, room)
        # 5. Turns, rendered.
        if request is not self._request:
            self._forget_wire()
            self._request = request
        tail = self._render(cut)
        # 6. and 7. The payload is checked, and copied, when somebody asks for it.
        return Call(self, inputs, request, cut, tail)

    def _correct(self, inputs: Inputs) -> None:
        """Take the corrections that hold; counts of what was sent stay."""
        if inputs.factor == self._factor == 1.0 and not self._factors:
            return
        factors = self._recorded_factors(inputs)
        fresh = factors[len(self._factors) :]
        grows = factors[: len(self._factors)] == self._factors and all(
            factor == self._factor for _, factor in fresh
        )
        is_sent = bool(factors) and factors[-1][0] >= self.last_seq
        is_neutral = self._rules.factor is None
        keeps = grows and (inputs.factor == self._factor or is_sent) and not is_neutral
        self._factors, self._factor = factors, inputs.factor
        if not keeps and self.last_seq:
            self._prepared = ()  # what surrounds the history is corrected as the first call was
            self._restart()

    def _recorded_factors(self, inputs: Inputs) -> list[tuple[int, float]]:
        """Return what recorded calls were corrected by; empty if nothing ever was, nor is now."""
        factors = self.store.factors(self.session_id, inputs.limits.id)
        is_neutral = inputs.factor == 1.0 and all(factor == 1.0 for _, factor in factors)
        return [] if is_neutral else factors

    def _read(self, head: SessionHead) -> None:
        """Take in the events up to the last one, all of them again if one reaches back."""
        last_seq = head.last_seq
        while self.last_seq < last_seq:
            if self.last_seq and len(self.timeline.lead) == self.last_seq:
                self._restart()  # nothing but instructions so far: what follows may be one more
            seen, family = self.last_seq, self.family
            columns = self.core.columns(head, family, after_seq=seen)
            surplus = seen + len(columns.kinds) - last_seq
            if surplus > 0:
                earlier: list[Any] = [column[:-surplus] for column in columns]
                columns = StoredColumns(*earlier)
            self.shelf.last_seq = self.last_seq = last_seq
            self.newest_at = columns.created[-1] or None
            if any(kind & events.SIGNED for kind in set(columns.kinds)):
                makers = self.store.derived(self.session_id, "signed", after_seq=seen)
                if not seen:
                    active = active_of(columns)
                    makers = {s: m for s, m in makers.items() if any(s in one for one in active)}
                if self.reader.extend(makers) and seen:
                    self._restart()
                    continue
            self.timeline.extend(columns)
            if self.timeline.is_late:
                self._restart()

    def _close(self, head: SessionHead) -> None:
        """Take in what the history ends with."""
        self.timeline.close()
        if self.timeline.is_late:  # a result at the very end belongs to a call sent without it
            self._restart()
            self._read(head)
            self.timeline.close()

    def read_all(self, head: SessionHead) -> None:
        """Take in all lines up to an event."""
        self._read(head)
        self._close(head)

    def prepare(self, inputs: Inputs) -> tuple[Request, int]:
        """Return the request without messages, the same object if nothing changed, and the room."""
        plan = inputs.tool_plan
        if plan is not None:  # from where on notes of changes count is settled by the lines
            plan = plan._replace(after_seq=0)
        cache: declared.CachePolicy = inputs.settled.options.cache or "auto"
        nonce = inputs.head.session.nonce
        basis = inputs.system, inputs.tools, inputs.parameters, plan, cache, nonce
        if not self._prepared or self._prepared[0] != basis:
            made = Request(
                limits=inputs.limits,
                parameters=inputs.parameters,
                system=inputs.system,
                sections=inputs.sections,
                tools=inputs.tools,
                tool_plan=plan,
                session_id=events.root_of(inputs.head.session),
                cache=cache,
                account=inputs.account,
                nonce=nonce,
            )
            self.fixed, self._prepared = self._fixed(made), (basis, made)
            self.fixed_tokens = sum(row.tokens for row in self.fixed)
        request: Request = self._prepared[1]
        request.newest_at = self.newest_at
        room = inputs.budget_tokens - self.fixed_tokens
        if room <= 0:
            sizes = {"budget_tokens": inputs.budget_tokens, "reserve_tokens": inputs.reserve_tokens}
            raise overflow(self.fixed, inputs.tools, **sizes)
        return request, min(room, inputs.most_tokens or room)

    def _fixed(self, request: Request) -> tuple[LedgerRow, ...]:
        """Return who uses how much besides the history; kept, so that a cold process counts nothing."""
        parameters = request.parameters
        said = events.compact_json(
            [
                [[section.name, section.content] for section in request.sections],
                request.system,
                events.to_json(request.tools),
                [parameters.thinking_budget, parameters.thinking_level],
                events.to_json([parameters.tool_choice, parameters.response_format]),
            ]
        )
        purpose = f"fixed|{self.family.key}|{_digest(said)}"
        kept: Json = self.store.derived(self.session_id, purpose).get(1)
        rows = fixed_rows(self.family, request) if kept is None else [LedgerRow(*r) for r in kept]
        if kept is None:
            self.store.keep_derived(self.session_id, purpose, {1: rows})
        if (factor := self._rules.factor) is not None:
            for at, row in enumerate(rows):
                if row.name not in _UNCORRECTED:
                    rows[at] = row._replace(tokens=scaled(row.tokens, factor(0)))
        return tuple(rows)

    def _cut(self, inputs: Inputs, room: int) -> Cut | None:
        """Add what this call alone sends, and find the cut."""
        timeline, history = self.timeline, self.history
        if inputs.notes:
            shown = map(timeline.note_at, timeline.note_lines)
            timeline.insert_notes(fresh_notes(inputs.notes, (*inputs.said, *shown)))
        if inputs.change:
            timeline.insert_notes([(TOOLS_NOTE, "assembler", [change_part(inputs.change)])])
        if not timeline.has_opened:
            raise EmptySessionError(self.session_id)
        hand_over(timeline, history)
        if self.plan is None or self._room != room:
            self._room = room
            self.plan = Plan(
                history, self, room_tokens=room, settings=inputs.truncation, stubs=self.stubs
            )
        cut = self.plan.cut()
        if cut is not None and inputs.notes:
            cut = self._noted(cut, inputs.notes, inputs.said)
        share, fixed = inputs.truncation.note_above_share, self.fixed_tokens
        if share is not None and not timeline.is_pending:
            used = history.ends[-1] if cut is None else cut.tokens
            if used + fixed > share * (room + fixed):
                text = f"More than {share:.0%} of the context window is used."
                note = PromptSection(name="window", content=f"{text} {_SOON}", placement="note")
                cut = self._noted(cut, [note])
        return cut

    def _noted(
        self, cut: Cut | None, notes: Sequence[PromptSection], said: Iterable[tuple[str, str]] = ()
    ) -> Cut | None:
        """Send the notes that nothing shows of what is kept; return the cut then."""
        timeline, lines = self.timeline, self.timeline.note_lines
        if cut is not None:
            spans = cut.kept
            lines = [at for at in lines if any(first <= at < end for first, end in spans)]
        missed = fresh_notes(notes, (*said, *map(timeline.note_at, lines)))
        if not missed or self.plan is None:
            return cut
        self.history.shrink(timeline.settled)
        timeline.insert_notes(missed)
        hand_over(timeline, self.history)
        return self.plan.cut()

    # ---- turns and the wire ----

    def _render(self, cut: Cut | None) -> list[Turn]:
        """Add what is new to the wire, or render all that is kept; return the turns of this call alone."""
        cut_id = cut.id if cut is not None else 0
        timeline, settled = self.timeline, self.timeline.settled
        kept = [(0, len(timeline.kinds))] if cut is None else cut.kept
        shortened = {} if cut is None else {line: s.parts for line, s in cut.shortened.items()}
        wire, now = self.wire, self.newest_at or 0
        if wire is not None and self._mark and cut_id == self.cut_id and now < wire.ends:
            mark, left, self.stale_tokens = self._mark
            wire.reset(mark)
            del self.left[left:]
        else:
            self._forget_wire()
        for _ in range(_MOST_TRIES):
            if self.wire is None:
                assert self._request is not None
                self.wire = self.module.Wire(self._request)
            begin = self.rendered
            lines = [n for at, end in kept for n in range(max(at, begin), min(end, settled))]
            if self._add(lines, cut, shortened, self.turns):
                self.cut_id, self.rendered = cut_id, settled
                self.settled_messages = len(self.wire.messages)
                self._mark = self.wire.mark(), len(self.left), self.stale_tokens
                tail: list[Turn] = []
                lines = [n for at, end in kept for n in range(max(at, settled), end)]
                if self._add(lines, cut, shortened, tail):
                    return tail
            # What was added goes on from reasoning that cannot be sent.
            self._forget_wire(stale_seq=self.stale_seq)
        raise AssertionError("reasoning cannot be settled")

    def _add(
        self,
        lines: Sequence[int],
        cut: Cut | None,
        shortened: Mapping[int, Sequence[JsonObject]],
        turns: list[Turn],
    ) -> bool:
        """Give lines to the wire; `False`: it has to begin again without older reasoning."""
        if not lines:
            return True
        seqs = self.timeline.seqs
        wanted = sorted({seqs[line] for line in lines if seqs[line]})
        bodies = self.shelf.take(wanted)
        marker = cut.marker if cut is not None else None
        groups: list[Sequence[int]] = [lines]
        if marker is not None and marker in lines:
            at = lines.index(marker)
            groups = [lines[:at], lines[at:]]
        for number, group in enumerate(groups):
            if number and cut is not None:
                parts = cut.marker_parts
                turn = Turn(role="user", kind="marker", origin="assembler", parts=parts)
                self.wire.add(turn)
                turns.append(turn)
            for turn in turns_of(self.timeline, group, bodies, shortened):
                bound: Turn | None = self._bound(turn)
                if bound is None:
                    return False
                if not bound["parts"]:
                    bound = {**bound, "parts": [_THOUGHT]}
                self.wire.add(bound)
                turns.append(bound)
        return True

    def _bound(self, turn: Turn) -> Turn | None:
        """Return the turn with the signed parts that this payload may carry; `None`: begin again.

        Prefix-bound reasoning is sent only behind the prefix that it was made from.
        https://platform.claude.com/docs/en/build-with-claude/preserved-thinking (read 2026-11-27)
        """
        if turn["role"] != "assistant":
            return turn
        if self.provider == "openai_responses":
            turn = self._finished(turn)
        if not (self.reader.limits.thinking.is_prefix_bound and _is_signed(turn)):
            return turn
        made_by, seq = turn.get("made_by") or {}, turn.get("seq", 0)
        is_stale = seq <= self.stale_seq or made_by.get("prefix") != self.wire.prefix()
        if not is_stale:
            return turn
        is_chained = self.provider == "anthropic"
        again = is_chained and seq > self.stale_seq and any(map(_is_signed, self.turns))
        if is_chained:
            self.stale_seq = max(self.stale_seq, seq)
        if again:
            return None
        self.stale_tokens += self.family.count_reasoning({"parts": turn["parts"]})
        rule = "chain" if is_chained and seq < self.stale_seq else "prefix"
        self._leave_out(turn, rule, filter(_is_thinking, turn["parts"]))
        return {**turn, "parts": unsigned(turn["parts"])}

    def _leave_out(self, turn: Turn, rule: str, parts: Iterable[JsonObject]) -> None:
        name = str(turn.get("seq", 0))
        cleared: Any = f"reasoning.{rule}"
        self.left += [ReportEntry("message", name, "cleared", rule=cleared) for _ in parts]

    def _finished(self, turn: Turn) -> Turn:
        """Leave out reasoning of a reply that was cut off before it led to anything.

        https://github.com/openai/openai-agents-python/issues/1611 (read 2026-11-27)
        """
        end = len(turn["parts"])
        while end and _is_thinking(turn["parts"][end - 1]):
            end -= 1
        if end == len(turn["parts"]):
            return turn
        self._leave_out(turn, "unfinished", turn["parts"][end:])
        return {**turn, "parts": turn["parts"][:end]}


class Call:
    """What one call sends, and every answer about it, computed when it is asked for."""

    def __init__(
        self, live: _Live, inputs: Inputs, request: Request, cut: Cut | None, tail: list[Turn]
    ) -> None:
        timeline, history = live.timeline, live.history
        self._live, self._inputs, self._cut, self._tail = live, inputs, cut, tail
        self._serial = live.serial
        self.request, self.provider = request, live.provider
        self.session_id, self.incarnation = live.session_id, live.incarnation
        self.last_seq, self.cut_id = inputs.head.last_seq, cut.id if cut is not None else 0
        self.model_id, self.agent_id = inputs.limits.id, inputs.head.session.agent_id
        self.strategy: str = live.plan.name if live.plan is not None else ""
        self.active_skills = inputs.active_skills
        self.skill_allowed_tools = inputs.skill_allowed_tools
        self._turns, self._count = live.turns, len(live.turns)
        self._timeline, self._settled = timeline, timeline.settled
        self._whole_tokens, self._stale_tokens = history.ends[-1], live.stale_tokens
        self._stale_seq, self._calls = live.stale_seq, timeline.calls
        summary = history.starts[history.summaries[-1]] if history.summaries else -1
        self._summary_seq = timeline.seqs[summary] if summary >= 0 else None
        self._tail_lines = timeline.lines_from(timeline.settled)
        omitted = {at for at, one in cut.shortened.items() if not one.tokens} if cut else ()
        ends = enumerate(self._tail_lines, self._settled)
        self._new_notes = [(at, one) for at, one in ends if one.note and at not in omitted]
        self._note_tokens = sum(line.tokens for _, line in self._new_notes)
        self._log, self._sent_entries = (*timeline.log, *live.left), tuple(live.wire.entries)
        self._fixed, self._fixed_tokens = live.fixed, live.fixed_tokens
        self._others: dict[str, Call] = {}
        self._wire: Any = None

    def _notes(self) -> Iterator[SessionEvent]:
        """Yield the notes that are sent, each as the event behind the one that it stands behind."""
        for at, line in self._new_notes:
            if line.note is not None:
                (name, origin), seqs = line.note, self.columns()[2]
                yield SessionEvent(
                    type="user" if name == "continue" else "system",
                    parts=tuple(map(events.part_from_json, line.parts or ())),
                    origin=origin,
                    note=name,
                    answers_seq=max(seqs[:at], default=0) if any(seqs[at:]) else self.last_seq,
                )

    # ---- what is sent ----

    def payload(self, provider: str) -> Payload:
        """Return keyword arguments for a provider's SDK; see `AssembledContext.to_request`."""
        if provider != self.provider:
            return self.other(provider).payload(provider)
        with self._live.lock:
            payload: Payload = self._current_wire().write(self.request)
            return payload

    def _current_wire(self) -> Any:
        """Return the wire of this call: the one that grows, as long as it has not grown further."""
        if self._live.serial == self._serial:
            return self._live.wire
        if self._wire is None:
            self._wire = self._live.module.Wire(self.request)
            for turn in self._all_turns():
                self._wire.add(turn)
        return self._wire

    def _all_turns(self) -> Iterator[Turn]:
        yield from islice(self._turns, self._count)
        yield from self._tail

    def check(self, provider: str, payload: Payload, *, is_whole: bool) -> Violations:
        """Return the rules that a payload breaks."""
        other = self if provider == self.provider else self._others.get(provider)
        live, start = self._live, 0
        if other is self and not is_whole and live.serial == self._serial:
            # Only an item of Responses never takes in what follows it.
            start = max(0, live.checked - (provider != "openai_responses"))
            live.checked = live.settled_messages
        return check_payload(
            provider, payload, limits=self.request.limits, today=self._inputs.today, start=start
        )

    def turns(self) -> list[Turn]:
        """Return the turns as copies, with the ids of their events."""
        turns = [fresh_json(turn) for turn in self._all_turns()]
        ids = self._ids(turn.get("seq", 0) for turn in turns)
        for turn in turns:
            turn["id"] = ids.get(str(turn.get("seq")), "")
        return turns

    def other(self, provider: str) -> "Call":
        """Return the same call for another provider."""
        if provider == self.provider:
            return self
        if provider not in PROVIDERS:
            raise UnknownOptionError(provider, kind="provider", known=PROVIDERS)
        if provider not in self._others:
            self._others[provider] = self._live.core.call(self._inputs._replace(provider=provider))
        return self._others[provider]

    def sent(self, provider: str) -> Sent:
        """Return what `record` keeps of the call."""
        if provider != self.provider:
            return self.other(provider).sent(provider)
        inputs, request = self._inputs, self.request
        tools = inputs.tools_text or events.compact_json(events.to_json(request.tools))
        texts = {_digest(text): text for text in (request.system, tools)}
        known = {"stale_seq": self._stale_seq, "room": inputs.most_tokens}
        known["compaction"] = self._summary_seq
        with self._live.lock:
            prefix = self._current_wire().prefix()
        seqs = filter(None, (turn.get("seq") for turn in self._all_turns()))
        row = events.CallRow(
            provider=provider,
            model=self.model_id,
            account=self._live.reader.route,
            answers_seq=self.last_seq,
            system_hash=_digest(request.system),
            tools_hash=_digest(tools),
            options=inputs.digest,
            cut=self.cut_id,
            first_seq=next(seqs, 0),
            prefix=prefix,
            factor=inputs.factor,
            estimated_tokens=self.used_tokens,
            details={**inputs.details, **{name: held for name, held in known.items() if held}},
        )
        return Sent(row, texts, tuple(self._notes()), request, self._counted_as())

    def _counted_as(self) -> tuple[str, str, int] | tuple[()]:
        """Return what reported usage can be compared with; empty if it is about more than text."""
        tools = self.request.tools
        if any(tool.native_specs or tool.is_deferred for tool in tools):
            return ()
        live = self._live
        at = live.text_turns if live.turns is self._turns else 0  # they are text as far as that
        while at < self._count and _is_text(self._turns[at]):
            at += 1
        if live.turns is self._turns:
            live.text_turns = at
        if at < self._count or not all(map(_is_text, self._tail)):
            return ()
        family, shape = self._live.family, "tools" if tools else "text"
        return f"{family.name} {family.key}", shape, self._uncorrected()

    def _spans(self) -> list[tuple[int, int]]:
        """Return which of the lines that stay are sent."""
        kept = [(0, self._settled)] if self._cut is None else self._cut.kept
        return [(first, min(end, self._settled)) for first, end in kept if first < self._settled]

    def _uncorrected(self) -> int:
        """Return all tokens of the request as counted here, which usage is compared with."""
        timeline, used = self._timeline, self.used_tokens
        if (factor := timeline.rules.factor) is None:
            return used
        tokens = sum(
            row.tokens if row.name in _UNCORRECTED else unscaled(row.tokens, factor(0))
            for row in self._fixed
        )
        history = used - self._fixed_tokens
        sent, raw = self._live.corrected(timeline, self._spans())
        return tokens + round(history * raw / sent if sent else history)

    # ---- what is said about it ----

    @property
    def used_tokens(self) -> int:
        """All tokens of the request."""
        history = self._whole_tokens if self._cut is None else self._cut.tokens
        return self._fixed_tokens + history - self._stale_tokens

    def ledger(self, *, history_tokens: int | None = None) -> Ledger:
        """Return who uses how many tokens; of the history what is sent, or as many as are given."""
        inputs, history = self._inputs, history_tokens
        if history is None:
            history = self.used_tokens - self._fixed_tokens - self._note_tokens
        return Ledger(
            window_tokens=inputs.limits.window_tokens,
            reserve_tokens=inputs.reserve_tokens,
            budget_tokens=inputs.budget_tokens,
            rows=(
                *self._fixed,
                LedgerRow("history", "history", history),
                LedgerRow("notes", "notes", self._note_tokens),
            ),
            counter=self._live.family.name,
            is_exact=self._live.family.is_exact,
            factor=inputs.factor,
            cleared_tokens=sum(edit.get("cleared_input_tokens", 0) for edit in self._edits),
        )

    @cached_property
    def _edits(self) -> Sequence[JsonObject]:
        """What the provider cleared of the last call, and will clear of this one."""
        if not self.request.parameters.context_edits:
            return ()
        last = self._live.store.last_call(self.session_id, until_seq=self.last_seq)
        if last is None or not self.goes_on(last):
            return ()
        edits: Sequence[JsonObject] = last.details.get("applied_edits", ())
        return edits

    def goes_on(self, last: events.CallRow) -> bool:
        """Whether the history is cut where a recorded call's was, behind the same summary."""
        return last.cut == self.cut_id and last.details.get("compaction") == self._summary_seq

    def truncation(self) -> Truncation:
        """Return what the cut left out."""
        whole = self._whole_tokens
        if self._cut is None:
            return Truncation(0, 0, whole, whole)
        dropped = [line for line, _, _ in self._cut.dropped()]
        tokens = sum(self._timeline.tokens[line] for line in dropped)
        return Truncation(len(dropped), tokens, whole, self._cut.tokens)

    def compaction(self, *, is_explicit: bool = False) -> "CompactionCheck":
        """Return whether the session should be compacted, as it is without any cut."""
        from context_assembler.compaction import CompactionDetector, history_facts

        live, facts = self._live, partial(history_facts, tool_calls=self._calls)
        with live.lock:
            if live.serial == self._serial and live.timeline is self._timeline:
                known = facts(live.history, seqs=live.timeline.seqs)
            else:
                kinds, tokens, seqs = self.columns()
                history = History(stub_tokens=1)
                history.extend(kinds, tokens)
                known = facts(history, seqs=seqs)
        stale = self._stale_tokens if self._cut is None else 0
        return CompactionDetector(self._inputs.compaction).check(
            self.ledger(history_tokens=self._whole_tokens - stale - self._note_tokens),
            history=known,
            limits=self.request.limits,
            is_explicit=is_explicit,
        )

    def columns(self) -> tuple[bytes, list[int], list[int]]:
        """Return kinds, tokens and events of the lines, as they were when this call was made."""
        timeline, settled, tail = self._timeline, self._settled, self._tail_lines
        tokens = [*timeline.tokens[:settled], *(line.tokens for line in tail)]
        seqs = [*timeline.seqs[:settled], *(line.seq for line in tail)]
        return bytes([*timeline.kinds[:settled], *(line.kind for line in tail)]), tokens, seqs

    def report(self) -> report.Report:
        """Return what became of every piece."""
        return report.Report(
            ledger=self.ledger,
            entries=self._entries,
            parameters=lambda: report.parameters_of(self._inputs.settled),
            warnings=lambda: (*self._inputs.warnings, *report.loss_warnings(self._changes())),
            forecast=self._forecast,
        )

    def _ids(self, seqs: Iterable[int]) -> dict[str, str]:
        """Return the ids of events by their numbers, as text."""
        wanted = sorted({*seqs} - {0})
        rows = self._live.store.rows(self.session_id, _spans(wanted)) if wanted else ()
        return {str(seq): name for seq, name, _ in rows}

    def _changes(self) -> list[ReportEntry]:
        """Return what repair, masks, caps and the provider did, with the ids of events."""
        with suppress(AssemblyError):
            self.payload(self.provider)  # parameters are fitted to the model there
        sent = self._sent_entries
        fitted = (one for one in self._current_wire().entries if one.rule.startswith("parameter."))
        fitted = (one for one in fitted if one not in sent)
        # In the order of their events, in whichever steps these came.
        repairs = sorted((*self._log, *self._timeline.loose()), key=lambda one: int(one.id))
        entries = (*repairs, *sent, *fitted)
        ids = self._ids(int(entry.id) for entry in entries if entry.id.isdigit())
        return sum_up(entry._replace(id=ids.get(entry.id, entry.id)) for entry in entries)

    def _entries(self) -> Iterator[ReportEntry]:
        changes, cut = self._changes(), self._cut
        others = [entry for entry in changes if entry.kind != "message"]
        yield from report.size_pieces(report.overlay(self._inputs.entries, others), self.ledger())
        _, tokens, seqs = self.columns()
        ids = self._ids(seqs)
        names = [ids.get(str(seq), "") for seq in seqs]
        cuts = {} if cut is None else cut_entries(cut, tokens, names.__getitem__)
        sizes_by_id: dict[str, tuple[int, int | None]] = {}
        for line, name in enumerate(names):
            whole, kept = sizes_by_id.get(name, (0, None))
            if (change := cuts.get(line)) is None or change.decision != "dropped":
                kept = (kept or 0) + (tokens[line] if change is None else change.tokens_after)
            sizes_by_id[name] = whole + tokens[line], kept
        sizes_by_id.pop("", None)
        yield from report.message_entries(
            ((name, *sizes) for name, sizes in sizes_by_id.items()),
            repairs=[entry for entry in changes if entry.kind == "message"],
            cuts=cuts.values(),
        )
        if cut is not None and cut.marker is not None and all(e.id != "marker" for e in others):
            size = self._live.count(events.USER, cut.marker_parts)
            yield ReportEntry("note", "marker", "kept", size, size)
        for edit in self._edits:
            told = ", ".join(f"{key} {held:,}" for key, held in edit.items() if key != "type")
            why = f"The provider cleared this before it answered the last call: {told}."
            yield ReportEntry("note", edit["type"], "cleared", reason=why, rule="edits.applied")
        for _, note in self._new_notes:
            if note.note is not None:
                yield ReportEntry("note", note.note[0], "kept", note.tokens, note.tokens)

    def _forecast(self) -> "CacheForecast":
        from context_assembler.forecast import Outlook, forecast_call, prefixes_of

        sent, store, turns = self.sent(self.provider), self._live.store, self.turns()
        calls, active = store.calls(self.session_id), self._timeline.active
        # A cache has what a rewind left behind; the last call is one that it did not.
        calls.sort(key=lambda call: any(call.reply_seq in one for one in active))
        reply = str(calls[-1].reply_seq) if calls else ""

        def text_of(digest: str) -> str | None:
            return sent.texts.get(digest) or store.text(digest)

        outlook = Outlook(
            row=sent.row,
            request=self.request,
            turns=turns,
            tokens=[self._turn_tokens(turn) for turn in turns],
            total_tokens=self.used_tokens,
            calls=calls,
            prefixes=lambda: prefixes_of(self.request, self.provider, turns),
            entries=lambda: tuple(self._entries()),
            text_of=text_of,
            reply_id=self._ids(call.reply_seq for call in calls[-1:]).get(reply, ""),
            cleared_tokens=self.ledger().cleared_tokens,
        )
        today = self._inputs.today or datetime.now(UTC).date()
        return forecast_call(outlook, today=today, now=self._inputs.now)

    def _turn_tokens(self, turn: Turn) -> int:
        kind = events.COMPACTION if turn.get("kind") == "summary" else _KINDS[turn["role"]]
        return self._live.count(kind, turn["parts"])


_KINDS: Final = {
    "user": events.USER,
    "assistant": events.ASSISTANT,
    "tool": events.TOOL_RESULT,
    "system": events.SYSTEM,
}


@lru_cache(maxsize=16)  # of one session's prompt and tools, call by call
def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# ---- the fixed part of the window ----

# By the size of Claude's hidden prompt for tools (`tool_choice` auto), what `any` or one named tool
# costs more. https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview (2026-08-22)
_FORCED_TOOL_TOKENS: Final = {
    **dict.fromkeys((286, 290, 354), 120),
    **dict.fromkeys((497, 496), 92),
    **dict.fromkeys((346, 530), 0),
    675: 129,
    313: 2,
    264: 91,
}
_OPENAI_NAMED_TOOL_TOKENS: Final = 14  # fitted; models that reason are told without a text
_GEMINI_3_MODE_TOKENS: Final = 19  # fitted: what any mode of calling costs, `AUTO` as well
# Fitted on recorded requests, with and without thinking, whose text is the same.
_THINKING_TOKENS: Final = {"anthropic-legacy": (28, 17)}  # by encoding: a budget, an effort


def _hidden_rows(family: Family, request: Request) -> Iterator[LedgerRow]:
    """Yield the text that a provider adds because of a request's parameters."""
    limits, parameters = request.limits, request.parameters
    if (form := parameters.response_format) is not None and form.schema is not None:
        # No provider says more than that its text is input.
        schema = family.count_text(events.compact_json(form.schema))
        yield LedgerRow("overhead", "response format", schema)
    choice = parameters.tool_choice
    if request.tools and choice is not None and choice.mode in ("any", "tool"):
        forced = 0
        if limits.provider == "anthropic":
            forced = _FORCED_TOOL_TOKENS.get(limits.tool_prompt_tokens or 0, 120)
        elif limits.provider == "openai" and not limits.thinking.kinds and choice.mode == "tool":
            forced = _OPENAI_NAMED_TOOL_TOKENS
        yield LedgerRow("overhead", "tool choice", forced)
    if request.tools and choice is not None and limits.id.startswith("gemini-3"):
        yield LedgerRow("overhead", "tool choice", _GEMINI_3_MODE_TOKENS)
    budget, effort = _THINKING_TOKENS.get(limits.encoding, (0, 0))
    if parameters.thinking_budget:
        yield LedgerRow("overhead", "thinking", budget)
    elif parameters.thinking_level not in (None, "none"):
        yield LedgerRow("overhead", "thinking", effort)


_UNCORRECTED: Final = ("request", "tool choice", "thinking")


def fixed_rows(family: Family, request: Request) -> list[LedgerRow]:
    """Return who uses how much of the window besides the history.

    The system prompt is counted once, as a whole; its sections share that count by their own sizes.
    """
    system = family.count_system(request.system)
    sections = [s for s in request.sections if s.placement == "system" and s.content]
    names = [section.name for section in sections] or ["system"]
    weights = [1]
    if len(sections) > 1:
        weights = [family.count_text(section.content) for section in sections]
    shares = divide_tokens(system, weights)
    choice = request.parameters.tool_choice
    sized = [(tool, family.count_tool(tool)) for tool in request.tools]
    sized = [(tool, tokens) for tool, tokens in sized if tokens or not tool.native_specs]
    overhead = family.count_tools_overhead(
        [tool for tool, _ in sized], has_system=bool(request.system), choice=choice
    )
    rows = [
        *(LedgerRow("system", name, tokens) for name, tokens in zip(names, shares, strict=True)),
        *(LedgerRow("tools", tool.name, tokens) for tool, tokens in sized),
        LedgerRow("overhead", "tools", overhead),
        LedgerRow("overhead", "request", family.request_tokens),
        *_hidden_rows(family, request),
    ]
    return [row for row in rows if row.tokens or row.kind == "tools"]


_MAKE_ROOM: Final = (
    "Make that smaller, lower max_tokens or reserve_tokens, raise max_context_tokens, or choose a "
    "model with a larger window."
)


def overflow(
    rows: Iterable[LedgerRow],
    tools: Sequence[ToolSpec],
    *,
    budget_tokens: int,
    reserve_tokens: int,
) -> ContextOverflowError:
    """Say which section or group of tools leaves no room for the history."""
    sources, sizes = {tool.name: tool.source for tool in tools}, Counter[str]()
    for row in rows:
        name = f"section {row.name!r}" if row.kind == "system" else f"{row.name} overhead"
        if row.kind == "tools":
            name = f"tools from {sources[row.name]}"
        sizes[name] += row.tokens
    needed = sizes.total() + 1
    if budget_tokens > 0 and sizes:
        culprit = max(sizes, key=lambda name: sizes[name])
    else:
        culprit = f"the reserve of {reserve_tokens:,} tokens for the reply"
        sizes["reply reserve"] = reserve_tokens
    return ContextOverflowError(
        budget_tokens=budget_tokens,
        needed_tokens=needed,
        culprit=culprit,
        sizes_tokens=sizes,
        remedy=_MAKE_ROOM,
    )


def _is_signed(turn: Turn) -> bool:
    return any(map(_is_thinking, turn["parts"]))


def _is_text(turn: Turn) -> bool:
    shown = (inner for part in turn["parts"] for inner in part.get("content", ()))
    return not any(
        part["type"] in ("image", "document", "opaque") or part.get("block") is not None
        for part in (*turn["parts"], *shown)
    )


def _is_thinking(part: JsonObject) -> bool:
    return bool(part["type"] == "thinking")
