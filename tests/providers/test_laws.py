"""Laws over any paired conversation, for every provider."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.ports import Turn
from context_assembler.providers import PROVIDERS, check_payload
from tests.providers.builders import (
    PICTURE,
    call,
    note,
    opaque,
    render,
    reply,
    request,
    result,
    results,
    summary,
    thought,
    user,
)

KEYS = {
    "anthropic": ("messages",),
    "openai_chat": ("messages",),
    "openai_responses": ("input",),
    "gemini": ("contents",),
}
every_provider = pytest.mark.parametrize("provider", PROVIDERS)
texts = st.text(max_size=12) | st.sampled_from(["ok", " ", "\0", "\ud800", "x ", "né"])
call_ids = st.sampled_from(["c1", "c2", "functions.Bash:0", "call 4!", "x" * 80])
names = st.sampled_from(["read", "fs.list", "two words", "naïve"])
contents = st.lists(texts | st.just(PICTURE), max_size=2)
FOREIGN = opaque("elsewhere", {"type": "odd"}, "what it says")
SIGNED = thought({"type": "thinking", "thinking": "", "signature": "EqQB"})


@st.composite
def exchanges(draw: st.DrawFn) -> list[Turn]:
    """A reply with calls, and the turn of their results."""
    ids = draw(st.lists(call_ids, min_size=1, max_size=3))
    calls = [call(one, draw(names), path=draw(texts)) for one in ids]
    answers = [result(one, *draw(contents), is_error=draw(st.booleans())) for one in ids]
    said = draw(st.lists(texts | st.sampled_from([FOREIGN, SIGNED]), max_size=2))
    return [reply(*said, *calls), results(*answers)]


singles = st.one_of(
    contents.map(lambda parts: [user(*parts)]),
    st.lists(texts, min_size=1, max_size=2).map(lambda parts: [reply(*parts)]),
    texts.map(lambda text: [note(text)]),
    texts.map(lambda text: [note(text, origin="memory")]),
    st.just([summary("What happened so far.")]),
)
talks = st.lists(exchanges() | singles, min_size=1, max_size=6).map(
    lambda runs: [user("Begin."), *(turn for run in runs for turn in run), user("Go on.")]
)


def grown(provider: str, turns: list[Turn]) -> Any:
    wire = PROVIDERS[provider].Wire(request(provider))
    for turn in turns:
        wire.add(turn)
    return wire


def payload_of(provider: str, wire: Any) -> dict[str, Any]:
    payload: dict[str, Any] = wire.write(wire.request)
    return payload


@every_provider
@given(talk=talks)
@settings(max_examples=60)
def test_no_rule_refuses_the_payload_of_a_paired_conversation(
    provider: str, talk: list[Turn]
) -> None:
    wire = grown(provider, talk)

    payload = payload_of(provider, wire)
    found = check_payload(provider, payload, limits=wire.request.limits)

    assert [str(one) for one in found if one.level == "refused"] == []
    assert json.loads(json.dumps(payload)) == payload
    json.dumps(payload, ensure_ascii=False).encode()  # no lone surrogate


@every_provider
@given(talk=talks, more=talks)
@settings(max_examples=40)
def test_after_a_reply_messages_only_grow(
    provider: str, talk: list[Turn], more: list[Turn]
) -> None:
    wire = grown(provider, [*talk, reply("Said.")])
    before = list(wire.messages)
    copied = deepcopy(before)

    for turn in more:
        wire.add(turn)

    assert wire.messages[: len(before) - 1] == before[:-1]
    assert before == copied, "what was rendered is never changed"


@every_provider
@given(talk=talks, more=talks)
@settings(max_examples=40)
def test_a_reset_forgets_what_came_after_the_mark(
    provider: str, talk: list[Turn], more: list[Turn]
) -> None:
    wire, fresh = grown(provider, talk), grown(provider, talk)

    mark = wire.mark()
    for turn in more:
        wire.add(turn)
    wire.prefix()
    wire.reset(mark)

    assert (wire.messages, wire.entries) == (fresh.messages, fresh.entries)
    assert wire.prefix() == fresh.prefix()
    for turn in more:
        wire.add(turn)
        fresh.add(turn)
    assert payload_of(provider, wire) == payload_of(provider, fresh)


@every_provider
@given(talk=talks)
@settings(max_examples=30)
def test_the_prefix_hash_is_the_same_however_often_it_is_read(
    provider: str, talk: list[Turn]
) -> None:
    wire = PROVIDERS[provider].Wire(request(provider))
    for turn in talk:
        wire.add(turn)
        wire.prefix()

    assert wire.prefix() == grown(provider, talk).prefix()


@every_provider
def test_the_prefix_hash_counts_everything_but_thinking(provider: str) -> None:
    plain = [user("a"), reply("b"), user("c")]
    own = {"gemini": {"text": "x", "thought": True, "thought_signature": "c2ln"}}
    block = own.get(provider, SIGNED["block"])
    with_thought = [user("a"), reply(thought(block, provider), "b"), user("c")]
    others = [[user("a"), reply("b"), user("d")], [user("a"), reply("b")]]

    hashes = {grown(provider, turns).prefix() for turns in (plain, *others)}
    other_head = PROVIDERS[provider].Wire(request(provider, system="Else."))

    assert len(hashes) == 3
    assert other_head.prefix() != grown(provider, []).prefix()
    if provider != "openai_chat":
        assert grown(provider, with_thought).prefix() == grown(provider, plain).prefix()


@every_provider
@pytest.mark.parametrize("maker", PROVIDERS)
@pytest.mark.parametrize("expires_at", ["2026-12-30T04:00:00Z", 1.8e9, None])
def test_the_container_of_any_provider_s_reply_stops_nobody(
    provider: str, maker: str, expires_at: Any
) -> None:
    made_by = {"provider": maker, "container": {"id": "container_1", "expires_at": expires_at}}
    asked = {**call("c1", path="a"), "extras": {maker: {"caller": {"type": "direct"}}}}
    talk = [user("a"), reply(asked, made_by=made_by), results(result("c1", "b"))]

    assert render(provider, *talk, newest_at=1.9e9) == render(provider, *talk)


@every_provider
def test_long_conversations_are_lent_not_copied(provider: str) -> None:
    wire = grown(provider, [user("a"), reply("b")] * 2000 + [user("c")])
    listed = payload_of(provider, wire)[KEYS[provider][0]]

    plain, last = list(listed), listed[-1]
    last["more"] = 1

    assert listed[-1] == last
    assert plain[0] is listed[0]
    assert payload_of(provider, wire)[KEYS[provider][0]][-1] != last


@every_provider
def test_the_checker_reads_new_messages_alone(provider: str) -> None:
    wire = grown(provider, [user("Begin."), reply(call("c1", path="a")), results(result("c1"))])
    limits = wire.request.limits
    checked = len(payload_of(provider, wire)[KEYS[provider][0]])
    wire.add(reply(call("c2", path="b")))
    wire.add(results(result("c2", "d")))

    payload = payload_of(provider, wire)
    found = check_payload(provider, payload, limits=limits, start=checked)
    broken = dict(payload, **{KEYS[provider][0]: payload[KEYS[provider][0]][:-1]})
    caught = check_payload(provider, broken, limits=limits, start=checked)

    assert [one for one in found if one.level == "refused"] == []
    assert [one for one in caught if one.level == "refused"]
