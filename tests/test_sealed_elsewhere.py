"""What a provider sealed without a plain text: others are sent what it stands for."""

import json
import pickle
from dataclasses import replace
from typing import Any, Final

import pytest

from context_assembler import AssembledContext, AssemblerConfig, ContextAssembler
from context_assembler.errors import ContextOverflowError
from context_assembler.providers import PROVIDERS
from context_assembler.respelling import respell
from context_assembler.sessions import InMemoryStore
from context_assembler.values.events import AssistantBody, user_event
from context_assembler.values.parts import Json
from tests.adding_up import differences

GPT: Final = "gpt-5.5"
OTHERS: Final = ("anthropic", "gemini", "openai_chat")
SEALED: Final[dict[str, Json]] = {
    "type": "compaction",
    "id": "cmp_1",
    "encrypted_content": "gAAAAxyz",
}

every_other = pytest.mark.parametrize("provider", OTHERS)


def make(store: InMemoryStore | None = None) -> ContextAssembler:
    config = AssemblerConfig(clock={"is_enabled": False})
    return ContextAssembler(store or "memory:", config=config)


def response(text: str, *items: Json) -> dict[str, Json]:
    content: list[Json] = [{"type": "output_text", "text": text, "annotations": list[Json]()}]
    said: dict[str, Json] = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": GPT,
        "status": "completed",
        "output": [*items, said],
    }


async def sealed_session(
    store: InMemoryStore | None = None, *, filler: str = ""
) -> ContextAssembler:
    """Return an assembler with a session whose beginning a provider has compacted and sealed."""
    assembler = make(store)
    for text, items in ((f"The word is PLUM. {filler}", ()), ("Going on.", (SEALED,))):
        await assembler.add_user("s", "go on")
        context = await assembler.assemble("s", model=GPT)
        await assembler.record("s", response(text, *items), context)
    await assembler.add_user("s", "Which word was it?")
    return assembler


async def assembled() -> AssembledContext:
    return await (await sealed_session()).assemble("s", model=GPT)


@every_other
async def test_what_it_covers_is_sent_to_all_who_cannot_read_it(provider: str) -> None:
    context = await assembled()

    other = context.for_provider(provider)

    assert "PLUM" not in json.dumps(context.to_request())
    assert "PLUM" in json.dumps(context.to_request(provider))
    assert "gAAAA" not in json.dumps(context.to_request(provider))
    assert other.to_request() == context.to_request(provider)
    assert other.check() == []


async def test_it_is_what_a_request_for_such_a_model_is_made_from() -> None:
    assembler = await sealed_session()

    context = await assembler.assemble("s", model=GPT)
    claude = await assembler.assemble("s", model="claude-opus-5-5")

    [told, expected] = (one.to_anthropic()["messages"] for one in (context, claude))
    assert [_bare(message) for message in told] == [_bare(message) for message in expected]


def _bare(message: dict[str, Json]) -> dict[str, Json]:
    """Return a message without marks of the cache, which depend on the model."""
    bare = [{k: v for k, v in one.items() if k != "cache_control"} for one in message["content"]]
    return {**message, "content": bare}


@every_other
async def test_the_report_says_what_is_sent_instead_and_adds_up(provider: str) -> None:
    other = (await assembled()).for_provider(provider)

    [row] = [one for one in other.report.entries if one.rule.startswith("compaction.")]
    assert row.rule == "compaction.sealed"
    assert row.reason.endswith("it has no plain text, so what it covers is sent instead.")
    assert differences(other.report) == {}
    assert other.report.ledger == other.metadata.ledger
    assert other.report.warnings == ()


@every_other
async def test_the_way_there_makes_no_difference(provider: str) -> None:
    context = await assembled()

    for first in OTHERS:
        other = context.for_provider(first)
        assert other.to_request(provider) == context.to_request(provider)
        assert other.to_request("openai_responses") == context.to_request()
        assert other.for_provider(provider) == context.for_provider(provider)


async def test_a_context_is_pickled_with_what_others_are_sent() -> None:
    context = await assembled()

    again = pickle.loads(pickle.dumps(context))

    assert again.to_request() == context.to_request()
    for provider in OTHERS:
        assert again.to_request(provider) == context.to_request(provider)
        assert again.for_provider(provider).report == context.for_provider(provider).report
    assert pickle.loads(pickle.dumps(again)).to_gemini() == context.to_gemini()


async def test_every_later_step_sends_others_what_a_new_assembler_does() -> None:
    store = InMemoryStore()
    assembler = await sealed_session(store)
    for number in range(3):
        context = await assembler.assemble("s", model=GPT)
        anew = await make(store).assemble("s", model=GPT)

        for provider in (*OTHERS, "openai_responses"):
            assert context.to_request(provider) == anew.to_request(provider)
            assert context.for_provider(provider).report.entries == (
                anew.for_provider(provider).report.entries
            )
        await assembler.record("s", response(f"Answer {number}."), context)
        await assembler.add_user("s", f"And {number}?")


async def test_what_happened_later_is_not_in_it() -> None:
    assembler = await sealed_session()
    context = await assembler.assemble("s", model=GPT)
    await assembler.add_user("s", "Or was it PEAR?")

    assert "PEAR" not in json.dumps(context.to_anthropic())


async def test_a_reply_from_there_is_recorded_with_what_it_was_sent() -> None:
    assembler = await sealed_session()
    context = await assembler.assemble("s", model=GPT)
    sent = context.for_provider("anthropic").draft

    reply = {
        "type": "message",
        "role": "assistant",
        "model": GPT,
        "content": [{"type": "text", "text": "PLUM."}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }
    [*_, event] = await assembler.record("s", reply, context)

    assert isinstance(event.body, AssistantBody)
    assert event.body.made_by is not None
    assert event.body.made_by.prefix_fingerprint == PROVIDERS["anthropic"].fingerprints(sent)[-1]


async def test_what_is_too_long_for_the_window_is_cut_for_others_too() -> None:
    assembler = await sealed_session(filler="Many words are said here. " * 2_000)
    room: dict[str, Any] = {"max_tokens": 500, "max_context_tokens": 4_000}

    context = await assembler.assemble("s", model=GPT, **room)
    other = context.for_provider("anthropic")

    assert not context.metadata.truncated
    assert other.metadata.truncated
    assert other.report.ledger.free_tokens >= 0


async def test_what_may_not_be_dropped_and_does_not_fit_is_an_error_where_it_is_sent() -> None:
    assembler = make()
    pinned = replace(user_event("Never forget this. " * 1_000), is_pinned=True)
    await assembler.sessions.append("s", [pinned])
    for text, items in (("Yes.", ()), ("Going on.", (SEALED,))):
        await assembler.add_user("s", "go on")
        context = await assembler.assemble("s", model=GPT)
        await assembler.record("s", response(text, *items), context)
    await assembler.add_user("s", "What was it?")

    context = await assembler.assemble("s", model=GPT, max_tokens=500, max_context_tokens=2_000)

    assert context.to_request()
    with pytest.raises(ContextOverflowError):
        context.to_anthropic()
    assert pickle.loads(pickle.dumps(context)).to_request() == context.to_request()


async def test_one_with_a_plain_text_is_told_by_that() -> None:
    assembler = make()
    await assembler.add_user("s", "go on")
    context = await assembler.assemble("s", model=GPT)
    await assembler.record("s", response("Yes.", SEALED), context, summary="They went on.")
    await assembler.add_user("s", "And?")
    context = await assembler.assemble("s", model=GPT)

    other = context.for_provider("gemini")

    assert "They went on." in json.dumps(other.to_request())
    assert [row.rule for row in other.report.entries if row.rule] == [
        "compaction.twin",
        "compaction.covers",
    ]


async def test_where_nothing_can_be_made_anew_the_loss_is_told() -> None:
    context = replace(await assembled(), respell=respell)

    other = context.for_provider("anthropic")

    [row, _] = [one for one in other.report.entries if one.rule.startswith("compaction.")]
    assert row.rule == "compaction.lost"
    assert "what it covers is not sent" in row.reason
    assert row.reason in other.report.warnings
    assert "only it can read it" in json.dumps(context.to_anthropic())
