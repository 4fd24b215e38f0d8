"""Questions about recorded conversations lead to the sentences that answer them."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from context_assembler.embeddings import BundledEmbedder, MiniLmEmbedder
from context_assembler.values.memories.vectors import Vector

pytestmark = pytest.mark.recorded

Question = tuple[
    str, str, frozenset[int]
]  # scenario, question, places of the sentences that answer


@dataclass(frozen=True, kw_only=True)
class Bar:
    """Of how many questions a sentence that answers is the first, or among the first ten.

    What each model reached when its figures were taken, less two questions.
    """

    make: Callable[[], BundledEmbedder | MiniLmEmbedder]
    scenarios: tuple[str, ...]
    questions: int
    first: int
    among_ten: int


BARS: Final[Mapping[str, Bar]] = {
    "bundled": Bar(
        make=BundledEmbedder,
        scenarios=("customer", "finance", "healthcare", "notetaker", "student"),
        questions=76,
        first=47,
        among_ten=60,
    ),
    "minilm": Bar(
        make=MiniLmEmbedder,
        scenarios=("healthcare", "notetaker"),
        questions=23,
        first=19,
        among_ten=21,
    ),
}


def sentences_of(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted(folder.glob("prereq_*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            messages = [message for turn in json.loads(line)["question"] for message in turn]
            for message in messages:
                parts = re.split(r"(?<=[.!?])\s+", message["content"])
                found[file.stem.removeprefix("prereq_")] += filter(None, parts)
    return found


def questions_of(folder: Path, sentences: Mapping[str, list[str]]) -> list[Question]:
    questions: list[Question] = []
    for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        truths = [str(truth).lower() for truth in row["answer"]["ground_truth"]]
        source = words_of(row["answer"]["source"])
        answering = frozenset(
            place
            for place, sentence in enumerate(sentences[row["scenario"]])
            if any(truth in sentence.lower() for truth in truths)
            and 2 * len(words_of(sentence) & source) >= min(len(words_of(sentence)), len(source))
        )
        if answering:
            questions.append((row["scenario"], row["question"][0][0]["content"], answering))
    return questions


def words_of(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@pytest.mark.parametrize("name", BARS)
def test_questions_lead_to_what_answers_them(name: str, corpus: Path) -> None:
    folder, bar = corpus / "memory" / "bfcl_memory", BARS[name]
    if not folder.is_dir():
        pytest.skip("the corpus has no memories")
    if name == "minilm":
        pytest.importorskip("onnxruntime", reason="the minilm extra is not installed")
    embedder, sentences = bar.make(), sentences_of(folder)
    questions = [q for q in questions_of(folder, sentences) if q[0] in bar.scenarios]
    asked = units_of(embedder.embed_now([text for _, text, _ in questions]))
    places = {name: units_of(embedder.embed_now(sentences[name])) for name in bar.scenarios}

    ranks = [
        rank_of(answering, places[scenario] @ wanted)
        for (scenario, _, answering), wanted in zip(questions, asked, strict=True)
    ]

    assert len(questions) == bar.questions
    assert sum(rank < 1 for rank in ranks) >= bar.first
    assert sum(rank < 10 for rank in ranks) >= bar.among_ten


def units_of(vectors: list[Vector | None]) -> Any:
    """Return a row of length 1 for each vector, zeros where there is none."""
    dimension = max(vector.dimension for vector in vectors if vector)
    codes = [bytes(dimension) if vector is None else vector.codes for vector in vectors]
    rows = np.frombuffer(b"".join(codes), dtype=np.int8).reshape(-1, dimension).astype(float)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)


def rank_of(answering: frozenset[int], cosines: Any) -> int:
    """Return how many sentences lie nearer than the nearest that answers."""
    best = max(cosines[place] for place in answering)
    return int((cosines > best).sum())
