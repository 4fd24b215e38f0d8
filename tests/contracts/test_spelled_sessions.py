"""What is kept of a session changes what its payloads cost, and nothing of what they say."""

import json
import pickle
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from context_assembler.errors import EmptySessionError, UnsupportedRequestError
from context_assembler.ports import Provider
from context_assembler.providers import PROVIDER_FUNCTIONS, PROVIDERS
from context_assembler.values.draft import Draft
from context_assembler.values.limits import ModelLimits
from context_assembler.values.messages import Message, Role
from context_assembler.values.parts import Text, ToolCall, ToolResult
from context_assembler.values.reading import as_array, as_object
from context_assembler.values.spelled import SpelledSession, facts_of
from context_assembler.values.vouching import is_approved
from tests.providers.drafts import MODELS, draft
from tests.strategies import broken_histories, paired_conversations

every_provider = pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS.keys())
REFUSALS: Final = (EmptySessionError, UnsupportedRequestError)


def _again(message: Message) -> Message:
    """Return an equal message, its parts others as well."""
    return replace(message, parts=tuple(map(deepcopy, message.parts)))


@st.composite
def _steps(draw: DrawFn, talks: st.SearchStrategy[list[Message]]) -> list[list[Message]]:
    """Return histories as one session sends them one after the other.

    Mostly they grow; now and then one is shorter, or cut in front or in the middle, or messages of it
    are other objects that say the same.
    """
    talk = [message for part in draw(st.lists(talks, min_size=1, max_size=4)) for message in part]
    steps: list[list[Message]] = []
    for _ in range(draw(st.integers(2, 6))):
        start, end = draw(st.sampled_from([0, 0, 0, 0, 2])), draw(st.integers(1, len(talk) + 1))
        some = talk[start:end]
        if draw(st.integers(0, 4)) == 0 and some:
            place = draw(st.integers(0, len(some) - 1))
            some = some[:place] + some[place + 1 :]
        if draw(st.integers(0, 4)) == 0:
            some = [_again(message) if draw(st.booleans()) else message for message in some]
        steps.append(some)
    return [*steps, talk, talk]


@st.composite
def _grown(draw: DrawFn) -> list[list[Message]]:
    """Return histories of a long session that grows, its newest messages not always what they were."""
    kinds = draw(st.lists(st.sampled_from("uraaaaans"), min_size=6, max_size=14))
    talk: list[Message] = [Message(role="user", parts=(Text("Go."),))]
    for number, kind in enumerate(kinds):
        talk += _more(kind, number, call_id=draw(st.sampled_from([f"call_{number}"] * 9 + ["c"])))
    steps: list[list[Message]] = []
    for length in range(4, len(talk) + 1, draw(st.integers(2, 6))):
        some = talk[:length]
        if draw(st.booleans()):
            some.pop(-draw(st.integers(1, min(9, length - 1))))
        steps.append(some)
    return [*steps, talk]


def _more(kind: str, number: int, *, call_id: str) -> list[Message]:
    said = Text(f"Word {number}.")
    if kind == "a":
        call = ToolCall(call_id=call_id, name="read_file", arguments={"path": f"{number}.py"})
        result = ToolResult(call_id=call_id, content=(said,))
        return [
            Message(role="assistant", parts=(call,), origin="model"),
            Message(role="tool", parts=(result,), origin="tool"),
        ]
    if kind == "n":
        return [Message(role="system", parts=(said,), kind="note", note="n", origin="assembler")]
    role: Role = "user" if kind == "u" else "assistant"
    return [Message(role=role, parts=(Text(" ") if kind == "s" else said,))]


def _outcome(make: Any, one: Draft) -> Any:
    try:
        made = make(one)
    except REFUSALS as error:
        return str(error)
    return json.dumps(made, ensure_ascii=False) if isinstance(made, dict) else made


def _vandalise(value: Any) -> None:
    """Change everything in a payload that can be changed."""
    inner: list[Any] = list(as_object(value).values()) or as_array(value)
    for held in inner:
        if isinstance(held, dict | list):
            _vandalise(held)
    value.clear()


@every_provider
@settings(max_examples=20)
@given(
    steps=_steps(paired_conversations | broken_histories) | _grown() | _grown(),
    limits=st.lists(st.sampled_from(list(MODELS.values())), min_size=1, max_size=2),
)
def test_a_session_is_spelled_the_same_with_and_without_what_is_kept(
    provider: Provider, steps: list[list[Message]], limits: list[ModelLimits]
) -> None:
    kept = SpelledSession()

    for number, messages in enumerate(steps):
        plain = draft(messages, limits=limits[number % len(limits)])
        known = replace(plain, spelled=kept)
        assert provider.adapt(known) == provider.adapt(plain)
        assert _outcome(provider.render, known) == _outcome(provider.render, plain)
        assert _outcome(provider.fingerprints, known) == _outcome(provider.fingerprints, plain)
        try:
            payload, _ = PROVIDER_FUNCTIONS[provider.name].send(known)
        except REFUSALS:
            continue
        _vandalise(payload)


@every_provider
@settings(max_examples=20)
@given(
    steps=_steps(paired_conversations | broken_histories) | _grown() | _grown(),
    limits=st.sampled_from(list(MODELS.values())),
)
def test_what_is_approved_breaks_no_rule(
    provider: Provider, steps: list[list[Message]], limits: ModelLimits
) -> None:
    kept = SpelledSession()
    check = partial(provider.check_payload, limits=limits)

    for messages in steps:
        one = replace(draft(messages, limits=limits), spelled=kept)
        try:
            spelled = provider.spell(one)
        except REFUSALS:
            continue
        if is_approved(spelled, one, provider=provider.name, check=check):
            broken = check(spelled.payload)
            assert [one for one in broken if one.level == "refused"] == []


# ---- what is kept ----


def _talk(exchanges: int, *, ids: str = "call_{}") -> list[Message]:
    talk = [Message(role="user", parts=(Text("Go."),))]
    for number in range(exchanges):
        call_id = ids.format(number)
        call = ToolCall(call_id=call_id, name="read_file", arguments={"path": f"{number}.py"})
        talk.append(Message(role="assistant", parts=(call,), origin="model"))
        result = ToolResult(call_id=call_id, content=(Text(f"File {number}."),))
        talk.append(Message(role="tool", parts=(result,), origin="tool"))
    return talk


class _Counted:
    """Checks a payload, and remembers how many entries it had."""

    def __init__(self, provider: Provider, key: str) -> None:
        self._provider, self._key = provider, key
        self.sizes: list[int] = []

    def __call__(self, payload: dict[str, Any]) -> Sequence[Any]:
        self.sizes.append(len(payload[self._key]))
        return self._provider.check_payload(payload)


@every_provider
def test_only_new_entries_are_held_against_the_rules(provider: Provider) -> None:
    kept, talk = SpelledSession(), _talk(40)
    check = _Counted(provider, provider.spell(draft(talk)).key)

    for messages in (talk[:-4], talk):
        one = replace(draft(messages), spelled=kept)
        check.sizes.clear()
        assert is_approved(provider.spell(one), one, provider=provider.name, check=check)

    assert sum(check.sizes) < 20


@every_provider
def test_other_settings_are_held_against_the_rules_anew(provider: Provider) -> None:
    kept, talk = SpelledSession(), _talk(40)
    check = _Counted(provider, provider.spell(draft(talk)).key)

    for limits in list(MODELS.values())[:2]:
        one = replace(draft(talk, limits=limits), spelled=kept)
        check.sizes.clear()
        assert is_approved(provider.spell(one), one, provider=provider.name, check=check)

    assert sum(check.sizes) > 40


@every_provider
def test_nothing_is_approved_where_nothing_is_kept(provider: Provider) -> None:
    one = draft(_talk(10))
    check = partial(provider.check_payload)

    assert not is_approved(provider.spell(one), one, provider=provider.name, check=check)


@every_provider
def test_a_rule_that_is_broken_is_found_at_every_step(provider: Provider) -> None:
    talk = [Message(role="user", parts=(Text("Go."),)), *_talk(12)]
    orphan = ToolResult(call_id="nobody", content=(Text("Lost."),))
    talk.insert(4, Message(role="tool", parts=(orphan,), origin="tool"))
    kept = SpelledSession()
    send = PROVIDER_FUNCTIONS[provider.name].send

    for length in (len(talk) - 4, len(talk)):
        plain = draft(talk[:length])
        payload = provider.render(plain)
        expected = provider.check_payload(payload, limits=plain.limits)
        assert send(replace(plain, spelled=kept))[1] == expected


@every_provider
def test_an_id_that_comes_again_is_spelled_as_ever(provider: Provider) -> None:
    kept, talk = SpelledSession(), [*_talk(10), *_talk(3)]

    for length in (15, 21, len(talk)):
        plain = draft(talk[:length])
        assert provider.render(replace(plain, spelled=kept)) == provider.render(plain)


@every_provider
def test_a_reply_that_is_taken_back_leaves_one_turn_of_the_user(provider: Provider) -> None:
    kept, talk = SpelledSession(), _talk(10)
    more = Message(role="user", parts=(Text("And more."),))

    for length in range(len(talk), 4, -1):
        provider.render(replace(draft(talk), spelled=kept))
        plain = draft([*talk[:length], more])
        assert provider.render(replace(plain, spelled=kept)) == provider.render(plain)


def test_a_copy_of_what_is_kept_is_empty() -> None:
    kept, talk = SpelledSession(), _talk(20)
    provider = PROVIDERS["openai_chat"]
    one = replace(draft(talk), spelled=kept)
    provider.render(one)
    assert provider.spell(one).settled

    for copied in (pickle.loads(pickle.dumps(kept)), deepcopy(kept)):
        assert copied.find("openai_chat", talk, ()) is None
        assert copied.facts_of(talk) == facts_of(talk, None)


def test_what_is_kept_is_bounded() -> None:
    kept, talk = SpelledSession(), _talk(400)
    provider = PROVIDERS["openai_chat"]

    for length in range(41, len(talk), 40):
        for start in (0, 2, 4):
            provider.render(replace(draft(talk[start:length]), spelled=kept))

    assert len(kept.kept_lengths("openai_chat")) <= 4
