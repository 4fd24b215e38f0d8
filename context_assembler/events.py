"""What a session holds: parts, events, and their JSON.

An event is stored as columns (id, seq, kind, created_at) and a *body*: a JSON object that is never
rewritten. Inside the library a body stays a plain dict, since building objects for thousands of
events is what makes a first call slow; `SessionEvent` and the part classes are for people.
"""

import json
import sys
from binascii import crc32
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime
from functools import cache
from math import isfinite
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard, get_args

from context_assembler.errors import ContentError, EventFormatError, brief_repr
from context_assembler.texts import escape_notes

Json: TypeAlias = Any  # a value that json.loads can return
JsonObject: TypeAlias = Mapping[str, Json]
Body: TypeAlias = dict[str, Json]  # an event's stored JSON: {"parts": [...], "made_by": {...}, ...}
EventType: TypeAlias = Literal[
    "user", "assistant", "tool_call", "tool_result", "compaction", "system", "rewind"
]
Origin: TypeAlias = Literal["developer", "user", "model", "tool", "memory", "file", "assembler"]


def is_object(value: object) -> TypeGuard[JsonObject]:
    """Whether a value is a JSON object, for type checkers as well."""
    return isinstance(value, Mapping)


def is_list(value: object) -> TypeGuard[list[Json]]:
    """Whether a value is a list."""
    return isinstance(value, list)


# By kind: a note is a system event.
EVENT_TYPES: Final[tuple[EventType, ...]] = (*get_args(EventType)[:-1], "system", "rewind")

# Columns: the kind of an event in the low three bits, facts about its body in the others.
USER, ASSISTANT, TOOL_CALL, TOOL_RESULT, COMPACTION, SYSTEM, NOTE, REWIND = range(8)
KIND_MASK: Final = 7
PINNED: Final = 8
HAS_CALLS: Final = 16  # the body holds tool calls
HAS_MEDIA: Final = 32  # images or documents, in the body or inside a result
SIGNED: Final = 64  # reasoning or a part that a provider signed or encrypted
UNUSUAL: Final = 128  # opaque blocks, blank or unclean text, unread arguments: rendered with care

_ORIGINS: Final[Mapping[str, Origin]] = {
    "user": "user",
    "assistant": "model",
    "tool_call": "model",
    "tool_result": "tool",
    "compaction": "assembler",
    "system": "developer",
    "rewind": "developer",
}


class Value:
    """A value that cannot be changed, and of which people see the fields that hold something.

    A frozen dataclass takes three times as long to make, and every process makes these classes.
    """

    __slots__ = ()

    def __setattr__(self, name: str, held: object) -> None:
        if hasattr(self, name):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, held)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and _held(self) == _held(other))

    def __hash__(self) -> int:
        return hash(tuple(_held(self)))

    def __repr__(self) -> str:
        return brief_repr(self)


def _held(value: Any) -> list[Any]:
    return [getattr(value, name) for name in _schema(value.__class__)]


# ---- parts ----


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class Text(Value):
    """Plain text.

    `extras` holds, by provider, fields that this provider sent next to the text (`phase`, citations
    …); they go back to that provider alone. `signature` is what a provider signed the part with
    (Gemini): it is sent back unchanged or not at all.
    """

    text: str = field(kw_only=False)
    extras: JsonObject | None = None
    signature: str | None = None


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class Base64Source(Value):
    """Bytes carried inside the message, as base64 text without a `data:` prefix."""

    media_type: str
    data: str


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class UrlSource(Value):
    """Bytes that the provider fetches itself."""

    url: str
    media_type: str | None = None


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class FileIdSource(Value):
    """Bytes uploaded to one provider earlier; meaningless to any other."""

    provider: str
    file_id: str


MediaSource: TypeAlias = Base64Source | UrlSource | FileIdSource


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class Image(Value):
    """A picture; `width_px` and `height_px` are `None` if nobody measured it.

    A `data:` URL becomes the bytes that it carries when the part is stored.
    """

    source: MediaSource
    detail: Literal["low", "high", "auto", "original"] | None = None
    width_px: int | None = None
    height_px: int | None = None


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class Document(Value):
    """A document such as a PDF; plain-text documents carry their text in `text` as well."""

    source: MediaSource
    title: str | None = None
    page_count: int | None = None
    text: str | None = None
    extras: JsonObject | None = None


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class Thinking(Value):
    """A model's reasoning.

    `block` is the provider's own block, verbatim, if it is signed or encrypted; such a part goes
    back to that provider untouched or not at all, even if `text` is empty. Without `block` it is
    readable text.
    """

    text: str = ""
    provider: str | None = None
    block: JsonObject | None = None
    extras: JsonObject | None = None


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class ToolCall(Value):
    """A call that the model asks for.

    `arguments_json` is the model's own JSON text, if it arrived as text. Text that is not a JSON
    object (a stream that was cut off) is kept there, with empty `arguments` and an `error`.
    """

    call_id: str
    name: str
    arguments: JsonObject = field(default_factory=dict[str, Json])
    arguments_json: str | None = None
    extras: JsonObject | None = None
    signature: str | None = None

    @property
    def error(self) -> str | None:
        """Why the call cannot be run, in words for the model: it has no JSON object."""
        return None if self.arguments else error_of(self.arguments_json)


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class Opaque(Value):
    """A provider's block that we do not interpret: verbatim there, `text` elsewhere."""

    provider: str
    block: JsonObject
    text: str = ""


ResultPart: TypeAlias = Text | Image | Document | Opaque


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class ToolResult(Value):
    """What a call returned."""

    call_id: str
    content: tuple[ResultPart, ...] = ()
    is_error: bool = False
    tool_name: str | None = None
    extras: JsonObject | None = None

    @property
    def text(self) -> str:
        """The text parts, joined by line breaks."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


Part: TypeAlias = Text | Image | Document | Thinking | ToolCall | ToolResult | Opaque
Content: TypeAlias = str | Part | Sequence[Part]

_PARTS: Final[Mapping[str, type]] = {
    "text": Text,
    "image": Image,
    "document": Document,
    "thinking": Thinking,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "opaque": Opaque,
}
_SOURCES: Final[Mapping[str, type]] = {
    "base64": Base64Source,
    "url": UrlSource,
    "file": FileIdSource,
}
_TYPE_NAMES: Final = {cls: name for name, cls in (*_PARTS.items(), *_SOURCES.items())}
PART_TYPES: Final = tuple(_PARTS.values())
RESULT_PART_TYPES: Final = (Text, Image, Document, Opaque)


# ---- events ----


class Usage(NamedTuple):
    """Tokens that a provider reported for one call.

    `input_tokens` is the whole prompt, cached or not, for every provider (Anthropic reports the
    uncached rest; its reply reader adds the three figures up).
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0


class Provenance(NamedTuple):
    """Where a reply came from: what its signed parts are bound to.

    `prefix` is the prefix hash of everything that was sent before the reply (`None`: unknown, as in
    imported sessions); `account` is the caller's own tag for the API account or route.
    `container` is the provider's block for the container that code ran in, verbatim.
    """

    provider: str
    model: str
    account: str | None = None
    prefix: str | None = None
    response_id: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    container: JsonObject | None = None

    def __repr__(self) -> str:
        return brief_repr(self)


class Covers(NamedTuple):
    """The events that a compaction replaces: `first_seq` to `last_seq` without `excluded_ids`."""

    first_seq: int
    last_seq: int
    excluded_ids: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class SessionEvent(Value):
    """One record of a session, append-only.

    A store gives `seq` (1, 2, 3 … within the session; 0 means not stored yet) and, if it is empty,
    `id`. `created_at` is when it happened, with a time zone; `None` if nobody knows.

    Attributes:
        note: The name of a note that the assembler placed here (`clock`, `memory` …).
        made_by: For replies and native compactions: who wrote them.
        covers: For compactions: what they replace. Their parts are the summary as text, then the
            provider's own blocks if a provider wrote the compaction.
        answers_seq: For a reply and its notes: the last event that the call was made from. For a
            rewind: the event that the session goes on from, as if nothing had been stored after it.
    """

    type: EventType
    parts: tuple[Part, ...] = ()
    id: str = ""
    seq: int = 0
    created_at: datetime | None = None
    origin: Origin = "user"
    is_pinned: bool = False
    note: str | None = None
    made_by: Provenance | None = None
    covers: Covers | None = None
    answers_seq: int = 0
    metadata: JsonObject = field(default_factory=dict[str, Json])

    @property
    def has_calls(self) -> bool:
        """Whether the reply calls tools, so that the model waits for results; not if refused."""
        return not self._is_refused and any(isinstance(part, ToolCall) for part in self.parts)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that can be run, in order; the others are among the `unfinished_calls`."""
        return self._calls(are_finished=True)

    @property
    def unfinished_calls(self) -> tuple[ToolCall, ...]:
        """Calls that were cut off, or refused with their reply, or have an `error`: do not run them."""
        return self._calls(are_finished=False)

    @property
    def _is_refused(self) -> bool:
        return self.made_by is not None and self.made_by.stop_reason in REFUSALS

    def _calls(self, *, are_finished: bool) -> tuple[ToolCall, ...]:
        cut_off = list(self.metadata.get("unfinished_calls", ()))
        found: list[ToolCall] = []
        # Of several calls with one id the last is the cut-off one.
        for part in reversed(self.parts):
            if isinstance(part, ToolCall):
                is_cut_off = part.call_id in cut_off
                if is_cut_off:
                    cut_off.remove(part.call_id)
                is_cut_off |= self._is_refused or part.error is not None
                if are_finished is not is_cut_off:
                    found.insert(0, part)
        return tuple(found)

    @property
    def text(self) -> str:
        """The texts, joined by line breaks."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text | ToolResult))


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class Session(Value):
    """A session's own record: whose it is, and the settings it brings.

    `nonce` stands in the tags of notes, so that no text can pass for one. The store makes it; a copy
    of a session keeps it, so that its requests begin as the original's. It makes no record another.
    """

    id: str
    agent_id: str | None = None
    defaults: JsonObject = field(default_factory=dict[str, Json])
    metadata: JsonObject = field(default_factory=dict[str, Json])
    created_at: datetime | None = None
    nonce: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Session) and _held(self)[:-1] == _held(other)[:-1]

    __hash__ = Value.__hash__


def root_of(session: Session) -> str:
    """Return the id of the session that this one is a fork of, however often: they share a cache."""
    fork: Json = session.metadata.get("forked_from")
    return str(fork["root"]) if is_object(fork) and "root" in fork else session.id


class SessionHead(NamedTuple):
    """A session's record and its last sequence number (0: no event yet).

    `version` differs after every write to the session. `incarnation` stays the same while the
    session only grows: it differs once the session was rewound, or deleted and made again, or the
    store's file was replaced. Both are empty if the store cannot tell.
    """

    session: Session
    last_seq: int
    version: str = ""
    incarnation: str = ""


@dataclass(slots=True, kw_only=True, repr=False, eq=False)
class CallRow(Value):
    """What one recorded call sent; `record` stores it, the next call compares.

    Attributes:
        answers_seq: The last event that the call was made from.
        reply_seq: The reply's event.
        system_hash: Of the system prompt's text, which `text(hash)` of the store returns.
        tools_hash: Of the tool list as JSON, likewise.
        options: Digest of the options that decide about system prompt and tools.
        cut: The cut id: which cut of the history was sent; 0 if none.
        first_seq: The first event after the task that was sent.
        prefix: Prefix hash of everything that was sent.
        factor: What reported usage corrects the counts of this call's new messages by.
        estimated_tokens: What the ledger said that the prompt takes.
    """

    provider: str
    model: str
    account: str | None = None
    answers_seq: int = 0
    reply_seq: int = 0
    system_hash: str = ""
    tools_hash: str = ""
    options: str = ""
    cut: int = 0
    first_seq: int = 0
    prefix: str = ""
    factor: float = 1.0
    estimated_tokens: int = 0
    usage: Usage | None = None
    created_at: datetime | None = None
    details: JsonObject = field(default_factory=dict[str, Json])


# ---- objects ↔ JSON ----


_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


@cache
def _schema(cls: type[Any]) -> dict[str, Any]:
    """Return the default of each field, `MISSING` if it has none; nothing for other classes."""
    if cls in (Usage, Provenance, Covers):
        return {name: cls._field_defaults.get(name, MISSING) for name in cls._fields}
    made = fields(cls) if is_dataclass(cls) else ()
    return {
        f.name: f.default_factory() if f.default_factory is not MISSING else f.default for f in made
    }


def to_json(value: Any) -> Json:
    """Return a value of this library as plain JSON; parts and sources carry their `type`.

    Fields that hold their default are left out. Times become ISO 8601 text, named tuples objects.
    """
    cls = value.__class__
    if cls in _PLAIN:
        return value
    if schema := _schema(cls):
        name = _TYPE_NAMES.get(cls)
        made: dict[str, Json] = {} if name is None else {"type": name}
        for key, default in schema.items():
            held = getattr(value, key)
            if held is not default and (default is MISSING or held != default):
                made[key] = to_json(held)
        return made
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if is_object(value):
        return {str(key): to_json(held) for key, held in value.items()}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str | int | float):  # of a class derived from these
        return value
    if hasattr(value, "__iter__"):
        return [to_json(held) for held in value]
    raise TypeError(f"{cls.__name__} cannot be written as JSON")


def part_from_json(value: JsonObject) -> Part:
    """Return the part that `to_json` was given; a `KeyError` or `TypeError` if it is none."""
    made = {key: held for key, held in value.items() if key != "type"}
    if "source" in made:
        source = dict(made["source"])
        made["source"] = _SOURCES[source.pop("type")](**source)
    if value["type"] == "tool_result":
        made["content"] = tuple(map(part_from_json, made.get("content", ())))
    part: Part = _PARTS[value["type"]](**made)
    return part


def body_of(event: SessionEvent) -> Body:
    """Return what a store keeps of an event as its body."""
    body: Body = {"parts": [to_json(part) for part in event.parts]}
    if event.origin != _ORIGINS[event.type]:
        body["origin"] = event.origin
    for key in ("note", "made_by", "covers", "answers_seq", "metadata"):
        if held := getattr(event, key):
            body[key] = to_json(held)
    return body


def event_of(
    body: JsonObject, *, kind: int, id: str, seq: int, created_at: datetime | None
) -> SessionEvent:
    """Return the event of a stored row.

    Raises:
        EventFormatError: The body is damaged, or was written by a newer version.
    """
    event_type = EVENT_TYPES[kind & KIND_MASK]
    if kind & KIND_MASK == NOTE and body.get("note") == "continue":  # the only one of the user's
        event_type = "user"
    try:
        made_by: dict[str, Any] = {**body.get("made_by", {})}
        if (usage := made_by.get("usage")) is not None:
            made_by["usage"] = Usage(**usage)
        covers: dict[str, Any] = {**body.get("covers", {})}
        if covers:
            covers["excluded_ids"] = tuple(covers.get("excluded_ids", ()))
        return SessionEvent(
            type=event_type,
            parts=tuple(map(part_from_json, body["parts"])),
            id=id,
            seq=seq,
            created_at=created_at,
            origin=body.get("origin", _ORIGINS[event_type]),
            is_pinned=bool(kind & PINNED),
            note=body.get("note"),
            made_by=Provenance(**made_by) if made_by else None,
            covers=Covers(**covers) if covers else None,
            answers_seq=body.get("answers_seq", 0),
            metadata=body.get("metadata", {}),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EventFormatError(
            where=f"Event {id!r}",
            reason=f"{type(error).__name__}: {error}",
            remedy="Upgrade the package if a newer version wrote it; else restore a backup.",
        ) from error


# By the type of a part, what it has, and as what.
_NEEDED: Final[Mapping[str, Mapping[str, type]]] = {
    "text": {"text": str},
    "image": {"source": dict},
    "document": {"source": dict},
    "thinking": {},
    "opaque": {"provider": str, "block": dict},
    "tool_call": {"call_id": str, "name": str},
    "tool_result": {"call_id": str},
}


def flaw_of(body: Any) -> str:
    """Return what is wrong with a stored body, in half a sentence; empty if it can be read."""
    is_body = body.__class__ is dict and body.get("made_by", {}).__class__ is dict
    parts: Any = body.get("parts") if is_body else None
    if parts.__class__ is not list:
        return "it is not an object with a list of parts"
    for part in parts:
        kind: Any = part.get("type") if part.__class__ is dict else None
        needed = _NEEDED.get(kind) if isinstance(kind, str) else None
        if needed is None:
            return f"it has a part of no known type ({kind!r:.40})"
        for name, cls in needed.items():
            if part.get(name).__class__ is not cls:
                return f"the {name!r} of a {kind} is missing, or no {cls.__name__}"
        if flaw := flaw_of({"parts": part.get("content", [])}) if kind == "tool_result" else "":
            return f"in a result {flaw}"
    return ""


# Stop reasons of a reply that the provider refused to give, or broke off for what it says.
# https://platform.claude.com/docs/en/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals
# https://ai.google.dev/api/generate-content#FinishReason (read 2026-11-29)
REFUSALS: Final = frozenset(
    "refusal content_filter SAFETY BLOCKLIST PROHIBITED_CONTENT SPII RECITATION IMAGE_SAFETY "
    "IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION MODEL_ARMOR JAILBREAK".split()
)


def kind_of(event_type: str, body: JsonObject, *, is_pinned: bool = False) -> int:
    """Return an event's kind and flags for the columns."""
    kind = NOTE if body.get("note") else EVENT_TYPES.index(event_type)
    flags = flags_of(body["parts"])
    if event_type != "assistant":  # a part in the wrong place
        own = ("tool_result",) if kind == TOOL_RESULT else ("text", "image", "document", "opaque")
        own = ("tool_call",) if kind == TOOL_CALL else own
        if any(part["type"] not in own for part in body["parts"]):
            flags |= UNUSUAL
    elif any(part["type"] == "tool_result" for part in body["parts"]) or (
        "made_by" in body and body["made_by"].get("stop_reason") in REFUSALS
    ):
        flags |= UNUSUAL
    return kind | (PINNED if is_pinned else 0) | flags


NOTE_NAMES: Final = ("", "clock", "memory", "tools", "continue")


def mark_of(kind: int, body: JsonObject) -> int:
    """Return an event's mark for the columns: what decisions about neighbours are made on.

    The number of calls in a reply, or of results (at most 255); for a note the place of its name in
    `NOTE_NAMES`, 0 for any other name.
    """
    number = kind & KIND_MASK
    if number == NOTE:
        name: str = body.get("note", "")
        return NOTE_NAMES.index(name) if name in NOTE_NAMES else 0
    wanted = "tool_result" if number == TOOL_RESULT else "tool_call"
    return min(255, sum(1 for part in body["parts"] if part["type"] == wanted))


def link_of(body: JsonObject) -> int:
    """Return what connects calls and results in the columns: the same 16 bits for the same ids.

    Several ids are combined, so that the results of one reply together match its calls.
    """
    link = 0
    for part in body["parts"]:
        if part["type"] in ("tool_call", "tool_result"):
            digest = crc32(part["call_id"].encode("utf-8", "surrogatepass"))
            link ^= digest * 0x9E37_79B1 >> 12 & 0xFFFF  # the checksum alone is linear
    return link


THOUGHT_SIGNATURES: Final = ("thought_signature", "thoughtSignature")


def is_signed_block(part: JsonObject) -> bool:
    """Whether an opaque part is a block that Gemini signed.

    https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-27)
    """
    return part["provider"] == "gemini" and any(key in part["block"] for key in THOUGHT_SIGNATURES)


def flags_of(parts: Iterable[JsonObject]) -> int:
    """Return the flags that stand for facts about parts."""
    flags = count = 0
    for part in parts:
        count += 1
        kind = part["type"]
        if kind == "text":
            if part.get("signature") is not None:
                flags |= SIGNED
            if not is_plain(part["text"]) or escape_notes(part["text"]) != part["text"]:
                flags |= UNUSUAL
        elif kind == "tool_call":
            flags |= HAS_CALLS | (SIGNED if part.get("signature") is not None else 0)
            raw = part.get("arguments_json")
            if (raw is not None and not part.get("arguments") and raw.strip() != "{}") or not (
                is_plain(part["call_id"]) and is_plain(part["name"])
            ):
                flags |= UNUSUAL
        elif kind == "tool_result":
            if content := part.get("content"):
                flags |= flags_of(content) & (HAS_MEDIA | UNUSUAL)
        elif kind in ("image", "document"):
            told = part.get("text") or ""
            flags |= HAS_MEDIA | (UNUSUAL if escape_notes(told) != told else 0)
        elif kind == "thinking":
            flags |= SIGNED if part.get("block") is not None else UNUSUAL
        else:
            flags |= UNUSUAL | (SIGNED if is_signed_block(part) else 0)
    return flags if count else flags | UNUSUAL


def is_plain(text: str) -> bool:
    """Whether every provider takes the text as it is: not blank, no NUL, no lone surrogate."""
    if not text or "\0" in text or text.isspace():
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_BULK_BYTES: Final = 4_000_000  # from here on importing orjson pays
_LONG_NUMBER, _ZEROS = b"0" * 19, bytes.maketrans(b"123456789", b"000000000")


def dump_json(value: Json, *, where: str = "The value") -> bytes:
    """Return JSON as compact UTF-8 that `load_json` turns back into an equal value.

    Unpaired surrogates pass through.

    Raises:
        EventFormatError: JSON cannot express the value: not finite, too deep, or another type.
    """
    try:
        return _encode(value).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise EventFormatError(
            where=where,
            act="stored",
            reason=str(error) or "nested too deeply",
            remedy="Keep what JSON can hold: text, finite numbers, booleans, None, lists, objects.",
        ) from error


def load_json(raw: bytes) -> Json:
    """Return the value that `dump_json` was given; a `ValueError` if the bytes are not JSON."""
    # orjson reads integers over 64 bits as floats.
    is_exact = _LONG_NUMBER not in raw.translate(_ZEROS)
    if is_exact and ("orjson" in sys.modules or len(raw) > _BULK_BYTES):
        import orjson

        try:
            return orjson.loads(raw)
        except ValueError:  # surrogates, deep nesting
            pass
    try:
        return json.loads(raw.decode("utf-8", "surrogatepass"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def compact_json(value: Json) -> str:
    """Return the value as JSON text without spaces, keys in their own order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_MAX_DEPTH: Final = 200  # levels of lists and objects that every reader takes


def broken_bound(value: Json) -> str | None:
    """Return why no server could take the value as JSON, in half a sentence; `None` if it can."""
    level: list[Json] = [value]
    for _ in range(_MAX_DEPTH + 1):
        inside: list[Json] = []
        for held in level:
            if held.__class__ is dict or isinstance(held, Mapping):
                inside += held.values()
            elif isinstance(held, list | tuple):
                inside += held
            elif isinstance(held, float) and not isfinite(held):
                return f"{held} is not a JSON number"
        level = [held for held in inside if held.__class__ is not str]
        if not level:
            return None
    return f"it is nested deeper than {_MAX_DEPTH} levels"


def read_object_text(text: str) -> tuple[dict[str, Json] | None, str]:
    """Return the object that JSON text holds; or `None`, and why it holds none."""
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError) as error:  # Python's bound for digits has a long remedy
        return None, str(error).partition("; use sys.")[0] or "it is nested too deeply"
    if value.__class__ is not dict:
        return None, f"it is {text.strip():.40}"
    return (None, broken) if (broken := broken_bound(value)) else (value, "")


def error_of(arguments_json: str | None) -> str | None:
    """Return why a call with this text, and no arguments, cannot be run; `None` if it can."""
    found, why = read_object_text(arguments_json or "{}")
    if found is not None:
        return None
    told = "The call did not run: its arguments are not a JSON object"
    return f"{told} ({why}). Call again with a complete JSON object."


# ---- what rewinds left behind ----


def active_ranges(rewinds: Mapping[int, int]) -> list[range]:
    """Return the ranges of events that no rewind left behind, oldest first; the last one is open.

    A rewind to an event that an earlier rewind left behind brings that one back.

    Args:
        rewinds: By the number of each rewind, the event that the session went on from.
    """
    ranges, stop = list[range](), 1 << 32
    for seq in sorted(rewinds, reverse=True):
        if seq < stop:
            ranges.append(range(seq + 1, stop))
            stop = min(rewinds[seq], seq - 1) + 1
    return [range(1, stop), *reversed(ranges)]


def active_events(events: Iterable[SessionEvent]) -> list[SessionEvent]:
    """Return the events of a session, or of its end, that no rewind left behind."""
    given = [*events]
    ranges = active_ranges({one.seq: one.answers_seq for one in given if one.type == "rewind"})
    is_whole = len(ranges) == 1  # events without numbers, too
    return given if is_whole else [one for one in given if any(one.seq in r for r in ranges)]


# ---- content as callers give it ----


def as_parts(content: object) -> tuple[Part, ...]:
    """Return text, a part, or a sequence of parts as parts.

    Raises:
        ContentError: The content is none of these.
    """
    parts: Any = content
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, PART_TYPES):
        return (parts,)
    if not isinstance(content, Sequence) or isinstance(content, bytes | bytearray):
        raise ContentError(content)
    for part in parts:
        if not isinstance(part, PART_TYPES):
            raise ContentError(part)
    return tuple(parts)


def as_result_parts(content: Json) -> tuple[ResultPart, ...]:
    """Return what a tool answered as parts; a value that is neither text nor parts as JSON.

    Dates, decimals, enumerations, sets, dataclasses, pydantic models, rows and arrays become JSON.

    Raises:
        ContentError: JSON cannot express the value.
    """
    if isinstance(content, str):
        return (Text(content),)
    if isinstance(content, RESULT_PART_TYPES):
        return (content,)
    is_sequence = type(content) in (tuple, list)
    parts: Sequence[Any] = content if is_sequence else ()
    if is_sequence and all(isinstance(part, RESULT_PART_TYPES) for part in parts):
        return tuple(parts) if parts or isinstance(content, tuple) else (Text("[]"),)
    try:
        return (Text(json.dumps(content, ensure_ascii=False, default=_plain)),)
    except Exception as error:  # foreign code says what it is
        raise ContentError(content, place="the result") from error


def _plain(value: Any) -> Json:
    if isinstance(value, PART_TYPES):  # as text nobody would see the picture, and its bytes cost
        raise TypeError("a part inside a value")
    held: Any = value
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if hasattr(held, "keys"):
        return {str(key): held[key] for key in list(held.keys())}
    if hasattr(held, "tolist"):
        return held.tolist()
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, inf_nan_mode="constants")


def user_event(
    content: Content, *, created_at: datetime | None = None, is_pinned: bool = False
) -> SessionEvent:
    """Return a user message as an event; no cut drops a pinned one, and no cap shortens it.

    Raises:
        ContentError: The content is neither text nor parts.
    """
    parts = as_parts(content)
    return SessionEvent(type="user", parts=parts, created_at=created_at, is_pinned=is_pinned)


def assistant_event(
    content: Content, *, made_by: Provenance | None = None, created_at: datetime | None = None
) -> SessionEvent:
    """Return a model's reply as an event."""
    return SessionEvent(
        type="assistant",
        parts=as_parts(content),
        made_by=made_by,
        created_at=created_at,
        origin="model",
    )


def tool_result_event(
    call_id: str,
    content: Json,
    *,
    is_error: bool = False,
    tool_name: str | None = None,
    created_at: datetime | None = None,
) -> SessionEvent:
    """Return what a tool answered as an event; a value that is neither text nor parts as JSON.

    Raises:
        ContentError: JSON cannot express the value.
    """
    result = ToolResult(
        call_id=call_id, content=as_result_parts(content), is_error=is_error, tool_name=tool_name
    )
    return SessionEvent(type="tool_result", parts=(result,), created_at=created_at, origin="tool")


def system_event(
    content: Content, *, note: str | None = None, created_at: datetime | None = None
) -> SessionEvent:
    """Return an instruction, or a note, as an event."""
    origin: Origin = "developer" if note is None else "assembler"
    return SessionEvent(
        type="system", parts=as_parts(content), note=note, created_at=created_at, origin=origin
    )


def utc_now() -> datetime:
    """Return the current time, in UTC."""
    return datetime.now(UTC)
