"""Streams of every kind of server: which pieces make one call, and what makes one reply."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler import ContextAssembler, SessionEvent, read_transcript
from context_assembler.providers.openai_chat import read_reply
from context_assembler.transcripts import write_transcript

CHAT, RESPONSES, CLAUDE = "gpt-4.1", "gpt-5.5", "claude-opus-5-5"
Piece = tuple[int | None, str | None, str | None, Any]  # index, id, name, arguments


def chunk(*pieces: Piece, ends: bool = False) -> dict[str, Any]:
    calls: list[dict[str, Any]] = []
    for index, call_id, name, arguments in pieces:
        function = {"name": name, "arguments": arguments}
        call = {"index": index, "id": call_id, "function": function}
        calls.append({key: held for key, held in call.items() if held is not None})
    choice: dict[str, Any] = {"index": 0, "delta": {"tool_calls": calls} if calls else {}}
    choice["finish_reason"] = "tool_calls" if ends else None
    return {"id": "r1", "object": "chat.completion.chunk", "model": CHAT, "choices": [choice]}


def chat_stream(*chunks: Piece | list[Piece]) -> list[Any]:
    lists = [one if isinstance(one, list) else [one] for one in chunks]
    return [*(chunk(*pieces) for pieces in lists), chunk(ends=True)]


ONE, TWO = '{"a":1}', '{"a":2}'
TWO_CALLS: dict[str, list[Any]] = {
    "an index each": chat_stream((0, "c1", "f", ONE), (1, "c2", "f", TWO)),
    "one index": chat_stream((0, "c1", "f", ONE), (0, "c2", "f", TWO)),
    "one index, in pieces": chat_stream(
        (0, "c1", "f", ""), (0, None, None, ONE), (0, "c2", "f", ""), (0, None, None, TWO)
    ),
    "no index": chat_stream((None, "c1", "f", ONE), (None, "c2", "f", TWO)),
    "no index, in pieces": chat_stream(
        *[(None, "c1", "f", '{"a"'), (None, None, None, ":1}")],
        *[(None, "c2", "f", '{"a"'), (None, None, None, ":2}")],
    ),
    "no index, in one chunk": chat_stream([(None, "c1", "f", ONE), (None, "c2", "f", TWO)]),
    "woven": chat_stream(
        *[(0, "c1", "f", '{"a"'), (1, "c2", "f", '{"a"')],
        *[(0, None, None, ":1}"), (1, None, None, ":2}")],
    ),
    "woven, one index": chat_stream(
        *[(0, "c1", "f", '{"a"'), (0, "c2", "f", '{"a"')],
        *[(0, "c1", None, ":1}"), (0, "c2", None, ":2}")],
    ),
    "woven, no index": chat_stream(
        *[(None, "c1", "f", '{"a"'), (None, "c2", "f", '{"a"')],
        *[(None, "c1", None, ":1}"), (None, "c2", None, ":2}")],
    ),
    "ids and names in every chunk": chat_stream(
        *[(0, "c1", "f", '{"a"'), (0, "c1", "f", ":1}")],
        *[(1, "c2", "f", '{"a"'), (1, "c2", "f", ":2}")],
    ),
    "ids that come late": chat_stream(
        *[(0, None, "f", ""), (0, "c1", None, ONE), (1, None, "f", ""), (1, "c2", None, TWO)]
    ),
    "said again as a whole": chat_stream(
        *[(0, "c1", "f", '{"a"'), (0, None, None, ":1}"), (0, "c1", "f", ONE)],
        *[(1, "c2", "f", TWO), (1, "c2", "f", TWO)],
    ),
    "another id in every chunk": chat_stream(
        *[(0, "c1", "f", '{"a"'), (0, "x", None, ":1}")],
        *[(1, "c2", "f", '{"a"'), (1, "y", "", ":2}")],
    ),
    "objects": chat_stream((0, "c1", "f", {"a": 1}), (0, "c2", "f", {"a": 2})),
}


async def recorded(model: str, reply: Any) -> SessionEvent:
    assembler = ContextAssembler()
    await assembler.add_user("s", "Go.")
    context = await assembler.assemble("s", model=model, max_tokens=1000)
    return (await assembler.record("s", reply, context))[-1]


@pytest.mark.parametrize("stream", TWO_CALLS.values(), ids=TWO_CALLS.keys())
async def test_a_new_id_is_a_new_call_whatever_the_index_says(stream: list[Any]) -> None:
    answer = await recorded(CHAT, stream)

    called = [(call.call_id, call.name, call.arguments) for call in answer.tool_calls]
    assert called == [("c1", "f", {"a": 1}), ("c2", "f", {"a": 2})]


SAME_ID: dict[str, list[Any]] = {
    "an index each": chat_stream((0, "c", "f", ONE), (1, "c", "f", TWO)),
    "one index": chat_stream((0, "c", "f", ONE), (0, "c", "f", TWO)),
    "empty ids": chat_stream((0, "", "f", ONE), (0, "", "f", TWO)),
    "no ids": chat_stream((0, None, "f", ONE), (0, None, "f", TWO)),
    "neither ids nor indexes": chat_stream((None, None, "f", ONE), (None, None, "f", TWO)),
    "objects without ids": chat_stream((0, None, "f", {"a": 1}), (0, None, "f", {"a": 2})),
}


@pytest.mark.parametrize("stream", SAME_ID.values(), ids=SAME_ID.keys())
async def test_a_name_behind_complete_arguments_is_a_new_call(stream: list[Any]) -> None:
    answer = await recorded(CHAT, stream)

    assert [call.arguments for call in answer.tool_calls] == [{"a": 1}, {"a": 2}]


@given(data=st.data())
def test_however_a_stream_is_cut_its_calls_are_the_same(data: st.DataObject) -> None:
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
        max_leaves=5,
    )
    wanted = data.draw(st.lists(st.dictionaries(st.text(), json_values), min_size=1, max_size=4))
    has_index, is_woven = data.draw(st.booleans()), data.draw(st.booleans())
    says_ids = is_woven and not has_index  # or nobody could tell
    queues: list[list[Piece]] = []
    for number, arguments in enumerate(wanted):
        text = json.dumps(arguments, ensure_ascii=data.draw(st.booleans()))
        cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=4)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        index, call_id = (number if has_index else None), f"c{number}"
        first: Piece = (index, call_id, "f", pieces[0])
        rest: list[Piece] = [(index, call_id if says_ids else None, None, p) for p in pieces[1:]]
        queues.append([first, *rest])
    chunks: list[Piece] = []
    while any(queues):
        open_ = [queue for queue in queues if queue]
        chunks.append((data.draw(st.sampled_from(open_)) if is_woven else open_[0]).pop(0))

    read = read_reply(chat_stream(*chunks))

    called = {part["call_id"]: part.get("arguments", {}) for part in read.parts}
    assert called == {f"c{number}": arguments for number, arguments in enumerate(wanted)}


async def test_what_follows_complete_arguments_is_not_dropped() -> None:
    answer = await recorded(CHAT, chat_stream((0, "c1", "f", ONE), (0, None, None, TWO)))

    assert [call.arguments_json for call in answer.unfinished_calls] == [ONE + TWO]


async def test_a_handed_stream_with_one_index_has_two_calls(corpus: Path) -> None:
    path = corpus.parent / "cases" / "second" / "stream_parallel_same_index.json"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    case = json.loads(path.read_text())
    kind = {"id": "r1", "object": "chat.completion.chunk", "model": CHAT}
    stream = [{**kind, "choices": [{"index": 0, "delta": delta}]} for delta in case["chunks"]]

    answer = await recorded(CHAT, [*stream, chunk(ends=True)])

    assert [[call.call_id, call.arguments] for call in answer.tool_calls] == case["expected"]


# ---- the other protocols ----


def item(item_id: str, call_id: str, arguments: str = "") -> dict[str, Any]:
    made = {"type": "function_call", "id": item_id, "call_id": call_id, "name": "f"}
    return {**made, "arguments": arguments, "status": "completed" if arguments else "in_progress"}


def event(kind: str, index: int, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "output_index": index, **fields}


def steps(index: int, ids: tuple[str, str, str], call_id: str, arguments: str) -> list[Any]:
    first, second, third = ids
    grown = {"item_id": second, "delta": arguments}
    return [
        event("output_item.added", index, item=item(first, call_id)),
        event("function_call_arguments.delta", index, **grown),
        event("output_item.done", index, item=item(third, call_id, arguments)),
    ]


def woven(first: list[Any], second: list[Any]) -> list[Any]:
    return [one for pair in zip(first, second, strict=True) for one in pair]


RESPONSE: dict[str, Any] = {"object": "response", "id": "r1", "status": "in_progress", "output": []}
CREATED = {"type": "response.created", "response": RESPONSE}
A, B = ("a", "a", "a"), ("b", "b", "b")
RESPONSE_STREAMS: dict[str, list[Any]] = {
    "an index each": [*steps(0, A, "c1", ONE), *steps(1, B, "c2", TWO)],
    "woven": woven(steps(0, A, "c1", ONE), steps(1, B, "c2", TWO)),
    "one index": [*steps(0, A, "c1", ONE), *steps(0, B, "c2", TWO)],
    "one index, woven": woven(steps(0, A, "c1", ONE), steps(0, B, "c2", TWO)),
    "another id in each event": [
        *steps(0, ("a", "b", "c"), "c1", ONE),
        *steps(1, ("d", "e", "f"), "c2", TWO),
    ],
    "only what is done": [steps(0, A, "c1", ONE)[2], steps(0, B, "c2", TWO)[2]],
    "broken off behind the second": [*steps(0, A, "c1", ONE), *steps(0, B, "c2", TWO)[:3]],
}


@pytest.mark.parametrize("stream", RESPONSE_STREAMS.values(), ids=RESPONSE_STREAMS.keys())
async def test_items_of_a_response_are_told_apart_by_their_ids(stream: list[Any]) -> None:
    answer = await recorded(RESPONSES, [CREATED, *stream])

    called = [(call.call_id, call.arguments) for call in answer.tool_calls]
    assert called == [("c1", {"a": 1}), ("c2", {"a": 2})]


@pytest.mark.parametrize("kind", ["completed", "incomplete", "failed"])
@pytest.mark.parametrize("left", [{"output": []}, {"output": None}, {}])
@pytest.mark.parametrize("stream", RESPONSE_STREAMS.values(), ids=RESPONSE_STREAMS.keys())
async def test_an_end_without_output_takes_the_items_before_it(
    stream: list[Any], left: dict[str, Any], kind: str
) -> None:
    ended = {"object": "response", "id": "r1", "status": kind, **left}
    end = {"type": f"response.{kind}", "response": ended}

    answer = await recorded(RESPONSES, [CREATED, *stream, end])

    assert [call.call_id for call in answer.tool_calls] == ["c1", "c2"]
    assert answer.made_by is not None
    assert answer.made_by.stop_reason == kind


@pytest.mark.parametrize("status", ["cancelled", "incomplete", "failed"])
@pytest.mark.parametrize("arguments", ["", '{"a":1}', '{"a"'])
async def test_calls_in_progress_of_a_response_that_was_stopped_are_unfinished(
    status: str, arguments: str
) -> None:
    output = [item("a", "c1", ONE), {**item("b", "c2", arguments), "status": "in_progress"}]

    answer = await recorded(RESPONSES, {**RESPONSE, "status": status, "output": output})

    assert [call.call_id for call in answer.tool_calls] == ["c1"]
    assert [call.call_id for call in answer.unfinished_calls] == ["c2"]


MESSAGE: dict[str, Any] = {
    "id": "r1",
    "type": "message",
    "role": "assistant",
    "model": CLAUDE,
    "content": [],
    "stop_reason": None,
}


def block(index: int, call_id: str, arguments: str, *, says_index: bool = True) -> list[Any]:
    own: dict[str, Any] = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": arguments}
    place = {"index": index} if says_index else {}
    return [
        {"type": "content_block_start", **place, "content_block": own},
        {"type": "content_block_delta", **place, "delta": delta},
    ]


START = {"type": "message_start", "message": MESSAGE}
STOP = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
BLOCK_STREAMS: dict[str, list[Any]] = {
    "an index each": [*block(0, "c1", ONE), *block(1, "c2", TWO)],
    "woven": woven(block(0, "c1", ONE), block(1, "c2", TWO)),
    "one index": [*block(0, "c1", ONE), *block(0, "c2", TWO)],
    "no index": [*block(0, "c1", ONE, says_index=False), *block(0, "c2", TWO, says_index=False)],
}


@pytest.mark.parametrize("stream", BLOCK_STREAMS.values(), ids=BLOCK_STREAMS.keys())
async def test_each_block_that_begins_is_one(stream: list[Any]) -> None:
    answer = await recorded(CLAUDE, [START, *stream, STOP])

    called = [(call.call_id, call.arguments) for call in answer.tool_calls]
    assert called == [("c1", {"a": 1}), ("c2", {"a": 2})]


# ---- a stream, and then the whole ----

_CHOICE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}}
_FIRST = {"index": 0, "delta": {"content": "H"}}
_SAID: dict[str, Any] = {"type": "output_text", "text": "Hi.", "annotations": []}
_OUTPUT = {"type": "message", "role": "assistant", "status": "completed", "content": [_SAID]}
_DELTA = {"index": 0, "delta": {"type": "text_delta", "text": "H"}}
_ITEM: dict[str, Any] = {"type": "message", "id": "m1", "role": "assistant", "content": []}
_TEXT = {"index": 0, "content_block": {"type": "text", "text": ""}}
WHOLE: dict[str, tuple[str, list[Any], Any]] = {
    "chat": (
        CHAT,
        [{"id": "r1", "object": "chat.completion.chunk", "choices": [_FIRST]}],
        {"id": "r1", "object": "chat.completion", "model": CHAT, "choices": [_CHOICE]},
    ),
    "responses": (
        RESPONSES,
        [
            CREATED,
            event("output_item.added", 0, item=_ITEM),
            event("output_text.delta", 0, item_id="m1", delta="H"),
        ],
        {**RESPONSE, "status": "completed", "output": [_OUTPUT]},
    ),
    "anthropic": (
        CLAUDE,
        [
            START,
            {"type": "content_block_start", **_TEXT},
            {"type": "content_block_delta", **_DELTA},
        ],
        {**MESSAGE, "content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn"},
    ),
}
each_protocol = pytest.mark.parametrize(
    ("model", "stream", "whole"), WHOLE.values(), ids=WHOLE.keys()
)


@each_protocol
async def test_a_list_that_ends_with_the_whole_reply_is_that_reply(
    model: str, stream: list[Any], whole: Any
) -> None:
    assert (await recorded(model, [*stream, whole])).text == "Hi."


@each_protocol
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_reply_that_broke_off_and_came_whole_is_one(
    model: str, stream: list[Any], whole: Any, is_first: bool
) -> None:
    assembler = ContextAssembler()
    await assembler.add_user("s", "Go.")
    context = await assembler.assemble("s", model=model, max_tokens=1000)
    first, second = (stream, whole) if is_first else (whole, stream)
    await assembler.record("s", first, context)
    stored = await assembler.record("s", second, context)
    again = await assembler.record("s", whole, context)
    await assembler.add_user("s", "And now?")

    turns = (await assembler.assemble("s", model=model, max_tokens=1000)).messages

    assert again == stored
    said = [turn["parts"][0]["text"] for turn in turns if turn["role"] == "assistant"]
    assert said == ["Hi."]
    stored_events = [event async for event in assembler.sessions.load("s")]
    written = write_transcript(stored_events, format="anthropic")
    exported = read_transcript(written).events
    assert [event.text for event in exported if event.type == "assistant"] == ["Hi."]


async def test_two_replies_that_broke_off_with_no_id_are_two() -> None:
    assembler = ContextAssembler()
    await assembler.add_user("s", "Go.")
    context = await assembler.assemble("s", model=CLAUDE, max_tokens=1000)
    _, stream, _ = WHOLE["anthropic"]
    nameless = [{**START, "message": {**MESSAGE, "id": None}}, *stream[1:]]

    await assembler.record("s", nameless, context)
    await assembler.record("s", nameless, context)

    replies = [one async for one in assembler.sessions.load("s") if one.type == "assistant"]
    assert len(replies) == 2
