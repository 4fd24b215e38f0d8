"""The bundled model: what it says of texts, and that it is the one that was shipped."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_assembler.embeddings import BundledEmbedder
from context_assembler.embeddings.extras import load_numpy
from context_assembler.embeddings.static_model import (
    DIMENSION,
    MODEL_FOLDER,
    SHA256,
    StaticModel,
    load_static_model,
)
from context_assembler.embeddings.vectors import pack_rows
from context_assembler.errors import EmbeddingError, InvalidParameterError, MissingExtraError
from context_assembler.memory.vector_scan import cosines
from context_assembler.values.memories.vectors import Vector
from tests.embeddings.meanings import NEARER

MAX_SHIPPED_BYTES = 5_000_000
numbers = st.floats(-1e3, 1e3, allow_nan=False).filter(lambda x: x == 0 or abs(x) > 1e-6)


def embedded(text: str) -> Vector:
    [vector] = BundledEmbedder().embed_now([text])
    assert vector is not None
    return vector


@pytest.mark.parametrize("name", SHA256)
def test_the_shipped_files_are_those_that_were_distilled(name: str) -> None:
    content = (MODEL_FOLDER / name).read_bytes()

    assert hashlib.sha256(content).hexdigest() == SHA256[name]
    assert SHA256[name] in (MODEL_FOLDER / "NOTICE").read_text(encoding="utf-8")


def test_the_shipped_files_are_small_and_carry_their_licence() -> None:
    sizes = {path.name: path.stat().st_size for path in MODEL_FOLDER.iterdir()}

    assert sum(sizes.values()) < MAX_SHIPPED_BYTES
    assert sizes["LICENSE"] > 10_000


@pytest.mark.parametrize(("text", "near", "far"), NEARER.values(), ids=NEARER.keys())
def test_what_means_the_same_lies_nearer(text: str, near: str, far: str) -> None:
    asked = embedded(text)

    assert asked.cosine(embedded(near)) > asked.cosine(embedded(far)) + 0.2


@pytest.mark.parametrize("text", ["", " \n", "\x00", "😀", "x" * 101])
def test_a_text_without_a_known_word_has_no_vector(text: str) -> None:
    assert BundledEmbedder().embed_now([text]) == [None]


@given(st.lists(st.text(max_size=30), max_size=6))
def test_a_text_has_the_same_vector_in_any_company(texts: list[str]) -> None:
    embedder = BundledEmbedder()

    assert embedder.embed_now(texts) == [embedder.embed_now([text])[0] for text in texts]


def test_many_texts_are_embedded_in_blocks_and_in_order() -> None:
    texts = [f"number {n}" for n in range(2_100)]

    vectors = BundledEmbedder().embed_now(texts)

    assert len(vectors) == len(texts)
    assert vectors[2_050] == embedded(texts[2_050])


def test_of_a_long_text_the_beginning_counts() -> None:
    embedder = BundledEmbedder(max_chars=6)

    assert embedder.embed_now(["hello world"]) == embedder.embed_now(["hello"])
    assert BundledEmbedder().embed_now(["ab cd " * 170_000]) == [embedded("ab cd " * 3_333 + "ab")]


async def test_a_long_text_is_as_alike_as_its_most_alike_passage() -> None:
    told = "My grandmother's dog is called Archie and he barks at every cat."
    around = (
        "Quarterly revenue of all regions grew much faster than many a member of the whole board had expected it to. "
        * 4
    )
    wanted = embedded("What is the name of the puppy?")

    alike = await BundledEmbedder().compare_passages(wanted, [f"{around}{told} {around}", told])

    assert alike[0] == pytest.approx(alike[1])
    assert alike[0] is not None
    assert alike[0] > cosines(wanted, [embedded(f"{around}{told} {around}")])[0] + 0.1


@pytest.mark.parametrize("text", ["", " \n ", "小狗叫什么名字?" * 80])
async def test_what_the_model_cannot_read_is_like_nothing(text: str) -> None:
    wanted = embedded("What is the name of the puppy?")

    assert await BundledEmbedder().compare_passages(wanted, [text]) == [None]


def test_a_bound_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="max_chars must be positive"):
        BundledEmbedder(max_chars=0)


def test_the_model_is_loaded_once() -> None:
    assert load_static_model() is load_static_model()


def test_a_cut_table_is_told_and_how_to_mend_it(tmp_path: Path) -> None:
    (tmp_path / "vocabulary.txt").write_text("[UNK]\na\n", encoding="utf-8")
    (tmp_path / "static_128.bin").write_bytes(b"\0" * (2 * (DIMENSION + 4) - 1))

    with pytest.raises(EmbeddingError, match="263 bytes") as caught:
        StaticModel(tmp_path)

    assert "Install the package again" in caught.value.remedy


@given(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=5))
def test_rows_are_packed_as_single_vectors_are(rows: list[list[float]]) -> None:
    packed = pack_rows("tiny", load_numpy().array(rows))

    assert packed == [Vector.pack("tiny", row) if any(row) else None for row in rows]


def test_other_processes_embed_alike() -> None:
    code = (
        "from context_assembler.embeddings import BundledEmbedder as B; import json; "
        "print(json.dumps([v.codes.hex() for v in B().embed_now(['hello world', 'héllo'])]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        cwd=Path(__file__).parents[2],
    )

    assert json.loads(done.stdout) == [embedded(t).codes.hex() for t in ("hello world", "héllo")]


def test_importing_the_embedders_loads_nothing_heavy() -> None:
    code = (
        "import json, sys; import context_assembler.embeddings; "
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        encoding="utf-8",
        timeout=100,
        cwd=Path(__file__).parents[2],
    )

    assert not {"numpy", "onnxruntime", "openai", "pydantic"} & set(json.loads(done.stdout))


def test_without_numpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)

    with pytest.raises(MissingExtraError, match=r"context-assembler\[memory\]"):
        StaticModel()
