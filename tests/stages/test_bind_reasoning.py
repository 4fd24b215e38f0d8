from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.stages.bind_reasoning import bind_reasoning
from context_assembler.values.events import Provenance
from context_assembler.values.limits import ModelLimits, ThinkingRule
from context_assembler.values.messages import Message
from context_assembler.values.parts import Opaque, Part, Text, Thinking, ToolCall, ToolResult
from context_assembler.values.readers import Reader
from context_assembler.values.report import ReportEntry
from tests.strategies import broken_histories, paired_conversations

FREE = ModelLimits(
    id="claude-sonnet-5",
    provider="anthropic",
    window_tokens=1_000_000,
    aliases=("claude-sonnet-5-20260601",),
    api_id="claude-sonnet-5",
    asked_id="anthropic/claude-sonnet-5",
)
READER = Reader(provider="anthropic", limits=FREE, account="main")
BOUND = replace(FREE, thinking=ThinkingRule(kinds=("adaptive",), is_prefix_bound=True))

MADE_BY = Provenance(
    provider="anthropic", model="claude-sonnet-5", account="main", prefix_fingerprint="f"
)


def thinking(number: int, *, provider: str | None = "anthropic") -> Thinking:
    block = {"type": "thinking", "thinking": "", "signature": f"E{number}"}
    return Thinking(provider=provider, block=block)


def reply(number: int, made_by: Provenance | None = MADE_BY, *parts: Part) -> Message:
    """Return a reply with signed thinking and text, or with the parts given."""
    said = parts or (thinking(number), Text(f"answer {number}"))
    return Message(role="assistant", parts=said, id=f"a{number}", made_by=made_by)


def ask(number: int) -> Message:
    return Message(role="user", parts=(Text(f"question {number}"),), id=f"u{number}")


def talk(*replies: Message) -> list[Message]:
    return [m for number, answer in enumerate(replies) for m in (ask(number), answer)]


def bind(
    messages: Sequence[Message],
    *,
    provider: str = "anthropic",
    limits: ModelLimits = FREE,
    account: str | None = "main",
    fingerprints: Sequence[str] = (),
) -> tuple[tuple[Message, ...], tuple[ReportEntry, ...]]:
    reader = Reader(provider=provider, limits=limits, account=account)
    return bind_reasoning(messages, reader=reader, fingerprints=fingerprints)


def signed_ids(messages: Sequence[Message]) -> list[str]:
    """Return the ids of the messages that hold signed thinking."""
    return [m.id for m in messages if any(isinstance(p, Thinking) and p.is_signed for p in m.parts)]


REFUSED: dict[str, tuple[Provenance | None, str]] = {
    "a reply of unknown origin": (None, "origin"),
    "another provider": (replace(MADE_BY, provider="gemini"), "provider"),
    "another model": (replace(MADE_BY, model="claude-opus-5-5"), "model"),
    "another account": (replace(MADE_BY, account="other"), "account"),
    "no account": (replace(MADE_BY, account=None), "account"),
}


@pytest.mark.parametrize(("made_by", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_reasoning_of_somebody_else_is_left_out(made_by: Provenance | None, reason: str) -> None:
    messages, entries = bind(talk(reply(0, made_by), reply(1)))

    assert signed_ids(messages) == ["a1"]
    assert messages[1].parts == (Text("answer 0"),)
    assert [(e.rule, e.id, e.decision) for e in entries] == [
        (f"reasoning.{reason}", "a0", "cleared")
    ]


def test_reasoning_in_anothers_block_is_left_out() -> None:
    foreign = reply(0, MADE_BY, thinking(0, provider="gemini"), Text("answer"))

    messages, entries = bind(talk(foreign))

    assert signed_ids(messages) == []
    assert entries[0].rule == "reasoning.provider"


@pytest.mark.parametrize(
    "model",
    ["claude-sonnet-5", "claude-sonnet-5-20260601", "anthropic/claude-sonnet-5"],
)
def test_every_name_of_the_model_counts_as_the_model(model: str) -> None:
    history = talk(reply(0, replace(MADE_BY, model=model)))

    messages, entries = bind(history)

    assert messages == tuple(history)
    assert entries == ()


def test_a_dated_name_counts_as_the_model_that_it_resolves_to() -> None:
    history = talk(reply(0, replace(MADE_BY, model="claude-sonnet-5@x")))

    names = {"claude-sonnet-5@x": "claude-sonnet-5"}

    messages, _ = bind_reasoning(history, reader=replace(READER, resolve_model=names.__getitem__))

    assert signed_ids(messages) == ["a0"]


def test_a_name_that_nobody_knows_is_another_model() -> None:
    names: dict[str, str] = {}
    history = talk(reply(0, replace(MADE_BY, model="claude-forgotten")))

    reader = replace(READER, resolve_model=names.__getitem__)
    messages, entries = bind_reasoning(history, reader=reader)

    assert signed_ids(messages) == []
    assert entries[0].rule == "reasoning.model"


# Who made the reply in the middle of three; which of the others' reasoning stays where the model is
# bound to what stood before.
BETWEEN: dict[str, tuple[Message, list[str]]] = {
    "another model of the same vendor": (
        reply(1, replace(MADE_BY, model="claude-opus-5-5")),
        ["a2"],
    ),
    "another account": (reply(1, replace(MADE_BY, account="other")), ["a2"]),
    "nobody knows whom": (reply(1, None), ["a2"]),
    "another provider": (
        reply(
            1,
            replace(MADE_BY, provider="gemini", model="g"),
            thinking(1, provider="gemini"),
            Text("a"),
        ),
        ["a0", "a2"],
    ),
    "another provider that signs nothing": (
        reply(1, replace(MADE_BY, provider="openai_chat", model="m"), Text("a")),
        ["a0", "a2"],
    ),
}


@pytest.mark.parametrize(("between", "kept"), BETWEEN.values(), ids=BETWEEN.keys())
def test_a_chain_has_no_holes_and_nobody_else_is_a_link_of_it(
    between: Message, kept: list[str]
) -> None:
    history = talk(reply(0), between, reply(2))

    messages, _ = bind(history, limits=BOUND, fingerprints=["f"] * 6)

    assert signed_ids(messages) == kept


@pytest.mark.parametrize("between", [row[0] for row in BETWEEN.values()], ids=BETWEEN.keys())
def test_a_model_that_is_not_bound_to_its_prefix_has_no_chain(between: Message) -> None:
    messages, entries = bind(talk(reply(0), between, reply(2)))

    assert signed_ids(messages) == ["a0", "a2"]
    assert "reasoning.chain" not in {entry.rule for entry in entries}


def test_bound_reasoning_stays_where_what_stands_before_it_is_as_it_was() -> None:
    history = talk(reply(0, replace(MADE_BY, prefix_fingerprint="f1")))

    messages, entries = bind(history, limits=BOUND, fingerprints=["f0", "f1", "f2"])

    assert messages == tuple(history)
    assert all(a is b for a, b in zip(messages, history, strict=True))
    assert entries == ()


BOUND_CASES: dict[str, tuple[list[str | None], list[str], list[str]]] = {
    "all as recorded": (["f1", "f3", "f5"], ["a0", "a1", "a2"], []),
    "the first prefix changed": (["x", "f3", "f5"], ["a1", "a2"], ["prefix"]),
    "a prefix in the middle changed": (["f1", "x", "f5"], ["a2"], ["chain", "prefix"]),
    "the last prefix changed": (["f1", "f3", "x"], [], ["chain", "prefix"]),
    "one was never recorded": ([None, "f3", "f5"], ["a1", "a2"], ["fingerprint"]),
}


@pytest.mark.parametrize(
    ("recorded", "kept", "reasons"), BOUND_CASES.values(), ids=BOUND_CASES.keys()
)
def test_bound_reasoning_is_left_out_up_to_the_last_changed_prefix(
    recorded: list[str | None], kept: list[str], reasons: list[str]
) -> None:
    replies = [reply(n, replace(MADE_BY, prefix_fingerprint=f)) for n, f in enumerate(recorded)]

    messages, entries = bind(talk(*replies), limits=BOUND, fingerprints=[f"f{n}" for n in range(7)])

    assert signed_ids(messages) == kept
    assert [entry.rule for entry in entries] == [f"reasoning.{reason}" for reason in reasons]


def test_bound_reasoning_without_fingerprints_is_left_out() -> None:
    messages, entries = bind(talk(reply(0)), limits=BOUND)

    assert signed_ids(messages) == []
    assert entries[0].rule == "reasoning.fingerprint"


def test_a_provider_that_takes_no_reasoning_gets_none() -> None:
    messages, entries = bind(talk(reply(0), reply(1)), provider="openai_chat")

    assert signed_ids(messages) == []
    assert [entry.rule for entry in entries] == ["reasoning.unsupported"]
    assert entries[0].reason.startswith("2 thinking part(s)")


def test_unsigned_thinking_is_never_sent_and_told_once() -> None:
    plain = [reply(n, MADE_BY, Thinking(text="hm"), Text("answer")) for n in range(3)]

    messages, entries = bind(talk(*plain, reply(3)))

    assert all(m.parts == (Text("answer"),) for m in messages[1:6:2])
    assert signed_ids(messages) == ["a3"]
    assert [(e.rule, e.id, e.decision) for e in entries] == [
        ("reasoning.unsigned", "a2", "cleared")
    ]


def test_unsigned_thinking_leaves_the_signed_beside_it_alone() -> None:
    mixed = reply(0, MADE_BY, Thinking(text="hm"), thinking(0), Text("answer"))

    messages, _ = bind(talk(mixed))

    assert messages[1].parts == (thinking(0), Text("answer"))


def test_calls_and_their_results_stay() -> None:
    call = ToolCall(call_id="c1", name="look")
    result = Message(role="tool", parts=(ToolResult(call_id="c1"),))
    history = [*talk(reply(0, None, thinking(0), call)), result]

    messages, _ = bind(history)

    assert messages[1].parts == (call,)
    assert messages[2] is result


def test_a_message_of_nothing_but_reasoning_goes_with_it() -> None:
    messages, entries = bind([*talk(reply(0, None, thinking(0))), ask(1)])

    assert [message.id for message in messages] == ["u0", "u1"]
    assert [(e.rule, e.id, e.decision) for e in entries] == [
        ("reasoning.origin", "a0", "cleared"),
        ("reasoning.empty", "a0", "dropped"),
    ]


@given(
    history=paired_conversations | broken_histories,
    limits=st.sampled_from([FREE, BOUND]),
    provider=st.sampled_from(["anthropic", "openai_chat"]),
)
@settings(max_examples=120, deadline=None)
def test_what_remains_is_whole_and_ends_the_history_where_it_is_a_chain(
    history: list[Message], limits: ModelLimits, provider: str
) -> None:
    fingerprints = ["f0", "f1"] * len(history)

    messages, _ = bind(history, limits=limits, provider=provider, fingerprints=fingerprints)

    stored, kept = signed_ids(history), signed_ids(messages)
    if limits is BOUND:
        assert kept == stored[len(stored) - len(kept) :]
    whole = {message.id: message for message in history}
    for message in messages:
        signed = [p for p in message.parts if isinstance(p, Thinking)]
        before = [p for p in whole[message.id].parts if isinstance(p, Thinking) and p.is_signed]
        assert signed == (before if message.id in kept else [])


@given(history=paired_conversations, limits=st.sampled_from([FREE, BOUND]))
@settings(max_examples=60, deadline=None)
def test_only_thinking_is_left_out_and_binding_twice_changes_nothing(
    history: list[Message], limits: ModelLimits
) -> None:
    once, _ = bind(history, limits=limits, provider="openai_chat")

    again, entries = bind(once, limits=limits, provider="openai_chat")

    others = [p for m in history for p in m.parts if not isinstance(p, Thinking)]
    assert [part for message in once for part in message.parts] == others
    assert entries == ()
    assert all(a is b for a, b in zip(again, once, strict=True))


# ---- OpenAI Responses ----

GPT = replace(FREE, id="gpt-5.5", provider="openai", aliases=(), api_id="gpt-5.5", asked_id="")
GPT_BOUND = replace(GPT, thinking=ThinkingRule(kinds=("effort",), is_prefix_bound=True))
BY_GPT = replace(MADE_BY, provider="openai_responses", model="gpt-5.5")
COMPACTED = Opaque(
    provider="openai_responses",
    block={"type": "compaction", "encrypted_content": "gAAAA"},
    text="compacted",
)


BY_EFFORT = [(0, "high"), (1, "low"), (2, "high")]


def encrypted(number: int) -> Thinking:
    block = {"type": "reasoning", "id": f"rs_{number}", "encrypted_content": "gAAAA"}
    return Thinking(provider="openai_responses", block=block)


def gpt_reply(number: int, *parts: Part, made_by: Provenance = BY_GPT) -> Message:
    return reply(number, made_by, *(parts or (encrypted(number), Text(f"answer {number}"))))


def bind_gpt(
    messages: Sequence[Message], limits: ModelLimits = GPT, fingerprints: Sequence[str] = ()
) -> tuple[tuple[Message, ...], list[str]]:
    bound, entries = bind(
        messages, provider="openai_responses", limits=limits, fingerprints=fingerprints
    )
    return bound, [f"{entry.id} {entry.rule}" for entry in entries]


def test_encrypted_reasoning_stays_with_its_model_and_account() -> None:
    history = talk(gpt_reply(0), gpt_reply(1))

    messages, rules = bind_gpt(history)

    assert messages == tuple(history)
    assert all(a is b for a, b in zip(messages, history, strict=True))
    assert rules == []


GPT_REFUSED: dict[str, tuple[Provenance, str]] = {
    "another model": (replace(BY_GPT, model="gpt-6-sol"), "model"),
    "another account": (replace(BY_GPT, account="other"), "account"),
    "another protocol": (replace(BY_GPT, provider="openai_chat"), "provider"),
}


@pytest.mark.parametrize(("made_by", "reason"), GPT_REFUSED.values(), ids=GPT_REFUSED.keys())
def test_encrypted_reasoning_of_somebody_else_is_left_out(made_by: Provenance, reason: str) -> None:
    messages, rules = bind_gpt(talk(gpt_reply(0, made_by=made_by), gpt_reply(1)))

    assert signed_ids(messages) == ["a1"]
    assert rules == [f"a0 reasoning.{reason}"]


@pytest.mark.parametrize(("fingerprint", "kept"), [("f1", ["a0"]), ("x", [])])
def test_bound_models_of_openai_compare_the_prefix(fingerprint: str, kept: list[str]) -> None:
    made_by = replace(BY_GPT, prefix_fingerprint=fingerprint)

    messages, _ = bind_gpt(
        talk(gpt_reply(0, made_by=made_by)), GPT_BOUND, fingerprints=["f0", "f1", "f2"]
    )

    assert signed_ids(messages) == kept


@pytest.mark.parametrize("limits", [GPT, GPT_BOUND], ids=["free", "bound"])
def test_openai_judges_each_reply_by_itself(limits: ModelLimits) -> None:
    own = replace(BY_GPT, prefix_fingerprint="f")
    replies = [gpt_reply(0, made_by=own), gpt_reply(1, made_by=replace(own, model="gpt-6-sol"))]

    messages, rules = bind_gpt(
        talk(*replies, gpt_reply(2, made_by=own)), limits, fingerprints=["f"] * 6
    )

    assert signed_ids(messages) == ["a0", "a2"]
    assert rules == ["a1 reasoning.model"]


def test_an_item_of_openai_that_the_server_would_drop_does_not_cost_those_before_it() -> None:
    replies = [gpt_reply(n, made_by=replace(BY_GPT, prefix_fingerprint=f)) for n, f in BY_EFFORT]

    messages, rules = bind_gpt(talk(*replies), GPT_BOUND, fingerprints=["high"] * 6)

    assert signed_ids(messages) == ["a0", "a2"]
    assert rules == ["a1 reasoning.prefix"]


# Whose reasoning is asked for over Chat Completions, and what the row says.
OVER_CHAT: dict[str, tuple[Provenance | None, tuple[str, ...], str]] = {
    "its own over Responses": (BY_GPT, ("openai_responses",), "protocol"),
    "its own, of another account": (
        replace(BY_GPT, account="other"),
        ("openai_responses",),
        "unsupported",
    ),
    "another model's": (replace(BY_GPT, model="o3"), ("openai_responses",), "unsupported"),
    "of a reply from nowhere": (None, ("openai_responses",), "unsupported"),
    "its own where nothing else is spoken": (BY_GPT, (), "unsupported"),
}


@pytest.mark.parametrize(("made_by", "others", "reason"), OVER_CHAT.values(), ids=OVER_CHAT.keys())
def test_chat_completions_takes_no_reasoning_and_the_row_says_what_would(
    made_by: Provenance | None, others: tuple[str, ...], reason: str
) -> None:
    reader = Reader(provider="openai_chat", limits=GPT, account="main", other_protocols=others)
    history = talk(reply(0, made_by, encrypted(0), Text("answer")))

    messages, [row] = bind_reasoning(history, reader=reader)

    assert signed_ids(messages) == []
    assert row.rule == f"reasoning.{reason}"


def test_encrypted_reasoning_that_led_to_nothing_goes_alone() -> None:
    cut = gpt_reply(1, encrypted(1), Text("Well."), encrypted(2), encrypted(3))

    messages, rules = bind_gpt(talk(gpt_reply(0), cut, gpt_reply(2)))

    assert signed_ids(messages) == ["a0", "a1", "a2"]
    assert messages[3].parts == (encrypted(1), Text("Well."))
    assert rules == ["a1 reasoning.unfinished"]


def test_a_reply_of_nothing_but_encrypted_reasoning_goes() -> None:
    messages, rules = bind_gpt([*talk(gpt_reply(0), gpt_reply(1, encrypted(1))), ask(2)])

    assert [message.id for message in messages] == ["u0", "a0", "u1", "u2"]
    assert rules == ["a1 reasoning.unfinished", "a1 reasoning.empty"]


def test_a_compaction_of_another_account_is_told_in_words() -> None:
    other = replace(BY_GPT, account="other")
    history = talk(gpt_reply(0, COMPACTED, made_by=other), gpt_reply(1, COMPACTED))

    messages, rules = bind_gpt(history)

    assert messages[1].parts == (Text("compacted"),)
    assert messages[3] is history[3]
    assert rules == ["a0 reasoning.sealed"]


def test_other_providers_decide_themselves_what_a_compaction_is() -> None:
    history = talk(gpt_reply(0, COMPACTED, made_by=replace(BY_GPT, account="other")))

    messages, _ = bind(history)

    assert messages == tuple(history)
