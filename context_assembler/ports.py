"""What the library asks of parts that can be replaced: stores, tools, skills, memory, counters.

Bundled parts and your own fit the same protocols. Below them stand the plain values that they take
and return.
"""

from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    Any,
    Final,
    Literal,
    NamedTuple,
    Protocol,
    Required,
    TypeAlias,
    TypedDict,
    runtime_checkable,
)

from context_assembler.events import (
    Body,
    Json,
    JsonObject,
    Origin,
    Session,
    SessionEvent,
    SessionHead,
    Value,
    to_json,
)

Payload: TypeAlias = dict[str, Json]
Placement: TypeAlias = Literal["system", "note"]
TextOf: TypeAlias = Callable[[Session], str | Awaitable[str | None] | None]
"""Returns a text for a session; nothing, or a blank text, is left out."""


# ---- values ----


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ToolSpec(Value):
    """One tool as a model sees it.

    Attributes:
        input_schema: JSON Schema of the arguments; its root type is `object`.
        source: Where the tool came from (`functions`, `executor`, `listed` …), for the report.
        permission: What it needs, as a dotted name that permission globs match (`fs.read`); `None`
            means the tool's own name.
        is_safe: Whether it may run in sandbox mode; `None` counts as no.
        is_strict: Whether the provider should enforce the schema; `None` leaves that to it.
        native_specs: By provider, a spec that only this provider understands (a server tool), sent
            verbatim; the tool does not exist for any other provider.
        own_name: What its source calls it, if it is offered under another name.
        is_deferred: Whether the model finds it by searching instead of reading it in every request,
            if the provider can search; `None` leaves that to the setting.
        allowed_callers: Which of Claude's own tools may call it, such as `code_execution_20260120`;
            empty leaves the calls to the model.
    """

    name: str
    description: str = ""
    input_schema: JsonObject = field(default_factory=dict[str, Json])
    source: str = "listed"
    permission: str | None = None
    is_safe: bool | None = None
    is_strict: bool | None = None
    native_specs: Mapping[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    own_name: str | None = None
    is_deferred: bool | None = None
    allowed_callers: Sequence[str] = ()


class ToolChoice(NamedTuple):
    """Whether the model must call a tool; `name` is given exactly if `mode` is `tool`.

    `allowed` names the only tools that may be called, of all that are offered (`None`: any).
    """

    mode: Literal["auto", "none", "any", "tool"] = "auto"
    name: str | None = None
    allows_parallel: bool | None = None
    allowed: tuple[str, ...] | None = None


class ResponseFormat(NamedTuple):
    """What the reply must be: JSON that a schema describes; without a schema, any JSON object."""

    schema: JsonObject | None = None
    name: str = "reply"
    is_strict: bool = True


class ChangeForms(NamedTuple):
    """How a provider's model can learn of changed tools without a change of what was sent before.

    Attributes:
        adds: Whether a tool can be added after the history.
        redefines: Whether a known tool can be given another definition there.
        adds_strict: Whether an added tool may be strict.
        max_tools: How many tools there may be, declared and added together; `None`: not known.
        withdraws: How a tool is withdrawn: by the note itself, or by a list, next to the history, of
            the tools that may be called. `None`: not at all.
    """

    adds: bool = False
    redefines: bool = False
    adds_strict: bool = False
    max_tools: int | None = None
    withdraws: Literal["note", "choice"] | None = None


class ToolSearch(NamedTuple):
    """How a provider searches for deferred tools.

    `shows_descriptions`: the model reads their names and descriptions before it searches.
    """

    shows_descriptions: bool = False


class ToolChange(NamedTuple):
    """What one note reports: tools that can be called from here on, and names that cannot."""

    added: tuple[ToolSpec, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class ToolPlan(NamedTuple):
    """Which tools one provider declares before the history, and which it may call.

    Attributes:
        provider: Whom the plan is for; any other provider declares `offered`.
        declared: Before the history, as they were when the epoch began.
        offered: What the model may call in this request.
        added: By notes after the history, in order; a later tool replaces an earlier one by name.
        after_seq: Notes after this event count; earlier ones are part of `declared`.
        forms: The provider's forms of change.
    """

    provider: str
    declared: tuple[ToolSpec, ...]
    offered: tuple[ToolSpec, ...]
    added: tuple[ToolSpec, ...] = ()
    after_seq: int = 0
    forms: ChangeForms = ChangeForms()

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """The names that may be called, if the choice withdraws others; `None`: all."""
        if self.forms.withdraws != "choice":
            return None
        names = {tool.name for tool in self.offered}
        known = {tool.name for tool in (*self.declared, *self.added)}
        return tuple(sorted(names)) if known - names else None


HISTORY_SOURCE: Final = "assembler.history"  # whose tool reads what was left out of a session
TOOLS_NOTE: Final = "tools"  # the name of notes about tools that came or went
_ASSEMBLER: Final = "context-assembler"  # the provider of their opaque part, until one renders it


def change_part(change: ToolChange) -> JsonObject:
    """Return the stored part of a note about changed tools; a provider without a form sends `text`."""
    lines: list[str] = []
    if change.added:
        names = ", ".join(tool.name for tool in change.added)
        lines.append(f"From here on these tools can be called: {names}.")
    if change.removed:
        lines.append(f"From here on these tools cannot be called: {', '.join(change.removed)}.")
    block = {
        "type": "tool_change",
        "added": [to_json(tool) for tool in change.added],
        "removed": list(change.removed),
    }
    return {"type": "opaque", "provider": _ASSEMBLER, "block": block, "text": "\n".join(lines)}


def read_change(part: JsonObject) -> ToolChange | None:
    """Return the change that a stored part reports; `None` if it reports none, or cannot be read."""
    block = part.get("block")
    if part.get("provider") != _ASSEMBLER or not block or block.get("type") != "tool_change":
        return None
    try:
        added = tuple(ToolSpec(**tool) for tool in block.get("added", ()))
    except TypeError:  # written by a newer version
        return None
    return ToolChange(added, tuple(block.get("removed", ())))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PromptSection(Value):
    """One named piece of the system prompt.

    Higher `priority` comes first. A required section is never shortened or dropped. Placement
    `note` puts it after the history instead of into the system prompt. `path` is the instruction
    file that it is the text of; empty for any other section.

    Instead of `content`, `text_of` may be a function of the session, plain or async, that each call
    asks. As long as payloads only grow, the system prompt keeps the text that it began with: another
    text is a note, and takes its place at the next rewrite point.
    """

    name: str
    content: str = ""
    priority: int = 0
    placement: Placement = "system"
    is_required: bool = False
    origin: Origin = "developer"
    path: str = ""
    text_of: TextOf | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Skill(Value):
    """A skill: what the prompt lists of it, and its instructions, read when it is active.

    Attributes:
        path: Its SKILL.md; empty for a skill from code. Files that it refers to are next to it.
        priority: Of two skills with one name the higher stays; the higher ones stay in a list that
            is too long.
        tools: Specs, in any provider's shape, of tools that are offered while it is active.
        allowed_tools: Tools that its author wants approved in advance (`allowed-tools`). Shown to
            the model and the application; nothing is limited by it.
        is_hidden: Whether the model does not know it unless it is active: its author keeps it for
            people to call (`disable-model-invocation`).
        is_active: Whether it is active without being named.
        examples: Follow its instructions if `[skills] shows_examples` is set.
    """

    name: str
    description: str
    path: str = ""
    instructions: str = ""
    priority: int = 0
    tools: tuple[JsonObject, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    is_hidden: bool = False
    is_active: bool = False
    examples: tuple[str, ...] = ()


class SkillProvider(Protocol):
    """Where skills come from: folders, code, a database."""

    async def list_skills(self, session: Session) -> Iterable[Skill]:
        """Return the skills for a session; its `agent_id` is the agent of the call."""
        ...


class Turn(TypedDict, total=False):
    """One provider-neutral message on its way from the history to a provider's renderer.

    `parts` are JSON parts as stored (`{"type": "text", ...}`); they are shared with the history:
    read them, do not change them. A `tool` turn holds the results of one set of parallel calls and
    nothing else. `seq` and `id` are those of its first stored event; `seq` 0: no event yet. No cut
    drops a pinned one.
    """

    role: Required[Literal["user", "assistant", "tool", "system"]]
    parts: Required[list[JsonObject]]
    kind: Literal["said", "summary", "note", "marker", "synthetic"]
    note: str | None
    seq: int
    id: str
    origin: Origin
    made_by: JsonObject | None
    is_pinned: bool


# ---- sessions ----


class EventSource(Protocol):
    """The least that a session store must offer: enough to assemble from, not to record."""

    def load(self, session_id: str, *, after_seq: int = 0) -> AsyncIterator[SessionEvent]:
        """Yield the events with a larger sequence number, oldest first.

        Raises:
            UnknownSessionError: There is no such session.
        """
        ...

    async def head(self, session_id: str) -> SessionHead:
        """Return the session's record and last sequence number.

        Raises:
            UnknownSessionError: There is no such session.
        """
        ...


class SessionStore(EventSource, Protocol):
    """Keeps what happened in each session, in order.

    `append` is atomic and durable: after a crash all of `events` are there, or none.
    """

    async def create(self, session: Session) -> None:
        """Keep a new session; replace the record of one that exists, its events untouched."""
        ...

    async def append(
        self, session_id: str, events: Sequence[SessionEvent], *, expected_seq: int | None = None
    ) -> list[SessionEvent]:
        """Append, and return the events with `id` and `seq` filled in.

        A session that does not exist begins with its first event, and was created at its time.

        Raises:
            ConcurrentAppendError: `expected_seq` is given and is not the last sequence number.
        """
        ...

    async def list_sessions(self) -> list[SessionHead]:
        """Return every session, most recently created last."""
        ...

    async def delete(self, session_id: str) -> None:
        """Forget the session with all its events.

        Raises:
            UnknownSessionError: There is no such session.
        """
        ...

    async def close(self) -> None:
        """Close files and connections."""
        ...


class HistoryColumns(NamedTuple):
    """What a strategy of your own decides on, by line: a line is an event, or what stands between.

    Attributes:
        kinds: `user`, `assistant`, `tool_call`, `tool_result`, `compaction`, `system` or `note`.
        tokens: As the line is sent whole.
        parts: Reads the JSON parts of a line: its text, its calls. This is slow; do not change them.
    """

    kinds: Sequence[str]
    tokens: Sequence[int]
    parts: Callable[[int], Sequence[JsonObject]]


OwnStrategy: TypeAlias = Callable[[Sequence[range], HistoryColumns, int], Iterable[int]]
"""Chooses what is kept of a history that does not fit: `(groups, columns, budget_tokens)` → indices.

A group is the lines of one exchange: a reply with its calls and their results, or any other message. It
is kept or dropped as a whole. The newest group, the last message of the user, pinned messages and the
latest summary are kept in any case, and count towards the budget. Of the groups chosen the oldest go
if all of them together do not fit. The function must depend on its arguments alone: it is asked again in
another process, and has to choose the same.
"""


class TokenFamily(Protocol):
    """Counts an event as one tokenizer and one vendor's request format do.

    `key` names the counts in a store: another vocabulary, frame or formula has another key.
    `tokens.family_by_key(key)` returns a bundled family again (`None`: there is none of that key),
    and `tokens.DEFAULT_FAMILIES` are the keys that a new session is counted by at append.
    """

    key: str

    def count_event(self, kind: int, body: Body) -> int:
        """Return the tokens of a stored event as it is sent: parts with their overhead.

        Thinking and signatures are left out.
        """
        ...

    def count_reasoning(self, body: Body) -> int:
        """Return what its thinking and signatures add if they are sent; 0 if it has none."""
        ...


class StoredColumns(NamedTuple):
    """Columns of a session from one sequence number on: what decisions are made on.

    All have one element per event, oldest first; the first five are the same for every family.
    """

    kinds: bytes | bytearray  # kind and flags of each event, see events.py
    marks: bytes | bytearray  # how many calls or results it holds, or which note it is: `mark_of`
    created: "array[float]"  # POSIX time ("d"); 0.0 if nobody knows
    answers: "array[int]"  # `answers_seq` ("I"); 0 if it has none
    links: "array[int]"  # ids of calls and results ("H"): `link_of`
    tokens: "array[int]"  # by one family ("I"), without reasoning: `count_event`
    reasoning: "array[int]"  # by one family ("I"): `count_reasoning`


# ---- tools, skills, memory ----


class ToolSource(Protocol):
    """Somewhere tools come from.

    A class whose objects list the same tools for good may say so with `is_constant = True`: then a
    call that changes nothing else is answered without asking them.
    """

    name: str

    async def list_tools(self) -> Sequence[ToolSpec]:
        """Return the tools offered at this moment."""
        ...


class RecalledNote(NamedTuple):
    """What memory found for a query: fenced text for one note (empty: nothing relevant)."""

    text: str
    entries: tuple[Any, ...] = ()  # ReportEntry
    warnings: tuple[str, ...] = ()


@runtime_checkable
class TokenCounter(Protocol):
    """Counts text; a counter of your own may take the place of the bundled ones."""

    name: str
    is_exact: bool

    def count_text(self, text: str) -> int:
        """Return the tokens of the text; any string is accepted."""
        ...
