"""Every item survives: read, stored, and sent again it is what it was."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import pytest
from openai.types.responses import ResponseInputItemParam, ResponseOutputItem

from context_assembler.providers.openai_chat import OPENAI_CHAT
from context_assembler.providers.openai_responses import OPENAI_RESPONSES
from context_assembler.stages.repair_history import repair_history
from context_assembler.stages.transform_messages import MessageTransformer
from context_assembler.transcripts import TRANSCRIPTS
from context_assembler.values.codec import decode_event, encode_event
from context_assembler.values.events import (
    Provenance,
    SessionEvent,
    Usage,
    assistant_event,
    tool_result_event,
    user_event,
)
from context_assembler.values.messages import Message
from context_assembler.values.parts import Image, Opaque, Text, ToolCall, UrlSource
from tests.providers.drafts import GPT_4O, GPT_62, draft
from tests.providers.openai_responses.item_samples import (
    ANSWERED,
    BY_PROGRAM,
    GIVEN,
    MADE,
    REASONING,
    Item,
)
from tests.providers.sdk_types import assert_sdk_takes

US = "openai_responses"
GO: Item = {"type": "message", "role": "user", "content": "go"}
OK: Item = {"type": "message", "role": "user", "content": "ok"}
CALLS = [item for pair in ANSWERED.values() for item in pair]
# A request of its own asks for it; no session holds it.
NOT_KEPT = {"compaction_trigger"}


def history(events: Sequence[SessionEvent]) -> Sequence[Message]:
    stored = [decode_event(encode_event(event), where="it") for event in events]
    assert stored == list(events)
    shaped = MessageTransformer().transform(stored)
    return repair_history(shaped.messages).messages


def sent_again(events: Sequence[SessionEvent]) -> list[Item]:
    payload = OPENAI_RESPONSES.render(draft(history(events), limits=GPT_62, system=""))
    found = OPENAI_RESPONSES.check_payload(payload, limits=GPT_62)
    assert [violation for violation in found if violation.level == "refused"] == []
    assert_sdk_takes(US, payload)
    items: list[Item] = payload["input"]
    return items


def imported(*items: Item) -> list[Item]:
    return sent_again(TRANSCRIPTS[US].read(list(items)).events)


def replied(*output: Item) -> SessionEvent:
    reply = OPENAI_RESPONSES.read_reply({"object": "response", "output": list(output)}, None)
    return assistant_event(reply.parts)


def _types(members: Iterator[Any]) -> set[str]:
    """Return the words in the `type` fields of typed dicts and models."""
    fields = (
        str(base.__annotations__["type"])
        for member in members
        for base in member.__mro__
        if "type" in getattr(base, "__annotations__", {})
    )
    return {word for field in fields for word in re.findall(r"Literal\[['\"](\w+)['\"]\]", field)}


def test_every_type_of_item_has_its_sample() -> None:
    taken = _types(iter(get_args(ResponseInputItemParam)))
    given = _types(iter(get_args(get_args(ResponseOutputItem)[0])))
    sampled = {item.get("type") for item in (*MADE.values(), *CALLS, *GIVEN.values())}

    assert len(taken) > 25
    elsewhere = {"reasoning", "program_output", "mcp_approval_response"}
    assert (taken | given) - sampled == NOT_KEPT | elsewhere


@pytest.mark.parametrize("item", MADE.values(), ids=MADE.keys())
def test_what_a_server_made_comes_back_from_a_transcript(item: Item) -> None:
    talk = [GO, REASONING, item, OK]

    assert imported(*talk) == talk


@pytest.mark.parametrize("item", MADE.values(), ids=MADE.keys())
def test_what_a_server_made_comes_back_from_a_reply(item: Item) -> None:
    marked = {**item, "created_by": "user_1"}

    sent = sent_again([user_event("go"), replied(REASONING, marked), user_event("ok")])

    assert sent == [GO, REASONING, item, OK]


@pytest.mark.parametrize(("call", "answer"), ANSWERED.values(), ids=ANSWERED.keys())
def test_calls_and_answers_come_back_from_a_transcript(call: Item, answer: Item) -> None:
    talk = [GO, REASONING, call, answer, OK]

    assert imported(*talk) == talk


@pytest.mark.parametrize(("call", "answer"), ANSWERED.values(), ids=ANSWERED.keys())
def test_calls_come_back_from_a_reply_and_are_left_to_the_client(call: Item, answer: Item) -> None:
    reply = replied(REASONING, {**call, "created_by": "user_1"})
    own = Opaque(provider=US, block={**answer, "created_by": "user_1"}, text="own")

    sent = sent_again([user_event("go"), reply, tool_result_event("c1", own), user_event("ok")])

    assert [type(part) for part in reply.parts[1:]] == [ToolCall]
    assert sent[1:3] == [REASONING, call]
    assert sent[3]["type"] in (answer["type"], "function_call_output")


@pytest.mark.parametrize("item", GIVEN.values(), ids=GIVEN.keys())
def test_what_a_client_gave_comes_back(item: Item) -> None:
    assert imported(GO, item, OK) == [GO, item, OK]


# ---- without the reasoning that led to it ----


@pytest.mark.parametrize("item", MADE.values(), ids=MADE.keys())
def test_without_its_reasoning_what_a_server_made_is_told_in_words(item: Item) -> None:
    sent = imported(GO, item, OK)

    if item["type"] == "compaction":
        assert sent[1] == item
    else:
        assert all(entry["type"] == "message" and "id" not in entry for entry in sent[1:-1])


@pytest.mark.parametrize(("call", "answer"), ANSWERED.values(), ids=ANSWERED.keys())
def test_without_its_reasoning_a_call_goes_without_id(call: Item, answer: Item) -> None:
    _, sent_call, output, _ = imported(GO, call, answer, OK)

    assert "id" not in sent_call
    assert sent_call["type"] in (call["type"], "function_call")
    assert output["call_id"] == "c1"


@pytest.mark.parametrize("item", [*MADE.values(), *CALLS, *GIVEN.values()])
def test_other_providers_are_told_in_words(item: Item) -> None:
    asks = [call for call, answer in ANSWERED.values() if answer is item]
    read = TRANSCRIPTS[US].read([GO, *asks, item, OK])
    made = draft(history(read.events), limits=GPT_4O, tools=())

    payload = OPENAI_CHAT.render(made)

    found = OPENAI_CHAT.check_payload(payload, limits=GPT_4O)
    assert [violation for violation in found if violation.level == "refused"] == []
    assert "gAAAA" not in str(payload)
    assert "created_by" not in str(payload)


# ---- programs ----

PROGRAM = MADE["a program"]
CALLED: Item = {**ANSWERED["a function"][0], "caller": BY_PROGRAM}
RETURNED: Item = {**ANSWERED["a function"][1], "caller": BY_PROGRAM}
PROGRAM_OUTPUT: Item = {
    "type": "program_output",
    "id": "pro_1",
    "call_id": "prog_1",
    "result": "booked",
    "status": "completed",
}
SECOND: Item = {**REASONING, "id": "rs_2"}


def test_a_program_goes_on_over_several_replies() -> None:
    talk = [GO, REASONING, PROGRAM, CALLED, RETURNED, SECOND, MADE["code"], PROGRAM_OUTPUT, OK]

    assert imported(*talk) == talk


def test_without_its_program_a_call_is_a_plain_one() -> None:
    _, program, call, output, reasoning, _, result, _ = imported(
        GO, PROGRAM, CALLED, RETURNED, SECOND, MADE["code"], PROGRAM_OUTPUT, OK
    )

    assert program["content"] == "[program: await book()]"
    assert "caller" not in call
    assert "caller" not in output
    assert reasoning == SECOND
    assert result["content"] == "[program_output: booked]"


def test_the_answer_to_a_program_names_it_without_being_told() -> None:
    reply = replied(REASONING, PROGRAM, CALLED)

    sent = sent_again([user_event("go"), reply, tool_result_event("c1", "ok")])

    assert sent[-1] == {**RETURNED, "output": "ok"}


# ---- approvals, computers, calls that are not waited for ----

APPROVED: Item = {
    "type": "mcp_approval_response",
    "id": "mcpa_1",
    "approval_request_id": "mcpr_1",
    "approve": True,
    "reason": "Fine.",
}


def test_an_approval_stands_behind_its_request() -> None:
    talk = [GO, REASONING, MADE["a request for approval"], APPROVED]

    assert imported(*talk) == talk


def test_an_approval_whose_request_is_told_in_words_is_so_too() -> None:
    sent = imported(GO, MADE["a request for approval"], {**APPROVED, "approve": False})

    assert [item["content"] for item in sent[1:]] == [
        '[mcp_approval_request: docs: ask: {"q":"x"}]',
        "[mcp_approval_response: Fine.: not approved]",
    ]


COMPUTER, _ = ANSWERED["a computer"]
SHOT = Image(source=UrlSource(url="https://example.com/shot.png"))


def test_a_picture_answers_a_computer() -> None:
    sent = sent_again(
        [user_event("go"), replied(REASONING, COMPUTER), tool_result_event("c1", SHOT)]
    )

    assert sent[2:] == [
        COMPUTER,
        {
            "type": "computer_call_output",
            "call_id": "c1",
            "output": {
                "type": "computer_screenshot",
                "image_url": "https://example.com/shot.png",
            },
        },
    ]


NO_PICTURES: dict[str, Any] = {
    "words": tool_result_event("c1", "no screen"),
    "words and a picture": tool_result_event("c1", (Text("done"), SHOT)),
    "a failure": tool_result_event("c1", SHOT, is_error=True),
    "nothing": tool_result_event("c1", ()),
}


@pytest.mark.parametrize("answer", NO_PICTURES.values(), ids=NO_PICTURES.keys())
def test_what_is_no_picture_answers_a_computer_as_a_function(answer: SessionEvent) -> None:
    sent = sent_again([user_event("go"), replied(REASONING, COMPUTER), answer])

    assert sent[2] == {
        "type": "function_call",
        "call_id": "c1",
        "name": "computer",
        "arguments": '{"actions":[{"type":"click","button":"left","x":1,"y":2}]}',
    }
    assert sent[3]["type"] == "function_call_output"


def test_a_picture_of_a_computer_stays_one_without_its_reasoning() -> None:
    _, call, output, _ = imported(GO, *ANSWERED["a computer of the preview"], OK)

    assert call["type"] == "function_call"
    assert output["output"] == [{"type": "input_image", "detail": "auto", "file_id": "file-1"}]


def test_a_call_that_is_not_waited_for_may_stay_unanswered() -> None:
    call, _ = ANSWERED["a function that is not waited for"]
    events = [user_event("go"), replied(REASONING, call), user_event("ok")]

    assert sent_again(events) == [GO, REASONING, call, OK]
    chat = OPENAI_CHAT.render(draft(history(events), limits=GPT_4O, tools=()))
    assert [message["role"] for message in chat["messages"]][-3:] == ["assistant", "tool", "user"]


def test_annotations_stay_where_there_was_no_reasoning() -> None:
    made_by = Provenance(provider=US, model="gpt-6.2-astra", usage=Usage(reasoning_tokens=0))
    parts = replied(MADE["a message"]).parts

    sent = sent_again([user_event("go"), assistant_event(parts, made_by=made_by), user_event("ok")])

    assert sent[1]["content"] == MADE["a message"]["content"][:1]
