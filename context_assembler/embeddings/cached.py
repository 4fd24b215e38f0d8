"""An embedder that asks about every text once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Final, Self

from cachetools import LRUCache

from context_assembler.embeddings.asked_texts import check_size, checked_texts
from context_assembler.embeddings.cache_file import CacheFile
from context_assembler.errors import MemoryUnavailableError
from context_assembler.ports import Embed, EmbedPurpose
from context_assembler.ports.asking import ask_embedder
from context_assembler.sync import close_all
from context_assembler.values.given import check_method, check_path
from context_assembler.values.memories.answered_vectors import check_vectors
from context_assembler.values.memories.vectors import Vector

_MAX_VECTORS: Final = 10_000
_MAX_FILE_VECTORS: Final = 200_000
_NOTHING: Final = b""  # what is kept of a text that says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingCacheStats:
    """What a cache was asked, and how.

    Attributes:
        hits: Texts whose vectors were in memory.
        file_hits: Texts whose vectors were in the file.
        misses: Texts that the model was asked about.
        vectors: How many are in memory.
        problem: Why the file was passed over, the last time it was; empty where it never was.
    """

    hits: int
    file_hits: int
    misses: int
    vectors: int
    problem: str


class CachedEmbedder:
    """Keeps vectors under the digest of model, dimension, purpose and text.

    A cache never stands in the way: where the file cannot be used the model is asked instead, and
    `stats` tells why. Texts themselves are not kept. Safe between threads and event loops; calls
    that ask about a text at the same moment each ask for themselves.

    Args:
        embedder: Whom to ask.
        path: Keeps vectors in this SQLite file as well, which may be a memory store's.
        max_vectors: How many stay in memory, those used last.
        max_file_vectors: How many stay in the file, those computed last.
    """

    def __init__(
        self,
        embedder: Embed,
        *,
        path: str | Path | None = None,
        max_vectors: int = _MAX_VECTORS,
        max_file_vectors: int = _MAX_FILE_VECTORS,
    ) -> None:
        check_method("embedder", embedder, "embed", such_as="an embedder, as BundledEmbedder() is")
        for name, bound in (("max_vectors", max_vectors), ("max_file_vectors", max_file_vectors)):
            check_size(name, bound)
        if path is not None:
            check_path("path", path, such_as="a path such as 'cache.db', or None to keep no file")
        self._embedder = embedder
        self._file = None if path is None else CacheFile(path, max_vectors=max_file_vectors)
        self._kept: LRUCache[bytes, bytes] = LRUCache(max_vectors)
        self._lock = Lock()
        self._seen_dimension = embedder.dimension
        self._hits = self._file_hits = self._misses = 0
        self._problem = ""

    @property
    def model(self) -> str:
        """The name of the space: that of the embedder."""
        return self._embedder.model

    @property
    def dimension(self) -> int | None:
        """How many numbers a vector is asked to have."""
        return self._embedder.dimension

    async def embed(
        self, texts: Sequence[str], *, purpose: EmbedPurpose = "record"
    ) -> list[Vector | None]:
        """Return a vector for each text, in order; `None` for one that says nothing.

        Raises:
            EmbeddingError: The model cannot be used, or its vectors are of another one than those
                that are kept.
            MissingExtraError: A package that it needs is not installed.
        """
        texts = checked_texts(texts, purpose=purpose)
        text_by_key = {self._key_of(text, purpose): text for text in texts}
        found = self._from_memory(text_by_key)
        found |= await self._from_file([key for key in text_by_key if key not in found])
        missing = [key for key in text_by_key if key not in found]
        if missing:
            found |= await self._ask([text_by_key[key] for key in missing], missing, purpose)
        vectors = [self._vector_of(found[self._key_of(text, purpose)]) for text in texts]
        self._seen_dimension = check_vectors(
            vectors, model=self.model, dimension=self._seen_dimension, texts=len(texts)
        )
        return vectors

    def stats(self) -> EmbeddingCacheStats:
        """Return what the cache was asked so far."""
        with self._lock:
            return EmbeddingCacheStats(
                hits=self._hits,
                file_hits=self._file_hits,
                misses=self._misses,
                vectors=len(self._kept),
                problem=self._problem,
            )

    async def close(self) -> None:
        """Close the file, and the embedder."""
        own_file = () if self._file is None else (self._file.close,)
        await close_all(*own_file, self._embedder.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _from_memory(self, text_by_key: Mapping[bytes, str]) -> dict[bytes, bytes]:
        with self._lock:
            found = {key: self._kept[key] for key in text_by_key if key in self._kept}
            self._hits += len(found)
        return found

    async def _from_file(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        if self._file is None or not keys:
            return {}
        try:
            found = await self._file.read(keys)
        except MemoryUnavailableError as error:
            self._problem = str(error)
            return {}
        whole = self._whole_of(found)
        if len(whole) < len(found):
            told = f"{len(found) - len(whole)} of {len(found)}"
            self._problem = f"the file holds damaged vectors: {told} that were looked up"
        with self._lock:
            self._file_hits += len(whole)
            self._kept.update(whole)
        return whole

    def _whole_of(self, found: Mapping[bytes, object]) -> dict[bytes, bytes]:
        """Return what may be vectors of the model, none where it cannot be told which are."""
        whole = {
            key: codes
            for key, codes in found.items()
            if isinstance(codes, bytes) and (codes == _NOTHING or any(codes))
        }
        sizes = {len(codes) for codes in whole.values() if codes}
        told = self._seen_dimension
        if told is None and len(sizes) > 1:
            return {key: codes for key, codes in whole.items() if not codes}
        return {
            key: codes
            for key, codes in whole.items()
            if not codes or len(codes) == (told or len(codes))
        }

    async def _ask(
        self, texts: Sequence[str], keys: Sequence[bytes], purpose: EmbedPurpose
    ) -> dict[bytes, bytes]:
        vectors = await ask_embedder(
            self._embedder, texts, purpose=purpose, dimension=self._seen_dimension
        )
        self._seen_dimension = check_vectors(
            vectors, model=self.model, dimension=self._seen_dimension, texts=len(texts)
        )
        codes = [_NOTHING if vector is None else vector.codes for vector in vectors]
        computed = dict(zip(keys, codes, strict=True))
        with self._lock:
            self._misses += len(computed)
            self._kept.update(computed)
        if self._file is not None:
            try:
                await self._file.write(computed)
            except MemoryUnavailableError as error:
                self._problem = str(error)
        return computed

    def _vector_of(self, codes: bytes) -> Vector | None:
        return Vector(model=self.model, codes=codes) if codes else None

    def _key_of(self, text: str, purpose: EmbedPurpose) -> bytes:
        told = f"{self.model}\0{self.dimension or ''}\0{purpose}\0{text}"
        return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).digest()
