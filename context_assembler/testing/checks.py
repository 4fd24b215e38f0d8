"""Checks of parts that are not ours: session stores, and payloads by the SDKs' own types."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

from context_assembler.errors import (
    ConcurrentAppendError,
    DuplicateEventError,
    UnknownSessionError,
)
from context_assembler.events import (
    JsonObject,
    Opaque,
    Session,
    SessionEvent,
    Text,
    ToolCall,
    assistant_event,
    tool_result_event,
    user_event,
)
from context_assembler.ports import SessionStore

_TRIP: Final = "trip 旅/'\"%"
_OTHER: Final = "trip"
_CALL: Final = ToolCall(call_id="c1", name="look", arguments={"at": [1, 0.5, None], "ß": {"x": ""}})
_BLOCK: Final = Opaque(provider="anthropic", block={"type": "thinking", "signature": "c2ln"})
_EVENTS: Final = (
    user_event("Look around. 見て \N{EYES} \ud83d \0"),
    assistant_event((_BLOCK, Text("One moment."), _CALL)),
    replace(tool_result_event("c1", {"seen": ["a wall"]}), metadata={"n": [1]}, is_pinned=True),
)


async def check_session_store(store: SessionStore) -> None:
    """Check that a session store does what the assembler relies on.

    It writes into sessions of its own and deletes them at the end; give it an empty store.

    Raises:
        AssertionError: The store does something else; the message says what it must do.
    """
    for what, given in (
        ("head()", store.head(_TRIP)),
        ("load()", _all(store.load(_TRIP))),
        ("delete()", store.delete(_TRIP)),
    ):
        raises = await _raises(UnknownSessionError, given)
        _need(raises, f"{what} of a session that is not there must raise UnknownSessionError")
    kept = [*await store.append(_TRIP, _EVENTS[:2]), *await store.append(_TRIP, _EVENTS[2:])]
    await store.append(_OTHER, [user_event("of another session")])
    loaded = await _all(store.load(_TRIP))
    is_numbered = [event.seq for event in kept] == [1, 2, 3] and all(event.id for event in kept)
    _need(is_numbered, "append() must return the events with the numbers 1, 2, 3 … and an id each")
    _need(loaded == kept, "load() must yield the session's events as append() returned them")
    bare = [replace(event, id="", seq=0) for event in loaded]
    _need(bare == list(_EVENTS), "load() must yield all fields of the events as they were given")
    later = [event.seq for event in await _all(store.load(_TRIP, after_seq=2))]
    _need(later == [3], "load(after_seq=2) must begin with event 3")
    _need((await store.head(_TRIP)).last_seq == 3, "head() must return the last event's number")
    named = replace(user_event("named"), id="mine")
    [one] = await store.append(_TRIP, [named])
    _need(one.id == "mine", "append() must keep the id that an event brings")
    twice = await _raises(DuplicateEventError, store.append(_TRIP, [user_event("good"), named]))
    _need(twice, "append() must refuse an id that the session has with DuplicateEventError")
    _need(len(await _all(store.load(_TRIP))) == 4, "append() must keep all of its events, or none")
    tries = [store.append(_TRIP, [user_event(str(n))], expected_seq=4) for n in range(5)]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    lost = [one for one in outcomes if isinstance(one, ConcurrentAppendError)]
    _need(
        len(lost) == 4 and len(await _all(store.load(_TRIP))) == 5,
        "of several append(expected_seq=4) one must win, the others raise ConcurrentAppendError",
    )
    session = Session(id=_TRIP, agent_id="pilot", defaults={"model": "m"}, metadata={"n": [1]})
    await store.create(session)
    head = await store.head(_TRIP)
    is_replaced = (head.session, head.last_seq) == (session, 5)
    _need(is_replaced, "create() must replace the session's record, and leave its events")
    listed = {head.session.id: head.last_seq for head in await store.list_sessions()}
    has_both = listed.get(_TRIP) == 5 and listed.get(_OTHER) == 1
    _need(has_both, "list_sessions() must return a SessionHead for every session")
    await store.delete(_TRIP)
    kept = await store.append(_TRIP, [user_event("again")])
    is_new = [event.seq for event in kept] == [1] and len(await _all(store.load(_TRIP))) == 1
    _need(is_new, "delete() must forget the session's events")
    version = (await store.head(_TRIP)).version
    _need(
        not head.version or version != head.version,
        "a session that was deleted and made again must have another version",
    )
    for session_id in (_TRIP, _OTHER):
        await store.delete(session_id)


async def _all(events: AsyncIterator[SessionEvent]) -> list[SessionEvent]:
    return [event async for event in events]


async def _raises(error: type[Exception], given: Awaitable[Any]) -> bool:
    try:
        await given
    except error:
        return True
    return False


def _need(is_so: bool, rule: str) -> None:
    if not is_so:
        raise AssertionError(f"{rule}.")


_PARAMETERS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic.types.message_create_params:MessageCreateParamsNonStreaming",
    "anthropic beta": "anthropic.types.beta.message_create_params:MessageCreateParamsNonStreaming",
    "openai_chat": "openai.types.chat.completion_create_params:CompletionCreateParamsNonStreaming",
    "openai_responses": "openai.types.responses.response_create_params:"
    "ResponseCreateParamsNonStreaming",
}
# Content and tools of Chat Completions that only servers of other vendors know, by type.
_OTHER_VENDORS: Final = ("document_url", "file_url", "openrouter:")


def find_type_errors(
    provider: str, payload: JsonObject, *, allows_vendors: bool = False
) -> list[str]:
    """Return where the SDK's types do not describe a payload; unknown keys count.

    A request that names beta features is checked by the beta types, with what is in `extra_body`.
    Needs the provider's SDK.

    Args:
        provider: A key of `providers.PROVIDERS`.
        payload: What `to_request` returns.
        allows_vendors: Whether the server is another vendor's that speaks Chat Completions.
    """
    if provider == "gemini":
        return _find_gemini_errors(payload)
    headers = payload.get("extra_headers") or {}
    is_beta = bool(payload.get("betas") or headers.get("anthropic-beta"))
    outside = ("extra_headers", "extra_body", "betas")
    body = {key: value for key, value in payload.items() if key not in outside}
    if is_beta:
        body |= payload.get("extra_body") or {}
    if provider == "openai_responses" and isinstance(body.get("input"), list):
        # Responses takes encrypted reasoning without an id, although the types ask for one.
        # https://github.com/vercel/ai/issues/12869 (2026-11-27)
        body["input"] = [
            {"id": "", **item}
            if item.get("type") == "reasoning" and item.get("encrypted_content")
            else item
            for item in body["input"]
        ]
    if provider == "openai_chat" and allows_vendors:
        body = _without_vendors(body)
    adapter = _adapter("anthropic beta" if is_beta else provider)
    return _errors_of(lambda: _exhaust(adapter.validate_python(body, extra="forbid")))


def _without_vendors(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_vendors(inner) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    return [
        _without_vendors(inner)
        for inner in value
        if not (isinstance(inner, dict) and str(inner.get("type")).startswith(_OTHER_VENDORS))
    ]


def _find_gemini_errors(payload: JsonObject) -> list[str]:
    types = import_module("google.genai.types")
    errors = [
        f"contents[{index}].{error}"
        for index, content in enumerate(payload.get("contents") or ())
        for error in _errors_of(partial(types.Content.model_validate, content))
    ]
    config = payload.get("config") or {}
    found = _errors_of(lambda: types.GenerateContentConfig.model_validate(config))
    errors += [f"config.{error}" for error in found]
    strange = sorted(payload.keys() - {"model", "contents", "config"})
    return [*errors, *(f"{key}: unexpected argument" for key in strange)]


@cache  # it must outlive what it validates: the SDKs' iterables are checked while they are read
def _adapter(name: str) -> Any:
    from pydantic import TypeAdapter

    module, _, parameters = _PARAMETERS[name].partition(":")
    return TypeAdapter(getattr(import_module(module), parameters))


def _exhaust(value: Any) -> None:
    """Read a validated value to its ends: only then are the iterables in it validated."""
    from pydantic import BaseModel

    if isinstance(value, Mapping):
        for inner in value.values():
            _exhaust(inner)
    elif not isinstance(value, str | bytes | bytearray | BaseModel) and hasattr(value, "__iter__"):
        for inner in value:
            _exhaust(inner)


def _errors_of(validate: Callable[[], object]) -> list[str]:
    from pydantic import ValidationError

    try:
        validate()
    except ValidationError as error:
        return _nearest(error.errors(include_url=False, include_context=False))
    return []


def _nearest(errors: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the errors of the branches of unions that were meant; of all if none was."""
    listed = list(errors)
    others = [
        tuple(error["loc"][:-1])
        for error in listed
        if error["type"] == "literal_error" and error["loc"][-1] in ("type", "role")
    ]
    meant = [e for e in listed if not any(tuple(e["loc"][: len(o)]) == o for o in others)]
    return [
        f"{'.'.join(str(s) for s in e['loc'] if 'union[' not in str(s))}: {e['msg']} "
        f"(given {str(e['input'])[:80]!r})"
        for e in (meant or listed)[:5]
    ]
