"""What a record is told apart by, and what its whole text is found by."""

from dataclasses import replace
from hashlib import blake2b
from typing import Final

from context_assembler.values.memories.records import MemoryRecord
from context_assembler.values.texts.secret_signs import may_hold_secret

_GIVEN: Final = "unnamed-"
_SEPARATOR: Final = "\0"


def identified(record: MemoryRecord) -> MemoryRecord:
    """Return the record with an id: its own, or else one that is made of what it says."""
    if record.id:
        return record
    told = (
        *(record.namespace, record.kind, record.session_id, record.parent_id, record.author),
        *(record.created_at, record.metadata, record.text),
    )
    joined = _SEPARATOR.join(map(repr, told)).encode()
    return replace(record, id=f"{_GIVEN}{blake2b(joined, digest_size=10).hexdigest()}")


def reference_of(record: MemoryRecord) -> str:
    """Return what its source finds the record by; empty where it has no id, or one not to be told."""
    return "" if record.id.startswith(_GIVEN) or may_hold_secret(record.id) else record.id
