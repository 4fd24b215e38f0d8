"""What URLs hold secret is told by no error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from context_assembler import ContextAssembler
from context_assembler.errors import AssemblyError, MemoryUnavailableError
from context_assembler.errors.credentials import without_credentials
from context_assembler.memory import open_lancedb, open_memory, open_qdrant
from context_assembler.memory_assembler import MemoryAssembler

SECRET = "s3cretPW"

TEXTS = {
    f"http://bob:{SECRET}@host:6333#c": "http://***@host:6333#c",
    f"http://{SECRET}@host/path": "http://***@host/path",
    f"see 'https://bob:{SECRET}/@{SECRET}@host/x' there": "see 'https://***@host/x' there",
    f"postgresql:bob:{SECRET}@host/db": "postgresql:***@host/db",
    f"db://x?api_key={SECRET}&region=eu": "db://x?api_key=***&region=eu",
    f"s3://b/p?aws_secret_access_key={SECRET}": "s3://b/p?aws_secret_access_key=***",
    f"http://h/?X-Amz-Signature={SECRET}#memories": "http://h/?X-Amz-Signature=***#memories",
    f"http://h/?password={SECRET}": "http://h/?password=***",
    "http://localhost:6333#memories": "http://localhost:6333#memories",
    "/home/ada@work/m.db": "/home/ada@work/m.db",
    "sqlite:memory.db": "sqlite:memory.db",
}


@pytest.mark.parametrize(("text", "told"), TEXTS.items())
def test_secrets_in_urls_are_hidden(text: str, told: str) -> None:
    assert without_credentials(text) == told


OPENED: dict[str, Callable[[], Any]] = {
    "a scheme like none": lambda: open_memory(f"qdrnt:http://bob:{SECRET}@127.0.0.1:1"),
    "a URL of nothing": lambda: open_memory(f"postgresql:bob:{SECRET}@127.0.0.1/db"),
    "sessions": lambda: ContextAssembler(f"postgrs://bob:{SECRET}@127.0.0.1/db"),
    "sources": lambda: MemoryAssembler(f"postgrs://bob:{SECRET}@127.0.0.1/db"),
}


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED.keys())
def test_a_url_that_opens_nothing_is_told_without_its_secret(opened: Callable[[], Any]) -> None:
    with pytest.raises(AssemblyError) as caught:
        opened()

    assert SECRET not in f"{caught.value} {vars(caught.value)}"


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
async def test_a_qdrant_server_is_told_without_its_secrets() -> None:
    pytest.importorskip("qdrant_client")
    for location in (f"http://bob:{SECRET}@127.0.0.1:1", f"http://127.0.0.1:1?api_key={SECRET}"):
        async with open_qdrant(location, api_key=SECRET) as store:
            with pytest.raises(MemoryUnavailableError, match=r"127\.0\.0\.1:1") as caught:
                await store.stats()
            context = await MemoryAssembler(store).assemble_context("tea")

        assert SECRET not in f"{caught.value} {vars(caught.value)}"
        assert SECRET not in f"{context.markdown} {context.source_notes}"


async def test_a_place_of_lancedb_is_told_without_its_secrets() -> None:
    pytest.importorskip("lancedb")
    location = f"nowhere://bob:{SECRET}@host/memories?token={SECRET}"
    async with open_lancedb(location) as store:
        with pytest.raises(MemoryUnavailableError, match="host/memories") as caught:
            await store.stats()

    assert SECRET not in f"{caught.value} {vars(caught.value)}"


def test_a_path_is_told_as_it_is(tmp_path: Path) -> None:
    error = MemoryUnavailableError(f"{tmp_path}/a@b.db", reason="the disk is full", remedy="")

    assert error.location == f"{tmp_path}/a@b.db"
