"""How a record of each kind is written as an entry of a list."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from context_assembler.values.memories.kinds import MemoryKind
from context_assembler.values.memories.metadata import (
    ChangedFunctionMetadata,
    ChunkMetadata,
    CodeMetadata,
    CommitMetadata,
    EntityMetadata,
    EventMetadata,
    ExperienceMetadata,
    LearningMetadata,
    ObservationMetadata,
    PatternMetadata,
    RelationMetadata,
    SessionMetadata,
    ValueMetadata,
)
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.texts.cleaning import clean_text

WriteEntry = Callable[[MemoryRecord, str, str], str]
"""Writes a record, showing a text, made at a time as people say it."""

_SHOWN_PATHS: Final = 5
_SHOWN_CHARS: Final = 300  # of any one field beside the text
_SHORT_HASH_CHARS: Final = 10


def write_fact(record: MemoryRecord, text: str, when: str) -> str:
    """Write what is remembered, with who said it."""
    author = record.author
    said = author is None or text.startswith(f"{author}:")
    return _entry(text if said else f"{_plain(author or '')}: {text}", when)


def write_code(record: MemoryRecord, text: str, when: str) -> str:
    """Write code between fences that it cannot close, under its place."""
    metadata = record.metadata if isinstance(record.metadata, CodeMetadata) else CodeMetadata()
    place = _place(metadata.path, metadata.start_line, metadata.end_line)
    symbol = f"`{_plain(metadata.symbol)}`" if metadata.symbol else ""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    marks = "`" * (longest + 1)
    language = re.sub(r"[^\w+#-]", "", metadata.language or "")
    block = "\n".join(
        ("  " + line).rstrip() for line in (f"{marks}{language}", *text.split("\n"), marks)
    )
    return f"{_entry(_joined(place, symbol, between=' ') or 'code', when)}\n{block}"


def write_experience(record: MemoryRecord, text: str, when: str) -> str:
    """Write what was tried, what was expected, what came of it, and what was learnt."""
    metadata = record.metadata
    if not isinstance(metadata, ExperienceMetadata):
        return _entry(text, when)
    outcome = {True: "succeeded", False: "failed", None: ""}[metadata.succeeded]
    head = _joined(text, f"({outcome})" if outcome else "", between=" ")
    fields = (
        ("goal", metadata.goal),
        ("did", metadata.action),
        ("expected", metadata.prediction),
        ("outcome", metadata.outcome),
        ("cause", metadata.root_cause),
        ("lesson", metadata.lesson),
    )
    told = [f"  - {name}: {_plain(value)}" for name, value in fields if value and value not in text]
    return "\n".join((_entry(head, when), *told))


def write_value(record: MemoryRecord, text: str, _when: str) -> str:
    """Write a principle with what speaks for it."""
    metadata = record.metadata if isinstance(record.metadata, ValueMetadata) else ValueMetadata()
    name = f"{_plain(metadata.name)}: " if metadata.name and metadata.name not in text else ""
    return _entry(f"{name}{text}", _joined(_sure(metadata.confidence), _because(metadata.reason)))


def write_commit(record: MemoryRecord, text: str, when: str) -> str:
    """Write a commit's message with its short hash and files."""
    metadata = record.metadata if isinstance(record.metadata, CommitMetadata) else CommitMetadata()
    sha = f"`{_plain(metadata.sha)[:_SHORT_HASH_CHARS]}` " if metadata.sha else ""
    size = _joined(
        "" if metadata.insertions is None else f"+{metadata.insertions}",
        "" if metadata.deletions is None else f"-{metadata.deletions}",
        between="/",
    )
    author = "" if record.author is None else _plain(record.author)
    return _entry(f"{sha}{text}", _joined(author, when, size, _paths(metadata.paths)))


def write_event(record: MemoryRecord, text: str, when: str) -> str:
    """Write what happened, with who said it or what kind of event it was."""
    metadata = record.metadata if isinstance(record.metadata, EventMetadata) else EventMetadata()
    kind = _joined(
        "error" if metadata.is_error else "", _plain(metadata.tool_name or ""), between=" in "
    )
    return write_fact(record, f"[{kind}] {text}" if kind else text, when)


def write_chunk(record: MemoryRecord, text: str, _when: str) -> str:
    """Write a piece of a document under where it stands."""
    metadata = record.metadata if isinstance(record.metadata, ChunkMetadata) else ChunkMetadata()
    place = _place(metadata.source, metadata.start_line, metadata.end_line)
    heading = _plain(metadata.heading or "")
    above = _joined(place, heading, between=", ")
    return _entry(f"{above}: {text}" if above else text, "")


def write_entity(record: MemoryRecord, text: str, _when: str) -> str:
    """Write a thing with its name and what it is called beside."""
    metadata = record.metadata if isinstance(record.metadata, EntityMetadata) else EntityMetadata()
    named = metadata.name and metadata.name not in text
    aliases = ", ".join(map(_plain, metadata.aliases[:_SHOWN_PATHS]))
    about = _joined(_plain(metadata.entity_type or ""), f"also {aliases}" if aliases else "")
    return _entry(f"{_plain(metadata.name or '')}: {text}" if named else text, about)


def write_relation(record: MemoryRecord, text: str, _when: str) -> str:
    """Write how two things are connected."""
    metadata = record.metadata
    relation = metadata.relation if isinstance(metadata, RelationMetadata) else None
    return _entry(text, "" if relation is None or relation in text else _plain(relation))


def write_pattern(record: MemoryRecord, text: str, when: str) -> str:
    """Write what came up again and again, and how often."""
    metadata = (
        record.metadata if isinstance(record.metadata, PatternMetadata) else PatternMetadata()
    )
    often = "" if metadata.occurrences is None else f"seen {metadata.occurrences} times"
    name = f"{_plain(metadata.name)}: " if metadata.name and metadata.name not in text else ""
    return _entry(f"{name}{text}", _joined(often, _sure(metadata.confidence), when))


def write_session(record: MemoryRecord, text: str, when: str) -> str:
    """Write what a session was about, and how it ended."""
    metadata = (
        record.metadata if isinstance(record.metadata, SessionMetadata) else SessionMetadata()
    )
    title = f"{_plain(metadata.title)}: " if metadata.title and metadata.title not in text else ""
    return _entry(
        f"{title}{text}", _joined(when, _plain(metadata.outcome or ""), _paths(metadata.paths))
    )


def write_changed_function(record: MemoryRecord, text: str, when: str) -> str:
    """Write which function was changed, and where it stands."""
    metadata = record.metadata
    if not isinstance(metadata, ChangedFunctionMetadata):
        return _entry(text, when)
    place = _place(metadata.path, metadata.start_line, None)
    name = f"`{_plain(metadata.signature or metadata.name or '')}`"
    above = _joined(place, "" if name == "``" else name, metadata.change or "", between=" ")
    return _entry(f"{above}: {text}" if above else text, when)


def write_learning(record: MemoryRecord, text: str, when: str) -> str:
    """Write what was learnt, and how sure it is."""
    metadata = record.metadata
    confidence = metadata.confidence if isinstance(metadata, LearningMetadata) else None
    return _entry(text, _joined(_sure(confidence), when))


def write_observation(record: MemoryRecord, text: str, when: str) -> str:
    """Write what was observed, and on which files."""
    metadata = record.metadata
    paths = metadata.paths if isinstance(metadata, ObservationMetadata) else ()
    return _entry(text, _joined(when, _paths(paths)))


KIND_FORMATS: Final[Mapping[MemoryKind, WriteEntry]] = {
    "memories": write_fact,
    "code": write_code,
    "experiences": write_experience,
    "values": write_value,
    "commits": write_commit,
    "events": write_event,
    "chunks": write_chunk,
    "entities": write_entity,
    "relations": write_relation,
    "patterns": write_pattern,
    "sessions": write_session,
    "changed_functions": write_changed_function,
    "learnings": write_learning,
    "observations": write_observation,
}


def _entry(text: str, about: str) -> str:
    """Return a list entry; further lines are indented, so that none leaves it."""
    lines = f"{text} ({about})".split("\n") if about else text.split("\n")
    return "- " + "\n".join((lines[0], *(f"  {line}".rstrip() for line in lines[1:])))


def _plain(text: str) -> str:
    """Return a field on one line, without anything that could close what stands around it."""
    flat = " ".join(clean_text(text).replace("`", "'").replace("<", "&lt;").split())
    return flat if len(flat) <= _SHOWN_CHARS else f"{flat[: _SHOWN_CHARS - 1]}…"


def _place(path: str | None, start: int | None, end: int | None) -> str:
    if not path:
        return ""
    lines = "" if start is None else f":{start}"
    lines += "" if start is None or end is None or end == start else f"-{end}"
    return f"`{_plain(path)}{lines}`"


def _paths(paths: Iterable[str]) -> str:
    listed = list(paths)
    shown = ", ".join(f"`{_plain(path)}`" for path in listed[:_SHOWN_PATHS])
    more = len(listed) - _SHOWN_PATHS
    return f"{shown} and {more} more" if more > 0 else shown


def _sure(confidence: float | None) -> str:
    return "" if confidence is None else f"{confidence:.0%} sure"


def _because(reason: str | None) -> str:
    return f"because {_plain(reason)}" if reason else ""


def _joined(*pieces: str, between: str = ", ") -> str:
    return between.join(piece for piece in pieces if piece)
