"""Embedding vectors in the form they are kept in: one byte for each dimension."""

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from context_assembler.errors import InvalidParameterError
from context_assembler.values.memories.kept_names import can_be_kept

_MOST: Final = 127  # -128 is left out, so that a vector and its opposite are coded alike
_NO_LISTS: Final = (bytes, bytearray, str, Mapping)
_REMEDY: Final = "Pass what the model returned: finite numbers, not all of them zero."


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """The direction of a text in the space of one embedding model; its length is not kept.

    `codes` holds a signed byte for each dimension, the largest of which is 127 or -127.
    Only vectors of one model can be compared.
    """

    model: str
    codes: bytes

    def __post_init__(self) -> None:
        # Vectors are made by the thousand, and nearly all are like this.
        is_usual = type(self.codes) is bytes and any(self.codes)
        if is_usual and type(self.model) is str and self.model and self.model.isprintable():
            return
        _check_parts(self.model, self.codes)

    @classmethod
    def pack(cls, model: str, numbers: Sequence[float]) -> "Vector":
        """Return the vector of a model's numbers.

        Raises:
            InvalidParameterError: They are no numbers, or have no direction, or the model no name.
        """
        is_list = hasattr(numbers, "__getitem__") and not isinstance(numbers, _NO_LISTS)
        try:
            codes = _code(numbers) if is_list else None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            codes, is_list = None, False
        if codes is None:
            raise InvalidParameterError(
                "vector",
                numbers[:4] if is_list else numbers,
                rule="must have a direction" if is_list else "must be a list of numbers",
                remedy=_REMEDY,
            )
        return cls(model=model, codes=codes)

    @property
    def dimension(self) -> int:
        """The number of dimensions."""
        return len(self.codes)

    def cosine(self, other: "Vector") -> float:
        """Return how alike two directions are, from -1 to 1.

        Raises:
            InvalidParameterError: The other is none, or of another model.
        """
        if not isinstance(other, Vector):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise InvalidParameterError(
                "other", other, rule="must be a Vector", remedy="Pass Vector.pack(model, numbers)."
            )
        if (self.model, self.dimension) != (other.model, other.dimension):
            raise InvalidParameterError(
                "vector", other.model, rule=f"must be of {self.model}", remedy="Embed both alike."
            )
        mine, others = memoryview(self.codes).cast("b"), memoryview(other.codes).cast("b")
        product = sum(a * b for a, b in zip(mine, others, strict=True))
        return product / math.sqrt(sum(a * a for a in mine) * sum(b * b for b in others))


def _code(numbers: Sequence[float]) -> bytes | None:
    """Return a byte for each number; `None` where they have no direction."""
    largest = max(map(abs, numbers), default=0.0)
    # A NaN may hide behind `max`; the sum shows it.
    if not (0 < largest < math.inf) or math.isnan(sum(numbers)):
        return None
    return array("b", (round(number / largest * _MOST) for number in numbers)).tobytes()


def _check_parts(model: object, codes: object) -> None:
    if not isinstance(codes, bytes):
        raise InvalidParameterError(
            "codes", codes, rule="must be bytes", remedy="Make it by Vector.pack(model, numbers)."
        )
    if not any(codes):
        raise InvalidParameterError(
            "vector", codes[:4], rule="must have a direction", remedy=_REMEDY
        )
    if not isinstance(model, str) or not model:
        raise InvalidParameterError(
            "model", model, rule="must have a name", remedy="Name the embedding model."
        )
    if not can_be_kept(model):
        raise InvalidParameterError(
            "model",
            model,
            rule="must not hold NUL or unpaired surrogates",
            remedy="Name the embedding model by what every database can keep.",
        )
