"""The step that lets each thing be said once, by the best of those who say it."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from context_assembler.recall.similar_texts import find_twins
from context_assembler.values.memories.metadata import CodeMetadata
from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.recall import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicated:
    """Candidates that differ, best first, and those that another one stands for."""

    candidates: tuple[Candidate, ...]
    duplicates: tuple[tuple[Candidate, str], ...]


def dedupe(candidates: Sequence[Candidate], *, near_duplicate: float) -> Deduplicated:
    """Return the candidates without those that say what a better one says.

    The same are: one record of a source found twice, one piece of a file in two versions, and texts
    that are nearly equal, in any script. Ids of two sources say nothing about each other: sources
    may number their records alike. The better score stays and is said to be found wherever any of
    them was. The order of the candidates makes no difference.
    """
    ranked = sorted(candidates, key=lambda candidate: candidate.rank)
    standing_for = _same_records(ranked)
    rest = [at for at in range(len(ranked)) if at not in standing_for]
    texts = [normal(ranked[at].record.text) for at in rest]

    def may_be_twins(left: int, right: int) -> bool:
        return _may_be_same(ranked[rest[left]].record, ranked[rest[right]].record)

    twins = find_twins(texts, least=near_duplicate, may_be_twins=may_be_twins)
    for worse, better in twins.items():
        standing_for[rest[worse]] = (rest[better], "it says nearly what a better one says")
    return _result(ranked, standing_for)


def normal(text: str) -> str:
    """Return the text without what makes no difference: case, width, white space."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def _same_records(ranked: Sequence[Candidate]) -> dict[int, tuple[int, str]]:
    """Return by place the better place that stands for it, and why."""
    first_by_key: dict[tuple[object, ...], int] = {}
    standing_for: dict[int, tuple[int, str]] = {}
    for at, candidate in enumerate(ranked):
        keys = _keys_of(candidate)
        reason, better = next(
            ((why, first_by_key[key]) for why, key in keys if key in first_by_key), ("", None)
        )
        if better is not None:
            standing_for[at] = (better, reason)
            continue
        for _, key in keys:
            first_by_key.setdefault(key, at)
    return standing_for


def _keys_of(candidate: Candidate) -> list[tuple[str, tuple[object, ...]]]:
    record, keys = candidate.record, list[tuple[str, tuple[object, ...]]]()
    if record.id:
        keys.append(("it is the same record", ("id", candidate.source, record.id)))
    metadata = record.metadata
    if isinstance(metadata, CodeMetadata) and metadata.path:
        place = (metadata.repository, metadata.path, metadata.symbol or metadata.start_line)
        keys.append(("it is the same place of the same file", ("file", *place)))
    return keys


def _may_be_same(left: MemoryRecord, right: MemoryRecord) -> bool:
    """Whether equal texts are one thing: what two people say is not, unless it is one record."""
    if left.id and left.id == right.id:
        return True
    return left.author == right.author or left.author is None or right.author is None


def _result(ranked: Sequence[Candidate], standing_for: dict[int, tuple[int, str]]) -> Deduplicated:
    found_in = {at: list(c.found_in) for at, c in enumerate(ranked) if at not in standing_for}
    for worse, (better, _) in sorted(standing_for.items()):
        best = better
        while best in standing_for:
            best, _ = standing_for[best]
        found_in[best] += ranked[worse].found_in
    return Deduplicated(
        candidates=tuple(
            ranked[at]
            if len(names) == len(ranked[at].found_in)
            else replace(ranked[at], found_in=tuple(dict.fromkeys(names)))
            for at, names in found_in.items()
        ),
        duplicates=tuple((ranked[at], reason) for at, (_, reason) in sorted(standing_for.items())),
    )
