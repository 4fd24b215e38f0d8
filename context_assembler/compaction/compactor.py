"""Compacts a session: plans what is covered, has it summarised, checks the summary, appends it."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from datetime import datetime
from inspect import isawaitable
from typing import Any, Final, NamedTuple

from context_assembler import events
from context_assembler.compaction.detector import CompactionCheck
from context_assembler.compaction.essentials import Essentials, Piece, essentials_of, read_pieces
from context_assembler.compaction.summarizers import (
    HEADINGS,
    SUMMARY_TEMPLATE,
    Summarizer,
    SummaryRequest,
    Written,
    extract_summary,
)
from context_assembler.context import AssembledContext
from context_assembler.errors import (
    CompactionError,
    ConcurrentAppendError,
    ConfigurationError,
)
from context_assembler.events import (
    COMPACTION,
    KIND_MASK,
    PINNED,
    SYSTEM,
    TOOL_RESULT,
    Covers,
    Json,
    Opaque,
    SessionEvent,
    SessionHead,
    ToolCall,
    ToolResult,
    Usage,
)
from context_assembler.options import CompactionSettings
from context_assembler.ports import ColumnStore
from context_assembler.prompt.asking import is_async
from context_assembler.texts import CountText, escape_tag, one_line, shorten_text
from context_assembler.tokens import Family
from context_assembler.truncation import History

_PURPOSE: Final = "compaction"  # of what is kept of failures next to a session
_TASK_SHARE: Final = 0.1  # of the target: a first message up to that size stays as it is
_LONGEST_WAIT: Final = 86_400.0
_MAX_PROMPT_TOKENS: Final = 100_000  # of a summarizer that does not say
_MOST_PIECE_CHARS: Final = {"result": 1_600, "call": 1_600}
_MOST_TEXT_CHARS: Final = 16_000
_KEEP_SHARE: Final = 0.08  # of a summary, for each kind of what must be in it
_MOST_KEPT: Final = 20
_SUMMARY_SHARE: Final = 0.125  # of a small summarizer's prompt
_SPARE_FACTOR: Final = 1.25  # by which a summary may exceed what was asked for
_LONG_LINE_CHARS: Final = 80  # a line that long stands in a summary once


class Range(NamedTuple):
    """What one compaction covers: `seqs`, all of them up to `last_seq` but the `kept` ones."""

    last_seq: int
    seqs: Sequence[int]
    kept: Sequence[int]
    tokens: int


class Compaction(NamedTuple):
    """A compaction that was made.

    Attributes:
        event: The summary, as stored; `event.covers` says what it stands for.
        covered_tokens: What the covered events took in a request; `summary_tokens` stand for them.
        requests: How often the summarizer was asked, corrections included.
        is_own: False if another compaction came first, which this one is then.
    """

    event: SessionEvent
    reason: str = ""
    covered_tokens: int = 0
    summary_tokens: int = 0
    requests: int = 0
    is_own: bool = True


class Host(NamedTuple):
    """What a compactor needs of the assembler."""

    store: ColumnStore
    append: Callable[..., Awaitable[list[SessionEvent]]]
    refresh: Callable[[str], Awaitable[SessionHead]]
    lock: asyncio.Lock
    settings: CompactionSettings
    family: Family
    masks: bool
    now: datetime

    def clean(self, text: str) -> str:
        """Return a text without secrets, if they are masked in what is sent."""
        if not self.masks:
            return text
        from context_assembler.history.secrets import mask

        return mask(text)[0]


class Compactor:
    """Has sessions summarised; `compact` and `auto_compact=` take one, or its summarizer alone.

        Compactor(summarize_with("claude-haiku-4-5"), before=memory.learn_from)

    Args:
        summarizer: Writes summaries: a function of a `SummaryRequest`, plain or async.
        keep: How many of the newest messages stay as they are; by default as many as fit the target.
        before: Called with the session's id and the events that are about to be summarised, plain or
            async; if it fails, nothing is summarised.
        after: Called with the `Compaction`.
        template: The prompt, in Jinja2, of `part`, `parts`, `headings`, `keep`, `max_tokens`,
            `previous`, `transcript`, `draft` and `faults`.
        headings: What a summary must have.
    """

    def __init__(
        self,
        summarizer: Summarizer = extract_summary,
        *,
        keep: int | None = None,
        before: Callable[[str, Sequence[SessionEvent]], Any] | None = None,
        after: Callable[[Compaction], Any] | None = None,
        template: str = SUMMARY_TEMPLATE,
        headings: Sequence[str] = HEADINGS,
    ) -> None:
        if not callable(summarizer):
            raise TypeError(f"summarizer must be a function, not {type(summarizer).__name__}.")
        self.summarizer, self.keep, self.headings = summarizer, keep, tuple(headings)
        self.before, self.after, self._template = before, after, _compiled(template)

    async def compact(
        self, context: AssembledContext, host: Host, *, check: CompactionCheck
    ) -> Compaction:
        """Compact the session of a context; see `ContextAssembler.compact`."""
        about, store = context.metadata, host.store
        session_id, seen = about.session_id, about.last_seq
        async with host.lock:
            head = await host.refresh(session_id)
            if (other := self._other(host, head, seen)) is not None:
                return other
            try:
                done = await self._compacted(context, host, check)
            except Exception as error:
                _remember_failure(host, session_id, error)
                if isinstance(error, CompactionError):
                    raise
                reason = f"{type(error).__name__}: {one_line(str(error))}"
                raise CompactionError(session_id, reason=reason) from error
            if store.derived(session_id, _PURPOSE):
                store.keep_derived(session_id, _PURPOSE, {1: None})
        if self.after is not None and done.is_own:
            await _call(self.after, done)
        return done

    async def _compacted(
        self, context: AssembledContext, host: Host, check: CompactionCheck
    ) -> Compaction:
        about, settings = context.metadata, host.settings
        session_id = about.session_id
        read = await asyncio.to_thread(self._read, context, host, check)
        plan = read.plan
        if self.before is not None:
            await _call(self.before, session_id, read.covered)
        draft = _Draft(self, host, session_id, read)
        async with asyncio.timeout(settings.timeout_seconds):
            text = await draft.write(self._template)
        ids = [name for _, name, _ in host.store.rows(session_id, [(s, s) for s in plan.kept])]
        facts: dict[str, Any] = {
            "reason": check.reason or "explicit",
            "covered_tokens": plan.tokens,
            "summary_tokens": draft.count(text),
            "requests": draft.requests,
        }
        event = SessionEvent(
            type="compaction",
            parts=(events.Text(text),),
            covers=Covers(1, plan.last_seq, tuple(ids)),
            created_at=host.now,
            origin="model" if draft.model else "assembler",
            made_by=events.Provenance(draft.provider, draft.model, usage=draft.usage)
            if draft.model
            else None,
            metadata={"compaction": facts},
        )
        seen = about.last_seq
        while True:
            head = await host.refresh(session_id)
            if head.incarnation != about.incarnation or head.last_seq < seen:
                raise CompactionError(session_id, reason="it was deleted, or set back, meanwhile.")
            if (other := self._other(host, head, seen)) is not None:
                return other
            try:
                [stored] = await host.append(session_id, [event], expected_seq=head.last_seq)
            except ConcurrentAppendError:
                continue  # what arrived is newer than all that is covered
            return Compaction(stored, **facts)

    def _other(self, host: Host, head: SessionHead, seen: int) -> Compaction | None:
        """Return a compaction that came after what was seen."""
        if head.last_seq <= seen:
            return None
        for event in host.store.events(head.session.id, after_seq=seen):
            if event.type == "compaction":
                return Compaction(event, is_own=False)
        return None

    def _read(self, context: AssembledContext, host: Host, check: CompactionCheck) -> "_Material":
        """Return what is to be summarised."""
        session_id, settings, details = context.metadata.session_id, host.settings, check.details
        target = details["target_tokens"]
        room = target - check.floor_tokens - settings.summary_tokens
        if (
            not check.needed or check.reason == "explicit"
        ):  # it is asked for, however little there is
            room = min(room, details["compactable_tokens"] // 2)
        kinds, tokens, seqs = context.columns()
        plan = plan_range(
            kinds,
            tokens,
            seqs,
            room_tokens=room,
            task_tokens=int(_TASK_SHARE * target),
            most_messages=settings.max_messages // 2,
            most_calls=settings.max_tool_calls // 2,
            keep=self.keep,
        )
        stored = host.store.events(session_id, limit=plan.last_seq if plan else 0)
        if plan is not None:
            plan = _without_pending(plan, stored, dict(zip(seqs, tokens, strict=True)))
        if plan is None:
            reason, remedy = "there is nothing that a summary may cover.", "Keep fewer messages."
            raise CompactionError(session_id, reason=reason, remedy=remedy)
        own, shown = {*plan.seqs}, {*plan.seqs, *plan.kept}
        covered = [event for event in stored if event.seq in own]
        pieces = list(read_pieces(stored, host.clean))
        essentials = essentials_of(pieces)
        essentials = essentials._replace(
            tasks=tuple(map(host.clean, essentials.tasks)),
            commands=tuple(map(host.clean, essentials.commands)),
        )
        newest = max((e.seq for e in covered if e.type == "compaction"), default=0)
        pieces = [one for one in pieces if one.seq in shown and not _is_old(one, newest)]
        said = [event for event in covered if event.type != "compaction"]
        return _Material(plan, said, pieces, essentials)


class _Material(NamedTuple):
    """What is to be summarised: events, what they say, and what all up to there is about."""

    plan: Range
    covered: Sequence[SessionEvent]
    pieces: Sequence[Piece]
    essentials: Essentials


def _is_old(piece: Piece, newest: int) -> bool:
    return piece.by == "summary" and piece.seq != newest


# ---- what is covered ----


def plan_range(
    kinds: bytes,
    tokens: Sequence[int],
    seqs: Sequence[int],
    *,
    room_tokens: int,
    task_tokens: int,
    most_messages: int,
    most_calls: int,
    keep: int | None = None,
) -> Range | None:
    """Return what a compaction covers of a history, by its columns; `None`: nothing can be covered.

    Whole exchanges are covered, the oldest. What stays: the newest ones, instructions, pinned
    messages, exchanges with a call that has no result, the first message of the user if it is not too
    large, and the last one.

    Args:
        seqs: The event of each line; 0: none holds it.
        room_tokens: What the newest exchanges may take besides the last one, which stays in any case.
        task_tokens: The size up to which the first message of the user stays.
        most_messages: Of the newest; likewise `most_calls`.
        keep: How many of the newest messages stay, whatever they take.
    """
    history = History(stub_tokens=1)
    history.extend(kinds, tokens)
    starts, ends, heads = history.starts, history.ends, history.heads
    last = first = history.count - 1
    calls = 0
    while first > 0:
        before = range(starts[first - 1], starts[first])
        calls += sum(kinds[line] & KIND_MASK == TOOL_RESULT for line in before)
        messages = heads[-1] - heads[first - 1]
        if keep is not None:
            if heads[-1] - heads[first] >= keep:
                break
        elif (
            ends[last] - ends[first - 1] > room_tokens
            or messages > most_messages
            or calls > most_calls
        ):
            break
        first -= 1
    tail = starts[first] if starts else 0
    asked = {starts[number] for number in history.users[-1:]}
    asked |= {starts[n] for n in history.users[:1] if tokens[starts[n]] <= task_tokens}
    stays = {*seqs[tail:], *(seqs[line] for line in asked)}
    exchanges = [range(starts[n], starts[n + 1]) for n in range(first)]
    open_ones: list[range] = []
    for lines in exchanges:
        has_results = any(kinds[line] & KIND_MASK == TOOL_RESULT for line in lines)
        fixed = [n for n in lines if kinds[n] & PINNED or kinds[n] & KIND_MASK == SYSTEM]
        pinned = has_results and any(kinds[line] & PINNED for line in fixed)
        waits = any(kinds[n] & KIND_MASK == TOOL_RESULT and not seqs[n] for n in lines)
        stays.update(seqs[line] for line in (lines if pinned or waits else fixed))
        if has_results:
            open_ones.append(lines)
    changed = True
    while changed:  # an event may hold results of several exchanges: all of them stay, or none
        changed = False
        for lines in open_ones:
            own = {seqs[line] for line in lines} - {0}
            if own & stays and not own <= stays:
                stays |= own
                changed = True
    covered = {n: seqs[n] for n in range(tail) if seqs[n] and seqs[n] not in stays}
    said = [seq for n, seq in covered.items() if kinds[n] & KIND_MASK != COMPACTION]
    if not said:
        return None
    own, last_seq = {*covered.values()}, max(said)
    kept = sorted({seq for seq in seqs if 0 < seq <= last_seq} - own)
    return Range(last_seq, sorted(own), kept, sum(tokens[line] for line in covered))


def _without_pending(
    plan: Range, stored: Sequence[SessionEvent], tokens: Mapping[int, int]
) -> Range | None:
    """Return the range without approvals that nobody has given, and results that wait for a call.

    A pinned event stays even if nothing of it can be sent.
    """
    called = {p.call_id for event in stored for p in event.parts if isinstance(p, ToolCall)}
    blocks = [(e.seq, p.block) for e in stored for p in e.parts if isinstance(p, Opaque)]
    given = {block.get("approval_request_id") for _, block in blocks}
    pending = {
        seq
        for seq, block in blocks
        if block.get("type") == "mcp_approval_request" and block.get("id") not in given
    }
    pending |= {
        event.seq
        for event in stored
        if event.is_pinned
        or any(isinstance(p, ToolResult) and p.call_id not in called for p in event.parts)
    }
    if not pending:
        return plan
    seqs = [seq for seq in plan.seqs if seq not in pending]
    lost = sum(tokens.get(seq, 0) for seq in plan.seqs if seq in pending)
    kept = sorted({*plan.kept, *(seq for seq in pending if seq <= plan.last_seq)})
    return plan._replace(seqs=seqs, kept=kept, tokens=plan.tokens - lost) if seqs else None


# ---- the summary ----


class _Draft:
    """One summary on its way: the requests for it, and what they took."""

    def __init__(
        self, compactor: Compactor, host: Host, session_id: str, material: _Material
    ) -> None:
        self._compactor, self._host, self._session_id = compactor, host, session_id
        self._pieces, self._essentials = material.pieces, material.essentials
        self._covered_tokens = material.plan.tokens
        summarizer = compactor.summarizer
        self._reads = getattr(summarizer, "reads_prompt", True)
        self._most_prompt = getattr(summarizer, "max_prompt_tokens", _MAX_PROMPT_TOKENS)
        self._most = min(host.settings.summary_tokens, self._covered_tokens // 2)
        if self._reads:
            self._most = min(self._most, int(self._most_prompt * _SUMMARY_SHARE))
        self._count_text: CountText = host.family.count_text
        self.keep = _must_keep(self._essentials, int(self._most * _KEEP_SHARE), self._count_text)
        self.provider = self.model = ""
        self.usage: Usage | None = None
        self.requests = 0

    def count(self, summary: str) -> int:
        """Return what a summary takes in a request."""
        return self._host.family.count_event(
            COMPACTION, {"parts": [{"type": "text", "text": summary}]}
        )

    async def write(self, template: Any) -> str:
        """Return a summary that has everything that it must have.

        Raises:
            CompactionError: No correction has made it so, or there is no room for the prompt.
        """
        made = [piece.text for piece in self._pieces if piece.by == "summary"]
        before = earlier = made[-1] if made else ""
        lines = [_shown(piece) for piece in self._pieces if piece.by != "summary"]
        chunks = self._chunks(template, lines)
        for part, transcript in enumerate(chunks, 1):
            facts = {"part": part, "parts": len(chunks), "transcript": transcript}
            is_last, draft, faults = part == len(chunks), "", list[str]()
            for _ in range(self._host.settings.max_corrections + 1):
                draft = await self._ask(template, facts, before, draft, faults)
                faults = self._faults(draft, earlier, is_last=is_last)
                if not faults:
                    break
            else:
                reason = f"its summary was refused after {self.requests} request(s): "
                raise CompactionError(self._session_id, reason=reason + " ".join(faults[:5]))
            before = draft
        return before

    def _chunks(self, template: Any, lines: Sequence[str]) -> list[str]:
        """Return the transcript, in as many parts as the summarizer's prompt needs."""
        count, most = self._count_text, self._most_prompt
        if not self._reads:
            return [""]
        room = most - count(self._prompt(template, part=1, parts=2)) - 3 * self._most
        if room < self._most:
            reason = f"the summarizer's prompt of {most:,} tokens has no room for the transcript."
            remedy = "Use a model with a larger window."
            raise CompactionError(self._session_id, reason=reason, remedy=remedy)
        chunks, free = [list[str]()], room
        for line in lines:
            shown = shorten_text(line, max_tokens=room, count_text=count)
            size = count(shown) + 1
            if size > free and chunks[-1]:
                chunks.append([])
                free = room
            chunks[-1].append(shown)
            free -= size
        return [escape_tag("transcript", "\n".join(chunk)) for chunk in chunks]

    def _prompt(self, template: Any, **facts: Any) -> str:
        given: dict[str, Any] = {"previous": "", "transcript": "", "draft": "", "faults": ()}
        given |= {"headings": self._compactor.headings, "keep": self.keep}
        given |= {"max_tokens": self._most, **facts}
        return str(template.render(given)).strip()

    async def _ask(
        self, template: Any, facts: Mapping[str, Any], before: str, draft: str, faults: list[str]
    ) -> str:
        asked = {**facts, "previous": escape_tag("summary_so_far", before), "faults": faults}
        asked["draft"] = escape_tag("refused", draft)
        request = SummaryRequest.of(
            self._prompt(template, **asked) if self._reads else "",
            essentials=self._essentials,
            headings=self._compactor.headings,
            keep=self.keep,
            max_tokens=self._most,
            count_text=self._count_text,
            previous=before,
            faults=tuple(faults),
        )
        self.requests += 1
        said = await _call(self._compactor.summarizer, request)
        written = said if isinstance(said, Written) else Written(said)
        if not isinstance(written.text, str):
            raise TypeError(f"A summarizer must return text, not {type(written.text).__name__}.")
        self.provider, self.model = written.provider, written.model
        if written.usage is not None:
            spent = zip(self.usage or Usage(), written.usage, strict=True)
            self.usage = Usage(*map(sum, spent))
        return self._host.clean(written.text).strip()

    def _faults(self, summary: str, earlier: str, *, is_last: bool) -> list[str]:
        """Return what is wrong with a summary, in sentences for whoever wrote it."""
        tokens, most = self.count(summary), int(self._most * _SPARE_FACTOR)
        if not summary:
            return ["It is empty."]
        if tokens >= self._covered_tokens or tokens > most:
            size = f"It has {tokens:,} tokens. Write at most {self._most:,}"
            return [f"{size}; what it stands for has {self._covered_tokens:,}."]
        if not is_last:
            return []
        faults = [
            f"The heading '## {heading}' is missing."
            for heading in self._compactor.headings
            if not re.search(rf"^\W*{re.escape(heading)}\b", summary, re.MULTILINE | re.IGNORECASE)
        ]
        text = _plain(summary)
        faults += [
            f"It lacks, of {kind}, word for word: {item}"
            for kind, items in self.keep.items()
            for item in items
            if _plain(item) not in text
        ]
        lines = [line.strip() for line in summary.split("\n") if len(line) >= _LONG_LINE_CHARS]
        if len({*lines}) < len(lines):
            faults.append("It says the same line twice.")
        if len(earlier) >= _LONG_LINE_CHARS and _plain(earlier) in text:
            faults.append("It repeats the summary before it word for word: write it anew.")
        return faults


def _must_keep(known: Essentials, most_tokens: int, count: CountText) -> dict[str, list[str]]:
    """Return by kind what a summary must hold, as much of it as may be asked for."""
    kinds = {
        "Constraints": known.constraints,
        "Open tasks": known.tasks,
        "Files": known.files,
        "Names": known.identifiers,
    }
    kept: dict[str, list[str]] = {}
    for kind, items in kinds.items():
        room, chosen = most_tokens, list[str]()
        for item in items[:_MOST_KEPT]:
            if (room := room - count(f"- {item}\n")) < 0:
                break
            chosen.append(item)
        if chosen:
            kept[kind] = chosen
    return kept


def _shown(piece: Piece) -> str:
    """Return a piece as a line of the transcript, shortened if it is long."""
    most, text = _MOST_PIECE_CHARS.get(piece.by, _MOST_TEXT_CHARS), piece.text
    if len(text) > most:
        head, end = most * 3 // 4, most // 4
        text = f"{text[:head]} [… {len(text) - head - end:,} characters …] {text[-end:]}"
    named = f" {piece.name}" if piece.name else ""
    return f"[{piece.seq}] {piece.by}{named}: {text}"


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _compiled(template: str) -> Any:
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    try:
        made = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        return made.from_string(template)
    except TemplateError as error:
        remedy = (
            "Correct the template of the Compactor; docs/how-to/compact-a-session.md shows one."
        )
        raise ConfigurationError(f"The template does not parse: {error}.", remedy=remedy) from error


async def _call(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function of the application: a plain one in a thread."""
    said: Any = function(*given) if is_async(function) else None
    if said is None:
        said = await asyncio.to_thread(function, *given)
    return await said if isawaitable(said) else said


# ---- what the assembler calls ----


def compactor_of(given: Any, *, keep: int | None = None) -> Compactor:
    """Return a compactor, of a summarizer too; `None` asks for summaries without a model."""
    made = given if isinstance(given, Compactor) else Compactor(given or extract_summary)
    if keep is not None:
        made = copy(made)
        made.keep = keep
    return made


async def compact_now(compactor: Compactor, context: AssembledContext, host: Host) -> Compaction:
    """Compact the session of a context, since the caller asks for it.

    Raises:
        CompactionError: There is nothing to summarise, or it failed.
    """
    check = context.check_compaction(is_explicit=True)
    if not check.needed:
        declined = str(check.details["declined"])
        raise CompactionError(context.metadata.session_id, reason=declined, remedy="Go on with it.")
    return await compactor.compact(context, host, check=check)


async def compact_if_due(
    compactor: Compactor, context: AssembledContext, host: Host
) -> tuple[bool, str]:
    """Compact the session of a context if that is advised; return whether it was, and a warning."""
    check = context.check_compaction()
    if not check.needed:
        return False, ""
    failed = host.store.derived(context.metadata.session_id, _PURPOSE).get(1)
    if failed and host.now.timestamp() < failed["until"]:
        problem = failed["problem"]
        until = datetime.fromtimestamp(failed["until"], host.now.tzinfo).isoformat(" ", "seconds")
        return False, f"{problem} It is tried again from {until} on."
    try:
        await compactor.compact(context, host, check=check)
    except CompactionError as error:
        return False, str(error)
    return True, ""


def _remember_failure(host: Host, session_id: str, error: Exception) -> None:
    """Keep next to the session that it failed, so that no process tries again at once."""
    failed: Json = host.store.derived(session_id, _PURPOSE).get(1) or {"failures": 0}
    failures = failed["failures"] + 1
    wait = min(host.settings.cooldown_seconds * 2.0 ** min(failures - 1, 40), _LONGEST_WAIT)
    problem = getattr(error, "problem", f"{type(error).__name__}: {one_line(str(error))}")
    kept = {"failures": failures, "until": host.now.timestamp() + wait, "problem": problem}
    host.store.keep_derived(session_id, _PURPOSE, {1: kept})
