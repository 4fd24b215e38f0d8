"""The kinds of memory: what is known of each besides its text, and how a model reads it.

A kind is declared in one place: a class under `@kind`, with its fields and how an entry is written.
"""

import re
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar

from context_assembler.errors import InvalidContextTypeError, brief
from context_assembler.events import Json, is_list
from context_assembler.texts import clean_text

MemoryKind: TypeAlias = str  # one of `KINDS`

_SHOWN_PATHS: Final = 5
_SHOWN_CHARS: Final = 300  # of any one field besides the text
_SHORT_HASH_CHARS: Final = 10


class Metadata(Protocol):
    """What is known of a record besides its text: a dataclass, one for each kind."""

    def entry(self, text: str, author: str | None, when: str, /) -> str:
        """Return the record as an entry of a Markdown list.

        Args:
            when: When it was made, unless that stands above, and how important it is, if the kind
                shows it.
        """
        ...


class KindSpec(NamedTuple):
    """What holds for all records of one kind.

    Attributes:
        heading: What stands above them in Markdown.
        share: Their weight in the division of a budget.
        follows: What orders them into a line, so that a record has neighbours.
        is_turn_like: Whether a record is only understood with its neighbours: it is found by their
            words too, and may say the same as another.
        is_by_day: Whether they are listed under the day on which they were made.
        shows_importance: Whether an entry says how important it is.
        identity: Fields of the metadata that must agree in duplicates.
        type_field: The field of the metadata that filters know: `event_types` asks for `event_type`.
        listed_by: The field of the metadata by which they are listed, the largest first.
    """

    metadata: type[Any]
    heading: str
    share: float = 1.0
    follows: Literal["session", "parent"] = "session"
    is_turn_like: bool = False
    is_by_day: bool = False
    shows_importance: bool = False
    identity: tuple[str, ...] = ()
    type_field: str | None = None
    listed_by: str | None = None


KINDS: Final[dict[MemoryKind, KindSpec]] = {}

_M = TypeVar("_M")


@typing.dataclass_transform(frozen_default=True, kw_only_default=True)
def kind(name: MemoryKind, heading: str, **rules: Any) -> Callable[[type[_M]], type[_M]]:
    """Declare a kind of memory by the class of its metadata; `rules` as in `KindSpec`."""

    def register(cls: type[_M]) -> type[_M]:
        made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        KINDS[name] = KindSpec(made, heading, **rules)
        return made

    return register


def check_kind(name: object) -> MemoryKind:
    """Return the kind.

    Raises:
        InvalidContextTypeError: There is no such kind.
    """
    if isinstance(name, str) and name in KINDS:
        return name
    raise InvalidContextTypeError(name, known=KINDS)


# ---- metadata as JSON ----


@cache
def field_types(name: MemoryKind) -> Mapping[str, Any]:
    """Return the type of each field of a kind's metadata."""
    return {field.name: field.type for field in fields(KINDS[name].metadata)}


def read_metadata(name: MemoryKind, given: Mapping[str, Json]) -> Metadata | None:
    """Return the metadata that JSON holds; `None` if it holds nothing.

    Raises:
        ValueError: A field is of another type.
    """
    types = field_types(name)
    made: dict[str, Any] = {key: _read(key, types[key], value) for key, value in given.items()}
    found: Metadata | None = KINDS[name].metadata(**made) if made else None
    return found


def write_metadata(metadata: Any) -> dict[str, Json]:
    """Return the fields that do not hold their default, as JSON."""
    found = {field.name: getattr(metadata, field.name) for field in fields(metadata)}
    return {key: _json(value) for key, value in found.items() if value is not None and value != ()}


def is_texts(value: object) -> TypeGuard[tuple[str, ...]]:
    """Whether a field holds several texts, for type checkers as well."""
    return isinstance(value, tuple)


def _json(value: Any) -> Json:
    if is_texts(value):
        return [*value]
    return value.isoformat() if isinstance(value, datetime) else value


def _read(name: str, wanted: Any, value: Json) -> Any:
    if typing.get_origin(wanted) is tuple:
        if is_list(value) and all(isinstance(one, str) for one in value):
            return tuple(value)
    elif value is None:
        return None
    else:
        is_union = typing.get_origin(wanted) in (typing.Union, UnionType)
        types = typing.get_args(wanted) if is_union else (wanted,)
        if datetime in types and isinstance(value, str):
            return datetime.fromisoformat(value)
        if float in types:
            types = (float, int)
        choices = [choice for one in types for choice in typing.get_args(one)]
        is_right = value in choices if choices else isinstance(value, types)
        if is_right and (not isinstance(value, bool) or bool in types):
            return value
    raise ValueError(f"metadata.{name}: {brief(value)} is of another type")


# ---- how entries are written ----


def _entry(text: str, about: str = "") -> str:
    """Return a list entry; further lines are indented, so that none leaves it."""
    first, *rest = (f"{text} ({about})" if about else text).split("\n")
    return "\n".join((f"- {first}", *(f"  {line}".rstrip() for line in rest)))


def plain(text: str | None, most: int = _SHOWN_CHARS) -> str:
    """Return a field on one line, without anything that could close what stands around it."""
    flat = " ".join(clean_text(text or "").replace("`", "'").replace("<", "&lt;").split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def _joined(*pieces: str, between: str = ", ") -> str:
    return between.join(filter(None, pieces))


def _said(text: str, author: str | None, when: str) -> str:
    is_told = author is None or text.startswith(f"{author}:")
    return _entry(text if is_told else f"{plain(author)}: {text}", when)


def _named(name: str | None, text: str) -> str:
    return f"{plain(name)}: {text}" if name and name not in text else text


def _place(path: str | None, start: int | None, end: int | None = None) -> str:
    if not path:
        return ""
    lines = "" if start is None else f":{start}"
    lines += "" if start is None or end is None or end == start else f"-{end}"
    return f"`{plain(path)}{lines}`"


def _paths(paths: Iterable[str]) -> str:
    listed = [f"`{plain(path)}`" for path in paths]
    shown, more = ", ".join(listed[:_SHOWN_PATHS]), len(listed) - _SHOWN_PATHS
    return f"{shown} and {more} more" if more > 0 else shown


def _known(text: str, **fields: str | None) -> list[str]:
    """Return each field with its name, unless the text says it."""
    return [f"{name}: {plain(said)}" for name, said in fields.items() if said and said not in text]


def _sure(confidence: float | None) -> str:
    return "" if confidence is None else f"{confidence:.0%} sure"


def worked(rate: float | None) -> str:
    """Return how often something succeeded, in words; empty if nobody said."""
    return "" if rate is None else f"succeeded {rate:.0%} of the time"


# ---- the kinds ----


@kind("memories", "Memories", is_by_day=True, shows_importance=True)
class FactMetadata:
    """What is known of something worth remembering."""

    category: str | None = None
    source: str | None = None
    confidence: float | None = None
    tags: tuple[str, ...] = ()

    def entry(self, text: str, author: str | None, when: str) -> str:
        return _said(text, author, _joined(plain(self.category), when))


@kind("code", "Code", share=2, follows="parent", identity=("path", "symbol"))
class CodeMetadata:
    """Where code stands; lines count from 1, both ends included."""

    path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    symbol: str | None = None
    language: str | None = None
    repository: str | None = None

    def entry(self, text: str, _author: str | None, when: str) -> str:
        # The fence is longer than any run of backticks inside, so the code cannot close it.
        marks = "`" * (max(map(len, re.findall("`{3,}", text)), default=2) + 1)
        opening = marks + re.sub(r"[^\w+#-]", "", self.language or "")
        block = "\n".join(f"  {line}".rstrip() for line in (opening, *text.split("\n"), marks))
        symbol = f"`{plain(self.symbol)}`" if self.symbol else ""
        place = _place(self.path, self.start_line, self.end_line)
        return f"{_entry(_joined(place, symbol, between=' ') or 'code', when)}\n{block}"


@kind("experiences", "Experiences", share=3, identity=("domain", "strategy", "succeeded"))
class ExperienceMetadata:
    """What was tried, what was expected, and what came of it.

    Attributes:
        surprise: How far the outcome was from the prediction, from 0 to 1.
        succeeded: `None` if nobody said.
    """

    goal: str | None = None
    hypothesis: str | None = None
    action: str | None = None
    prediction: str | None = None
    outcome: str | None = None
    surprise: float | None = None
    lesson: str | None = None
    root_cause: str | None = None
    domain: str | None = None
    strategy: str | None = None
    axis: str | None = None
    succeeded: bool | None = None

    def entry(self, text: str, _author: str | None, when: str) -> str:
        outcome = {True: "(succeeded)", False: "(failed)", None: ""}[self.succeeded]
        surprise = "" if self.surprise is None else f"surprise {self.surprise:.0%}"
        about = _joined(when, surprise, *_known("", domain=self.domain, strategy=self.strategy))
        told = _known(
            text,
            goal=self.goal,
            hypothesis=self.hypothesis,
            did=self.action,
            expected=self.prediction,
            outcome=self.outcome,
            cause=self.root_cause,
            lesson=self.lesson,
        )
        first = _entry(_joined(text, outcome, between=" "), about)
        return "\n".join((first, *(f"  - {line}" for line in told)))


@kind("values", "Principles")
class ValueMetadata:
    """What speaks for a principle."""

    name: str | None = None
    domain: str | None = None
    axis: str | None = None
    reason: str | None = None
    confidence: float | None = None

    def entry(self, text: str, _author: str | None, _when: str) -> str:
        because = f"because {plain(self.reason)}" if self.reason else ""
        about = _joined(*_known("", axis=self.axis), _sure(self.confidence), because)
        return _entry(_named(self.name, text), about)


@kind("commits", "Commits", share=2, identity=("sha",))
class CommitMetadata:
    """A commit besides its message."""

    sha: str | None = None
    branch: str | None = None
    repository: str | None = None
    paths: tuple[str, ...] = ()
    insertions: int | None = None
    deletions: int | None = None

    def entry(self, text: str, author: str | None, when: str) -> str:
        sha = f"`{plain(self.sha)[:_SHORT_HASH_CHARS]}` " if self.sha else ""
        added = "" if self.insertions is None else f"+{self.insertions}"
        removed = "" if self.deletions is None else f"-{self.deletions}"
        size = _joined(added, removed, between="/")
        return _entry(f"{sha}{text}", _joined(plain(author), when, size, _paths(self.paths)))


_VERBS: Final = {
    "Read": "read readfile fileread readmanyfiles notebookread view viewfile cat",
    "Wrote": "write writefile filewrite edit editfile fileedit multiedit notebookedit strreplace "
    "replace createfile applypatch patch",
    "Executed": "bash shell localshell powershell terminal command exec execute executed run python "
    "execcommand executecommand runcommand runshellcommand",
}
_VERB_OF: Final = {name: verb for verb, names in _VERBS.items() for name in names.split()}
_CALLS: Final = ("", "toolcall", "tooluse", "call")  # of which the text is what was done


@kind(
    "events",
    "Events",
    is_turn_like=True,
    is_by_day=True,
    identity=("event_type", "tool_name"),
    type_field="event_type",
)
class EventMetadata:
    """What happened, as a session's event says it."""

    event_type: str | None = None
    event_id: str | None = None
    tool_name: str | None = None
    is_error: bool | None = None

    def entry(self, text: str, author: str | None, when: str) -> str:
        named = (re.sub("[^a-z]", "", (n or "").lower()) for n in (self.event_type, self.tool_name))
        kind, tool = named
        verb = _VERB_OF.get(kind) or (_VERB_OF.get(tool) if kind in _CALLS else None)
        name = None if verb else self.tool_name
        mark = _joined("error" if self.is_error else "", plain(name), between=" in ")
        marked = (f"[{mark}]" if mark else "", "" if text.startswith(verb or " ") else verb or "")
        return _said(_joined(*marked, text, between=" "), author, when)


@kind("chunks", "Documents", follows="parent", is_turn_like=True)
class ChunkMetadata:
    """Which piece of which document; `parent_id` of the record is the document."""

    source: str | None = None
    heading: str | None = None
    position: int | None = None
    start_line: int | None = None
    end_line: int | None = None

    def entry(self, text: str, _author: str | None, _when: str) -> str:
        place = _place(self.source, self.start_line, self.end_line)
        return _entry(_joined(_joined(place, plain(self.heading)), text, between=": "))


@kind("entities", "Entities", identity=("name", "entity_type"), type_field="entity_type")
class EntityMetadata:
    """A person, place, project or thing."""

    name: str | None = None
    entity_type: str | None = None
    aliases: tuple[str, ...] = ()

    def entry(self, text: str, _author: str | None, _when: str) -> str:
        aliases = ", ".join(map(plain, self.aliases[:_SHOWN_PATHS]))
        about = _joined(plain(self.entity_type), f"also {aliases}" if aliases else "")
        return _entry(_named(self.name, text), about)


@kind("relations", "Relations", identity=("source_id", "target_id", "relation"))
class RelationMetadata:
    """What connects two entities; `source_id` and `target_id` are ids of its own namespace."""

    source_id: str | None = None
    target_id: str | None = None
    relation: str | None = None
    weight: float | None = None

    def entry(self, text: str, _author: str | None, _when: str) -> str:
        relation = self.relation
        return _entry(text, "" if relation is None or relation in text else plain(relation))


@kind("patterns", "Patterns", listed_by="success_rate")
class PatternMetadata:
    """Something that came up again and again; `success_rate` is from 0 to 1."""

    name: str | None = None
    domain: str | None = None
    occurrences: int | None = None
    success_rate: float | None = None
    confidence: float | None = None

    def entry(self, text: str, _author: str | None, when: str) -> str:
        often = "" if self.occurrences is None else f"seen {self.occurrences} times"
        about = _joined(often, worked(self.success_rate), _sure(self.confidence), when)
        return _entry(_named(self.name, text), about)


@kind("sessions", "Sessions", identity=("title", "started_at"))
class SessionMetadata:
    """The session that a summary is about."""

    title: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str | None = None
    paths: tuple[str, ...] = ()

    def entry(self, text: str, _author: str | None, when: str) -> str:
        about = _joined(when, plain(self.outcome), _paths(self.paths))
        return _entry(_named(self.title, text), about)


@kind("changed_functions", "Changed functions", identity=("path", "name"))
class ChangedFunctionMetadata:
    """A function that was changed."""

    name: str | None = None
    path: str | None = None
    change: Literal["added", "modified", "deleted"] | None = None
    start_line: int | None = None
    signature: str | None = None

    def entry(self, text: str, _author: str | None, when: str) -> str:
        name = plain(self.signature or self.name)
        place = _place(self.path, self.start_line)
        above = _joined(place, f"`{name}`" if name else "", self.change or "", between=" ")
        return _entry(_joined(above, text, between=": "), when)


@kind("learnings", "Learnings")
class LearningMetadata:
    """How far a learning can be relied on, from 0 to 1, and where it holds."""

    confidence: float | None = None
    domain: str | None = None
    source: str | None = None
    tags: tuple[str, ...] = ()

    def entry(self, text: str, _author: str | None, when: str) -> str:
        return _entry(text, _joined(_sure(self.confidence), when))


@kind("observations", "Observations", is_by_day=True)
class ObservationMetadata:
    """What an observation was made of; `parent_id` of the record is what it was read from."""

    observation_type: str | None = None
    tool_name: str | None = None
    confidence: float | None = None
    paths: tuple[str, ...] = ()

    def entry(self, text: str, _author: str | None, when: str) -> str:
        return _entry(text, _joined(when, _paths(self.paths)))


TYPE_FIELDS: Final = {name: spec.type_field for name, spec in KINDS.items() if spec.type_field}
TURN_LIKE: Final = frozenset(name for name, spec in KINDS.items() if spec.is_turn_like)
