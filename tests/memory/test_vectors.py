"""A vector is what it says, whoever makes it."""

from collections.abc import Mapping
from typing import Any

import pytest

from context_assembler.errors import InvalidParameterError
from context_assembler.values.memories.vectors import Vector
from tests.wrong_types import call_of, find_bare_errors

VECTOR = Vector.pack("m", [1.0, 2.0])
NO_LISTS: Mapping[str, Any] = {
    "nothing": None,
    "a number": 3,
    "text": "12",
    "bytes": b"12",
    "a mapping": {0: 1.0},
    "a set": {1.0},
    "a generator": (n for n in [1.0]),
    "texts": ["1"],
    "lists": [[1.0]],
    "complex numbers": [1 + 2j],
    "nothings": [None],
    "a number beyond floats": [10**400, 1.5],
}
NO_DIRECTION: Mapping[str, Any] = {
    "nothing": [],
    "zeros": [0.0, 0.0],
    "no number": [float("nan"), 1.0],
    "an endless one": [float("inf"), 1.0],
}
PARTS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "codes of text": ({"codes": "str"}, "codes must be bytes"),
    "codes in a list": ({"codes": [1, 2]}, "codes must be bytes"),
    "codes that may change": ({"codes": bytearray(b"\1")}, "codes must be bytes"),
    "no codes": ({"codes": b""}, "must have a direction"),
    "a model that is a number": ({"model": 3}, "model must have a name"),
    "a model without a name": ({"model": ""}, "model must have a name"),
    "a model with a surrogate": ({"model": "\ud800"}, "unpaired surrogates"),
    "a model with a NUL": ({"model": "a\0b"}, "NUL"),
}


@pytest.mark.parametrize("numbers", NO_LISTS.values(), ids=NO_LISTS.keys())
def test_what_is_no_list_of_numbers_is_refused(numbers: Any) -> None:
    with pytest.raises(InvalidParameterError, match="vector must be a list of numbers"):
        Vector.pack("m", numbers)


@pytest.mark.parametrize("numbers", NO_DIRECTION.values(), ids=NO_DIRECTION.keys())
def test_numbers_without_a_direction_are_refused(numbers: Any) -> None:
    with pytest.raises(InvalidParameterError, match="vector must have a direction"):
        Vector.pack("m", numbers)


@pytest.mark.parametrize(("parts", "complaint"), PARTS.values(), ids=PARTS.keys())
def test_parts_that_no_store_can_keep_are_refused(parts: Mapping[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidParameterError, match=complaint):
        Vector(**dict[str, Any](model="m", codes=b"\1") | dict(parts))


def test_names_of_any_script_and_arrays_are_taken() -> None:
    numpy = pytest.importorskip("numpy")

    packed = Vector.pack("模型\u200d 2", numpy.array([1.0, -1.0]))

    assert packed.codes == b"\x7f\x81"


async def test_no_use_of_a_vector_raises_a_bare_error() -> None:
    for call in (
        call_of(Vector, model="m", codes=b"\1\2"),
        call_of(Vector.pack, "m", [1.0]),
        call_of(VECTOR.cosine, VECTOR),
    ):
        assert await find_bare_errors(call) == []
