"""Places for sessions: one of each kind that a bundled store keeps them in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import new_schema


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of an empty store of each kind."""
    if request.param == "postgresql":
        with new_schema(request.getfixturevalue("postgres_server")) as url:
            yield url
    else:
        yield "memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'agent.db'}"
