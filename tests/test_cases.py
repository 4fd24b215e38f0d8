"""Small sessions that break trimmers, in every strategy and for both providers.

What must hold of a payload is written out here once more (`breaches`), in the words of the promise
and over what would be sent, so that the library's own rules are not their only judge.
"""

import base64
import hashlib
import json
import os
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import chain, groupby, pairwise, product
from pathlib import Path
from typing import Any, Final

import pytest

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ContextAssembler,
    ContextOverflowError,
    Image,
    Message,
    PromptSection,
    SessionEvent,
    TokenCounter,
    assistant_event,
    get_model_limits,
    open_store,
    system_event,
    tool_result_event,
    user_event,
)
from context_assembler.testing import event_log
from context_assembler.truncation import TRUNCATIONS
from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Base64Source

MODELS: Final = {"anthropic": "claude-opus-5-5", "openai_chat": "gpt-5.5"}
TAKES_PREFILL: Final = "claude-haiku-4-5"
MARKER: Final = re.compile(r"\[… shortened: ([\d,]+) tokens in full …\]")
SHARES: Final = tuple(percent / 100 for percent in range(4, 101, 6))

every_provider = pytest.mark.parametrize("provider", MODELS)
every_way = pytest.mark.parametrize(("strategy", "provider"), list(product(TRUNCATIONS, MODELS)))


# ---- the promise, in words of its own ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One thing said in a payload: by the user, the assistant, the system, or a set of tools."""

    role: str
    texts: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    has_more: bool = False  # pictures, thinking, blocks of the provider's own

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    @property
    def is_empty(self) -> bool:
        return not (self.calls or self.results or self.has_more or self.text.strip())


def _claude_said(payload: Mapping[str, Any]) -> Iterator[Said]:
    for message in payload["messages"]:
        for is_result, run in groupby(message["content"], lambda b: b["type"] == "tool_result"):
            blocks = list(run)
            texts = tuple(block["text"] for block in blocks if block["type"] == "text")
            calls = tuple(block["id"] for block in blocks if block["type"] == "tool_use")
            if is_result and message["role"] == "user":
                results = tuple(block["tool_use_id"] for block in blocks)
                yield Said(role="tool", results=results)
            else:
                has_more = len(texts) + len(calls) < len(blocks)
                yield Said(role=message["role"], texts=texts, calls=calls, has_more=has_more)
        if not message["content"]:
            yield Said(role=message["role"])


def _chat_said(payload: Mapping[str, Any]) -> Iterator[Said]:
    for is_tool, run in groupby(payload["messages"], lambda message: message["role"] == "tool"):
        if is_tool:
            yield Said(role="tool", results=tuple(message["tool_call_id"] for message in run))
            continue
        for message in run:
            content = message.get("content") or ()
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            texts = tuple(part["text"] for part in parts if part["type"] == "text")
            yield Said(
                role="system" if message["role"] == "developer" else message["role"],
                texts=texts,
                calls=tuple(call["id"] for call in message.get("tool_calls", ())),
                has_more=len(texts) < len(parts),
            )


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[Said]]]] = {
    "anthropic": _claude_said,
    "openai_chat": _chat_said,
}


def said_in(payload: Mapping[str, Any], provider: str) -> list[Said]:
    """Return what a payload says, in its order."""
    return list(_READERS[provider](payload))


def system_of(payload: Mapping[str, Any], provider: str) -> str:
    """Return the system prompt as it is sent."""
    if provider == "anthropic":
        return "".join(block["text"] for block in payload.get("system", ()))
    first = said_in(payload, provider)[0]
    return first.text if first.role == "system" else ""


def strings_in(value: Any) -> Iterator[str]:
    """Yield every string of a payload, keys among them."""
    if isinstance(value, str):
        yield value
    elif is_object(value):
        yield from chain(value, *(strings_in(inner) for inner in value.values()))
    elif is_array(value):
        yield from chain(*map(strings_in, value))


def _pair_breaches(said: Sequence[Said]) -> Iterator[str]:
    nobody = Said(role="nobody")
    for before, behind in pairwise([nobody, *said, nobody]):
        if Counter(before.calls) != Counter(behind.results):
            yield f"calls {before.calls} are followed by results {behind.results}"
        if len(set(before.calls)) < len(before.calls):
            yield f"ids are used twice at once: {before.calls}"
        if before.calls and before.role != "assistant":
            yield f"a call by the {before.role}"


def breaches(payload: Mapping[str, Any], provider: str) -> list[str]:
    """Return what a payload breaks of the promise that every provider can take it."""
    said = said_in(payload, provider)
    spoken = [one for one in said if one.role != "system"]
    if not spoken:
        return ["nobody says anything"]
    wrong = list(_pair_breaches(said))
    if spoken[0].role != "user":
        wrong.append(f"the {spoken[0].role} speaks first")
    if spoken[-1].role not in ("user", "tool"):
        wrong.append(f"the {spoken[-1].role} speaks last")
    wrong += [f"an empty message of the {one.role}" for one in said if one.is_empty]
    for text in strings_in(payload):
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            wrong.append(f"no provider reads {text!r}")
    return wrong


def recount(payload: Mapping[str, Any], *, model: str) -> int:
    """Count every text that the model reads, with the frame that stands around it.

    4 tokens a message of Chat Completions, as published. For Anthropic the least that recorded
    requests were charged: 3 a message, 12 a call, 15 an argument of it, 22 a result.
    """
    count = _counter(model).count_text
    if get_model_limits(model).provider == "anthropic":
        frame = 3 * len(payload["messages"]) + sum(map(_claude_frame, _blocks(payload)))
    else:
        frame = 4 * len(payload["messages"])
    counted = sum(map(count, _texts_read(payload["messages"]))) + frame + 3
    return counted + sum(count(block["text"]) for block in payload.get("system", ()))


def _blocks(payload: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for message in payload["messages"]:
        if is_array(message["content"]):
            yield from filter(is_object, message["content"])


def _claude_frame(block: Mapping[str, Any]) -> int:
    match block.get("type"):
        case "tool_use":
            return 12 + 15 * len(block["input"])
        case "tool_result":
            return 22
        case _:
            return 0


@cache
def _counter(model: str) -> TokenCounter:
    return TokenCounter(get_model_limits(model))


def _texts_read(value: Any) -> Iterator[str]:
    if is_array(value):
        yield from chain(*map(_texts_read, value))
    elif is_object(value):
        for key in ("content", "text", "name", "arguments", "tool_calls", "function"):
            inner = value.get(key)
            yield from [inner] if isinstance(inner, str) else _texts_read(inner)
        if value.get("type") == "tool_use":  # each argument stands by itself, its text unescaped
            for name, given in value["input"].items():
                yield name
                yield given if isinstance(given, str) else _compact(given)


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def wire_of(context: AssembledContext) -> str:
    """Return which of the two wires the context is sent over."""
    return "anthropic" if context.provider == "anthropic" else "openai_chat"


def sent(context: AssembledContext) -> dict[str, Any]:
    """Return the payload for that wire."""
    return context.to_request(wire_of(context))


def assert_promised(
    context: AssembledContext, *, budget: int | None = None, system: str = "", asked: str = ""
) -> None:
    """Assert what holds of every context: valid everywhere, within budget, nothing vital lost."""
    for provider in MODELS:
        payload = context.to_request(provider)
        said = said_in(payload, provider)
        assert breaches(payload, provider) == []
        assert [str(v) for v in context.check(provider) if v.level == "refused"] == []
        assert system in system_of(payload, provider)
        assert any(one.role == "user" and asked in one.text for one in said)
    assert context.check(wire_of(context)) == []
    ledger = context.metadata.ledger
    assert ledger.used_tokens <= (ledger.budget_tokens if budget is None else budget)
    tools = ledger.tokens_of("tools", "overhead") - 3
    recounted = recount(sent(context), model=context.metadata.model_id) + tools
    assert recounted <= ledger.budget_tokens


# ---- assembling ----


def look_up(key: str = "") -> str:
    """Look something up."""
    return key


async def assemble(
    events: Iterable[SessionEvent],
    *,
    model: str,
    given: Mapping[str, Any] | None = None,
    **options: Any,
) -> AssembledContext:
    """Assemble a session of these events; `given` are arguments of the assembler."""
    arguments: dict[str, Any] = {"tools": [look_up], **(given or {})}
    assembler = ContextAssembler(**arguments)
    await assembler.sessions.append("s", [replace(event, id="", seq=0) for event in events])
    return await assembler.assemble("s", model=model, **options)


async def squeeze(
    events: Sequence[SessionEvent], *, strategy: str, provider: str
) -> list[AssembledContext]:
    """Assemble within ever more of the room that the whole history takes; where it fits at all."""
    model = MODELS[provider]
    whole = (await assemble(events, model=model)).metadata.ledger
    contexts: list[AssembledContext] = []
    refusals: list[ContextOverflowError] = []
    for share in SHARES:
        budget = whole.fixed_tokens + int(share * (whole.used_tokens - whole.fixed_tokens))
        bounds: dict[str, Any] = {"max_context_tokens": budget, "truncation_strategy": strategy}
        try:
            context = await assemble(events, model=model, **bounds)
        except ContextOverflowError as error:
            refusals.append(error)
            continue
        assert context.metadata.ledger.used_tokens <= budget
        contexts.append(context)
    assert all(error.needed_tokens > error.budget_tokens for error in refusals)
    return contexts


def as_events(messages: Iterable[Message]) -> Iterator[SessionEvent]:
    """Yield the events of a session in which all of this was said by others."""
    for message in messages:
        match message.role:
            case "assistant":
                yield assistant_event(message.parts, made_by=message.made_by)
            case "tool":
                for result in message.tool_results:
                    yield tool_result_event(
                        result.call_id,
                        result.content,
                        is_error=result.is_error,
                        tool_name=result.tool_name,
                    )
            case "user":
                yield user_event(message.parts)
            case "system":
                yield system_event(message.parts, note=message.note)


def words(count: int, word: str = "row") -> str:
    return " ".join(f"{word}{number}" for number in range(count))


def calls_of(context: AssembledContext) -> list[str]:
    return [call.call_id for message in context.messages for call in message.tool_calls]


def rules_of(context: AssembledContext) -> set[str]:
    return {entry.rule for entry in context.report.entries if entry.decision != "kept"}


# ---- the checks find what they are for ----

BROKEN_CHATS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "the assistant first": ([{"role": "assistant", "content": "a"}], "speaks first"),
    "a lonely result": (
        [{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "1", "content": "b"}],
        "followed by results ('1',)",
    ),
    "a lonely call": (
        [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"id": "1"}]}],
        "calls ('1',)",
    ),
    "empty": ([{"role": "user", "content": ""}], "empty message"),
    "the assistant last": (
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        "speaks last",
    ),
    "a lone surrogate": ([{"role": "user", "content": "\ud800"}], "no provider reads"),
    "instructions alone": ([{"role": "developer", "content": "a"}], "nobody says"),
}


@pytest.mark.parametrize(
    ("messages", "complaint"), BROKEN_CHATS.values(), ids=list(BROKEN_CHATS.keys())
)
def test_the_checker_sees_what_is_broken(messages: list[dict[str, Any]], complaint: str) -> None:
    found = breaches({"messages": messages}, "openai_chat")

    assert any(complaint in breach for breach in found), found


def test_the_checker_sees_a_result_behind_text() -> None:
    call: dict[str, Any] = {"type": "tool_use", "id": "1", "name": "n", "input": {}}
    late = [{"type": "text", "text": "a"}, {"type": "tool_result", "tool_use_id": "1"}]
    opening = {"role": "user", "content": [{"type": "text", "text": "a"}]}
    messages: list[Any] = [
        opening,
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": late},
    ]

    assert len(breaches({"messages": messages}, "anthropic")) == 2


# ---- calls and results ----


@every_way
async def test_a_call_and_its_result_stay_or_go_together(strategy: str, provider: str) -> None:
    call = f'A[c1:look_up {{"key": "{"k" * 400}"}}]'
    events = event_log(
        "S Be brief.", f"U {words(60)}", call, "T[c1] found", "A ok", "U next one", start=None
    )

    contexts = await squeeze(events, strategy=strategy, provider=provider)

    for context in contexts:
        assert_promised(context, system="Be brief.", asked="next one")
    assert {len(calls_of(context)) for context in contexts} == {0, 1}


@every_way
async def test_a_long_run_on_one_task_keeps_the_task_and_the_newest_steps(
    strategy: str, provider: str
) -> None:
    steps = [(f"A[c{n}]", f"T[c{n}] {words(120)}") for n in range(14)]
    events = event_log("S Be brief.", "U Move the invoices.", *chain(*steps), start=None)

    contexts = await squeeze(events, strategy=strategy, provider=provider)

    for context in contexts:
        assert_promised(context, system="Be brief.", asked="Move the invoices.")
        kept = calls_of(context)
        assert kept == [f"c{n}" for n in range(14 - len(kept), 14)]
        assert kept
    assert len({len(calls_of(context)) for context in contexts}) > 3


@every_way
async def test_a_huge_exchange_in_flight_is_shortened_and_tells_its_size(
    strategy: str, provider: str
) -> None:
    model = MODELS[provider]
    result = words(1700)
    events = event_log(
        "S Be brief.", "U old", "A older", "U Do it.", "A[c9]", f"T[c9] {result}", start=None
    )
    fixed = (await assemble(events, model=model)).metadata.ledger.fixed_tokens

    context = await assemble(
        events, model=model, max_context_tokens=fixed + 800, truncation_strategy=strategy
    )

    assert_promised(context, budget=fixed + 800, system="Be brief.", asked="Do it.")
    assert calls_of(context) == ["c9"]
    text = context.messages[-1].tool_results[0].text
    assert text.startswith("row0 row1")
    assert text.endswith("row1699")
    [told] = MARKER.findall(text)
    assert int(told.replace(",", "")) == pytest.approx(_counter(model).count_text(result), rel=0.01)


@every_way
async def test_where_not_even_a_stub_fits_the_error_names_the_call(
    strategy: str, provider: str
) -> None:
    model = MODELS[provider]
    events = event_log("U Do it.", "A[c9]", f"T[c9] {words(1700)}", start=None)
    fixed = (await assemble(events, model=model)).metadata.ledger.fixed_tokens

    with pytest.raises(ContextOverflowError, match="c9") as caught:
        await assemble(
            events, model=model, max_context_tokens=fixed + 120, truncation_strategy=strategy
        )

    assert "c9" in caught.value.culprit
    assert sum(caught.value.sizes_tokens.values()) == caught.value.needed_tokens


@every_way
async def test_an_interrupted_call_is_answered_by_an_error_and_not_erased(
    strategy: str, provider: str
) -> None:
    events = event_log("U Write it.", "A[c1:look_up]", "U Go on.", start=None)

    context = await assemble(events, model=MODELS[provider], truncation_strategy=strategy)

    assert_promised(context, asked="Go on.")
    assert [message.role for message in context.messages] == ["user", "assistant", "tool", "user"]
    [result] = context.messages[2].tool_results
    assert (result.call_id, result.is_error) == ("c1", True)
    assert "may or may not have run" in result.text
    assert rules_of(context) == {"repair.missing_result"}


@every_provider
async def test_what_was_repaired_needs_no_repair(provider: str) -> None:
    events = event_log("U Write it.", "A[c1:look_up]", "U Go on.", start=None)
    repaired = await assemble(events, model=MODELS[provider])

    again = await assemble(as_events(repaired.messages), model=MODELS[provider])

    assert sent(again) == sent(repaired)
    assert not again.report.changed


@every_way
async def test_an_id_used_in_two_turns_pairs_each_call_with_its_own_result(
    strategy: str, provider: str
) -> None:
    events = event_log(
        "U a", "A[c1]", "T[c1] one", "A ok", "U b", "A[c1]", "T[c1] two", "U c", start=None
    )

    context = await assemble(events, model=MODELS[provider], truncation_strategy=strategy)

    assert_promised(context, asked="c")
    assert [m.tool_results[0].text for m in context.messages if m.role == "tool"] == ["one", "two"]
    assert not context.report.changed


@every_way
async def test_of_two_calls_with_one_id_only_the_unanswered_one_gets_an_error(
    strategy: str, provider: str
) -> None:
    events = event_log("U a", "A[c1]", "T[c1] one", "A ok", "U b", "A[c1]", "U c", start=None)

    context = await assemble(events, model=MODELS[provider], truncation_strategy=strategy)

    assert_promised(context, asked="c")
    first, second = [m.tool_results[0] for m in context.messages if m.role == "tool"]
    assert (first.text, first.is_error) == ("one", False)
    assert second.is_error


@every_way
@pytest.mark.parametrize("nothing", ["", " \n", ()], ids=["no text", "blank", "no parts"])
async def test_an_aborted_empty_reply_goes_and_the_real_answer_stays(
    strategy: str, provider: str, nothing: Any
) -> None:
    events = [user_event("hi"), assistant_event("Here it is."), assistant_event(nothing)]

    context = await assemble(events, model=MODELS[provider], truncation_strategy=strategy)

    assert_promised(context, asked="hi")
    assert [message.text for message in context.messages][:2] == ["hi", "Here it is."]
    assert [message.role for message in context.messages] == ["user", "assistant", "user"]
    assert "repair.prefill" in rules_of(context)


async def test_a_model_that_takes_prefill_gets_no_turn_behind_the_answer() -> None:
    events = [user_event("hi"), assistant_event("Here it is."), assistant_event("")]

    context = await assemble(events, model=TAKES_PREFILL)

    assert [message.text for message in context.messages] == ["hi", "Here it is."]
    assert context.check() == []


@every_way
async def test_a_history_that_fits_is_sent_as_it_is(strategy: str, provider: str) -> None:
    model = MODELS[provider]
    events = event_log("S Be brief.", "U a", "A[c1]", "T[c1] b", "A c", "U d", start=None)
    plain = sent(await assemble(events, model=model))

    context = await assemble(
        events, model=model, max_context_tokens=100_000, truncation_strategy=strategy
    )

    assert json.dumps(sent(context)) == json.dumps(plain)
    assert [message.parts for message in context.messages] == [event.parts for event in events[1:]]
    assert not context.report.changed
    assert_promised(context, system="Be brief.", asked="d")


async def test_a_history_that_ends_on_an_answer_is_unchanged_where_the_model_takes_that() -> None:
    events = event_log("S Be brief.", "U a", "A[c1]", "T[c1] b", "A c", start=None)

    context = await assemble(events, model=TAKES_PREFILL, max_context_tokens=100_000)

    assert [message.parts for message in context.messages] == [event.parts for event in events[1:]]
    assert not context.report.changed


# ---- counting and budgets ----


def of_size(tokens: int, *, model: str) -> str:
    """Return a text of about so many tokens."""
    return "rule " * (1000 * tokens // _counter(model).count_text("rule " * 1000))


@every_provider
async def test_a_fixed_part_over_the_trigger_asks_for_no_compaction_ever(provider: str) -> None:
    model = MODELS[provider]
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    text = of_size(2_040, model=model)
    tools = [{"name": f"tool_{n}", "description": text, "input_schema": schema} for n in range(10)]
    rules = PromptSection(name="rules", content=of_size(9_000, model=model), is_required=True)
    assembler = ContextAssembler(
        tools=tools,
        prompt_sections=[rules],
        config=AssemblerConfig(compaction={"trigger_share": 0.85}),
    )
    await assembler.add_user("s", "hi")
    options: dict[str, Any] = {"model": model, "max_context_tokens": 32_768 - 4_096}

    checks = [await assembler.check_compaction("s", **options) for _ in range(3)]

    assert checks[0] == checks[1] == checks[2]
    check = checks[0]
    assert (check.needed, check.feasible, check.reason) == (False, False, None)
    assert check.details["system_tokens"] == pytest.approx(9_000, rel=0.1)
    assert check.details["tools_tokens"] == pytest.approx(20_400, rel=0.1)
    assert {culprit["kind"] for culprit in check.details["culprits"]} >= {"system", "tools"}
    with pytest.raises(ContextOverflowError, match="tool"):
        await assembler.assemble("s", **options)


LANGUAGES: Final = {
    "Chinese": "昨晚的大风把院子里的两棵树都吹倒了。",
    "Chinese, traditional": "會議改到星期三下午請先把報告寄給我。",
    "Japanese": "明日の会議は三階の小さな部屋で十時から始まります。",
    "Hangul": "어제 저녁에 친구들과 강가에서 천천히 산책했습니다.",
    "Russian": "Вчера вечером мы долго гуляли вдоль реки и разговаривали.",
    "English": "Yesterday evening we took a long walk along the river and talked.",
    "emoji": "🎉🚀😀👍🏽 ❤️🔥 🙏🐍 ",
    "mixed": "The build 失败了 at step 三: Проверьте log, 다시 시도 😀. ",
}


@pytest.mark.parametrize("text", LANGUAGES.values(), ids=list(LANGUAGES.keys()))
async def test_an_estimate_is_near_the_real_count_in_every_script(text: str) -> None:
    counts: list[int] = []
    for mode in ("exact", "estimate"):
        given = {"config": AssemblerConfig(token_counter=mode)}
        context = await assemble([user_event(text * 100)], model="gpt-5.5", given=given)
        counts.append(context.metadata.ledger.tokens_of("history"))

    exact, estimated = counts
    assert estimated == pytest.approx(exact, rel=0.25)


def picture(*, kilobytes: int) -> Image:
    """Return a PNG of 1200 × 800 with so much behind its header."""
    size = struct.pack(">II", 1200, 800)
    data = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size + b"\x08\x02\0\0\0" + noise(kilobytes * 768)
    return Image(source=Base64Source(media_type="image/png", data=base64.b64encode(data).decode()))


def noise(length: int) -> bytes:
    blocks = (hashlib.sha256(str(n).encode()).digest() for n in range(length // 32 + 1))
    return b"".join(blocks)[:length]


@every_provider
async def test_a_picture_costs_by_its_size_and_not_by_its_bytes(provider: str) -> None:
    event = user_event((picture(kilobytes=1200),))

    context = await assemble([user_event("Look:"), event], model=MODELS[provider])

    assert 100 < context.metadata.ledger.tokens_of("history") < 5_000
    assert_promised(context, asked="Look:")


@every_provider
async def test_base64_inside_text_counts_as_the_text_that_it_is(provider: str) -> None:
    run = base64.b64encode(noise(75_000)).decode()
    events = [*event_log("U Read it.", "A[c1]", start=None), tool_result_event("c1", run)]

    context = await assemble(events, model=MODELS[provider])

    assert len(run) == 100_000
    assert 50_000 <= context.metadata.ledger.tokens_of("history") <= 105_000


@every_way
async def test_a_message_over_the_window_is_shortened_where_that_is_allowed(
    strategy: str, provider: str
) -> None:
    model = MODELS[provider]
    events = event_log("S Be brief.", f"U {words(5000)}", start=None)
    fixed = (await assemble(events, model=model)).metadata.ledger.fixed_tokens
    options: dict[str, Any] = {
        "model": model,
        "max_context_tokens": fixed + 450,
        "truncation_strategy": strategy,
    }

    context = await assemble(events, **options, on_overflow="shorten")
    with pytest.raises(ContextOverflowError) as caught:
        await assemble(events, **options, on_overflow="error")

    assert_promised(context, budget=fixed + 450, system="Be brief.", asked="row0 row1")
    [message] = context.messages
    assert MARKER.search(message.text)
    assert message.text.endswith("row4999")
    assert caught.value.budget_tokens < caught.value.needed_tokens
    assert "last user message" in caught.value.sizes_tokens or "task" in caught.value.sizes_tokens


def sections(*, required_words: int) -> list[PromptSection]:
    return [
        PromptSection(
            name="rules", content=words(required_words, "rule"), priority=30, is_required=True
        ),
        PromptSection(name="style", content=words(700, "style"), priority=20),
        PromptSection(name="trivia", content=words(700, "trivia"), priority=10),
    ]


@every_way
async def test_a_system_prompt_over_the_budget_loses_its_least_important_sections(
    strategy: str, provider: str
) -> None:
    model = MODELS[provider]
    budget = 2 * _counter(model).count_text(words(300, "rule"))
    given = {"tools": [], "prompt_sections": sections(required_words=100)}

    context = await assemble(
        [user_event("hi")],
        model=model,
        given=given,
        max_context_tokens=budget,
        truncation_strategy=strategy,
    )

    assert_promised(context, budget=budget, system=words(100, "rule"), asked="hi")
    became = {entry.id: entry for entry in context.report.entries if entry.kind == "section"}
    assert became["rules"].decision == "kept"
    assert became["style"].decision in ("shortened", "dropped")
    assert became["trivia"].decision == "dropped"
    assert became["trivia"].reason
    ledger = context.metadata.ledger
    counted = _counter(model).count_system(context.system_prompt)
    assert ledger.tokens_of("system") == counted
    assert ledger.used_tokens == counted + ledger.tokens_of("overhead", "history", "notes")


@every_provider
async def test_a_required_section_over_the_budget_is_named_by_the_error(provider: str) -> None:
    given = {"tools": [], "prompt_sections": sections(required_words=3000)}

    with pytest.raises(ContextOverflowError, match="rules") as caught:
        await assemble(
            [user_event("hi")], model=MODELS[provider], given=given, max_context_tokens=500
        )

    assert caught.value.sizes_tokens["section 'rules'"] > 500
    assert not {"section 'style'", "section 'trivia'"} & caught.value.sizes_tokens.keys()


@every_way
async def test_two_thousand_messages_are_cut_to_the_newest(strategy: str, provider: str) -> None:
    text = "hello world " * 20
    talk = [(user_event(f"{n} {text}"), assistant_event(text)) for n in range(1000)]

    context = await assemble(
        [*chain(*talk), user_event("And now?")],
        model=MODELS[provider],
        max_context_tokens=4_000,
        truncation_strategy=strategy,
    )

    assert_promised(context, budget=4_000, asked="And now?")
    assert context.messages[-3].text.startswith("999 ")
    assert context.metadata.truncated_by == strategy
    assert len(context.report.of("dropped")) > 1_800


# ---- the clock ----

BERLIN: Final = "Europe/Berlin"


def at(moment: str) -> datetime:
    return datetime.fromisoformat(moment).replace(tzinfo=UTC)


def standing_at(moment: str) -> Callable[[], datetime]:
    """Return a clock that stands still."""
    return lambda: at(moment)


@every_provider
async def test_the_time_of_the_call_changes_nothing(provider: str) -> None:
    store = open_store("memory:")
    asked_at = at("2026-11-27 09:59:58")
    await store.append("s", [user_event("Hello", created_at=asked_at)])
    payloads: list[str] = []
    for moment in ("2026-11-27 09:59:59", "2026-11-27 10:00:01", "2026-11-29 00:00:01"):
        assembler = ContextAssembler(store, tools=[look_up], now=standing_at(moment))
        payloads.append(json.dumps(sent(await assembler.assemble("s", model=MODELS[provider]))))

    assert payloads[0] == payloads[1] == payloads[2]


# Zone, when the first and the second message were written (UTC), and what the second is told.
MOMENTS: dict[str, tuple[str, str, str, str | None]] = {
    "a new hour": ("UTC", "2026-11-27 09:59:59", "2026-11-27 10:00:01", None),
    "midnight": ("UTC", "2026-11-27 23:59:30", "2026-11-28 00:00:30", "Saturday, 2026-11-28 00:00"),
    "midnight elsewhere": (BERLIN, "2026-11-27 23:59:30", "2026-11-28 00:00:30", None),
    "an hour later": ("UTC", "2026-11-27 09:00:00", "2026-11-27 10:00:00", "2026-11-27 10:00 UTC"),
    "summer time begins": (BERLIN, "2026-03-29 00:59:00", "2026-03-29 01:01:00", None),
    "summer time ends": (BERLIN, "2026-10-25 00:59:00", "2026-10-25 01:01:00", None),
    "long after the change": (BERLIN, "2026-03-29 00:30:00", "2026-03-29 01:30:00", "03:30 CEST"),
}


@every_provider
@pytest.mark.parametrize(
    ("zone", "first", "second", "told"), MOMENTS.values(), ids=list(MOMENTS.keys())
)
async def test_time_that_passes_shows_behind_what_was_sent_only(
    provider: str, zone: str, first: str, second: str, told: str | None
) -> None:
    config = AssemblerConfig(clock={"time_zone": zone})
    assembler = ContextAssembler(tools=[look_up], config=config, now=standing_at(second))
    await assembler.sessions.append("s", [user_event("Hello", created_at=at(first))])
    before = await assembler.assemble("s", model=MODELS[provider])
    answer = [assistant_event("Hi."), user_event("And?", created_at=at(second))]
    await assembler.sessions.append("s", answer)

    after = await assembler.assemble("s", model=MODELS[provider])

    assert after.system_prompt == before.system_prompt
    assert after.messages[: len(before.messages)] == before.messages
    assert_only_grew(before, after)
    notes = [m.text for m in after.messages[len(before.messages) :] if m.note == "clock"]
    assert len(notes) == (told is not None)
    assert all(told in note for note in notes if told)


def assert_only_grew(before: AssembledContext, after: AssembledContext) -> None:
    """Assert that a payload is the one before plus messages; cache marks move and do not count."""
    earlier, later = (unmarked(sent(context)) for context in (before, after))
    assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
    assert {**later, "messages": []} == {**earlier, "messages": []}


def unmarked(value: Any) -> Any:
    if is_object(value):
        return {key: unmarked(inner) for key, inner in value.items() if key != "cache_control"}
    return [unmarked(inner) for inner in value] if is_array(value) else value


# ---- bootstrap files ----

RULES: Final = "# Rules\n\nPrüfe zuerst, antworte dann.\nNo shortcuts.\n"
SAME_TEXT: dict[str, bytes] = {
    "UTF-8": RULES.encode(),
    "UTF-8 with a mark": b"\xef\xbb\xbf" + RULES.encode(),
    "UTF-16 LE with a mark": b"\xff\xfe" + RULES.encode("utf-16-le"),
    "UTF-16 BE with a mark": b"\xfe\xff" + RULES.encode("utf-16-be"),
    "CRLF": RULES.replace("\n", "\r\n").encode(),
    "CRLF and front matter": (
        "---\r\nowner: ops\r\n---\r\n" + RULES.replace("\n", "\r\n")
    ).encode(),
    "a mark and front matter": b"\xef\xbb\xbf---\nowner: ops\n---\n" + RULES.encode(),
}


async def assemble_folder(folder: Path, **given: Any) -> AssembledContext:
    (folder / "SOUL.md").write_text("Be kind.")
    arguments = {"bootstrap": folder, **given}
    return await assemble([user_event("hi")], model="gpt-5.5", given=arguments)


@pytest.mark.parametrize("content", SAME_TEXT.values(), ids=list(SAME_TEXT.keys()))
async def test_the_same_text_is_read_from_every_encoding(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_bytes(content)

    context = await assemble_folder(tmp_path)

    assert context.system_prompt == f"{RULES.strip()}\n\n---\n\nBe kind."
    assert context.report.warnings == ()


async def test_a_stray_byte_is_replaced_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "AGENT.md").write_bytes(b"Pr\xe9parez tout.")

    context = await assemble_folder(tmp_path)

    assert context.system_prompt == "Pr\ufffdparez tout.\n\n---\n\nBe kind."
    assert any("AGENT.md" in warning for warning in context.report.warnings)


def _leave_empty(path: Path) -> None:
    path.write_bytes(b"")


def _make_folder(path: Path) -> None:
    path.mkdir()


def _leave_out(path: Path) -> None:
    """Make nothing: the file is missing."""


STATES: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (_leave_empty, "file.empty"),
    "a folder": (_make_folder, "file.unreadable"),
    "missing": (_leave_out, "file.missing"),
}


@pytest.mark.parametrize("name", ["AGENT.md", "AGENTS.md"])
@pytest.mark.parametrize(("make", "state"), STATES.values(), ids=list(STATES.keys()))
async def test_a_file_without_text_is_reported_by_its_state_and_the_others_load(
    make: Callable[[Path], None], state: str, name: str, tmp_path: Path
) -> None:
    make(tmp_path / name)
    config = AssemblerConfig(bootstrap={"agent_names": (name,)})

    context = await assemble_folder(tmp_path, config=config)

    assert context.system_prompt == "Be kind."
    [entry] = [e for e in context.report.entries if e.id.endswith(name)]
    assert (entry.kind, entry.rule) == ("file", state)
    assert entry.reason


async def test_an_edit_that_changes_neither_size_nor_time_shows_on_the_next_call(
    tmp_path: Path,
) -> None:
    file = tmp_path / "SOUL.md"
    file.write_text("Be kind: v1")
    stamp = file.stat()
    assembler = ContextAssembler(bootstrap=tmp_path)
    await assembler.add_user("s", "hi")
    first = await assembler.assemble("s", model="gpt-5.5")
    file.write_text("Be kind: v2")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    second = await assembler.assemble("s", model="gpt-5.5")

    assert (first.system_prompt, second.system_prompt) == ("Be kind: v1", "Be kind: v2")
    assert not second.metadata.cache_hit
