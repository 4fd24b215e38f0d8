"""Vectors from the numbers that models return."""

from typing import Any

from context_assembler.embeddings.extras import load_numpy
from context_assembler.values.memories.vectors import Vector


def pack_rows(model: str, rows: Any) -> list[Vector | None]:
    """Return the vector of each row of a numpy array, as `Vector.pack` does; `None` for zeros."""
    numpy = load_numpy()
    largest = numpy.abs(rows).max(axis=1, keepdims=True)
    codes = numpy.rint(rows / numpy.where(largest > 0, largest, 1) * 127).astype(numpy.int8)
    return [
        Vector(model=model, codes=row.tobytes()) if has_direction else None
        for row, has_direction in zip(codes, largest[:, 0] > 0, strict=True)
    ]
