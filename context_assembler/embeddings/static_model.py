"""The bundled static model: a row of numbers for every token of its vocabulary."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from context_assembler.embeddings.extras import load_numpy
from context_assembler.embeddings.wordpiece import WordPiece
from context_assembler.errors import EmbeddingError

MODEL_NAME: Final = "all-MiniLM-L6-v2-static-128"
DIMENSION: Final = 128
MODEL_FOLDER: Final = Path(__file__).parent / "model"
VOCABULARY_FILE: Final = "vocabulary.txt"
TABLE_FILE: Final = "static_128.bin"

# `scripts/distill_embedding.py` prints them.
SHA256: Final[Mapping[str, str]] = {
    TABLE_FILE: "2891ddb0fc2da5ae54b9c37b586eb18b98f6879e44ac34cf80cfb1d84e7c7daa",
    VOCABULARY_FILE: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}


class StaticModel:
    """Means of token rows; the rows stay as the bytes of the file, four megabytes.

    Args:
        folder: Where the vocabulary and the table lie.

    Raises:
        EmbeddingError: The table is not of this vocabulary.
        MissingExtraError: numpy is not installed.
    """

    def __init__(self, folder: Path = MODEL_FOLDER) -> None:
        numpy = load_numpy()
        self.wordpiece = load_wordpiece(folder)
        content = (folder / TABLE_FILE).read_bytes()
        rows = self.wordpiece.size
        if len(content) != rows * (DIMENSION + 4):
            raise EmbeddingError(
                MODEL_NAME,
                reason=f"{TABLE_FILE} has {len(content):,} bytes, not those of {rows:,} tokens",
                remedy="Install the package again: its files are incomplete.",
            )
        self._codes = numpy.frombuffer(content, numpy.int8, rows * DIMENSION).reshape(rows, -1)
        scales = numpy.frombuffer(content, "<f4", rows, rows * DIMENSION)
        self._scales = scales.astype(numpy.float64)

    def sum_rows(self, text: str) -> Any:
        """Return the sum of the rows of the text's tokens, which points where their mean does."""
        ids = self.wordpiece.token_ids(text)
        # In doubles, so that the order of adding does not show in what is kept of it.
        return self._scales[ids] @ self._codes[ids].astype(self._scales.dtype)


@cache
def load_wordpiece(folder: Path = MODEL_FOLDER) -> WordPiece:
    """Return the vocabulary, which every user of it shares."""
    text = (folder / VOCABULARY_FILE).read_text(encoding="utf-8")
    return WordPiece(text.removesuffix("\n").split("\n"))


@cache
def load_static_model() -> StaticModel:
    """Return the bundled model, which every user of it shares.

    Raises:
        MissingExtraError: numpy is not installed.
    """
    return StaticModel()
