"""What tools return is kept as text that a model can read; what cannot be is named."""

import enum
import json
import sqlite3
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from context_assembler.errors import ContentError
from context_assembler.values.content import as_result_parts
from context_assembler.values.parts import Base64Source, Image, Text


class Flight(BaseModel):
    number: str
    at: datetime


@dataclass
class Fare:
    amount: Decimal
    classes: frozenset[str]


class Seat(NamedTuple):
    row: int
    letter: str


class Side(enum.Enum):
    WINDOW = "window"


def row() -> sqlite3.Row:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    found: sqlite3.Row = connection.execute("SELECT 1 AS id, 'Ada' AS name").fetchone()
    return found


RETURNED: dict[str, tuple[Any, Any]] = {
    "a date": ({"due": date(2026, 1, 1)}, {"due": "2026-01-01"}),
    "a time of day": ([time(9, 10)], ["09:10:00"]),
    "a decimal": (Decimal("9.90"), "9.90"),
    "an id": (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "a path": (PurePosixPath("a/b"), "a/b"),
    "a set": ({1}, [1]),
    "a choice": ({"side": Side.WINDOW}, {"side": "window"}),
    "a tuple with names": (Seat(3, "a"), [3, "a"]),
    "a model": (
        Flight(number="TP 1", at=datetime(2026, 1, 1, 9, tzinfo=UTC)),
        {"number": "TP 1", "at": "2026-01-01T09:00:00Z"},
    ),
    "a dataclass": (
        [Fare(Decimal("1.5"), frozenset({"eco"}))],
        [{"amount": "1.5", "classes": ["eco"]}],
    ),
    "a row": ([row()], [{"id": 1, "name": "Ada"}]),
    "a view of a mapping": (MappingProxyType({"a": 1}), {"a": 1}),
    "an ordered mapping": (OrderedDict(a=date(2026, 1, 1)), {"a": "2026-01-01"}),
    "an array": ({"scores": np.array([1, 2])}, {"scores": [1, 2]}),
    "a number of an array": (np.float64(0.5), 0.5),
    "keys that are dates": ({date(2026, 1, 1): 1}, {"2026-01-01": 1}),
    "text in bytes": ({"name": "Łódź".encode()}, {"name": "Łódź"}),
}


@pytest.mark.parametrize(("returned", "kept"), RETURNED.values(), ids=RETURNED.keys())
def test_what_functions_return_is_kept_as_json(returned: Any, kept: Any) -> None:
    [part] = as_result_parts(returned)

    assert isinstance(part, Text)
    assert json.loads(part.text) == kept


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(returned=values.filter(lambda value: not isinstance(value, str)))
def test_a_value_of_json_is_kept_as_it_is(returned: Any) -> None:
    [part] = as_result_parts(returned)

    assert isinstance(part, Text)
    assert part.text == json.dumps(returned, ensure_ascii=False)


class Handle:
    pass


LOOP: list[Any] = []
LOOP.append(LOOP)

NAMED: dict[str, tuple[Any, str]] = {
    "an object": (Handle(), "the result is a Handle"),
    "an object within": (
        {"rows": [{"at": date(2026, 1, 1), "file": Handle()}]},
        r"the result\['rows'\]\[0\]\['file'\] is a Handle",
    ),
    "bytes that are no text": ({"blob": b"\xff\xfe"}, r"the result\['blob'\] is a bytes"),
    "a picture in an object": (
        {"chart": Image(source=Base64Source(media_type="image/png", data="iVBORw0KGgo="))},
        r"the result\['chart'\] is an Image",
    ),
    "a list that holds itself": (LOOP, r"the result.* is a list"),
}


@pytest.mark.parametrize(("returned", "told"), NAMED.values(), ids=NAMED.keys())
def test_what_json_cannot_say_is_named_with_its_place(returned: Any, told: str) -> None:
    with pytest.raises(ContentError, match=told):
        as_result_parts(returned)
