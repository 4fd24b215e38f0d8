"""Signed reasoning goes back verbatim and complete, to whom it is bound to, or not at all."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler import (
    AssemblerConfig,
    ContextAssembler,
    InMemoryStore,
    PromptSection,
    SessionEvent,
    Text,
    Thinking,
    ToolCall,
    assistant_event,
    read_transcript,
    tool_result_event,
    user_event,
)
from context_assembler.events import Provenance
from tests.core.sessions import OPUS, QUIET, add, assembled, changes, opened, stored, turns
from tests.history.talk import block, call

FREE, BOUND = "claude-opus-4-8", OPUS
MADE_BY: dict[str, Any] = {"provider": "anthropic", "model": FREE, "account": "main"}
MAIN = {**QUIET, "account": "main"}


def thinking(name: str, provider: str = "anthropic") -> Thinking:
    signed: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": name}
    if provider == "openai_responses":
        signed = {"type": "reasoning", "id": f"rs_{name}", "summary": [], "encrypted_content": name}
    return Thinking(provider=provider, block=signed)


def reply(name: str, **made_by: Any) -> SessionEvent:
    """Return a reply with signed thinking of that name; `model` "" says that nobody knows whose."""
    source = {**MADE_BY, **made_by}
    parts = (thinking(name, source.pop("block", source["provider"])), Text(f"answer {name}"))
    return assistant_event(parts, made_by=Provenance(**source) if source["model"] else None)


def kept(context: Any, *names: str) -> list[str]:
    """Return which signatures are in the payload."""
    payload = json.dumps(context.to_request())
    return [name for name in names if f'"{name}"' in payload]


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "a reply of unknown origin": ({"model": ""}, "origin"),
    "another provider": ({"provider": "gemini"}, "provider"),
    "another model": ({"model": "claude-opus-5-5"}, "model"),
    "a model that nobody knows": ({"model": "claude-forgotten"}, "model"),
    "another account": ({"account": "other"}, "account"),
    "no account": ({"account": None}, "account"),
}


@pytest.mark.parametrize(("made_by", "reason"), OTHERS.values(), ids=OTHERS.keys())
def test_reasoning_of_somebody_else_is_left_out(made_by: dict[str, Any], reason: str) -> None:
    context = assembled(
        "U a", reply("E0", **made_by), "U b", reply("E1"), "U c", model=FREE, config=MAIN
    )

    assert kept(context, "E0", "E1") == ["E1"]
    assert "answer E0" in turns(context)[1]
    assert changes(context) == [f"reasoning.{reason}"]


@pytest.mark.parametrize("model", [FREE, "anthropic/claude-opus-4-8", "claude-opus-4-8@20260401"])
def test_every_name_of_the_model_counts_as_the_model(model: str) -> None:
    made_by = {"model": model}

    assert kept(assembled("U a", reply("E0", **made_by), "U b", model=FREE, config=MAIN), "E0")


# Who made the reply in the middle of three; whose reasoning stays.
BETWEEN: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    # made by, kept by a model that is bound to its prefix, by one that is not
    "another model": ({"model": "claude-haiku-4-5"}, ["E2"], ["E0", "E2"]),
    "another account": ({"account": "other"}, ["E2"], ["E0", "E2"]),
    "nobody knows whom": ({"model": ""}, ["E2"], ["E0", "E2"]),
    "another provider": ({"provider": "gemini", "model": "g"}, ["E0", "E2"], ["E0", "E2"]),
}


@pytest.mark.parametrize("model", [BOUND, FREE])
@pytest.mark.parametrize(("made_by", "bound", "free"), BETWEEN.values(), ids=BETWEEN.keys())
def test_a_chain_has_no_holes_and_nobody_else_is_a_link_of_it(
    model: str, made_by: dict[str, Any], bound: list[str], free: list[str]
) -> None:
    store = stored()
    for name, source in (("E0", {}), ("E1", made_by), ("E2", {})):
        asked(store, name, model, **source)

    context = opened(store, **MAIN).assemble_sync("s", model=model)

    assert kept(context, "E0", "E1", "E2") == (bound if model == BOUND else free)
    assert ("reasoning.chain" in changes(context)) == (model == BOUND and bound == ["E2"])


def asked(store: InMemoryStore, name: str, asks: str, /, **made_by: Any) -> None:
    """Add a question and its reply, bound to what was sent; `prefix` overrides to what."""
    add(store, f"U question {name}")
    sent = opened(store, **MAIN).assemble_sync("s", model=asks).sent()
    add(store, reply(name, **{"model": asks, "prefix": sent.row.prefix, **made_by}))
    add(store, *(["U last"] if name == "E2" else []))


PREFIXES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "all as recorded": ({}, ["E0", "E1", "E2"], []),
    "the first prefix changed": ({"E0": "x"}, ["E1", "E2"], ["prefix"]),
    "a prefix in the middle changed": ({"E1": "x"}, ["E2"], ["chain", "prefix"]),
    "the last prefix changed": ({"E2": "x"}, [], ["chain", "prefix"]),
    "one was never recorded": ({"E0": None}, ["E1", "E2"], ["prefix_unknown"]),
}


@pytest.mark.parametrize(
    ("given_prefixes", "names", "reasons"), PREFIXES.values(), ids=PREFIXES.keys()
)
def test_bound_reasoning_is_left_out_up_to_the_last_changed_prefix(
    given_prefixes: dict[str, Any], names: list[str], reasons: list[str]
) -> None:
    store = stored()
    for name in ("E0", "E1", "E2"):
        prefix = {"prefix": given_prefixes[name]} if name in given_prefixes else {}
        asked(store, name, BOUND, **prefix)

    context = opened(store, **MAIN).assemble_sync("s", model=BOUND)

    assert kept(context, "E0", "E1", "E2") == names
    assert sorted(changes(context)) == [f"reasoning.{reason}" for reason in reasons]
    assert context.check() == []


def test_what_stands_in_front_of_bound_reasoning_may_not_change() -> None:
    store = stored()
    for name in ("E0", "E1", "E2"):
        asked(store, name, BOUND)
    section = PromptSection(name="more", content="Be brief.")
    config = AssemblerConfig(**MAIN)

    same = ContextAssembler(store, config=config).assemble_sync("s", model=BOUND)
    other = ContextAssembler(store, config=config, prompt_sections=[section])
    changed = other.assemble_sync("s", model=BOUND)

    assert kept(same, "E0", "E1", "E2") == ["E0", "E1", "E2"]
    assert kept(changed, "E0", "E1", "E2") == []
    assert changes(changed) == ["reasoning.prefix"]
    [entry] = [one for one in changed.report.entries if one.rule == "reasoning.prefix"]
    assert entry.reason.startswith("3 thinking part(s)")


def test_openai_judges_each_reply_by_itself() -> None:
    own = {"provider": "openai_responses", "model": "gpt-6-sol"}
    events = [reply("E0", **own), reply("E1", **{**own, "model": "gpt-5.5"}), reply("E2", **own)]

    context = assembled(
        "U a", events[0], "U b", events[1], "U c", events[2], "U d", model="gpt-6-sol", config=MAIN
    )

    assert kept(context, "E0", "E1", "E2") == ["E0", "E2"]
    assert changes(context) == ["reasoning.model"]


def test_a_reply_that_ends_in_its_reasoning_led_to_nothing() -> None:
    made_by = Provenance(provider="openai_responses", model="gpt-6-sol", account="main")
    parts = (Text("Let me see."), thinking("E0", "openai_responses"))

    context = assembled(
        "U a", assistant_event(parts, made_by=made_by), "U b", model="gpt-6-sol", config=MAIN
    )

    assert kept(context, "E0") == []
    assert changes(context) == ["reasoning.unfinished"]


def test_chat_completions_takes_no_reasoning_and_one_entry_says_so() -> None:
    events = [reply(name, provider="openai_responses", model="gpt-5") for name in ("E0", "E1")]
    chat = assembled("U a", events[0], "U b", events[1], "U c", model="gpt-5", config=MAIN)

    responses = chat.for_provider("openai_responses")

    [entry] = [entry for entry in chat.report.entries if entry.decision == "cleared"]
    assert (kept(responses, "E0", "E1"), kept(chat, "E0", "E1")) == (["E0", "E1"], [])
    assert (entry.rule, entry.reason[:22]) == ("reasoning.protocol", "2 thinking part(s), th")
    assert "to_openai_responses()" in entry.reason


# ---- Gemini: signatures hang on texts and calls ----

SIGNED: tuple[Any, ...] = (Text("Reading.", signature="E0"), call("c1", signature="E1"), call("c2"))
PICTURE = {"inline_data": {"mime_type": "image/png", "data": "aGk="}, "thought_signature": "E0"}
GEMINI: dict[str, tuple[dict[str, Any], str]] = {
    "its own": ({}, ""),
    "another model": ({"model": "gemini-3.8-flash"}, "model"),
    "another account": ({"account": "other"}, "account"),
    "another provider": ({"provider": "openai_chat"}, "provider"),
}


@pytest.mark.parametrize(("made_by", "reason"), GEMINI.values(), ids=GEMINI.keys())
@pytest.mark.parametrize("parts", [SIGNED, (block("gemini", **PICTURE), Text("x"))])
def test_a_signature_goes_and_what_it_hangs_on_stays(
    parts: tuple[Any, ...], made_by: dict[str, Any], reason: str
) -> None:
    source: dict[str, Any] = {"provider": "gemini", "model": "gemini-4-argon", "account": "main"}
    source |= made_by
    answer = assistant_event(parts, made_by=Provenance(**source))
    results = [tool_result_event(name, "ok") for name in ("c1", "c2")]

    context = assembled(
        "U a", answer, *results[: len(parts) - 1], "U b", model="gemini-4-argon", config=MAIN
    )

    assert bool(kept(context, "E0", "E1")) == (not reason)
    said = json.dumps(context.to_request())
    assert "Reading." in said or "aGk=" in said
    assert (
        [one for one in changes(context) if "reasoning" in one] == [f"reasoning.{reason}"]
    ) == bool(reason)


# ---- plain thoughts ----

DEEPSEEK = "deepseek-v4-pro"


@pytest.mark.parametrize(
    ("model", "made_by_model", "calls", "goes_back"),
    [
        (DEEPSEEK, DEEPSEEK, True, True),
        (DEEPSEEK, DEEPSEEK, False, True),
        ("kimi-k2.6", "kimi-k2.6", False, False),
        (DEEPSEEK, "deepseek-flash", True, False),
        ("gpt-4.1", "gpt-4.1", True, False),
    ],
)
def test_a_model_gets_back_its_own_plain_thoughts_if_its_row_says_so(
    model: str, made_by_model: str, *, calls: bool, goes_back: bool
) -> None:
    made_by = Provenance(provider="openai_chat", model=made_by_model)
    parts = (
        Thinking(text="need f"),
        *([ToolCall(call_id="c1", name="f")] if calls else [Text("x")]),
    )
    last = "T[c1] 1" if calls else "U b"

    context = assembled("U a", assistant_event(parts, made_by=made_by), last, model=model)
    bare = assembled("U a", assistant_event(parts[1:], made_by=made_by), last, model=model)

    sent = [message.get("reasoning_content") for message in context.to_request()["messages"]]
    assert sent.count("need f") == goes_back
    assert changes(context) == ["reasoning.unsigned"] * (not goes_back)
    grown = context.metadata.ledger.used_tokens > bare.metadata.ledger.used_tokens
    assert grown == goes_back


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (DEEPSEEK, ["hm", "need f"]),
        ("kimi-k2.6", [None, "need f"]),
        ("gpt-4.1", [None, None]),
        ("claude-opus-4-8", [None, None]),
    ],
)
def test_plain_thoughts_of_an_imported_request_go_back_to_models_that_want_them(
    model: str, says: list[str | None]
) -> None:
    called = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = {"role": "user", "content": "a"}
    plain = {"role": "assistant", "content": "b", "reasoning_content": "hm"}
    calls = {"role": "assistant", "reasoning": "need f", "tool_calls": [called]}
    answer = {"role": "tool", "tool_call_id": "c1", "content": "1"}
    read = read_transcript([asked, plain, asked, calls, answer], format="openai_chat")

    context = assembled(*read.events, model=model)

    replies = [one for one in context.to_request()["messages"] if one["role"] == "assistant"]
    assert [one.get("reasoning_content") for one in replies] == says


# ---- loops ----

steps = st.lists(
    st.tuples(st.sampled_from(["calls", "calls", "says", "lost"]), st.integers(1, 200)),
    min_size=4,
    max_size=12,
)


@pytest.mark.parametrize(
    ("model", "provider"), [(BOUND, "anthropic"), ("gpt-6.2-sol", "openai_responses")]
)
@given(script=steps, room=st.none() | st.integers(900, 3000))
@settings(max_examples=20)
def test_over_any_loop_signed_reasoning_stays_until_the_history_is_cut(
    model: str, provider: str, script: list[tuple[str, int]], room: int | None
) -> None:
    store, before, cut = stored("U Find a way to Faro."), [""], 0
    assembler = opened(store, **MAIN)
    for number, (act, size) in enumerate(script):
        context = assembler.assemble_sync(
            "s", model=model, max_tokens=300, max_context_tokens=room and room + 300
        )
        sent = context.sent()
        seen = kept(context, *(f"E{n}" for n in range(number)))
        anew = opened(store, **MAIN).assemble_sync(
            "s", model=model, max_tokens=300, max_context_tokens=room and room + 300
        )
        assert anew.to_request() == context.to_request()
        assert context.check() == []
        if context.metadata.cut_id == cut:
            assert seen[: len(before)] == before or before == [""]
        before, cut = seen, context.metadata.cut_id
        if act == "lost":
            continue
        row = sent.row
        made_by = Provenance(
            provider=provider, model=row.model, account=row.account, prefix=row.prefix
        )
        parts: tuple[Any, ...] = (thinking(f"E{number}", provider), Text("step"))
        if act == "calls":
            parts = (*parts, call(f"c{number}"))
        answer = SessionEvent(
            type="assistant",
            parts=parts,
            origin="model",
            answers_seq=row.answers_seq,
            made_by=made_by,
        )
        store.append_now("s", [*sent.notes, answer], call=row, texts=sent.texts)
        follow = (
            tool_result_event(f"c{number}", "word " * size) if act == "calls" else user_event("on")
        )
        store.append_now("s", [follow])
