"""Recall of real conversations: as much of the evidence as plain full-text search finds, or more."""

import json
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from benchmarks.memory_quality import (
    BUDGETS,
    NOW,
    SMALL_BUDGETS,
    PlainSearch,
    read_asked,
    read_conversations,
    read_memorybank,
)
from context_assembler.memory import SqliteMemoryStore
from context_assembler.memory_assembler import MemoryAssembler
from context_assembler.memory_assembler.evaluation import evaluate_recall
from context_assembler.recall.evaluate import Question, evaluate
from context_assembler.values.memories.records import MemoryRecord
from tests.cli.running import run

pytestmark = pytest.mark.recorded

LEAST_WHOLE = {"en": 0.9, "cn": 0.85}


def conversation(turns: Sequence[MemoryRecord], asked: Sequence[Question]) -> dict[str, Any]:
    """Return one user's conversation as LoCoMo's file has it."""
    said: dict[str, Any] = {}
    place_by_id: dict[str, str] = {}
    for day, (_, session) in enumerate(groupby(turns, key=lambda turn: turn.session_id), 1):
        listed = list(session)
        at: datetime | None = listed[0].created_at
        assert at is not None
        said[f"session_{day}_date_time"] = at.strftime("%I:%M %p on %d %B, %Y")
        said[f"session_{day}"] = []
        for number, turn in enumerate(listed, 1):
            place_by_id[turn.id] = f"D{day}:{number}"
            speaker, _, text = turn.text.partition(": ")
            said[f"session_{day}"].append(
                {"speaker": speaker, "dia_id": f"D{day}:{number}", "text": text}
            )
    questions = [
        {
            "question": one.question,
            "evidence": [place_by_id[found] for found in one.evidence],
            "category": 4,
        }
        for one in asked
    ]
    return {"sample_id": turns[0].namespace, "conversation": said, "qa": questions}


@pytest.mark.parametrize("language", LEAST_WHOLE)
def test_a_file_of_conversations_is_graded_as_its_turns_are(
    corpus: Path, tmp_path: Path, language: str
) -> None:
    turns, asked = read_memorybank(corpus / "memory/memorybank", language)
    samples = [
        conversation(list(own), [one for one in asked if one.namespace == name])
        for name, own in groupby(turns, key=lambda turn: turn.namespace)
    ]
    file = tmp_path / "dialogues.json"
    file.write_text(json.dumps(samples))

    told = run("memory", "eval", str(file), "--budget", "500", "--json").json

    assert told["overall"]["questions"] == len(asked)
    assert told["remarks"] == []
    assert told["overall"]["whole_evidence"]["500"] >= LEAST_WHOLE[language]


@pytest.mark.parametrize("language", LEAST_WHOLE)
async def test_more_of_a_chat_is_found_than_by_plain_search(corpus: Path, language: str) -> None:
    turns, asked = read_memorybank(corpus / "memory/memorybank", language)

    assert await lost_to_plain_search(turns, asked, SMALL_BUDGETS) == []


@pytest.mark.parametrize("by_sentence", [False, True])
async def test_no_less_of_long_talks_is_found_than_by_plain_search(
    corpus: Path, *, by_sentence: bool
) -> None:
    folder = corpus / "memory/bfcl_memory"
    turns = read_conversations(folder, by_sentence=by_sentence)

    assert await lost_to_plain_search(turns, read_asked(folder, turns), BUDGETS) == []


async def lost_to_plain_search(
    turns: Sequence[MemoryRecord], asked: Sequence[Question], budgets: Sequence[int]
) -> list[int]:
    """Return the budgets within which plain search has the whole evidence more often."""
    plain = PlainSearch(turns)
    with closing(plain.db):
        beside = await evaluate(asked, plain, budgets_tokens=budgets)
    async with SqliteMemoryStore(None) as store:
        await store.remember(turns)
        async with MemoryAssembler(store, clock=NOW.timestamp) as recall:
            ours = await evaluate_recall(
                recall, asked, budgets_tokens=budgets, context_types="events"
            )
    return [b for b in budgets if ours.overall.whole[b] < beside.overall.whole[b]]
