"""Keeping and removing records in the sources of a memory assembler."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias, TypeGuard, runtime_checkable

from context_assembler.errors import ConfigurationError, InvalidParameterError
from context_assembler.memory.asked_ids import asked_ids
from context_assembler.memory.preparing import may_hold_secret, names_unmasked
from context_assembler.memory_assembler.arguments import check_likeness
from context_assembler.memory_assembler.merging import Alike, find_alike, tell_all
from context_assembler.ports import Embed, MemorySource
from context_assembler.ports.asking import ask_embedder
from context_assembler.values.json_bounds import shown
from context_assembler.values.memories.codec import says_something
from context_assembler.values.memories.records import MemoryRecord, Remembered
from context_assembler.values.texts.secret_masking import mask_secrets

Memorable: TypeAlias = MemoryRecord | str | Iterable[MemoryRecord | str]
"""Records, or texts, that can be remembered; one, or several."""


@runtime_checkable
class _Keeping(Protocol):
    async def remember(self, records: Sequence[MemoryRecord]) -> list[Remembered]: ...

    async def forget(self, memory_ids: Sequence[str]) -> list[str]: ...


async def remember_records(
    sources: Iterable[MemorySource],
    given: Memorable,
    *,
    embed: Embed | None,
    masks_secrets: bool,
    merges_alike: float | None = None,
) -> list[Remembered]:
    """Keep records in the first source that keeps any.

    A record without a vector gets one where there is a model; no secret is shown to the model.

    Args:
        merges_alike: From which likeness on a record is not kept beside one that is there.

    Raises:
        ConfigurationError: No source keeps records, or something among them is neither.
        EmbeddingError: The embedding model failed, or answered something else; nothing is kept.
        InvalidParameterError: `merges_alike` is no likeness, or the text of a record says nothing.
        MissingExtraError: Secrets are to be masked, and detect-secrets is not installed.
    """
    if merges_alike is not None:
        check_likeness("merges_alike", merges_alike)
    store = _keeping(sources)[0]
    records = listed_records(given)
    alike = Alike()
    if merges_alike is not None and isinstance(store, MemorySource):
        shown = [
            replace(record, text=_unsecret(record.text, at=at, masks_secrets=masks_secrets))
            for at, record in enumerate(records)
        ]
        alike = await find_alike(store, shown, least=merges_alike)
    spared = {*alike.kept, *alike.first}
    new = {at: record for at, record in enumerate(records) if at not in spared}
    if embed is not None:
        new |= await _placed(new, embed, masks_secrets=masks_secrets)
    return tell_all(alike, await store.remember(list(new.values())), count=len(records))


def listed_records(given: object) -> list[MemoryRecord]:
    """Return what is to be remembered as records.

    Raises:
        ConfigurationError: Something among it is neither a record nor a text.
        InvalidParameterError: The text of one says nothing.
    """
    if not _is_several(given):
        return [_record(given, "text")]
    return [_record(one, f"the text of [{at}]") for at, one in enumerate(given)]


async def forget_memories(
    sources: Iterable[MemorySource], memory_ids: str | Iterable[str]
) -> list[str]:
    """Remove records from every source that keeps any, and return the ids of those that were there.

    Raises:
        ConfigurationError: No source keeps records.
    """
    ids = asked_ids([memory_ids] if isinstance(memory_ids, str) else memory_ids)
    gone = [memory_id for store in _keeping(sources) for memory_id in await store.forget(ids)]
    return list(dict.fromkeys(gone))


def _keeping(sources: Iterable[MemorySource]) -> list[_Keeping]:
    stores: list[_Keeping] = [source for source in sources if isinstance(source, _Keeping)]
    if not stores:
        raise ConfigurationError(
            "None of the sources keeps memories: they can only be searched.",
            remedy="Add a store, such as 'sqlite:memory.db'.",
        )
    return stores


def _is_several(given: object) -> TypeGuard[Iterable[object]]:
    # Who walks through a mapping, or through bytes, meets what nobody meant to be remembered.
    return isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)


def _record(given: object, name: str) -> MemoryRecord:
    """Return what is given as a record.

    Args:
        name: What to call its text in errors.
    """
    record = MemoryRecord(text=given) if isinstance(given, str) else given
    if not isinstance(record, MemoryRecord):
        raise ConfigurationError(
            f"{shown(given)} cannot be remembered.",
            remedy="Pass a text, or MemoryRecord(text=…, kind=…), or several of these.",
        )
    if not says_something(record):
        raise InvalidParameterError(
            name, record.text, rule="must say something", remedy="Pass a word or more to remember."
        )
    return record


async def _placed(
    record_by_place: Mapping[int, MemoryRecord], embed: Embed, *, masks_secrets: bool
) -> dict[int, MemoryRecord]:
    """Return those of the records that have no vector with the model's."""
    bare = {at: record for at, record in record_by_place.items() if record.vector is None}
    texts = [
        _unsecret(record.text, at=at, masks_secrets=masks_secrets) for at, record in bare.items()
    ]
    vectors = await ask_embedder(embed, texts) if texts else []
    return {
        at: replace(record, vector=vector)
        for (at, record), vector in zip(bare.items(), vectors, strict=True)
    }


def _unsecret(text: str, *, at: int, masks_secrets: bool) -> str:
    if not masks_secrets or not may_hold_secret(text):
        return text
    with names_unmasked(at):
        return mask_secrets(text).text
