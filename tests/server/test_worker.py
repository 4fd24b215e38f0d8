"""The worker over HTTP: what it answers, to whom, and how it stops."""

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from context_assembler.errors import ConfigurationError
from context_assembler.server import Worker, create_app, run
from context_assembler.session_start import find_project
from tests.server.conftest import serving
from tests.session_start.test_hook import text_of, told


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def worker(state: Path, stores: dict[str, str]) -> Iterator[httpx.Client]:
    urls = {name: stores[name] for name in ("sessions", "memory")}
    with serving(state, **urls) as client:
        yield client


def test_it_says_that_it_runs(worker: httpx.Client) -> None:
    assert worker.get("/health").json()["status"] == "ok"


def test_a_context_is_json_or_text_and_is_logged(
    worker: httpx.Client, stores: dict[str, str], state: Path
) -> None:
    asked = {"project_path": stores["project"], "session_id": "s9"}

    made = worker.get("/api/context", params=asked).json()
    text = worker.get("/api/context", params=asked, headers={"Accept": "text/plain"})

    assert "Prices are integers." in made["text"]
    assert made["layers"] == {"learnings": made["layers"]["learnings"]}
    assert made["build_ms"] > 0
    assert text.text == made["text"]
    assert (text.headers["x-tokens"], text.headers["x-layers"]) == (
        str(made["tokens"]),
        "learnings",
    )
    log = state / "injections.tsv"
    while not log.exists() or "s9" not in log.read_text():  # it is written once the answer is out
        time.sleep(0.02)
    row = next(line for line in log.read_text().splitlines() if "s9" in line).split("\t")
    assert row[3:6] == ["s9", find_project(stores["project"]), "worker"]
    assert len(row) == 10


def test_the_hook_asks_the_worker_and_then_finds_the_snapshot(
    worker: httpx.Client, stores: dict[str, str], state: Path
) -> None:
    for snapshot in state.glob("snapshot-*"):
        snapshot.unlink()
    asked = {"cwd": stores["project"], "session_id": "s"}

    first = told(state, asked)
    while not list(state.glob("snapshot-*")):  # it is kept once the answer is out
        time.sleep(0.02)
    second = told(state, asked)

    assert "Prices are integers." in text_of(first)
    assert first == second
    routes = [row.split("\t")[5] for row in (state / "injections.tsv").read_text().splitlines()]
    assert routes[-1] == "snapshot"
    assert "worker" in routes[-3:]
    del worker


def test_a_request_of_a_session_is_what_the_library_assembles(worker: httpx.Client) -> None:
    asked = {"session_id": "trip 42/ä", "options": {"model": "claude-opus-5-5"}}

    answer = worker.post("/api/assemble", json=asked).json()
    report = worker.post("/api/explain", json=asked).json()

    assert answer["payload"]["model"] == "claude-opus-5-5"
    assert answer["ledger"]["rows"] == report["ledger"]["rows"]
    assert {one["id"] for one in worker.get("/api/sessions").json()} == {"first", "trip 42/ä"}
    events = worker.get("/api/sessions/first/events").json()
    assert [event["type"] for event in events] == ["user"]
    assert "aB3aB3" not in json.dumps(events)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/sessions/none", 404),
        ("/api/sessions/none/events", 404),
        ("/api/search?query=x&kind=nonsense", 422),
        ("/api/search?query=", 422),
        ("/api/search?query=x&limit=0", 422),
        ("/api/context", 422),
        ("/api/context?project_path=%00", 422),
        ("/nowhere", 404),
    ],
)
def test_a_request_that_cannot_be_met_says_why(
    worker: httpx.Client, path: str, status: int
) -> None:
    answer = worker.get(path)

    assert answer.status_code == status
    assert answer.json().get("error") or answer.json().get("detail")


@pytest.mark.parametrize(
    "options",
    [
        {"model": "nonsense"},
        {},
        {"model": "gpt-5.5", "temperatur": 1},
        {"model": "gpt-5.5", "additional_tools": ["os.system"]},
        {"model": "gpt-5.5", "exact": True},
        {"model": "gpt-5.5", "max_context_tokens": 1},
        {"model": "gpt-5.5", "session_id": "second"},
        {"model": "gpt-5.5", "agent_id": "a"},
    ],
    ids=repr,
)
def test_bad_options_are_refused_by_name(worker: httpx.Client, options: dict[str, Any]) -> None:
    answer = worker.post("/api/assemble", json={"session_id": "first", "options": options})

    assert answer.status_code == 422
    assert answer.json()["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:80"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]:8808"}, 200),
    ],
    ids=repr,
)
def test_pages_of_a_browser_cannot_read_anything(
    worker: httpx.Client, headers: dict[str, str], status: int
) -> None:
    for path in ("/health", "/api/sessions", "/openapi.json"):
        answer = worker.get(path, headers=headers)
        assert answer.status_code == status
        assert "access-control-allow-origin" not in answer.headers
    assert worker.options("/api/sessions", headers=headers).status_code != 200


def test_a_large_request_is_refused(worker: httpx.Client) -> None:
    body = b'{"session_id": "' + b"x" * 1_100_000 + b'"}'

    assert worker.post("/api/assemble", content=body).status_code == 413


def test_two_hundred_requests_at_once_are_answered(
    worker: httpx.Client, stores: dict[str, str]
) -> None:
    async def ask() -> list[int]:
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(
            base_url=worker.base_url, headers=worker.headers, limits=limits, timeout=None
        ) as client:
            params = {"project_path": stores["project"]}
            answers = (client.get("/api/context", params=params) for _ in range(200))
            return [one.status_code for one in await asyncio.gather(*answers)]

    assert set(asyncio.run(ask())) == {200}


def test_other_machines_need_a_token(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no token"):
        run(host="0.0.0.0", state=str(tmp_path))


def test_a_token_and_a_unix_socket_of_its_owner_keep_others_out(
    tmp_path: Path, stores: dict[str, str]
) -> None:
    path, asked = tmp_path / "worker.sock", "/api/search?query=prices"
    with serving(tmp_path, token="s3cret", socket=str(path), memory=stores["memory"]) as client:
        assert client.get(asked).status_code == 200
        for given in ("Bearer wrong", "Basic s3cret", "Bearer", ""):
            headers = {"Authorization": given}
            assert client.get(asked, headers=headers).status_code == 401
        assert client.get("/health", headers={"Authorization": ""}).status_code == 200
        assert path.stat().st_mode & 0o077 == 0
        assert (tmp_path / "worker").stat().st_mode & 0o077 == 0
        shown = text_of(told(tmp_path, {"cwd": stores["project"]}))
    assert "Prices are integers." in shown
    assert not (tmp_path / "worker").exists()


def test_a_file_in_the_place_of_the_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_text("mine")

    with pytest.raises(ConfigurationError, match="cannot listen on"):
        run(socket=path, state=str(tmp_path))

    assert path.read_text() == "mine"


@pytest.mark.parametrize("damage", ["locked", "corrupt"])
def test_a_table_that_cannot_be_written_costs_no_answer(
    tmp_path: Path, stores: dict[str, str], damage: str
) -> None:
    worker = Worker(memory=stores["memory"], state=str(tmp_path))
    table = sqlite3.connect(tmp_path / "rendered.db")
    if damage == "locked":
        table.execute("CREATE TABLE held (x)")
        table.execute("BEGIN EXCLUSIVE")
    else:
        (tmp_path / "rendered.db").write_bytes(b"no database" * 500)

    made = asyncio.run(worker.context(stores["project"], None))
    table.close()

    assert "Prices are integers." in made.text
    assert list(tmp_path.glob("snapshot-*.md"))


def test_no_request_of_the_schema_breaks_the_worker(stores: dict[str, str]) -> None:
    import schemathesis

    app = create_app(Worker(sessions=stores["sessions"], memory=stores["memory"]))
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers={"Host": "localhost"})
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]

    for operation in operations:

        @given(case=operation.as_strategy())
        @settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
        def ask(case: Any) -> None:
            assert case.call(headers={"Host": "localhost"}).status_code < 500

        ask()
    assert len(operations) == 8
