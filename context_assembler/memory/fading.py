"""Letting go of what was not important, and was not used for long; over any store."""

from datetime import datetime, timedelta
from typing import Final

from context_assembler.errors import InvalidParameterError
from context_assembler.memory.asked_bounds import check_filters
from context_assembler.ports import MemoryStore
from context_assembler.values.given import check_method, check_type
from context_assembler.values.memories.records import (
    NO_FILTERS,
    MemoryFilters,
    MemoryRecord,
    check_moment,
)

LEAST_WORTH: Final = 0.05
_DAY: Final = timedelta(days=1)


def worth_of(record: MemoryRecord, *, half_life_days: float, now: datetime) -> float:
    """Return a record's importance, halved for each half-life since it was made or last used."""
    moments = [at for at in (record.created_at, record.last_access_at) if at is not None]
    if not moments:
        return record.importance
    age_days = max((now - max(moments)) / _DAY, 0.0)
    return float(record.importance * 0.5 ** (age_days / half_life_days))


async def find_faded(
    store: MemoryStore,
    *,
    half_life_days: float,
    now: datetime,
    least_worth: float = LEAST_WORTH,
    filters: MemoryFilters = NO_FILTERS,
) -> list[MemoryRecord]:
    """Return the records that `forget_faded` would forget, in the order of storing.

    Raises:
        InvalidParameterError: The half-life is not positive, or `now` has no time zone.
        StoreError: The store cannot be read.
    """
    check_method(
        "store", store, "export", such_as="a memory store, such as open_memory('sqlite:…')"
    )
    check_type("half_life_days", half_life_days, int, float, such_as="a number of days, such as 30")
    check_type("now", now, datetime, such_as="datetime.now(UTC)")
    check_moment("now", now)
    check_type("least_worth", least_worth, int, float, such_as="a worth, such as 0.05")
    check_filters(filters)
    if not half_life_days > 0:
        raise InvalidParameterError(
            "half_life_days",
            half_life_days,
            rule="must be positive",
            remedy="Pass a number such as 30.",
        )
    return [
        record
        async for record in store.export(filters=filters)
        if worth_of(record, half_life_days=half_life_days, now=now) < least_worth
    ]


async def forget_faded(
    store: MemoryStore,
    *,
    half_life_days: float,
    now: datetime,
    least_worth: float = LEAST_WORTH,
    filters: MemoryFilters = NO_FILTERS,
    is_dry_run: bool = False,
) -> list[str]:
    """Forget what is worth less than the least, and return the ids, in the order of storing.

    A record is worth its importance when it is made, and again when it is used (`touch`); half of
    that after each half-life. What is made or used ahead of `now` has not faded.

    Args:
        filters: What may fade at all.
        is_dry_run: Whether nothing is forgotten: the ids are those that would be.

    Raises:
        InvalidParameterError: The half-life is not positive, or `now` has no time zone.
        StoreError: The store cannot be read or written.
    """
    faded = await find_faded(
        store, half_life_days=half_life_days, now=now, least_worth=least_worth, filters=filters
    )
    ids = [record.id for record in faded]
    return ids if is_dry_run or not ids else await store.forget(ids)
