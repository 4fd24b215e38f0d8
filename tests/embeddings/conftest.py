"""The local endpoint for embeddings."""

from collections.abc import Iterator

import pytest

from tests.embeddings.embedding_server import EmbeddingServer, serve_embeddings


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with serve_embeddings() as served:
        yield served
