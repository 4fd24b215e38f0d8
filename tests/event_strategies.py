"""Hypothesis strategies for single events: every body, every part, any text."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from context_assembler.values.events import (
    AssistantBody,
    CompactionBody,
    EventBody,
    Provenance,
    Session,
    SessionEvent,
    SystemBody,
    ToolCallBody,
    ToolResultBody,
    Usage,
    UserBody,
)
from context_assembler.values.parts import (
    Base64Source,
    Document,
    FileIdSource,
    Image,
    Json,
    JsonObject,
    MediaSource,
    Opaque,
    Part,
    ResultPart,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UrlSource,
)

any_texts: SearchStrategy[str] = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=12),
    st.sampled_from(["", "\0", "\ud800", "\ud83d\ude00", "\udc00x", "\ufeff", "今天", "a\r\nb"]),
)
"""Text with unpaired surrogates, surrogates that look like a pair, and NULs among it."""

scalars: SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**63 - 2, 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    any_texts,
)
json_values: SearchStrategy[Json] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_texts, inner, max_size=3),
    max_leaves=6,
)
json_objects: SearchStrategy[JsonObject] = st.dictionaries(any_texts, json_values, max_size=3)

_maybe_text = st.none() | any_texts
_extras = st.none() | st.dictionaries(
    st.sampled_from(["openai_responses", "x"]),
    st.dictionaries(
        st.sampled_from(["id", "type", "phase", "status", "annotations", "content"]), json_values
    ),
)
_sources: SearchStrategy[MediaSource] = st.one_of(
    st.builds(Base64Source, media_type=any_texts, data=any_texts),
    st.builds(UrlSource, url=any_texts, media_type=_maybe_text),
    st.builds(FileIdSource, provider=any_texts, file_id=any_texts),
)
_pixels = st.none() | st.integers(0, 5000)
_images = st.builds(
    Image,
    source=_sources,
    detail=st.sampled_from([None, "low", "high", "auto", "original"]),
    width_px=_pixels,
    height_px=_pixels,
)
_documents = st.builds(
    Document,
    source=_sources,
    title=_maybe_text,
    page_count=_pixels,
    text=_maybe_text,
    extras=_extras,
)
_opaque = st.builds(Opaque, provider=any_texts, block=json_objects, text=any_texts)
_thinking = st.builds(
    Thinking,
    text=any_texts,
    provider=_maybe_text,
    block=st.none() | json_objects,
    extras=_extras,
)
_calls = st.builds(
    ToolCall,
    call_id=any_texts,
    name=any_texts,
    arguments=json_objects,
    arguments_json=_maybe_text,
    signature=_maybe_text,
    extras=_extras,
)
_result_parts: SearchStrategy[ResultPart] = st.one_of(
    st.builds(Text, any_texts, signature=_maybe_text, extras=_extras), _images, _documents, _opaque
)
_results = st.builds(
    ToolResult,
    call_id=any_texts,
    content=st.lists(_result_parts, max_size=2).map(tuple),
    is_error=st.booleans(),
    tool_name=_maybe_text,
)
parts: SearchStrategy[Part] = st.one_of(_result_parts, _thinking, _calls, _results)

_part_tuples = st.lists(parts, max_size=3).map(tuple)
_counts = st.integers(0, 10**6)
_usages = st.builds(Usage, input_tokens=_counts, output_tokens=_counts, reasoning_tokens=_counts)
_provenances = st.builds(
    Provenance,
    provider=any_texts,
    model=any_texts,
    account=_maybe_text,
    prefix_fingerprint=_maybe_text,
    stop_reason=_maybe_text,
    usage=st.none() | _usages,
)
_made_by = st.none() | _provenances

bodies: SearchStrategy[EventBody] = st.one_of(
    st.builds(UserBody, parts=_part_tuples, note=_maybe_text),
    st.builds(AssistantBody, parts=_part_tuples, made_by=_made_by),
    st.builds(ToolCallBody, call=_calls, made_by=_made_by),
    st.builds(ToolResultBody, result=_results),
    st.builds(
        CompactionBody,
        summary=any_texts,
        first_seq=_counts,
        last_seq=_counts,
        excluded_ids=st.lists(any_texts, max_size=2).map(tuple),
        native=st.lists(_opaque, max_size=2).map(tuple),
        made_by=_made_by,
    ),
    st.builds(SystemBody, parts=_part_tuples, note=_maybe_text),
)

moments: SearchStrategy[datetime | None] = st.none() | st.datetimes(
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45))])
)

events: SearchStrategy[SessionEvent] = st.builds(
    SessionEvent,
    body=bodies,
    id=any_texts,
    seq=_counts,
    created_at=moments,
    origin=st.sampled_from(["developer", "user", "model", "tool", "memory", "file", "assembler"]),
    is_pinned=st.booleans(),
    metadata=json_objects,
)
"""Any event at all."""

new_events: SearchStrategy[SessionEvent] = st.builds(
    SessionEvent,
    body=bodies,
    created_at=moments,
    origin=st.sampled_from(["user", "model", "tool"]),
    metadata=json_objects,
)
"""Events that a store has not numbered."""

sessions: SearchStrategy[Session] = st.builds(
    Session,
    id=any_texts,
    agent_id=_maybe_text,
    defaults=json_objects,
    metadata=json_objects,
    created_at=moments,
)
