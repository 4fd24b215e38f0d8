"""What a caller chooses of the history: a strategy of its own, the newest, a word before it is full."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from context_assembler import AssembledContext, ContextAssembler
from context_assembler.errors import InvalidParameterError, UnknownOptionError
from context_assembler.ports import HistoryColumns

OPTIONS: dict[str, Any] = {"model": "gpt-4.1", "max_context_tokens": 3_000, "reserve_tokens": 500}


async def talk(assembler: ContextAssembler, number: int) -> list[AssembledContext]:
    """Let a session go on by so many exchanges; return what was sent."""
    sent = list[AssembledContext]()
    for at in range(number):
        await assembler.add_user("s", f"Question {at}. " + "word " * 100)
        context = await assembler.assemble("s")
        message = {"role": "assistant", "content": f"Answer {at}. " + "word " * 100}
        await assembler.record("s", {"id": f"r{at}", "choices": [{"message": message}]}, context)
        sent.append(context)
    return sent


def assembler(**options: Any) -> ContextAssembler:
    from context_assembler import AssemblerConfig

    truncation = options.pop("truncation", {})
    config = AssemblerConfig(defaults={**OPTIONS, **options}, truncation=truncation)
    return ContextAssembler(bootstrap=None, config=config)


def texts(context: AssembledContext) -> list[str]:
    return [str(one["content"]) for one in context.to_openai_chat()["messages"]]


async def test_a_function_chooses_what_is_kept_and_payloads_only_grow_between_cuts() -> None:
    asked = list[int]()

    def about_five(groups: Sequence[range], columns: HistoryColumns, budget: int) -> list[int]:
        assert budget < 2_500
        assert {*columns.kinds} <= {"user", "assistant", "note"}
        asked.append(len(groups))
        said = ["".join(p["text"] for line in g for p in columns.parts(line)) for g in groups]
        return [at for at, text in enumerate(said) if "Question 5." in text or "Answer 5." in text]

    sent = await talk(assembler(truncation_strategy=about_five), 40)

    cut = [context for context in sent if context.metadata.truncated]
    assert len({context.metadata.cut_id for context in cut}) == len(asked) < 6
    assert all(any("Question 5." in text for text in texts(context)) for context in cut)
    assert {context.metadata.truncated_by for context in cut} == {"own"}
    for before, after in pairwise(cut):
        if before.metadata.cut_id == after.metadata.cut_id:
            assert texts(after)[: len(texts(before))] == texts(before)
    assert all(not context.check().refused for context in sent)


@pytest.mark.parametrize("wrong", [[-1], [99_999], ["0"]])
async def test_what_is_no_index_is_refused(wrong: list[Any]) -> None:
    with pytest.raises(InvalidParameterError, match="must return indices of its"):
        await talk(assembler(truncation_strategy=lambda *_: wrong), 40)
    with pytest.raises(UnknownOptionError, match="smart"):
        await talk(assembler(truncation_strategy="clever"), 1)


@pytest.mark.parametrize("strategy", ["smart", "simple", lambda *_: []])
@pytest.mark.parametrize(("option", "number"), [("keep_last_messages", 8), ("keep_last_turns", 4)])
async def test_the_newest_messages_and_turns_stay(strategy: Any, option: str, number: int) -> None:
    sent = await talk(assembler(truncation_strategy=strategy, **{option: number}), 40)
    few = await talk(assembler(truncation_strategy=strategy, **{option: 1_000}), 40)

    for at, context in enumerate(sent):
        newest = [f"Question {n}." for n in range(max(0, at - 3), at + 1)]
        assert [name for name in newest if not any(name in text for text in texts(context))] == []
    ledgers = [context.metadata.ledger for context in few]
    assert all(one.used_tokens <= one.budget_tokens for one in ledgers)


async def test_a_note_says_once_that_the_window_is_nearly_full() -> None:
    sent = await talk(assembler(truncation={"note_above_share": 0.8}), 40)

    word = "More than 80% of the context window is used."
    shares = [one.metadata.ledger.used_tokens / one.metadata.ledger.budget_tokens for one in sent]
    for context, share in zip(sent, shares, strict=True):
        told = sum(word in text for text in texts(context))
        assert told <= 1
        assert told or share <= 0.8
    assert not any(word in text for text in texts(sent[0]))
