"""Compacts a session: plans what is covered, has it summarised, checks the summary, appends it."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from datetime import datetime
from typing import Any, Final, NamedTuple

from context_assembler import events
from context_assembler.compaction import summarizers
from context_assembler.compaction.detector import LEAST_COVERED_TOKENS, TASK_SHARE, CompactionCheck
from context_assembler.compaction.essentials import Essentials, Piece, essentials_of, read_pieces
from context_assembler.context import AssembledContext
from context_assembler.errors import CompactionError, ConcurrentAppendError
from context_assembler.events import KIND_MASK, Json, SessionEvent, SessionHead, Usage
from context_assembler.options import CompactionSettings
from context_assembler.sessions.sqlite import SqlStore
from context_assembler.texts import CountText, escape_tag, one_line, shorten_text
from context_assembler.tokens import Family
from context_assembler.tools.sources import call_away
from context_assembler.truncation import History

# The session that is compacted, for what its summarizer and hooks call.
_UNDER_WAY: Final = ContextVar[str | None]("session", default=None)
_PURPOSE: Final = "compaction"  # of what is kept of failures next to a session
_LONGEST_WAIT: Final = 86_400.0
_MAX_PROMPT_TOKENS: Final = 100_000  # of a summarizer that does not say
_MOST_CALL_TOKENS, _MOST_TEXT_TOKENS = 400, 4000  # in a prompt, of a call or a result, of a text
_KEEP_SHARE: Final = 0.08  # of a summary, for each kind of what must be in it
_MOST_KEPT: Final = 20
_TARGET_SHARE: Final = 0.25  # of the target: what a summary may take of a small window
_LEAST_SUMMARY: Final = LEAST_COVERED_TOKENS // 2  # tokens: it has room for its headings
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
    session_id: str = ""
    reason: str = ""
    covered_tokens: int = 0
    summary_tokens: int = 0
    requests: int = 0
    is_own: bool = True


class Host(NamedTuple):
    """What a compactor needs of the assembler, for one session."""

    session_id: str
    store: SqlStore
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

    def error(self, reason: str, remedy: str = "") -> CompactionError:
        """Return the error that says why the session was not compacted."""
        return CompactionError(self.session_id, reason=reason, remedy=remedy)

    @property
    def failed(self) -> Json:
        """What is kept next to the session of failures: how many, the last one, and until when."""
        return self.store.derived(self.session_id, _PURPOSE).get(1)

    def remember(self, problem: str) -> None:
        """Keep that it failed, so that no process tries again at once; nothing: that it did not."""
        failures, kept = (self.failed or {"failures": 0})["failures"] + 1, None
        if problem:
            wait = self.settings.cooldown_seconds * 2.0 ** min(failures - 1, 40)
            until = self.now.timestamp() + min(wait, _LONGEST_WAIT)
            kept = {"failures": failures, "until": until, "problem": problem}
        if problem or failures > 1:
            self.store.keep_derived(self.session_id, _PURPOSE, {1: kept})


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
        summarizer: summarizers.Summarizer = summarizers.extract_summary,
        *,
        keep: int | None = None,
        before: Callable[[str, Sequence[SessionEvent]], Any] | None = None,
        after: Callable[[Compaction], Any] | None = None,
        template: str = summarizers.SUMMARY_TEMPLATE,
        headings: Sequence[str] = summarizers.HEADINGS,
    ) -> None:
        if not callable(summarizer):
            raise TypeError(f"summarizer must be a function, not {type(summarizer).__name__}.")
        from jinja2 import StrictUndefined
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        self.summarizer, self.keep, self.headings = summarizer, keep, tuple(headings)
        self.before, self.after = before, after
        self.prompt = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        ).from_string(template)

    async def compact(
        self, context: AssembledContext, host: Host, *, check: CompactionCheck
    ) -> Compaction:
        """Compact the session of a context; see `ContextAssembler.compact`."""
        if _UNDER_WAY.get() == host.session_id:
            raise host.error("it is being compacted by whoever asks.", "Wait until that is done.")
        async with host.lock:
            token = _UNDER_WAY.set(host.session_id)
            try:
                done, _ = await self._first(context, host)
                done = done or await self._compacted(context, host, check)
            except CompactionError:
                raise
            except Exception as error:
                said = one_line(str(error)) or "it took too long."  # as a time-out says
                raise host.error(f"{type(error).__name__}: {said}") from error
            finally:
                _UNDER_WAY.reset(token)
            host.remember("")
        if self.after is not None and done.is_own:
            await call_away(self.after, done)
        return done

    async def _compacted(
        self, context: AssembledContext, host: Host, check: CompactionCheck
    ) -> Compaction:
        plan, covered, draft = await asyncio.to_thread(self._read, context, host, check)
        await host.append(host.session_id, [])  # a store that cannot be written to says so
        if self.before is not None:
            await call_away(self.before, host.session_id, covered)
        async with asyncio.timeout(host.settings.timeout_seconds):
            text = await draft.write()
        rows = host.store.rows(host.session_id, [(seq, seq) for seq in plan.kept])
        made_by = events.Provenance(draft.provider, draft.model, usage=draft.usage)
        facts: dict[str, Any] = {
            "reason": check.reason,
            "covered_tokens": plan.tokens,
            "summary_tokens": draft.count(text),
            "requests": draft.requests,
        }
        event = SessionEvent(
            type="compaction",
            parts=(events.Text(text),),
            covers=events.Covers(1, plan.last_seq, tuple(name for _, name, _ in rows)),
            created_at=host.now,
            origin="model" if draft.model else "assembler",
            made_by=made_by if draft.model else None,
            metadata={"compaction": facts},
        )
        while True:
            other, seen = await self._first(context, host)
            if other is not None:
                return other
            try:
                [stored] = await host.append(host.session_id, [event], expected_seq=seen)
            except ConcurrentAppendError:
                continue  # what arrived is newer than all that is covered
            return Compaction(stored, host.session_id, **facts)

    async def _first(self, context: AssembledContext, host: Host) -> tuple[Compaction | None, int]:
        """Return a compaction that came after what the context was made from, and the last event.

        Raises:
            CompactionError: The session is not the one of the context any more.
        """
        about, head = context.metadata, await host.refresh(host.session_id)
        if head.incarnation != about.incarnation or head.last_seq < about.last_seq:
            raise host.error("it was rewound or deleted meanwhile.")
        arrived = host.store.events(host.session_id, after_seq=about.last_seq)
        made = next((event for event in arrived if event.type == "compaction"), None)
        done = Compaction(made, host.session_id, is_own=False) if made else None
        return done, arrived[-1].seq if arrived else about.last_seq

    def _read(
        self, context: AssembledContext, host: Host, check: CompactionCheck
    ) -> tuple[Range, list[SessionEvent], "_Draft"]:
        """Return what is covered, its events, and the summary to be written."""
        settings, details = host.settings, check.details
        target = details["target_tokens"]
        most = min(settings.summary_tokens, max(_LEAST_SUMMARY, int(_TARGET_SHARE * target)))
        # Something is covered in any case; if it is asked for, half of it.
        able, is_asked = details["compactable_tokens"], check.reason == "explicit"
        least = able // 2 if is_asked else able - LEAST_COVERED_TOKENS
        room = min(target - check.floor_tokens - most, least)
        columns = context.columns()
        plan = plan_range(
            *columns,
            room_tokens=room,
            task_tokens=int(TASK_SHARE * target),
            most_messages=settings.max_messages // 2,
            most_calls=settings.max_tool_calls // 2,
            keep=self.keep,
        )
        # The last summary is among them, which may stand behind what is covered.
        stored = host.store.events(host.session_id, limit=max(plan.seqs, default=0))
        stored = events.active_events(stored)
        sizes = dict(zip(columns[2], columns[1], strict=True))
        plan = _without_pending(plan, stored, sizes)
        own, shown = {*plan.seqs}, {*plan.seqs, *plan.kept}
        covered = [event for event in stored if event.seq in own]
        said = [event for event in covered if event.type != "compaction"]
        tokens = sum(sizes[event.seq] for event in said)
        if tokens < LEAST_COVERED_TOKENS:
            reason = f"a summary may cover {tokens:,} tokens of it, too few to be worth it."
            raise host.error(reason, "Keep fewer messages, or go on with it as it is.")
        for event in covered:  # of a summary without text, as providers write it, what it covers
            if event.type == "compaction" and event.covers and not event.text.strip():
                shown |= {*range(event.covers.first_seq, event.covers.last_seq + 1)}
        pieces = list(read_pieces(stored, host.clean))
        known = essentials_of([p for p in pieces if p.seq <= plan.last_seq], host.clean)
        pieces = [piece for piece in pieces if piece.seq in shown]
        return plan, said, _Draft(self, host, plan, pieces, known, most_tokens=most)


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
) -> Range:
    """Return what a compaction covers of a history, by its columns.

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
    starts, ends, heads, users = history.starts, history.ends, history.heads, history.users
    numbers = [kind & KIND_MASK for kind in kinds]
    last = first = history.count - 1
    calls = 0
    while first > 0:
        calls += numbers[starts[first - 1] : starts[first]].count(events.TOOL_RESULT)
        messages, size = heads[-1] - heads[first - 1], ends[last] - ends[first - 1]
        is_full = size > room_tokens or messages > most_messages or calls > most_calls
        if is_full if keep is None else heads[-1] - heads[first] >= keep:
            break
        first -= 1
    tail = starts[first]
    asked = [starts[number] for number in users[-1:]]
    asked += [starts[n] for n in users[:1] if tokens[starts[n]] <= task_tokens]
    # 0, the number of what no event holds, stands for a result that is missing.
    stays, exchanges = {0, *seqs[tail:], *(seqs[line] for line in asked)}, list[set[int]]()
    for number in range(first):
        lines = range(starts[number], starts[number + 1])
        fixed = [n for n in lines if kinds[n] & events.PINNED or numbers[n] == events.SYSTEM]
        stays.update(seqs[line] for line in fixed)
        results = {seqs[line] for line in lines if numbers[line] == events.TOOL_RESULT}
        if results:
            exchanges.append(results | ({seqs[line] for line in lines} - {0}))
    while split := [one for one in exchanges if one & stays and not one <= stays]:
        stays.update(*split)  # as does all of an exchange of which something stays, or is missing
    covered = {seq: n for n, seq in enumerate(seqs[:tail]) if seq and seq not in stays}
    said = [seq for seq, line in covered.items() if numbers[line] != events.COMPACTION]
    last_seq = max(said, default=0)
    kept = sorted({seq for seq in seqs if 0 < seq <= last_seq} - covered.keys())
    used = sum(size for seq, size in zip(seqs[:tail], tokens, strict=False) if seq in covered)
    return Range(last_seq, sorted(covered), kept, used)


def _without_pending(
    plan: Range, stored: Sequence[SessionEvent], tokens: Mapping[int, int]
) -> Range:
    """Return the range without approvals that nobody has given, and results that wait for a call.

    A pinned event stays even if nothing of it can be sent.
    """
    parts = [(event.seq, part) for event in stored for part in event.parts]
    called = {part.call_id for _, part in parts if isinstance(part, events.ToolCall)}
    blocks = [(seq, part.block) for seq, part in parts if isinstance(part, events.Opaque)]
    given = {block.get("approval_request_id") for _, block in blocks} - {None}
    approvals = [(seq, b) for seq, b in blocks if b.get("type") == "mcp_approval_request"]
    pending = {seq for seq, block in approvals if block.get("id") not in given}
    results = ((seq, part) for seq, part in parts if isinstance(part, events.ToolResult))
    pending |= {seq for seq, part in results if part.call_id not in called}
    pending |= {event.seq for event in stored if event.is_pinned}
    lost = sum(tokens.get(seq, 0) for seq in pending.intersection(plan.seqs))
    kept = sorted({*plan.kept} | {seq for seq in pending if seq <= plan.last_seq})
    seqs = sorted({*plan.seqs} - pending)
    return plan._replace(seqs=seqs, kept=kept, tokens=plan.tokens - lost)


# ---- the summary ----


class _Draft:
    """One summary on its way: the requests for it, and what they took."""

    def __init__(
        self,
        compactor: Compactor,
        host: Host,
        plan: Range,
        pieces: Sequence[Piece],
        essentials: Essentials,
        *,
        most_tokens: int,
    ) -> None:
        self._compactor, self._host, self._covered_tokens = compactor, host, plan.tokens
        self._essentials, self._count_text = essentials, host.family.count_text
        self._room = getattr(compactor.summarizer, "max_prompt_tokens", _MAX_PROMPT_TOKENS)
        self._most = min(most_tokens, plan.tokens // 2, int(self._room * _SUMMARY_SHARE))
        room = self._most - self._count_text("\n(none)\n\n## ".join(compactor.headings))
        self.keep = _must_keep(essentials, int(room * _KEEP_SHARE), self._count_text)
        self._earlier = "".join([one.text for one in pieces if one.by == "summary"][-1:])
        self._pieces = [piece for piece in pieces if piece.by != "summary"]
        self.provider = self.model = ""
        self.usage: Usage | None = None
        self.requests = 0

    def count(self, summary: str) -> int:
        """Return what a summary takes in a request."""
        parts = [{"type": "text", "text": summary}]
        return self._host.family.count_event(events.COMPACTION, {"parts": parts})

    async def write(self) -> str:
        """Return a summary that has everything that it must have.

        Raises:
            CompactionError: No correction has made it so, or there is no room for the prompt.
        """
        summary, chunks = self._earlier, self._chunks()
        for part, transcript in enumerate(chunks, 1):
            facts = {"part": part, "parts": len(chunks), "transcript": transcript}
            facts["previous"], draft, faults = summary, "", list[str]()
            for _ in range(self._host.settings.max_corrections + 1):
                draft = await self._ask({**facts, "draft": draft, "faults": faults})
                faults = self._faults(draft, is_last=part == len(chunks))
                if not faults:
                    break
            else:
                reason = f"its summary was refused after {self.requests} request(s): "
                raise self._host.error(reason + " ".join(faults[:5]))
            summary = draft
        return summary

    def _chunks(self) -> list[str]:
        """Return the transcript, in as many parts as the summarizer's prompt needs."""
        count, frame = self._count_text, self._prompt({"part": 1, "parts": 2})
        room = self._room - count(frame) - 3 * self._most
        if room < self._most:
            reason = f"the prompt of {self._room:,} tokens has no room for the transcript."
            raise self._host.error(reason, "Use a summarizer with a larger window.")
        chunks, free = [list[str]()], room
        for piece in self._pieces:
            most = _MOST_CALL_TOKENS if piece.by in ("call", "result") else _MOST_TEXT_TOKENS
            line = f"[{piece.seq}] {' '.join(filter(None, (piece.by, piece.name)))}: {piece.text}"
            shown = shorten_text(line, max_tokens=min(most, room), count_text=count)
            size = count(shown) + 1
            if size > free and chunks[-1]:
                chunks.append([])
                free = room
            chunks[-1].append(shown)
            free -= size
        return ["\n".join(chunk) for chunk in chunks]

    def _prompt(self, facts: Mapping[str, Any]) -> str:
        tags = {"previous": "summary_so_far", "transcript": "transcript", "draft": "refused"}
        shown = {name: escape_tag(tag, facts.get(name, "")) for name, tag in tags.items()}
        given = {"faults": (), "headings": self._compactor.headings, "keep": self.keep}
        return self._compactor.prompt.render(
            {**given, "max_tokens": self._most, **facts, **shown}
        ).strip()

    async def _ask(self, facts: Mapping[str, Any]) -> str:
        request = summarizers.SummaryRequest.of(
            self._prompt(facts),
            essentials=self._essentials,
            headings=self._compactor.headings,
            keep=self.keep,
            max_tokens=self._most,
            count_text=self._count_text,
            previous=facts["previous"],
            faults=tuple(facts["faults"]),
        )
        self.requests += 1
        said = await call_away(self._compactor.summarizer, request)
        if not isinstance(said, str | summarizers.Written):
            raise TypeError(f"A summarizer must return text, not {type(said).__name__}.")
        written = said if isinstance(said, summarizers.Written) else summarizers.Written(said)
        self.provider, self.model = written.provider, written.model
        if written.usage is not None:
            spent = zip(self.usage or Usage(), written.usage, strict=True)
            self.usage = Usage(*map(sum, spent))
        return self._host.clean(written.text).strip()

    def _faults(self, summary: str, *, is_last: bool) -> list[str]:
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
        # An extract lists what it listed before, and what came since.
        is_extract = self._compactor.summarizer is summarizers.extract_summary
        earlier = "" if is_extract else _plain(self._earlier)
        if len(earlier) >= _LONG_LINE_CHARS and earlier in text and earlier != text:
            faults.append("It repeats the summary before it word for word: write a new one.")
        return faults


def _must_keep(known: Essentials, most_tokens: int, count: CountText) -> dict[str, list[str]]:
    """Return by kind what a summary must hold, as much of it as may be asked for."""
    kinds = ("Constraints", "Open tasks", "Files", "Names")
    kept: dict[str, list[str]] = {}
    fields = known.constraints, known.tasks, known.files, known.identifiers
    for kind, items in zip(kinds, fields, strict=True):
        room = most_tokens
        for item in items[:_MOST_KEPT]:
            if (room := room - count(f"- {item}\n")) < 0:
                break
            kept.setdefault(kind, []).append(item)
    return kept


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


# ---- what the assembler calls ----


def compactor_of(given: Any, *, keep: int | None = None) -> Compactor:
    """Return a compactor, of a summarizer too; `None` asks for summaries without a model."""
    made = (
        given if isinstance(given, Compactor) else Compactor(given or summarizers.extract_summary)
    )
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
        raise host.error(str(check.details["declined"]), "Go on with it as it is.")
    return await compactor.compact(context, host, check=check)


async def compact_if_due(
    compactor: Compactor, context: AssembledContext, host: Host
) -> tuple[bool, str]:
    """Compact a session if that is advised; return whether the context is stale, and a warning."""
    check, failed = context.check_compaction(), host.failed
    if _UNDER_WAY.get() == host.session_id:  # a summarizer, or a hook, assembles the session
        return False, ""
    if failed and host.now.timestamp() < failed["until"]:
        until = datetime.fromtimestamp(failed["until"], host.now.tzinfo).isoformat(" ", "seconds")
        return False, f"{failed['problem']} It is tried again from {until} on."
    try:
        await compactor.compact(context, host, check=check)
    except CompactionError as error:
        if (await host.refresh(host.session_id)).incarnation != context.metadata.incarnation:
            return True, ""  # it was rewound meanwhile, which is nobody's failure
        host.remember(error.problem)  # of a caller who asks, the next one need not wait
        return False, str(error)
    except Exception as error:
        return True, f"The hook after the compaction failed: {type(error).__name__}: {error}"
    return True, ""
