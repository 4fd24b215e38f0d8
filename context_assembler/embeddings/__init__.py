"""The embedders that travel with the package, by name."""

from collections.abc import Callable, Mapping
from typing import Final

from context_assembler.embeddings.bundled import BundledEmbedder
from context_assembler.embeddings.cached import CachedEmbedder, EmbeddingCacheStats
from context_assembler.embeddings.minilm import MiniLmEmbedder
from context_assembler.embeddings.openai_compatible import OpenAICompatibleEmbedder
from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.ports import Embed
from context_assembler.values.given import check_type

__all__ = [
    "EMBEDDERS",
    "BundledEmbedder",
    "CachedEmbedder",
    "EmbeddingCacheStats",
    "MiniLmEmbedder",
    "OpenAICompatibleEmbedder",
    "open_embedder",
]


def _open_bundled(rest: str) -> BundledEmbedder:
    _refuse_rest("bundled", rest)
    return BundledEmbedder()


def _open_minilm(rest: str) -> MiniLmEmbedder:
    _refuse_rest("minilm", rest)
    return MiniLmEmbedder()


def _open_openai(rest: str) -> OpenAICompatibleEmbedder:
    model, at, address = rest.partition("@http")
    if not model:
        raise ConfigurationError(
            f"'openai:{rest}' names no model.",
            remedy="Write 'openai:MODEL', or 'openai:MODEL@https://host/v1'.",
        )
    base_url = f"http{address}" if at else None
    return OpenAICompatibleEmbedder(base_url=base_url, model=model)


def _refuse_rest(name: str, rest: str) -> None:
    if rest:
        raise ConfigurationError(
            f"The embedder {name!r} takes nothing behind its name, but got {rest!r}.",
            remedy=f"Write {name!r} alone.",
        )


EMBEDDERS: Final[Mapping[str, Callable[[str], Embed]]] = {
    "bundled": _open_bundled,
    "minilm": _open_minilm,
    "openai": _open_openai,
}
"""What makes an embedder from what stands behind the colon; nothing is loaded before first use."""


def open_embedder(name: str) -> Embed:
    """Return the embedder that a setting names.

    `bundled` is the small model of the package, `minilm` the larger one of the extra,
    `openai:MODEL` one of OpenAI's, `openai:MODEL@https://host/v1` one behind another endpoint.

    Raises:
        UnknownOptionError: There is no such embedder.
        ConfigurationError: What stands behind the colon cannot be, or the name is no text.
    """
    check_type("name", name, str, such_as="'bundled', 'minilm', or 'openai:MODEL'")
    family, _, rest = name.partition(":")
    make = EMBEDDERS.get(family)
    if make is None:
        raise UnknownOptionError(family, kind="embedder", known=EMBEDDERS)
    return make(rest)
