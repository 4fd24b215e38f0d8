"""Memories as other programs keep them: recognised by what their rows require, or refused.

Sources, read 2026-11-30: mem0 `get_all` (github.com/mem0ai/mem0, mem0/memory/main.py), claude-mem
(github.com/thedotmack/claude-mem, scripts/export-memories.ts), the knowledge graph of the MCP memory
server (github.com/modelcontextprotocol/servers, src/memory/index.ts), and the front matter of
Claude Code's auto memory (code.claude.com/docs/en/memory).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from context_assembler.errors import AssemblyError, ConfigurationError, MemoryFormatError
from context_assembler.events import Json, JsonObject, is_list, is_object, load_json
from context_assembler.memory import notes, records
from context_assembler.memory.kinds import MemoryKind, field_types
from context_assembler.memory.records import MemoryRecord, unusable_file
from context_assembler.texts import clean_text, read_file

_MOST_UNREAD: Final = 10  # one row of so many
_MOST_NEAR: Final = 3
_MILLISECONDS: Final = 1e11  # a larger number of seconds would be after the year 5000


class UnreadRow(NamedTuple):
    """A row that became no memory: its line in a file of lines, or its place in a document."""

    place: str
    line: int | None
    reason: str


class LoadedMemories(NamedTuple):
    """The memories of a file or folder, of how many rows they are, and what could not be read."""

    format: str
    records: tuple[MemoryRecord, ...]
    rows_read: int
    unread: tuple[UnreadRow, ...] = ()


class _Row(NamedTuple):
    section: str  # the list that it stands in; empty for lines and bare lists
    place: str
    line: int | None
    value: Json | ValueError


class _Form(NamedTuple):
    """What a row of a section requires, which kind it becomes, and which fields are its text."""

    needs: str
    kind: MemoryKind
    told: str = ""  # empty: it is a record of ours


_ENTITY: Final = _Form("name entityType observations", "entities", "observations")
_EDGE: Final = _Form("from to relationType", "relations", "from relationType to")
_SUMMARY: Final = "request investigated learned completed next_steps notes"
_SEEN: Final = "title subtitle narrative text facts"
_MEM0_EDGE: Final = "source relationship target destination"
_MADE: Final = "project created_at_epoch"
_FORMS: Final[Mapping[str, Mapping[str, _Form]]] = {
    "context-assembler": {"": _Form("text", "memories")},
    "mem0": {
        **dict.fromkeys(("", "results"), _Form("id memory", "memories", "memory")),
        "relations": _Form("source relationship", "relations", _MEM0_EDGE),
    },
    "claude-mem": {
        "observations": _Form(_MADE, "observations", _SEEN),
        "summaries": _Form(_MADE, "sessions", _SUMMARY),
        "sessions": _Form("project", "sessions", "custom_title user_prompt project"),
        "prompts": _Form("prompt_text", "events", "prompt_text"),
    },
    "mcp-memory": {"entity": _ENTITY, "relation": _EDGE, "entities": _ENTITY, "relations": _EDGE},
    "markdown": {"markdown": _Form("text", "memories")},
}
"""By format and section; no field means two things in two formats."""
_SECTIONS: Final = {section for forms in _FORMS.values() for section in forms}
_USED: Final = {*"id memory hash score user_id run_id actor_id categories created_at".split()}


def _id(*parts: object) -> str:
    """Return an id that is the same whenever the same thing is imported."""
    joined = "\0".join(map(str, parts))
    return f"in_{blake2b(joined.encode(errors='replace'), digest_size=10).hexdigest()}"


def _texts(value: Json) -> list[str]:
    """Return a text, or the texts of a list, which may be written as JSON."""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError, RecursionError):
            value = load_json(value.encode())
    listed = value if is_list(value) else [value]
    return [one for one in listed if isinstance(one, str) and one]


def _time(value: Any) -> str | None:
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
    return value and records.utc_at(value / 1_000 if value > _MILLISECONDS else value).isoformat()


def _read(row: JsonObject, form: _Form, whose: str) -> MemoryRecord:
    if not form.told:
        return records.decode_memory({"namespace": whose, **row})

    def first(names: str) -> Any:
        return next((row[name] for name in names.split() if row.get(name)), None)

    name, lines = first("name"), [line for at in form.told.split() for line in _texts(row.get(at))]
    target = first("to target destination")
    if form.kind == "relations" and not isinstance(target, str):
        raise ValueError("it lacks target")
    text = (" " if form.kind == "relations" else "\n").join(lines) or str(name or "")
    session_id = first("run_id memory_session_id content_session_id sdk_session_id")
    made = _time(first("created_at_epoch created_at started_at_epoch started_at"))
    told = (name,) if form.kind == "entities" else (session_id, made, text)
    metadata: dict[str, Json] = {
        "name": name,
        "entity_type": first("entityType"),
        "source_id": _id("entities", first("from source")),
        "target_id": _id("entities", target),
        "relation": first("relationType relationship"),
        "title": lines[0] if lines else None,
        "observation_type": first("type"),
        "tags": [*_texts(row.get("categories"))],
        "paths": [path for at in ("files_read", "files_modified") for path in _texts(row.get(at))],
    }
    known = field_types(form.kind)
    made_of: dict[str, Json] = {
        "id": str(row["id"]) if form.kind == "memories" else _id(form.kind, *told),
        "kind": form.kind,
        "text": text,
        "namespace": first("user_id agent_id app_id project") or whose,
        "session_id": session_id,
        "author": first("actor_id") or ("user" if form.kind == "events" else None),
        "created_at": made,
        "metadata": {key: one for key, one in metadata.items() if one and key in known},
    }
    rest = {key: one for key, one in row.items() if key not in _USED and one not in (None, {}, [])}
    return records.decode_memory(
        made_of | ({"mem0": rest} if form.kind == "memories" and rest else {})
    )


# ---- rows ----


def _rows_of(content: bytes, name: str) -> Iterator[_Row]:
    """Yield the rows of a document, or of JSON Lines; what is no JSON is an error for a value."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        document: Any = load_json(content) if content.strip() else []
    except (ValueError, RecursionError):
        for line, text in enumerate(content.split(b"\n"), 1):
            if text.strip():
                try:
                    value: Any = load_json(text)
                except (ValueError, RecursionError) as error:
                    value = ValueError(f"it is not JSON ({error})")
                yield _Row("", name, line, value)
        return
    lists: dict[str, Any] = {"": document if is_list(document) else [document]}
    if is_object(document) and not {"text", "memory"} & document.keys():
        held = {key: one for key, one in document.items() if is_list(one)}
        known = (one for key, one in held.items() if key in _SECTIONS)
        lists = held if any(not one or any(map(is_object, one)) for one in known) else lists
    for section, values in lists.items():
        for at, value in enumerate(values):
            yield _Row(section, f"{name}: {section}[{at}]", None, value)


def _pages(path: Path) -> Iterator[_Row]:
    """Yield the sections of the Markdown files below a folder, or of one of them."""
    inside = str(path.resolve()) if path.is_dir() else ""
    found = notes.find_markdown(inside) if inside else [(path.name, "", None)]
    for name, objection, _ in sorted(found, key=lambda one: Path(one[0]).parts):
        file = Path(inside, name) if inside else path
        text, odd = "", [objection]
        try:
            if not objection:
                text, odd, _ = notes.read_markdown(file, inside=inside)
        except OSError as error:
            if not inside:
                raise
            odd = [f"it cannot be read ({error.strerror or error})"]
        if any(map(notes.is_refused, odd)):
            yield _Row("markdown", name, None, ValueError("; ".join(odd)))
        if odd:
            continue
        seen = Counter[str]()
        for line, title, told, category in _sections(text):
            seen[title] += 1
            about: dict[str, Json] = {"source": name} | ({"category": category} if category else {})
            own = _id(file.resolve(), title, seen[title])
            yield _Row("markdown", name, line, {"id": own, "text": told, "metadata": about})


def _sections(text: str) -> Iterator[tuple[int, str, str, str | None]]:
    """Yield line, title and text of each section that says something, and what sort it is of.

    A file with front matter is one memory.
    """
    # Read by lines: descriptions hold colons that YAML does not take.
    found = notes.FRONT.match(text)
    if found and (
        front := {key: one.strip("'\"") for key, one in notes.FRONT_FIELD.findall(found[1])}
    ):
        about = (front.get("name"), front.get("description"), text[found.end() :].strip())
        yield 1, "", "\n\n".join(filter(None, about)), front.get("type")
        return
    for one in notes.read_sections(text):
        if one.text.strip():
            yield one.line, one.title, f"{one.title}\n{one.text}".strip(), None


# ---- reading ----


def load_memories(
    source: str | Path | BinaryIO, *, namespace: str = "", partial: bool = False
) -> LoadedMemories:
    """Return the memories of a file or folder that this or another program wrote.

    Read are our own JSON Lines, what mem0's `get_all` returns, claude-mem's exports, the graph of the
    MCP memory server, and Markdown, such as the `MEMORY.md` of Claude Code: a section is a memory, or
    a whole file with front matter. The same source gives the same ids.

    Args:
        source: A path, or an open stream of bytes.
        namespace: Whose the memories are that do not say so.
        partial: Whether a source is read of which more than a tenth cannot be read.

    Raises:
        MemoryFormatError: The format is unknown, or more than a tenth cannot be read.
        ConfigurationError: The file cannot be read.
    """
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        is_markdown = path.is_dir() or path.suffix.lower() in notes.MARKDOWN
        try:
            rows = [*(_pages(path) if is_markdown else _rows_of(read_file(path)[0], path.name))]
        except OSError as error:
            raise unusable_file(path, "read", error) from error
        if not rows and path.is_dir():
            remedy = "Name a folder of Markdown files, or a file that another program wrote."
            raise ConfigurationError(f"{str(path)!r} holds no Markdown.", remedy=remedy)
    else:
        rows = [*_rows_of(source.read(), str(getattr(source, "name", "The memories")))]
    rows = [row._replace(section=_section_of(row)) for row in rows]
    taken = Counter(n for n, forms in _FORMS.items() for row in rows if not _lacks(row, forms))
    best = max(taken, key=lambda one: taken[one], default="context-assembler")
    # Prompts of claude-mem and relations of mem0 leave it to other rows to say whose they are.
    owners: dict[str, set[str]] = {}
    for value in (row.value for row in rows if is_object(row.value)):
        if isinstance(who := value.get("project") or value.get("user_id"), str):
            owners.setdefault(str(value.get("content_session_id")), set()).add(who)
    records: dict[str, MemoryRecord] = {}
    unread: list[UnreadRow] = []
    for row in rows:
        why = _lacks(row, _FORMS[best])
        if not why:
            is_mute = row.section in ("prompts", "relations")
            held: Any = row.value
            names = owners.get(str(held.get("content_session_id")), ()) if is_mute else ()
            whose = next(iter(names)) if len(names) == 1 else namespace
            why = _add(records, row, _FORMS[best][row.section], whose)
        unread += [UnreadRow(row.place, row.line, why)] if why else []
    if len(unread) * _MOST_UNREAD > len(rows) and not (partial and records):
        first, count = unread[0], f"{len(unread)} of its {len(rows)} rows cannot be read: "
        reason = f"{count if len(rows) > 1 else ''}{first.reason}"
        remedy = "Repair it, or pass partial=True (import --partial) to read the rest."
        if not taken:
            reason = f"its format is unknown{_nearest(rows[0])}"
            remedy = f"Known formats: {', '.join(_FORMS)}."
        told = {"reason": reason, "remedy": remedy}
        raise MemoryFormatError(where=first.place, line=first.line, **told)
    return LoadedMemories(best, tuple(records.values()), len(rows) - len(unread), tuple(unread))


def _add(records: dict[str, MemoryRecord], row: _Row, form: _Form, whose: str) -> str:
    """Add what a row says; return why it cannot be added, or nothing."""
    value: Any = row.value
    try:
        record = _read(value, form, whose)
        # The ends of mem0's relations are listed nowhere.
        ends = ("source", "target", "destination") if "source" in form.needs else ()
        names = filter(None, map(value.get, ends))
        entities = [_read({"name": name}, _ENTITY, whose) for name in names]
    except (AssemblyError, TypeError, ValueError, OverflowError, OSError) as error:
        told = str(getattr(error, "problem", error)).rstrip(".")
        return told.removeprefix("A memory cannot be read: ")
    if clean_text(record.namespace) != record.namespace:
        return "its namespace holds NUL, or a lone surrogate"
    if records.setdefault(record.key if record.id else row.place, record) != record:
        return "another row before it has the same id"
    for entity in entities:
        records.setdefault(entity.key, entity)
    return ""


def _section_of(row: _Row) -> str:
    """Return the section that a row is of; lines of the MCP memory server say so themselves."""
    kind = row.value.get("type") if is_object(row.value) and not row.section else None
    return kind if kind in ("entity", "relation") else row.section


def _lacks(row: _Row, forms: Mapping[str, _Form]) -> str:
    """Return what a row lacks of those of a format; empty if nothing."""
    if not is_object(row.value):
        return str(row.value) if isinstance(row.value, ValueError) else "it is not an object"
    form, held = forms.get(row.section), row.value
    if form is None:
        return f"no row of {row.section!r} is known"
    if not form.told and "version" not in held and (others := held.keys() - records.OWN_FIELDS):
        return f"it lacks version, and has {', '.join(sorted(others))}"
    wanted = ((n, list if n == "observations" else str | int | float) for n in form.needs.split())
    lacks = [name for name, kind in wanted if not isinstance(held.get(name), kind)]
    return f"it lacks {', '.join(lacks)}" if lacks else ""


def _nearest(row: _Row) -> str:
    """Return the formats that a row has most of the fields of, and what it lacks."""
    if not is_object(row.value):
        return f": {_lacks(row, {})}"
    near = [
        ((why.count(" ") - 1) / len(form.needs.split()), f"{name} ({why})")
        for name, forms in _FORMS.items()
        for form in forms.values()
        for why in [_lacks(row, {row.section: form})]
    ]
    told = [*dict.fromkeys(one for part, one in sorted(near) if part < 1)][:_MOST_NEAR]
    return f"; nearest: {', '.join(told)}" if told else ""
