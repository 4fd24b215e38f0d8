"""`fit_messages()`: the same core for a list of messages that its caller keeps."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain, dropwhile, groupby, islice
from operator import is_
from threading import Lock
from typing import Any, Final

from context_assembler import events
from context_assembler import options as declared
from context_assembler.context import LedgerRow, Request, input_budget
from context_assembler.core import fixed_rows, hand_over, overflow, take_back
from context_assembler.errors import ContextOverflowError, TranscriptError
from context_assembler.events import Body, Json, JsonObject, is_list, is_object
from context_assembler.history.lines import SYNTHETIC, Rules, Timeline, columns_of
from context_assembler.models import ModelLimits, get_model_limits, protocol_for
from context_assembler.ports import OwnStrategy, Turn
from context_assembler.providers import PROVIDERS, check_payload
from context_assembler.providers.gemini import ContentReader
from context_assembler.providers.openai_chat import check_tools
from context_assembler.providers.wire import as_object, fresh_json, text_of, text_part
from context_assembler.report import ReportEntry
from context_assembler.tokens import CounterName, family_for
from context_assembler.tools.sources import ListedTools
from context_assembler.transcripts.messages import API_FORMATS
from context_assembler.transcripts.source import Issues, bounded, listed
from context_assembler.truncation import Cut, History, Plan, Shortened, cut_entries

# Of shapes that fit alike the first one is taken.
_SHAPES: Final = ("openai_chat", "anthropic", "openai_responses", "gemini")
_OWN_IDS: Final = ("id", "call_id", "tool_call_id", "tool_use_id", "name")
_SEALED: Final = ("thinking", "redacted_thinking", "reasoning_details", "thinking_blocks")
_ROLES: Final[Mapping[int, Any]] = {
    **dict.fromkeys((events.ASSISTANT, events.TOOL_CALL), "assistant"),
    events.TOOL_RESULT: "tool",
    events.SYSTEM: "system",
}
_MARKER: Final = "It says how many messages are missing here."
_ADDED: Final = "The provider would refuse the messages without it."
_NOTHING: Final = "It holds nothing that can be sent by itself."
_REFUSED: Final = "The provider would refuse it unchanged: {}."
_BESIDE: Final = "The provider would refuse it unchanged next to what was repaired."
_BOUND: Final = "Signed reasoning is only valid after the same messages, and these have changed."
_FOREIGN: Final = "It has the shape of {}; the list has that of {}."


@dataclass(frozen=True, slots=True, repr=False)
class FittedMessages:
    """Messages that fit.

    Attributes:
        messages: What to send, in the shape of the list. Unchanged messages are the objects given.
        indices: The place of each message in the list; `None` for an added one.
        changes: An entry for each message that was shortened, repaired, dropped or added, with the
            rule, the reason and the tokens before and after. Its `id` is the place in the list, or a
            name for an added message.
        tokens: Size of system prompt, tools and messages together.
        max_tokens: The most that these may take.
        state: For `after`.
        keeps_prefix: Whether `messages` begin with those of `after`, so that prompt caches are hit;
            without `after`, with the whole list.
    """

    messages: list[Any]
    indices: list[int | None]
    changes: tuple[ReportEntry, ...]
    tokens: int
    max_tokens: int
    state: "_Fitting"
    keeps_prefix: bool = True

    def __repr__(self) -> str:
        sizes = f"{self.tokens:,} of {self.max_tokens:,} tokens, {len(self.changes)} changes"
        return f"<FittedMessages: {len(self.messages)} messages, {sizes}>"


def fit_messages(
    messages: Iterable[Any],
    *,
    model: str | ModelLimits,
    max_tokens: int | None = None,
    system: Any = None,
    tools: Iterable[Any] | None = None,
    response_format: Any = None,
    strategy: declared.StrategyName | OwnStrategy = "smart",
    keep_last_messages: int | None = None,
    keep_last_turns: int | None = None,
    shorten_repeats: bool = False,
    on_overflow: declared.OverflowPolicy = "error",
    counter: CounterName = "auto",
    after: FittedMessages | None = None,
) -> FittedMessages:
    """Return the messages that fit, valid for their provider, and a list of all changes.

        fitted = fit_messages(messages, model="gpt-5.4", max_tokens=100_000)
        client.chat.completions.create(model="gpt-5.4", messages=fitted.messages)

    Nothing is stored or sent, and neither the list nor a message is changed. While a list grows, the
    result keeps the same beginning until the next cut.

    Args:
        messages: Of OpenAI Chat, Responses (items), Anthropic or Gemini, as dicts or SDK objects.
            Leading system messages stay first; Anthropic and Gemini take them as `system` alone.
        max_tokens: For `system`, `tools` and messages together; by default the model's window less a
            reserve for the reply.
        system: The system prompt that you send next to the messages: text, or a list of text blocks.
        tools: Those that you send next to the messages: specs of any provider, or functions.
        response_format: The schema of the reply that you send next to the messages; see `assemble`.
        strategy: `smart`, `simple`, `sliding`, or a function (`OwnStrategy`).
        keep_last_messages: Newest messages that stay, if they fit.
        keep_last_turns: Newest turns that stay, if they fit.
        shorten_repeats: A cut by `smart` shortens a large tool result to one line if the same call
            got a newer one.
        on_overflow: `shorten` may shorten the user's last message as well.
        counter: How tokens are counted, as in `TokenCounter`; `simple` is quick and rough.
        after: The result for the beginning of this list, so that only new messages are read. It
            never changes which messages are returned, and is ignored if it belongs to another list
            or other settings.

    Raises:
        UnknownModelError: Nothing is known about the model.
        TranscriptError: A message cannot be read; the error names it (`messages[7]`).
        ContextOverflowError: What may not be dropped does not fit, even shortened.
        InvalidToolError: A tool cannot be read.
        UnsupportedRequestError: The model takes tools with messages of another shape only.
    """
    limits = model if isinstance(model, ModelLimits) else get_model_limits(model)
    settings = declared.TruncationSettings(
        strategy=strategy,
        keep_last_messages=keep_last_messages,
        keep_last_turns=keep_last_turns,
        shorten_repeats=shorten_repeats,
        on_overflow=on_overflow,
    )
    asked = declared.read_options({"max_tokens": max_tokens, "response_format": response_format})
    given, specs = [*messages], [*(tools or ())]
    prompt = _plain(system, "system")
    key = limits, asked, prompt, settings, counter, [_plain(one, "tools") for one in specs]
    fitted = after.state.fit(given, key) if after is not None else None
    if fitted is None:
        fitted = _Fitting(key, specs).fit(given, key)
    assert fitted is not None, "a new list continues itself"
    sent = given if after is None else after.messages
    return replace(fitted, keeps_prefix=_alike(fitted.messages[: len(sent)], sent))


def _alike(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether messages are the same but for the marks for Anthropic's cache, which move on."""
    if some == others:
        return True
    pairs = zip(some, others, strict=False)
    same = (one == other or _unmarked(one) == _unmarked(other) for one, other in pairs)
    return len(some) == len(others) and all(same)


def _unmarked(value: Any) -> Any:
    if is_object(value):
        return {key: _unmarked(held) for key, held in value.items() if key != "cache_control"}
    return [*map(_unmarked, value)] if is_list(value) else value


def _nothing(*_: object) -> Any:
    return None


def _plain(value: Any, name: str) -> Json:
    """Return a copy as JSON; a function stands for itself."""
    return value if callable(value) else bounded(value, Issues(), name, 0)


class _Fitting:
    """One list with its settings: what was read of it, decided on it, and made for it so far."""

    def __init__(self, key: tuple[Any, ...], tools: Sequence[Any]) -> None:
        self.key, self.lock = key, Lock()
        self.limits, asked, prompt, self.settings, self.counter, _ = key
        self.given: list[Any] = []  # copies of the messages, to compare them with
        self.plain: list[Json] = []
        self.shapes: list[list[str]] = []
        self.likely, self.is_mixed = [*_SHAPES], False
        source = ListedTools(tools)
        specs = tuple(source.list_now())
        for problem in source.problems:
            raise problem
        parts = [one if is_object(one) else text_part(str(one)) for one in listed(prompt or [])]
        text = prompt if isinstance(prompt, str) else text_of({"type": "text", **p} for p in parts)
        form = {"model": self.limits.id, "response_format": asked.get("response_format")}
        chosen = declared.DefaultsResolver(form).resolve()
        parameters, _ = declared.validate_for_model(chosen, self.limits)
        most = asked.get("max_tokens")
        reserve = parameters.max_tokens if most is None else 0
        request = Request(limits=self.limits, parameters=parameters, system=text, tools=specs)
        self.budget = input_budget(self.limits, max_tokens=reserve, max_context_tokens=most)
        self.request, self.reserve = request, reserve
        self.shape = ""

    # ---- reading ----

    def _begin(self, shape: str) -> None:
        """Forget what was read; the messages are read as this shape."""
        self.shape, self.is_openai = shape, shape.startswith("openai")
        if shape == "openai_chat" and self.request.tools:
            check_tools(self.limits)
        self.is_rewritten = False  # prefix-bound reasoning is left out
        self.family = family_for(self.limits, counter=self.counter, protocol=shape)
        self.fixed = fixed_rows(self.family, self.request)
        self.sound = 0  # messages that stand as they are
        self.contents, self.run = ContentReader(_nothing), list[Json]()
        self.events: list[tuple[str, Body]] = []
        self.owners: list[list[int]] = []  # of each event, its messages
        self.spans: list[dict[int, tuple[int, int]]] = []  # of each message, its parts by event
        self._restart()

    def _restart(self) -> None:
        """Forget all lines."""
        prefills = self.is_openai or bool(self.limits.supports("prefill"))
        rules = Rules(
            body=self._body,
            measure=self._measure,
            seqs_by_id=_nothing,
            objection=self._objection,
            reads=bool,
            keeps_thoughts=self._keeps_thoughts,
            on_refusal="keep",
            provider=self.shape,
            flaw_of=getattr(PROVIDERS[self.shape], "find_flaw", None),
            accepts_prefill=prefills,
        )
        self.timeline, self.stubs = Timeline(rules), dict[int, Shortened]()
        self.parts, self.count_text = self.timeline.parts_at, self.family.count_text
        self.history = History(stub_tokens=self.settings.stub_tokens)
        self.plan: Plan | None = None
        self.seen, self.cut_id, self.has_grown = 0, 0, False
        self.sealed_tokens = 0  # of reasoning, sent or not
        self.broken = dict[int, str]()  # lines that the provider refuses as they are, and why
        self._forget_output()

    def _forget_output(self) -> None:
        self.covered = 0  # lines
        self.made: list[tuple[int, Json]] = []  # messages: their place, or -1, and what is sent

    def _take(self, messages: Sequence[Any]) -> None:
        """Read the messages that are new."""
        for at in range(len(self.given), len(messages)):
            plain = _plain(messages[at], f"messages[{at}]")
            shapes = self._shapes_of(plain)
            if not self.is_mixed:
                self.likely = [name for name in self.likely if name in shapes]
            if not self.likely:
                self.likely, self.is_mixed = [*_SHAPES], True
                self.shapes = list(map(self._shapes_of, self.plain))
                shapes = self._shapes_of(plain)
            if not shapes:
                fields = as_object(plain)
                named = fields.get("role", fields.get("type", type(messages[at]).__name__))
                raise TranscriptError(
                    source=f"messages[{at}]",
                    reason=f"({named!r:.60}) is not a message of {', '.join(_SHAPES)}",
                    remedy="Pass messages of one of these APIs; of a reply, pass its message.",
                )
            self.plain.append(plain)
            self.shapes.append(shapes)
            self.given.append(plain if plain == messages[at] else deepcopy(messages[at]))
        votes = Counter(chain(*self.shapes) if self.is_mixed else self.likely)
        own, first = protocol_for(self.limits), as_object(next(iter(self.plain), None))
        if first.get("role") == "system" and not self.is_mixed:  # only OpenAI's lists begin so
            own = "openai_chat" if own in ("anthropic", "gemini") else own
        shape = max(_SHAPES, key=lambda name: (votes[name], name == own))
        if shape != self.shape:
            self._begin(shape)
        for at in range(len(self.spans), len(self.plain)):
            self._read(at)
        if self.has_grown or 0 < self.seen == len(self.timeline.lead):
            self._restart()

    def _goes_on(self, begin: list[Any]) -> bool:
        """Whether these are the messages that were read; marks for the cache may have moved."""
        if begin == self.given:
            return True
        if not _alike(begin, self.given):
            return False
        for at, message in enumerate(begin):
            if message != self.given[at]:
                self.plain[at] = plain = _plain(message, f"messages[{at}]")
                self.given[at] = plain if plain == message else deepcopy(message)
                self.sound = min(self.sound, at)
                self._forget_output()
        return True

    def _shapes_of(self, plain: Json) -> list[str]:
        """Return the shapes of a message: while all messages have one, of those that they share."""
        if isinstance(plain, str):  # the SDK of Gemini takes it for the user's
            return ["gemini"]
        fields = as_object(plain)
        return [name for name in self.likely if API_FORMATS[name].takes(fields)]

    def _read(self, at: int) -> None:
        """Read a message as events; what a model said in a row of items is one reply."""
        value, shapes, spans = self.plain[at], self.shapes[at], dict[int, tuple[int, int]]()
        shape = self.shape if self.shape in shapes else shapes[0]
        self.spans.append(spans)
        run = self.run if shape == "openai_responses" else []
        is_gemini, read = shape == "gemini", PROVIDERS[shape].read_messages
        found = [*self.contents.read(value, "")] if is_gemini else read([*run, value])
        is_reply = bool(found) and found[-1][0] == "assistant" and shape == "openai_responses"
        before = 0
        if run and (is_reply and len(found) == 1):
            before = len(self.events[-1][1]["parts"])
            self.events[-1] = found[0]
            self.has_grown |= self.seen >= len(self.events)  # since it was counted
        else:
            self.events += found[1:] if run else found
            self.owners += ([] for _ in range(len(self.events) - len(self.owners)))
        self.run = [*run, value] if is_reply else []
        added = found[-1:] if before else found[1:] if run else found
        for seq, (_, body) in enumerate(added, len(self.events) - len(added) + 1):
            spans[seq] = before, len(body["parts"])
        if not added and self.events:  # it stays with what is before it
            spans[len(self.events)] = (0, 0)
        for seq in spans:
            self.owners[seq - 1].append(at)

    def _objection(self, _seq: int) -> str | None:
        return "prefix" if self.is_rewritten else None

    def _keeps_thoughts(self, _body: Body) -> bool:
        return not self.is_rewritten

    def _body(self, seq: int) -> Body:
        return self.events[seq - 1][1]

    def _measure(self, kind: int, body: Body) -> int:
        kind = events.USER if kind & events.KIND_MASK == SYNTHETIC else kind
        return self.family.count_event(kind, body) + self.family.count_reasoning(body)

    def _extend(self) -> None:
        """Make lines of new events."""
        timeline, history = self.timeline, self.history
        if timeline.is_closed:
            take_back(timeline, history, self.stubs)
        if not timeline.is_late:
            new = self.events[self.seen :]
            kinds = [events.kind_of(name, body) for name, body in new]
            columns = columns_of(kinds, [body for _, body in new], self.family)
            if new:
                timeline.extend(columns)
            self.sealed_tokens += sum(columns.reasoning)
            self.seen = len(self.events)
            timeline.close()
        if timeline.is_late:
            self._restart()
            self._extend()
            return
        hand_over(timeline, history)

    # ---- `truncation.Lines` ----

    def count(self, kind: int, parts: Sequence[JsonObject], line: int = -1) -> int:
        del line
        return self._measure(kind, {"parts": list(parts)})

    def name(self, line: int) -> str:
        seq = self.timeline.seqs[line]
        return f"messages[{self.owners[seq - 1][0]}]" if seq else ""

    def is_clock(self, line: int) -> bool:
        del line
        return False

    def handle(self, _lines: Sequence[int], /) -> str:
        return ""

    # ---- fitting ----

    def fit(self, messages: list[Any], key: tuple[Any, ...]) -> FittedMessages | None:
        """Return the messages that fit; `None`: these do not continue what was read."""
        with self.lock:
            if key != self.key or not self._goes_on(messages[: len(self.given)]):
                return None
            self._take(messages)
            self._extend()
            try:
                room = self._room()
                whole = self.history.ends[-1] + self.is_rewritten * self.sealed_tokens
                is_due = self.limits.thinking.is_prefix_bound and whole > room
                if is_due != self.is_rewritten:
                    self.is_rewritten = is_due
                    self._restart()
                    self._extend()
                if self.plan is None or self.plan.room != room:
                    given: Any = {"settings": self.settings, "stubs": self.stubs}
                    self.plan = Plan(self.history, self, room_tokens=room, **given)
                cut = self.plan.cut()
            except ContextOverflowError as error:  # in the words of this function
                said = error.remedy.replace(" lower max_tokens or reserve_tokens,", "")
                error.remedy = said.replace("max_context_tokens", "max_tokens")
                error.args = (f"{error.problem} {error.remedy}",)
                raise
            is_whole = cut is None and not self.is_rewritten
            made = (self._whole() if is_whole else None) or self._made(cut)
            tokens = self.history.ends[-1] if cut is None else cut.tokens
            out = [messages[at] if v is None else fresh_json(v) for at, v in made]
            places = [at if at >= 0 else None for at, _ in made]
            changes = tuple(self._changes(cut, made))
            used = self.budget - room + tokens
            return FittedMessages(out, places, changes, used, self.budget, self)

    def _room(self) -> int:
        """Return what the messages may take that do not stay first."""
        rows = [*self.fixed]
        for seq in self.timeline.lead:
            where = f"messages[{self.owners[seq - 1][0]}]"
            if not self.is_openai:
                raise TranscriptError(
                    source=where,
                    reason=f"is a system message; the API ({self.shape}) takes none in front",
                    remedy="Take it out of the list, pass it as system=, and send it next to it.",
                )
            rows.append(LedgerRow("system", where, self._measure(events.SYSTEM, self._body(seq))))
        room = self.budget - sum(row.tokens for row in rows)
        if room < 0 or (room == 0 and len(self.history)):
            most = {"budget_tokens": self.budget, "reserve_tokens": self.reserve}
            raise overflow(rows, self.request.tools, **most)
        return room

    def _whole(self) -> list[tuple[int, Json]] | None:
        """Return all messages as they are, unless the provider would refuse one."""
        everything: list[tuple[int, Json]] = [(at, None) for at in range(len(self.given))]
        opener = self.events[len(self.timeline.lead) :][:1]
        is_odd = not self.is_openai and opener and opener[0][0] == "assistant"
        is_odd = is_odd and self.timeline.kinds[0] & events.KIND_MASK == SYNTHETIC
        if is_odd or self._refused(everything, self.sound):
            return None
        self.sound = len(everything)  # what was checked is not checked again
        return everything

    def _made(self, cut: Cut | None) -> list[tuple[int, Json]]:
        """Return what is sent: of each message its place, and what stands for it, if anything does."""
        cut_id = cut.id if cut else 0
        if cut_id != self.cut_id:
            self.cut_id = cut_id
            self._forget_output()
        self.broken.clear()
        kept = [(0, len(self.history))] if cut is None else cut.kept
        ranges = [(max(first, self.covered), end) for first, end in kept]
        lines = [line for first, end in ranges for line in range(first, end)]
        owners = self.owners[: len(self.timeline.lead)]
        head: list[tuple[int, Json]] = [(at, None) for places in owners for at in places]
        new = self._render(cut, lines)
        known = [*head, *self.made]
        history, held = self.history, [line for one in kept for line in range(*one)]
        for reach in (0, 1, 1):  # by itself, then with what the provider joins it to
            refused = self._refused([*known, *(one for _, one in new)], len(known))
            is_late = any(len(head) <= at < len(known) for at in refused)
            before = {*self.broken}  # what stands in a row of these is one already
            for at, reason in refused.items():
                if at >= len(known):
                    number = history.exchange_of(new[at - len(known)][0])
                    first, end = history.starts[number], history.first_line(number + 1)
                    for line in reversed(held[: bisect_left(held, first)]) if reach else ():
                        if history.kinds[line] & events.KIND_MASK != events.ASSISTANT:
                            break
                        first = history.starts[history.exchange_of(line)]
                    behind = dropwhile(before.__contains__, held[bisect_left(held, end) :])
                    for line in islice(behind, reach):
                        end = history.first_line(history.exchange_of(line) + 1)
                    is_late |= first < self.covered and bool(self.made)
                    self.broken = dict.fromkeys(range(first, end), reason) | self.broken
            if is_late:
                self._forget_output()
                return self._made(cut)
            if not refused:
                break
            new = self._render(cut, lines)
        settled, end = min([self.timeline.settled, *self.broken]), len(self.history)
        if new and new[-1][1][0] < 0:  # what is before it was judged with a turn that will go
            settled = self.covered
        while 0 < settled < end and self._owner(settled) & self._owner(settled - 1):
            settled -= 1
        self.made += [one for line, one in new if line < settled]
        self.covered = max(self.covered, settled)
        return [*head, *self.made, *(one for line, one in new if line >= settled)]

    def _owner(self, line: int) -> set[int]:
        seq = self.timeline.seqs[line]
        return {*self.owners[seq - 1]} if seq else set()

    def _render(self, cut: Cut | None, lines: Sequence[int]) -> list[tuple[int, tuple[int, Json]]]:
        """Return the messages of kept lines, each with its first line."""
        timeline, pieces = self.timeline, list[tuple[int, list[int]]]()
        for line in lines:
            seq = timeline.seqs[line]
            for at in self.owners[seq - 1] if seq else [-1]:
                if pieces and pieces[-1][0] == at and at >= 0:
                    pieces[-1][1].append(line)
                else:
                    pieces.append((at, [line]))
        made: list[tuple[int, tuple[int, Json]]] = []
        marker = cut.marker if cut is not None else None
        for is_broken, run in groupby(pieces, key=lambda one: one[1][0] in self.broken):
            for group in [[*run]] if is_broken else ([one] for one in run):
                first = group[0][1][0]
                if cut is not None and marker is not None and self.covered <= marker <= first:
                    made += ((first, one) for one in self._wired([(-1, _marker(cut))]))
                    marker = None
                made += ((first, one) for one in self._group(cut, group, is_broken=is_broken))
                if is_broken and marker is not None and marker <= group[-1][1][-1]:
                    marker = None
        return made

    def _group(
        self, cut: Cut | None, group: Sequence[tuple[int, list[int]]], *, is_broken: bool
    ) -> list[tuple[int, Json]]:
        """Return what is sent for messages that stand together."""
        timeline, turns, seen = self.timeline, list[tuple[int, Turn]](), set[int]()
        at, lines = group[0]
        is_whole = at >= 0 and not is_broken
        marker = cut.marker if cut is not None and is_broken else None
        for place, held in group:
            spans = self.spans[place] if place >= 0 else {}
            is_whole &= [timeline.seqs[line] for line in held] == [*spans]
            for line in held:
                if cut is not None and marker is not None and lines[0] < marker <= line:
                    turns.append((-1, _marker(cut)))
                    marker = None
                seq, kind = timeline.seqs[line], timeline.kinds[line] & events.KIND_MASK
                own: Sequence[JsonObject] = self.events[seq - 1][1]["parts"] if seq else ()
                parts = own if seq and not is_broken else timeline.parts_at(line)
                if cut is not None and line in cut.shortened:
                    parts = cut.shortened[line].parts
                if len(parts) == len(own):
                    first, end = spans[seq]
                    parts = parts[first:end]
                    is_whole &= all(map(is_, parts, own[first:end]))
                elif line in seen or (kind == SYNTHETIC and self.is_openai):
                    parts = ()  # it went with another message; OpenAI needs no user message first
                seen.add(line)
                role: Any = _ROLES.get(kind, "user")
                is_next = bool(turns) and turns[-1][1]["role"] == role == "tool"
                if parts and is_next and not (self.is_openai and turns[-1][0] != place):
                    turns[-1][1]["parts"] += parts
                elif parts:
                    turns.append((place, Turn(role=role, parts=[*parts], kind="said")))
        if is_whole:
            bare = _bare(self.plain[at]) if self.is_rewritten else self.plain[at]
            return [] if bare is None else [(at, None if bare == self.plain[at] else bare)]
        number = self.history.exchange_of(lines[0])
        start = self.history.starts[number]
        seed = [Turn(role="user", parts=[text_part(".")])]
        opens = turns[0][1]["role"] if turns else "user"
        if opens == "tool" and start < lines[0]:
            seed.append(Turn(role="assistant", parts=[*timeline.parts_at(start)], kind="said"))
        before = next((timeline.seqs[line] for line in lines if timeline.seqs[line]), 1) - 1
        said = [part for _, body in self.events[: before * is_broken] for part in body["parts"]]
        used = [part["call_id"] for part in said if part["type"] == "tool_call"]
        made = self._wired(turns, seed if opens != "user" else (), used)
        if len(group) == len(made) == 1 and at >= 0 and self.shape != "gemini" and not is_broken:
            made = [(at, _like(self.plain[at], made[0][1]))]
        return made

    def _wired(
        self, turns: Iterable[tuple[int, Turn]], seed: Sequence[Turn] = (), used: Sequence[str] = ()
    ) -> list[tuple[int, Json]]:
        """Return turns, with their places, as the provider's own code writes them behind `seed`.

        `used` are the ids of calls before them.
        """
        request = Request(limits=self.limits, parameters=self.request.parameters)
        wire = PROVIDERS[self.shape].Wire(request)
        wire.know_calls(used)
        for turn in seed:
            wire.add(turn)
        first = len(wire.messages)
        places = [-1] * first
        for at, turn in turns:
            wire.add(turn)
            new = len(wire.messages) - len(places)
            if new < 0:  # neighbours became one message
                del places[new:]
                places[-1] = at if places[-1] < 0 else places[-1]
            places += [-1 if at in places else at, *[-1] * max(new, 0)][: max(new, 0)]
        return list(zip(places, wire.messages, strict=True))[first:]

    def _refused(self, made: Sequence[tuple[int, Json]], start: int) -> dict[int, str]:
        """Return which messages the provider would refuse, by their place among these, and why."""
        key = API_FORMATS[self.shape].keys[0]
        refused = {
            number: _FOREIGN.format(self.shapes[at][0], self.shape)
            for number, (at, value) in enumerate(made)
            if value is None and self.shape not in self.shapes[at]
        }
        sent = [self.plain[at] if value is None else value for at, value in made]
        sent = [*map(as_object, sent)] if self.is_openai else sent  # text alone is Gemini's
        payload = {"model": self.limits.id, "max_tokens": 1, key: sent}
        if self.shape == "anthropic":  # without tools nobody can say which ones are declared
            declared = [{"name": tool.name} for tool in self.request.tools]
            payload["tools"] = declared or [{"type": "mcp_toolset"}]
        found = check_payload(self.shape, payload, limits=self.limits, start=start).refused
        for one in found:
            place = re.match(rf"{key}\[(\d+)\]", one.where)
            if place and one.rule != "A37":  # a list does not say which betas go with it
                why = _REFUSED.format(f"{one.message} ({one.rule})")
                refused.setdefault(int(place[1]), why)
        return refused

    # ---- what was done ----

    def _changes(self, cut: Cut | None, made: Sequence[tuple[int, Json]]) -> list[ReportEntry]:
        """Return an entry for each message that is not sent as it is."""
        timeline, seqs = self.timeline, self.timeline.seqs
        whole, sent = {at for at, value in made if value is None}, {at for at, _ in made}
        found: dict[str, ReportEntry] = {}

        def add(seq: int, entry: ReportEntry, *, is_first: bool = True) -> None:
            """Say it of the messages of an event; the first of these has the tokens."""
            for at in self.owners[seq - 1] if seq else ():
                known = found.get(str(at))
                is_still = at in whole and entry.rule != "repair.moved_result"
                if is_still or (known and not is_first):
                    continue
                decision, before, after = (known or entry)[2], entry[3], entry[4]
                if (at in sent) == (decision == "dropped"):
                    decision = "shortened" if at in sent else "dropped"
                if known:
                    before, after = before + known.tokens_before, after + known.tokens_after
                found[str(at)] = (known or entry)._replace(
                    id=str(at), decision=decision, tokens_before=before, tokens_after=after
                )
                entry = entry._replace(tokens_before=0, tokens_after=0)

        for line, cut_off in (cut_entries(cut, timeline.tokens, str) if cut else {}).items():
            add(seqs[line], cut_off)
        for repair in (*timeline.log, *timeline.loose()):
            if repair.rule not in ("repair.first_user", "repair.prefill"):  # these were added
                said = repair._replace(reason=repair.reason or _BOUND)
                add(int(repair.id), said, is_first=False)
        told = ReportEntry("message", "", "repaired", reason=_BESIDE, rule="repair.refused")
        for line, why in self.broken.items():
            add(seqs[line], told._replace(reason=why), is_first=False)
        lost = ReportEntry("message", "", "dropped", reason=_NOTHING, rule="repair.empty")
        for at in sorted({*range(len(self.given))} - sent):
            found.setdefault(str(at), lost._replace(id=str(at)))
        marker = cut.marker_parts[0]["text"] if cut is not None else ""
        for number, (at, value) in enumerate(made):
            if at >= 0 and value is not None:
                found.setdefault(str(at), told._replace(id=str(at)))
            elif at < 0:
                rule: Any = "repair.added"
                why, text = _ADDED, str(value)
                if cut is not None and cut.marker is not None and marker in text:
                    rule, why = f"{cut.strategy}.marker", _MARKER
                name, size = f"added[{number}]", self.family.count_text(text)
                found[name] = ReportEntry("note", name, "kept", 0, size, why, rule)
        return list(found.values())


def _marker(cut: Cut) -> Turn:
    return Turn(role="user", kind="marker", parts=cut.marker_parts)


def _bare(reply: Json) -> Json:
    """Return a reply without its signed reasoning; `None`: it is nothing else."""
    if as_object(reply).get("type") == "reasoning":
        return None
    held = {key: value for key, value in as_object(reply).items() if key not in _SEALED}
    if is_list(blocks := held.get("content")):
        kept = [one for one in blocks if as_object(one).get("type") not in _SEALED]
        held["content"] = kept or None
    return held


def _like(own: Json, made: Json) -> Json:
    """Return what was made for a message with the ids and further fields that the message has."""
    if is_object(own) and is_object(made) and own.get("type") == made.get("type"):
        merged = {**own, **{key: _like(own.get(key), held) for key, held in made.items()}}
        return {**merged, **{key: own[key] for key in _OWN_IDS if key in own}}
    if is_list(own) and is_list(made) and len(own) == len(made):
        return list(map(_like, own, made))
    return made
