"""What is known of a collection of Qdrant, in its metadata."""

from typing import Any, Final

from context_assembler.errors import MemoryUnavailableError
from context_assembler.memory.qdrant_connection import is_missing
from context_assembler.memory.rows import VectorModel

FORMAT: Final = 1
_STATE: Final = "context_assembler"  # our part of the metadata
_UPGRADE: Final = "Upgrade the package: pip install --upgrade context-assembler"
_OTHERS: Final = "Name another collection, or recall from this one with open_qdrant_collection()."


def read_state(client: Any, collection: str, *, location: str) -> dict[str, Any] | None:
    """Return what is known of the collection; `None` where there is none.

    Raises:
        MemoryUnavailableError: It is not a memory store's, or of a newer version.
    """
    try:
        config = client.get_collection(collection).config
    except Exception as error:
        if is_missing(error):
            return None
        raise
    metadata: dict[str, dict[str, Any]] = config.metadata or {}
    state = metadata.get(_STATE)
    if state is None:
        reason = "it is a collection of something else"
        raise MemoryUnavailableError(location, reason=reason, remedy=_OTHERS)
    if state["format"] > FORMAT:
        reason = f"it has format version {state['format']}, this package reads {FORMAT}"
        raise MemoryUnavailableError(location, reason=reason, remedy=_UPGRADE)
    return state


def model_of(state: dict[str, Any]) -> VectorModel | None:
    """Return which vectors are kept; `None` where none ever were."""
    return VectorModel(state["model"], state["dimension"]) if state.get("model") else None


def metadata_of(model: VectorModel | None) -> dict[str, Any]:
    """Return the metadata of a collection that keeps the vectors of that model."""
    name, dimension = (None, None) if model is None else (model.name, model.dimension)
    return {_STATE: {"format": FORMAT, "model": name, "dimension": dimension}}
