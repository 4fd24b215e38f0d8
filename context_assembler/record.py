"""What a call adds to its session: the notes it sent, the reply, and the row of the call."""

import re
import warnings
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from math import exp, log
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from context_assembler import events
from context_assembler.context import AssembledContext, Sent, learned_key
from context_assembler.errors import (
    ConcurrentAppendError,
    ContentError,
    InvalidParameterError,
    ReplyError,
)
from context_assembler.events import CallRow, Json, JsonObject, Part, SessionEvent, Text, is_object
from context_assembler.providers import PROVIDERS, Reply, provider_for_reply
from context_assembler.providers.media import PDF, begins_as, media_of
from context_assembler.providers.wire import (
    as_list,
    as_text,
    objects_in,
    parse_object,
    read_object,
)

if TYPE_CHECKING:
    from context_assembler.sessions.sqlite import SqlStore

COMPACTION: Final = "compaction"
_BROKEN_OFF: Final = (None, "incomplete")  # how a reply ends whose stream did not
# Where the blocks of each provider hold what was compacted; an Anthropic block without content has
# failed, and the server ignores it. Types of anthropic 2.14 and openai 3.57 (read 2026-11-27)
_CONTENT_KEYS: Final = {"anthropic": "content", "openai_responses": "encrypted_content"}
_UNUSED_SUMMARY: Final = "A summary was given, but the reply holds no compaction; it was not used."
_NO_TEXT: Final = (
    "The compaction has no plain text, so other models, accounts and providers will be sent what it "
    "covers; pass record(…, summary=…)."
)

# https://platform.claude.com/docs/en/build-with-claude/compaction-on-demand (read 2026-11-30)
_NO_SUMMARY: Final = (
    "The provider wrote no summary (stop reason {!r}): go on with the session as it is, and compact "
    "later, with a larger max_tokens if it was cut off."
)


class Answer(NamedTuple):
    """A call and its reply, read, before any of it is an event.

    `window` are the provider's own blocks of a compaction in the reply, `summary` its plain text;
    `before` and `after` are the parts of the reply around it.
    """

    sent: Sent
    reply: Reply
    summary: str
    window: tuple[events.Opaque, ...]
    before: tuple[Part, ...]
    after: tuple[Part, ...]
    now: datetime
    warnings: tuple[str, ...]

    def events(self, *, last_seq: int, arrived_ids: Sequence[str] = ()) -> list[SessionEvent]:
        """Return the notes that the call was sent, then the reply.

        A compaction in the reply is an event of its own between all that was sent, which it covers,
        and what the model said after it.

        Args:
            last_seq: Of the session as it is when they are appended.
            arrived_ids: Events that the provider has not seen: no compaction of its own covers them.
        """
        sent, prefix = self.sent, self.sent.row.prefix
        covered = list(sent.notes)
        if not self.window:
            return [*covered, self._event(self.after, prefix)]
        if self.before:
            covered.append(self._event(self.before, prefix, is_last=False))
        summary = (Text(self.summary),) if self.summary else ()
        event = self._event((*summary, *self.window), prefix, is_last=not self.after)
        covers = events.Covers(
            first_seq=1, last_seq=last_seq + len(covered), excluded_ids=tuple(arrived_ids)
        )
        covered.append(replace(event, type=COMPACTION, covers=covers))
        if self.after:
            covered.append(self._event(self.after, self._prefix_after()))
        return covered

    def row(self, event_count: int, known: JsonObject | None) -> CallRow:
        """Return the row of the call.

        Args:
            event_count: How many events are stored with it.
            known: What earlier calls learned; see `learn`.
        """
        row, reply = self.sent.row, self.reply
        details = {**row.details, "events": event_count}
        if reply.response_id is not None:
            details["response_id"] = reply.response_id
        if reply.edits:
            details["applied_edits"] = list(reply.edits)
        key, counted = self.learned_key, self.sent.counted_as
        if key and counted and reply.usage is not None:
            details["learned"] = learn(known, key, counted[2], reply.usage)
        return replace(row, usage=reply.usage, created_at=self.now, details=details)

    @property
    def learned_key(self) -> str | None:
        """What the call's usage is comparable with; `None`: with nothing."""
        reply, counted = self.reply, self.sent.counted_as
        if self.window or reply.edits:  # it is charged for something else than was sent
            return None
        if not counted or reply.stop_reason is None or counted[2] < _LEAST_TOKENS:
            return None
        if reply.usage is None or reply.usage.input_tokens <= 0:
            return None
        counter, shape, _ = counted
        return learned_key(reply.provider, self.sent.row.model, shape, counter)

    def _prefix_after(self) -> str:
        """Return the prefix of what the model said after its compaction: the summary alone."""
        wire = PROVIDERS[self.reply.provider].Wire(self.sent.request)
        parts = [Text(self.summary)] if self.summary else []
        blocks: Json = events.to_json([*parts, *self.window])
        wire.add({"role": "user", "kind": "summary", "parts": blocks})
        return str(wire.prefix())

    def _event(self, parts: tuple[Part, ...], prefix: str, *, is_last: bool = True) -> SessionEvent:
        """Return a part of the reply; the last one says how the call ended.

        The model is the registry's id, so that a dated snapshot in the reply counts as its model.
        """
        reply, row = self.reply, self.sent.row
        metadata: dict[str, Json] = {"reply_model": reply.model}
        if is_last and reply.unfinished_calls:
            metadata["unfinished_calls"] = list(reply.unfinished_calls)
        if is_last and self.warnings:
            metadata["warnings"] = "; ".join(self.warnings)
        return SessionEvent(
            type="assistant",
            parts=parts,
            created_at=self.now,
            origin="model",
            answers_seq=row.answers_seq,
            metadata=metadata,
            made_by=events.Provenance(
                provider=reply.provider,
                model=row.model,
                account=row.account,
                prefix=prefix,
                response_id=reply.response_id,
                stop_reason=reply.stop_reason if is_last else None,
                usage=reply.usage if is_last else None,
                container=reply.container if is_last else None,
            ),
        )


def read_answer(
    session_id: str, reply: Any, context: AssembledContext, *, now: datetime, summary: str | None
) -> Answer:
    """Read what a reply adds to the session that its context was made from.

    Args:
        summary: The plain text of a compaction in the reply; by default what can be read of it.

    Raises:
        InvalidParameterError: The context belongs to another session.
        ReplyError: No bundled provider answers in that shape.
    """
    if context.metadata.session_id != session_id:
        raise _wrong_context(
            context.metadata.session_id,
            f"must be one of session {session_id!r}",
            "Record the reply in the session that its context was assembled from.",
        )
    provider = provider_for_reply(reply)
    sent = context.sent(provider.NAME)
    answer = provider.read_reply(reply, sent.request)
    parts = tuple(map(events.part_from_json, answer.parts))
    text, warnings = (summary or "").strip(), list(answer.warnings)
    window = _compacted_window(reply, provider.NAME)
    before: tuple[Part, ...] = ()
    after = () if window else parts
    for place in range(len(parts) - 1, -1, -1):
        block = parts[place]
        if isinstance(block, events.Opaque) and (content := _compacted(block)):
            text = text or (content if block.provider == "anthropic" else "").strip()
            if not window:
                before, window, after = parts[:place], (block,), parts[place + 1 :]
            break
    if summary and not window:
        warnings.append(_UNUSED_SUMMARY)
    if window and not text:
        warnings.append(_NO_TEXT)
    if sent.request.parameters.provider_compaction == "now" and not window:
        warnings.append(_NO_SUMMARY.format(answer.stop_reason))
    return Answer(sent, answer, text, window, before, after, now, tuple(warnings))


def _compacted(block: events.Opaque) -> str:
    """Return what a provider's block of a compaction holds; empty for any other block."""
    if block.block.get("type") != COMPACTION:
        return ""
    content = block.block.get(_CONTENT_KEYS.get(block.provider, ""))
    return content if isinstance(content, str) and content.strip() else ""


def _compacted_window(reply: Any, provider: str) -> tuple[events.Opaque, ...]:
    """Return what replaces a whole conversation; empty if the reply is no such result.

    OpenAI's compaction on demand answers with the user's messages and one compaction after them,
    which go back together. Source: types of openai 3.57, CompactedResponse (read 2026-11-27)
    """
    kind = reply.get("object") if is_object(reply) else getattr(reply, "object", "")
    if provider != "openai_responses" or kind != "response.compaction":
        return ()
    body = read_object(reply) or {}
    return tuple(events.Opaque(provider=provider, block=block) for block in body["output"])


async def store_answer(
    store: "SqlStore",
    answer: Answer,
    context: AssembledContext,
    *,
    append: Callable[..., Awaitable[list[SessionEvent]]],
    refresh: Callable[[str], Awaitable[events.SessionHead]],
) -> list[SessionEvent]:
    """Append what a call added to its session, all of it or nothing.

    If the session holds this very reply, by its provider's id, nothing is stored again: what was
    stored is returned.

    Raises:
        InvalidParameterError: The session is not the one that the context was made from any more.
        UnknownSessionError: There is no such session.
    """
    asked, session_id = context.metadata, context.metadata.session_id
    known = store.learned(answer.learned_key) if answer.learned_key else None
    while True:
        head = await refresh(session_id)
        if head.incarnation != asked.incarnation or head.last_seq < asked.last_seq:
            raise _wrong_context(
                session_id,
                "must be one of the session as it is, which was rewound or deleted meanwhile",
                "Assemble the session again, and send that request.",
            )
        arrived, replacement = list[str](), None
        if head.last_seq > asked.last_seq:
            recorded = _recorded(store, session_id, answer)
            replacement = _replacement(recorded, answer)
            if recorded and replacement is None:
                return recorded
            span = (asked.last_seq + 1, head.last_seq)
            arrived = [event_id for _, event_id, _ in store.rows(session_id, [span])]
        events = [replacement] if replacement is not None else []
        events += answer.events(last_seq=head.last_seq + len(events), arrived_ids=arrived)
        try:
            return await append(
                session_id,
                events,
                expected_seq=head.last_seq,
                call=answer.row(len(events), known),
                texts=answer.sent.texts,
            )
        except ConcurrentAppendError:
            continue  # somebody came first: perhaps with this very reply


def _recorded(store: "SqlStore", session_id: str, answer: Answer) -> list[SessionEvent]:
    """Return what was stored of this very reply, with its notes; empty if nothing was.

    It is the same if it answers the same moment of the session, with the same id, content and usage,
    or if one of the two broke off. Some servers, and fakes in tests, give all of their replies one id.
    """
    row, reply = answer.sent.row, answer.reply
    if reply.response_id is None:
        return []
    said = _said(answer.events(last_seq=row.answers_seq))
    for call in reversed(store.calls(session_id, after_seq=row.answers_seq)):
        is_same = call.details.get("response_id") == reply.response_id
        if is_same and call.answers_seq == row.answers_seq:
            count = call.details["events"]
            events = store.events(session_id, after_seq=call.reply_seq - count, limit=count)
            ends = {
                reply.stop_reason,
                *(one.made_by.stop_reason for one in events[-1:] if one.made_by),
            }
            if _said(events) == said or not ends.isdisjoint(_BROKEN_OFF):
                return events
    return []


def _replacement(recorded: Sequence[SessionEvent], answer: Answer) -> SessionEvent | None:
    """Return the event by which a reply takes the place of its beginning, which was stored."""
    made_by = recorded[-1].made_by if recorded else None
    if made_by is None or made_by.stop_reason not in _BROKEN_OFF:
        return None
    if answer.after == recorded[-1].parts and answer.reply.stop_reason in _BROKEN_OFF:
        return None
    return SessionEvent(
        type=COMPACTION,
        origin="assembler",
        created_at=answer.now,
        covers=events.Covers(first_seq=recorded[0].seq, last_seq=recorded[-1].seq),
        metadata={"replaced_by": answer.reply.response_id},
    )


def _said(events: Sequence[SessionEvent]) -> list[tuple[Any, ...]]:
    made = ((one, one.made_by) for one in events if one.made_by is not None)
    return [(one.type, one.parts, by._replace(account=None, prefix=None)) for one, by in made]


def _wrong_context(value: str, rule: str, remedy: str) -> InvalidParameterError:
    return InvalidParameterError("context", value, rule=rule, remedy=remedy)


# ---- content as people, SDKs and tools have it ----

# By type, whose block it is, and the fields of which it has at least one.
_BLOCKS: Final[Mapping[str, tuple[str, str]]] = {
    "image": ("anthropic", "source"),
    "document": ("anthropic", "source"),
    "search_result": ("anthropic", "content"),
    "image_url": ("openai_chat", "image_url"),
    "input_audio": ("openai_chat", "input_audio"),
    "file": ("openai_chat", "file"),
    "input_image": ("openai_responses", "image_url file_id"),
    "input_file": ("openai_responses", "file_data file_id file_url"),
}
_USER_BLOCKS: Final = ("tool_result", "container_upload", "tool_reference")  # of Anthropic's
_MCP_BLOCKS: Final = ("image", "audio", "resource", "resource_link")
_GEMINI_FIELDS: Final = frozenset({"inline_data", "inlineData", "file_data", "fileData"})
_TEXTS: Final = ("text", "input_text", "output_text")
_TEXT_FIELDS: Final = frozenset(
    "type text citations cache_control annotations logprobs prompt_cache_breakpoint _meta".split()
)
# A picture or a PDF in base64: a value of its own, or long enough to be worth a warning.
_BYTES: Final = re.compile(
    r'(?<![\w+/])((?<![=(])")?(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR|JVBERi0|data:[\w.+/-]+;base64,)'
    r'(?(1)[\w+/=-]{60,}"|[\w+/=-]{1000})'
)
_AS_TEXT: Final = "A picture or a PDF in a result is sent as text: return an Image or a Document."


class Given(NamedTuple):
    """What somebody handed in: content that an event can hold, or a value to be told as JSON."""

    content: Any
    is_error: bool
    metadata: JsonObject


def read_given(content: Any, *, is_error: bool = False, by_tool: bool = False) -> Given:
    """Return what a user said, or a tool returned, in the shape of any provider, SDK or of MCP.

    Raises:
        ContentError: Something that a user said is of an unknown type.
    """
    value, notes = _plain(content), list[str]()
    metadata: dict[str, Json] = {}
    if isinstance(value, events.ToolResult) and by_tool:
        return Given(value.content, is_error or value.is_error, {})
    if is_object(value) and by_tool and "content" in value:
        # https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result
        is_mcp = type(content).__module__.startswith("mcp")
        is_mcp = is_mcp or not {"isError", "structuredContent"}.isdisjoint(value)
        if is_mcp or value.get("type") == "tool_result" or value.get("role") == "tool":
            is_error = is_error or bool(value.get("isError", value.get("is_error")))
            content, also = value["content"] or "", value.get("structuredContent")
            told = [parse_object(as_text(one.get("text"))) for one in objects_in(content)]
            if also is not None and also not in told:
                content = [*as_list(content), {"type": "text", "text": events.compact_json(also)}]
    elif is_object(value) and not by_tool and value.get("role") == "user":
        kept = {k: v for k, v in value.items() if k not in ("role", "type", "content", "parts")}
        metadata = {"gemini" if "parts" in value else "openai_chat": kept} if kept else {}
        content = value.get("parts", value.get("content"))
    given: Any = content
    entries: list[Any] = [*map(_plain, given if isinstance(content, list | tuple) else [given])]
    are_words = by_tool and all(isinstance(one, str) for one in entries)
    has_media = any(is_object(one) and not _GEMINI_FIELDS.isdisjoint(one) for one in entries)
    takes = "any" if not by_tool else "text" if has_media else ""
    read = [] if are_words else [_read_entry(one, notes, takes) for one in entries]
    if not by_tool and None in read:
        raise ContentError(entries[read.index(None)])
    if read and None not in read:
        content = tuple(part for parts in read for part in parts or ())
        metadata |= {"warnings": "; ".join(notes)} if notes else {}
    elif by_tool and isinstance(content, str) and content.startswith("data:image/"):
        content = events.Image(source=events.UrlSource(url=content))
    return Given(content, is_error, metadata)


def with_warning(event: SessionEvent) -> SessionEvent:
    """Return a result; with a warning if it holds a picture or a PDF as text."""
    if not _BYTES.search(event.text):
        return event
    warnings.warn(_AS_TEXT, stacklevel=4)
    return replace(event, metadata={**event.metadata, "warnings": _AS_TEXT})


def _plain(value: Any) -> Any:
    """Return an SDK's object as the dict that it was made from, anything else as it is."""
    if not isinstance(value, type) and callable(getattr(value, "model_dump", None)):
        with suppress(ReplyError):
            return read_object(value)
    return value


def _read_entry(value: Any, notes: list[str], takes: str) -> Sequence[Part] | None:
    """Return the parts that a piece of content is; `None`: it is none that is known.

    Args:
        takes: Besides blocks that are sound: `text` of Gemini, which has no type; or `any` block. A
            tool's value may look like content and be none.
    """
    if isinstance(value, str):
        return (Text(value),)
    if isinstance(value, bytes) and (kind := begins_as(data := b64encode(value).decode())):
        source = events.Base64Source(media_type=kind, data=data)
        return (events.Document(source=source) if kind == PDF else events.Image(source=source),)
    if isinstance(value, events.PART_TYPES):
        return cast(Sequence[Part], (value,))
    if not is_object(value):
        return None
    kind, text = value.get("type", ""), value.get("text")
    if kind in _TEXTS and isinstance(text, str):
        if takes != "any" and value.keys() - _TEXT_FIELDS:
            return None
        left = [name for name in ("citations", "annotations") if value.get(name)]
        notes += (f"The {name} of a text have no place in a session." for name in left)
        return (Text(text),)
    if takes != "any" and str(kind).endswith("_call_output") and "output" in value:
        item = {"call_id": "call", **value}  # its own is set when it is sent
        [(_, body)] = PROVIDERS["openai_responses"].read_messages([item])
        return [events.part_from_json(part) for part in body["parts"][0]["content"]]
    is_said = takes == "any" and kind in _USER_BLOCKS
    provider, needed = _BLOCKS.get(str(kind), ("anthropic", "type" if is_said else ""))
    if not kind:
        provider, needed = "gemini", " ".join((*_GEMINI_FIELDS, "text" if takes else ""))
        needed += " function_response functionResponse" if takes == "any" else ""
    elif kind in _MCP_BLOCKS and _is_mcp(value):
        from context_assembler.tools.mcp import part_of

        return (part_of(value),)
    found = [value[name] for name in needed.split() if value.get(name) is not None]
    if not found or (kind == "file" and not is_object(found[0])):
        return None
    message = {"role": "user", "parts" if provider == "gemini" else "content": [value]}
    told: list[str] = []

    def note(_where: str, what: str) -> None:
        told.append(what)

    read = PROVIDERS[provider].read_messages([message], note)
    parts = [events.part_from_json(part) for _, body in read for part in body["parts"]]
    is_sound = not told and (provider == "anthropic" or media_of(value, provider) is not None)
    if takes != "any" and not is_sound and any(isinstance(part, events.Opaque) for part in parts):
        return None
    notes += told
    return parts


def _is_mcp(block: JsonObject) -> bool:
    """Whether a block has what MCP requires of its type."""
    held = block.get("resource") if block["type"] == "resource" else block
    fields = held.items() if is_object(held) else ()
    texts = {key for key, one in fields if isinstance(one, str)}
    if str(block["type"]).startswith("resource"):
        return "uri" in texts and (held is block or not texts.isdisjoint({"text", "blob"}))
    return "data" in texts and not texts.isdisjoint({"mimeType", "mime_type"})


# ---- calibration ----
#
# Reported usage corrects the counts of a model's requests: one factor per model, kind of request and
# counter. Each row of a call holds what was learned up to it, so the newest row says it all.

_LEAST_TOKENS: Final = 500  # below it, what surrounds the text weighs more than the text
_LEAST_OBSERVATIONS: Final = 3  # before the first correction, so that no outlier makes one
_MOST_FACTOR: Final = 2.0  # and its inverse is the least
_PLAUSIBLE_RATIO: Final = 3.0  # beyond it the two figures are not about the same text
_LATEST: Final = 9  # ratios, whose median is what the factor moves to
_STEP: Final = 0.3  # of the way there
_DIGITS: Final = 3


def learn(
    known: JsonObject | None, key: str, counted_tokens: int, usage: events.Usage
) -> JsonObject:
    """Return what is known after one more call.

    The factor moves part of the way to the median of the latest ratios: no single call moves it by
    much, and one that is out of all proportion does not move it at all.
    """
    before: JsonObject = known or {"factor": 1.0, "observations": 0, "recent": []}
    ratio = usage.input_tokens / max(1, counted_tokens)
    if not 1 / _PLAUSIBLE_RATIO <= ratio <= _PLAUSIBLE_RATIO:
        return {**before, "key": key}
    recent = [*before["recent"], round(ratio, _DIGITS + 1)][-_LATEST:]
    factor, observations = before["factor"], before["observations"] + 1
    if observations >= _LEAST_OBSERVATIONS:
        ordered, half = sorted(map(log, recent)), len(recent) // 2
        target = (ordered[half] + ordered[-half - 1]) / 2
        moved = exp(log(factor) + _STEP * (target - log(factor)))
        factor = round(min(_MOST_FACTOR, max(1 / _MOST_FACTOR, moved)), _DIGITS)
    return {"key": key, "factor": factor, "observations": observations, "recent": recent}
