"""The steps of a session: each call of a model, made again from the events that it was made from."""

from asyncio import Future, ensure_future, shield, to_thread
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from context_assembler import events
from context_assembler.assembler import ContextAssembler
from context_assembler.context import AssembledContext
from context_assembler.errors import AssemblyError, UnknownModelError
from context_assembler.events import Body, CallRow, Json, SessionHead, is_list, is_object
from context_assembler.forecast import CutPolicy, Simulation
from context_assembler.history.secrets import mask
from context_assembler.ports import StoredColumns, TokenFamily
from context_assembler.prompt import SentPrompt
from context_assembler.providers.wire import as_object
from context_assembler.report import ReportEntry
from context_assembler.sessions.sqlite import SqlStore
from context_assembler.tools.changes import SentTools

_OF_THE_MODEL: Final = "max_tokens temperature top_p top_k thinking_level thinking_budget".split()
FALLBACK_MODEL: Final = "claude-opus-5-5"  # of sessions in which nothing names a model
_KINDS: Final = (*events.EVENT_TYPES[: events.NOTE], "note", "rewind")
POLICIES: Final[Mapping[str, CutPolicy]] = {
    "as settled": CutPolicy(),
    "smart, cut anew each call": CutPolicy(strategy="smart", cache_stable=False),
    "simple": CutPolicy(strategy="simple"),
    "sliding": CutPolicy(strategy="sliding"),
}
_HASHES: Final = {"system_hash": "system prompt", "tools_hash": "tools", "prefix": "messages"}
_LABEL_CHARS: Final = 100
_SECRET: Final = ("authorization", "authorization_token", "headers")  # of MCP servers, in any form
_READ_CHARS: Final = 1_000  # of a text, before secrets are masked in it and it is cut to a label
_REPLIES: Final = (events.ASSISTANT, events.TOOL_CALL)


class Step(NamedTuple):
    """One call of a session.

    Attributes:
        number: Counted from 1.
        seq: The first event of the reply; 0: the call that comes next.
        until_seq: The last event that is sent, notes of the call included.
        row: What was recorded of the call.
    """

    number: int
    seq: int
    until_seq: int
    row: CallRow | None = None


class Made(NamedTuple):
    """The call of a step, made again.

    `differs` names what is not as it was sent, by the hashes that were recorded; `None`: nothing was
    recorded, or other options were given: then it `is_tried`.
    """

    step: Step
    context: AssembledContext
    differs: tuple[str, ...] | None
    is_tried: bool = False


def without_secrets(value: Json) -> Json:
    """Return a copy of which no text holds a secret of a known form."""
    if is_object(value):
        shown = {key: "[masked]" if key in _SECRET else one for key, one in value.items()}
        return {mask(key)[0]: without_secrets(one) for key, one in shown.items()}
    if is_list(value):
        return [without_secrets(one) for one in value]
    return mask(value)[0] if isinstance(value, str) else value


def label_of(body: Body) -> str:
    """Return the beginning of what an event says, on one line, without secrets."""
    said: list[str] = []
    for part in body.get("parts", ()):
        shown = [inner.get("text") for inner in part.get("content") or ()]
        text = part.get("text") or " ".join(filter(None, shown))
        if part["type"] == "tool_call":
            text = f"{part['name']}({events.compact_json(part.get('arguments'))[:_READ_CHARS]})"
        said.append(text or f"[{part['type'].replace('_', ' ')}]")
    line = " ".join(mask(" ".join(said)[:_READ_CHARS])[0].split())
    return line if len(line) <= _LABEL_CHARS else f"{line[: _LABEL_CHARS - 1]}…"


class _Past:
    """A session store as it was when a call was made; nothing is kept of what is derived there."""

    def __init__(self, store: SqlStore) -> None:
        self._store: Any = store
        self.step, self.before = Step(0, 0, 0), list[CallRow]()
        self.texts: Mapping[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def look(self, session_id: str) -> SessionHead | None:
        head: SessionHead | None = self._store.look(session_id)
        version = f"{head and head.version}-{self.step.number}"
        return head and head._replace(last_seq=self.step.until_seq, version=version)

    def columns(
        self, session_id: str, family: TokenFamily, *, after_seq: int = 0, **_: Any
    ) -> StoredColumns:
        count = max(0, self.step.until_seq - after_seq)
        columns: list[Any] = [*self._store.columns(session_id, family, after_seq=after_seq)]
        return StoredColumns(*(column[:count] for column in columns))

    def calls(self, _: str, *, after_seq: int = 0) -> list[CallRow]:
        return [row for row in self.before if row.reply_seq > after_seq]

    def last_call(self, _: str, **__: Any) -> CallRow | None:
        """Return the step's own row: what it sent as system prompt and tools is sent again."""
        row = self.step.row or next(reversed(self.before), None)
        return row and replace(row, reply_seq=min(row.reply_seq, self.step.until_seq))

    def factors(self, _: str, model: str) -> list[tuple[int, float]]:
        return [(row.answers_seq, row.factor) for row in self.before if row.model == model]

    def text(self, digest: str) -> str | None:
        return self.texts.get(digest) or self._store.text(digest)

    def derived(self, session_id: str, purpose: str, **given: Any) -> dict[int, Json]:
        found: dict[int, Json] = self._store.derived(session_id, purpose, **given)
        last = self.step.until_seq if purpose == "signed" else max(found, default=0)
        return {seq: value for seq, value in found.items() if seq <= last}

    def keep_derived(self, *_: Any) -> None:
        pass


class _Remaker(ContextAssembler):
    """Assembles with the system prompt that a recorded call sent, at the time of that call."""

    basis: CallRow | None = None

    def _gather_now(self, head: SessionHead, draft: Any) -> Any:
        gathered, row = super()._gather_now(head, draft), self.basis
        if row is None:
            return gathered
        inputs = gathered.candidates[0]
        text = self.store.text(row.system_hash) or ""
        sections = SentPrompt(text, row.details.get("prompt", {})).sections
        entries = [one for one in inputs.entries if one.kind not in ("file", "section")]
        entries = [one for one in entries if not one.rule.startswith("rewrite.")]
        entries[:0] = [ReportEntry("section", one.name, "kept") for one in sections]
        moment = row.created_at if self.store.step.row is row else None
        inputs = inputs._replace(factor=row.factor, most_tokens=row.details.get("room"), now=moment)
        inputs = inputs._replace(system=text, sections=sections, entries=tuple(entries))
        return gathered._replace(candidates=[inputs], last_call=None)


class SessionSteps:
    """The steps of one session, oldest first; the last one is the call that comes next.

    A step is made from the stored events up to its call. System prompt and tools are those that were
    recorded with it, or with the last call before it; without any, those of the assembler.
    """

    def __init__(self, assembler: ContextAssembler, session_id: str) -> None:
        self._assembler, self._store = assembler, assembler.store
        self.session_id = session_id
        self._replays: dict[str, Future[Simulation]] = {}
        self._rows: list[CallRow] = self._store.calls(session_id)  # raises, if there is no session
        self.head: SessionHead = self._store.look(session_id)

    @cached_property
    def kinds(self) -> list[int]:
        """The kind of each event."""
        family = self._assembler.core.family(self._assembler.registry.get(FALLBACK_MODEL))
        columns = self._store.columns(self.session_id, family)
        return [kind & events.KIND_MASK for kind in columns.kinds[: self.head.last_seq]]

    @cached_property
    def labels(self) -> list[tuple[str, str]]:
        """The kind of each event in words, and the beginning of what it says."""
        bodies = self._store.bodies(self.session_id, [(1, self.head.last_seq)])
        pairs = zip(self.kinds, bodies, strict=True)
        return [(_KINDS[kind].replace("_", " "), label_of(body)) for kind, body in pairs]

    @cached_property
    def ids(self) -> dict[str, int]:
        """The number of each event by its id."""
        rows = self._store.rows(self.session_id, [(1, self.head.last_seq)])
        return {event_id: seq for seq, event_id, _ in rows}

    @cached_property
    def all(self) -> list[Step]:
        """Every step."""
        return [*self._found()]

    def _found(self) -> Iterator[Step]:
        kinds, number, has_input, before = self.kinds, 0, False, -1
        rows = iter(self._rows)
        row = next(rows, None)
        for seq, kind in enumerate(kinds, 1):
            if kind in _REPLIES and before not in _REPLIES and has_input:
                while row is not None and row.reply_seq < seq:
                    row = next(rows, None)
                own, until = row if row is not None and row.answers_seq < seq else None, seq - 1
                if own and {*kinds[own.answers_seq : until]} - {events.NOTE}:
                    until = own.answers_seq  # something arrived while the model answered
                number += 1
                yield Step(number, seq, until, own)
            before, has_input = kind, has_input or kind not in (events.SYSTEM, events.NOTE)
        yield Step(number + 1, 0, self.head.last_seq)

    def step(self, number: int | None = None) -> Step:
        """Return a step by its number, or the nearest one; by default the last."""
        return self.all[-1 if number is None else min(max(number, 1), len(self.all)) - 1]

    def make(self, step: Step, **options: Any) -> Made | AssemblyError:
        """Make the call of a step again, or return why it cannot be made.

        Args:
            options: Of `assemble`; what is `None` is as it was.
        """
        try:
            maker, given = self._maker(step, options)
            context = maker.assemble_sync(self.session_id, **given)
        except AssemblyError as error:
            return error
        is_tried = any(one is not None for one in options.values())
        if step.row is None or is_tried:
            return Made(step, context, None, is_tried)
        own = context.sent(step.row.provider).row
        names = [name for name in _HASHES if getattr(own, name) != getattr(step.row, name)]
        return Made(step, context, tuple(_HASHES[name] for name in names))

    async def costs(self, **options: Any) -> Simulation:
        """Return what every step would have cost, under each of `POLICIES`.

        Whoever stops waiting, and asks again, waits for the same replay.
        """
        replay = self._replays.get(key := repr(options))
        if replay is None or (replay.done() and replay.exception()):
            maker, given = await to_thread(self._maker, self.step(), options)
            asked = maker.simulate(self.session_id, policies=POLICIES.values(), **given)
            self._replays[key] = replay = ensure_future(asked)
        return await shield(replay)

    def _maker(self, step: Step, options: Mapping[str, Any]) -> tuple[ContextAssembler, Any]:
        """Return an assembler of the session as it was, and the options of the call."""
        before = [row for row in self._rows if row.reply_seq <= step.until_seq]
        basis = step.row or next(reversed(before), None)
        given: dict[str, Any] = {"model": self._model_of(step, basis)}
        given |= basis.details.get("asked", {}) if basis is not None else {}
        if options.get("model"):  # what another model takes is for that model to say
            given = {name: one for name, one in given.items() if name not in _OF_THE_MODEL}
        given |= {name: one for name, one in options.items() if one is not None}
        sent = None if basis is None else SentTools.read(self._store.text(basis.tools_hash) or "")
        past: Any = _Past(self._store)
        facade, moment = self._assembler, step.row.created_at if step.row is not None else None
        maker = _Remaker(
            past,
            bootstrap=facade.loader,
            tools=facade.given_tools if sent is None else sent.offered,
            config=facade.config,
            registry=facade.registry,
            now=facade.now if moment is None else lambda: moment,
        )
        if basis is None and step.number > 1:  # what its row would say, for the prompt cache
            past.step = earlier = self.all[step.number - 2]
            with suppress(AssemblyError):
                last = maker.assemble_sync(self.session_id, **given).sent()
                before, past.texts = [replace(last.row, reply_seq=earlier.seq)], last.texts
        past.step, past.before, maker.basis = step, before, basis
        return maker, given

    def _model_of(self, step: Step, basis: CallRow | None) -> str:
        """Return the model of a step: as recorded, as its reply says, as settled, or a known one."""
        facade, session = self._assembler, self.head.session
        names: list[Any] = [basis and basis.model]
        if step.seq:
            [body] = self._store.bodies(self.session_id, [(step.seq, step.seq)])
            names.append(as_object(body.get("made_by")).get("model"))
        agents, defaults = facade.config.agents, facade.config.defaults
        names.append(session.defaults.get("model"))
        names += [one.model for one in (agents.get(session.agent_id or ""), defaults) if one]
        for name in filter(None, names):
            with suppress(UnknownModelError):
                return facade.registry.get(name).id
        return FALLBACK_MODEL
