"""Embedding vectors in the form they are kept in: one byte for each dimension."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from context_assembler.errors import InvalidParameterError

_MOST: Final = 127  # -128 is left out, so that a vector and its opposite are coded alike
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
        if not any(self.codes):
            raise InvalidParameterError(
                "vector", self.codes[:4], rule="must have a direction", remedy=_REMEDY
            )
        if not self.model:
            raise InvalidParameterError(
                "model", self.model, rule="must have a name", remedy="Name the embedding model."
            )

    @classmethod
    def pack(cls, model: str, numbers: Sequence[float]) -> "Vector":
        """Return the vector of a model's numbers.

        Raises:
            InvalidParameterError: They have no direction, or the model no name.
        """
        largest = max(map(abs, numbers), default=0.0)
        # A NaN may hide behind `max`; the sum shows it.
        if not (0 < largest < math.inf) or math.isnan(sum(numbers)):
            raise InvalidParameterError(
                "vector", list(numbers[:4]), rule="must have a direction", remedy=_REMEDY
            )
        codes = array("b", (round(number / largest * _MOST) for number in numbers))
        return cls(model=model, codes=codes.tobytes())

    @property
    def dimension(self) -> int:
        """The number of dimensions."""
        return len(self.codes)

    def cosine(self, other: "Vector") -> float:
        """Return how alike two directions are, from -1 to 1.

        Raises:
            InvalidParameterError: The vectors are of two models.
        """
        if (self.model, self.dimension) != (other.model, other.dimension):
            raise InvalidParameterError(
                "vector", other.model, rule=f"must be of {self.model}", remedy="Embed both alike."
            )
        mine, others = memoryview(self.codes).cast("b"), memoryview(other.codes).cast("b")
        product = sum(a * b for a, b in zip(mine, others, strict=True))
        return product / math.sqrt(sum(a * a for a in mine) * sum(b * b for b in others))
