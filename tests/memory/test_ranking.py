"""Nothing that holds what was asked is lost to another kind or source that only comes close."""

from collections.abc import Sequence
from typing import Any

import pytest

from context_assembler.memory import (
    CodeMetadata,
    MemoryAssembler,
    MemoryHit,
    MemoryRecord,
    MemoryStore,
    open_memory,
)

SAID: dict[Any, str] = {
    "memories": "{} happens on Friday at noon.",
    "events": "Somebody moved the {} to another day because nobody had time.",
    "chunks": "Chapter four describes each {} that was ever made here, and who was there.",
    "experiences": "Our first {} went wrong: two people did not know of it.",
    "code": "def check_{}(name): return name in ALLOWED",
}
KINDS = (*SAID,)
# By the word that is asked for: what is related to it and stands in other records.
TOPICS = {
    "deployment": "deploy release rollout script",
    "invoice": "bill payment receipt",
    "password": "login credential account",
    "migration": "database schema upgrade",
    "holiday": "vacation trip travel",
    "meeting": "conference call appointment",
    "backup": "restore copy archive",
    "budget": "cost money spending",
    "hospital": "doctor clinic patient",
    "garden": "plant flower tree",
}
QUESTIONS = (
    ("When is the deployment?", "deployment"),
    ("Who pays the invoice?", "invoice"),
    ("Where is the password kept?", "password"),
    ("Did the migration go well?", "migration"),
    ("How long is the holiday?", "holiday"),
    ("What was said in the meeting?", "meeting"),
    ("Is there a backup?", "backup"),
    ("How large is our budget this year?", "budget"),
    ("Which hospital was it?", "hospital"),
    ("Why does the garden look like that?", "garden"),
    ("Tell me about the deployment on Friday.", "deployment"),
    ("Explain the invoice.", "invoice"),
    ("Fix the migration of the accounts", "migration"),
    ("Can you remind me of the password?", "password"),
    ("What should I know before the holiday?", "holiday"),
    ("Add the meeting to the calendar", "meeting"),
    ("Was the last backup complete?", "backup"),
    ("Has anybody changed the budget?", "budget"),
    ("Is the hospital open on Sunday?", "hospital"),
    ("What grows in the garden?", "garden"),
)


def _records() -> list[MemoryRecord]:
    records = list[MemoryRecord]()
    for topic, related in TOPICS.items():
        for kind in KINDS:
            text = SAID[kind].format(topic)
            records.append(MemoryRecord(id=f"{topic}-{kind}", kind=kind, text=text))
        for number, word in enumerate(related.split()):
            for kind in KINDS:
                made: dict[str, Any] = {"id": f"{word}-{topic}-{kind}", "kind": kind}
                if kind == "code":
                    made["metadata"] = CodeMetadata(path=f"scripts/{word}.py", symbol=word)
                text = f"The {word} of number {number} is {word} and {word} again."
                records.append(MemoryRecord(text=text, **made))
    return records


class Own:
    """A source of one's own that tells nothing but what it finds."""

    def __init__(self, store: MemoryStore, name: str) -> None:
        self.name, self._store = name, store

    async def search(self, query: str, **options: Any) -> Sequence[MemoryHit]:
        return await self._store.search(query, **options)


@pytest.mark.parametrize("shape", ["one store", "a store for each kind", "own sources"])
async def test_of_every_kind_what_holds_the_asked_word_is_recalled(shape: str) -> None:
    groups: list[tuple[Any, ...]] = [KINDS] if shape == "one store" else [(k,) for k in KINDS]
    stores = [open_memory("memory:", name="+".join(group)) for group in groups]
    for store, group in zip(stores, groups, strict=True):
        await store.remember([record for record in _records() if record.kind in group])
    sources: list[Any] = [*stores]
    if shape == "own sources":
        sources = [Own(store, store.name) for store in stores]
    memory = MemoryAssembler(sources)
    lost = list[str]()
    for topic in TOPICS:
        context = await memory.assemble_context(f"When is the {topic}?", max_tokens=1_000)
        shown = {item.record.id for item in context.items}
        lost += [f"{topic}-{kind}" for kind in KINDS if f"{topic}-{kind}" not in shown]
        assert context.items[0].record.id.startswith(topic)
    for question, topic in QUESTIONS:
        context = await memory.assemble_context(question, max_tokens=1_000)
        shown = {item.record.id for item in context.items}
        lost += [question] * any(f"{topic}-{kind}" not in shown for kind in KINDS)
    for store in stores:
        await store.close()

    assert lost == []
