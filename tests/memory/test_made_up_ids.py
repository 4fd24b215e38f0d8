"""Ids of records that come without one."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from context_assembler.memory.preparing import prepare_record
from context_assembler.values.memories.records import MemoryRecord

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.datetimes(timezones=st.just(UTC))


def id_of(text: str, moment: datetime) -> str:
    record = MemoryRecord(text=text, created_at=moment)
    prepared = prepare_record(record, now=EPOCH, masks_secrets=False, finds_duplicates=True)
    return prepared.memory_id


@given(text=st.sampled_from(["a boat", "我喜欢徒步", ""]), earlier=moments, later=moments)
def test_ids_of_later_seconds_come_behind(text: str, earlier: datetime, later: datetime) -> None:
    earlier, later = sorted((earlier, later))

    if later - max(earlier, EPOCH) >= timedelta(seconds=1):
        assert id_of("another", earlier) < id_of(text, later)


@given(moment=moments)
def test_the_same_gets_the_same_id_and_anything_else_another(moment: datetime) -> None:
    assert id_of("a boat", moment) == id_of("a boat", moment)
    assert id_of("a boat", moment) != id_of("a ferry", moment)
    assert len(id_of("a boat", moment)) == 30
