"""What `memory eval` says of its questions and settings beside the grades."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from context_assembler.cli.memory_options import NO_EMBEDDER
from context_assembler.cli.screen import counted, one_line
from context_assembler.errors import UnknownMemoryError
from context_assembler.ports import Embed, MemoryStore
from context_assembler.recall.evaluate import Conversations, Question

_MOST_IDS: Final = 5
_ID_CHARS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSettings:
    """How recall is measured.

    Attributes:
        embedder: What places texts by meaning; `none` for words alone.
        with_facts: Whether the facts of a file of conversations are a second source.
        categories: Of the questions; by default all that have an answer.
    """

    kinds: Sequence[str] = ()
    budgets: Sequence[int] = ()
    preset: str = "general"
    embedder: str = NO_EMBEDDER
    with_facts: bool = False
    categories: Sequence[str] = ()


async def remarks_on(
    asked: Conversations,
    questions: Sequence[Question],
    store: MemoryStore,
    embed: Embed | None,
    settings: EvalSettings,
) -> list[str]:
    """Return what keeps the grades from meaning what they seem to, in sentences.

    Evidence that the store does not hold can never be recalled, and some settings change nothing.
    """
    unheard_of = [memory_id async for memory_id in _not_held(questions, store)]
    remarks: list[str] = []
    if unheard_of:
        ids = counted(len(unheard_of), "id")
        remarks.append(f"{ids} of evidence {_are(unheard_of)} in no memory: {_listed(unheard_of)}")
    if settings.with_facts and not asked.facts:
        remarks.append("--facts changes nothing: the file holds no observations")
    if embed is not None and not asked.turns:
        stats = await store.stats()
        if not stats.vectors:
            remarks.append("--embedder changes nothing: the store keeps no vectors")
        elif stats.vector_model != embed.model:
            kept = f"the store keeps vectors of {stats.vector_model!r}, not of {embed.model!r}"
            remarks.append(f"--embedder changes nothing: {kept}")
    return remarks


async def _not_held(questions: Iterable[Question], store: MemoryStore) -> AsyncIterator[str]:
    for memory_id in dict.fromkeys(one for asked in questions for one in asked.evidence):
        try:
            await store.get(memory_id)
        except UnknownMemoryError:
            yield memory_id


def _are(several: Sequence[str]) -> str:
    return "is" if len(several) == 1 else "are"


def _listed(ids: Sequence[str]) -> str:
    shown = ", ".join(one_line(memory_id, max_chars=_ID_CHARS) for memory_id in ids[:_MOST_IDS])
    left = len(ids) - _MOST_IDS
    return f"{shown} and {left:,} more" if left > 0 else shown
