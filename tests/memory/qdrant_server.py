"""Qdrant's HTTP protocol on this machine, as far as memories speak it.

Requests are read with the types of Qdrant's own client and answered by its local mode, so that
addresses, spelling and errors are real; how a real server searches is not shown.
"""

import json
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Final

import pytest

_PATH: Final = re.compile(r"/collections/(?P<collection>[^/]+)(?P<rest>/.*)?")
_VECTOR: Final = re.compile(r"/vectors/(?P<vector>[^/]+)")


class QdrantServer:
    """A server that is told what to answer in the way of versions and refusals."""

    def __init__(self, client: Any, models: Any) -> None:
        self.url = ""
        self.version = "1.20.0"
        self.api_key = ""
        self.refusal = ""  # of what is asked about the names of vectors
        self.plain_answer = b""  # such as a proxy's, with 503
        self.room_points: int | None = None  # which its disk has
        self.indexed: list[str] = []
        self._client = client
        self._models = models
        self._lock = Lock()
        self._calls: dict[tuple[str, str], Callable[[str, Any], Any]] = {
            ("GET", ""): self._get,
            ("PUT", ""): self._create,
            ("PATCH", ""): self._update,
            ("PUT", "/index"): self._index,
            ("PUT", "/points"): self._upsert,
            ("POST", "/points"): self._retrieve,
            ("POST", "/points/scroll"): self._scroll,
            ("POST", "/points/query"): self._query,
            ("POST", "/points/count"): self._count,
            ("POST", "/points/delete"): self._delete,
            ("POST", "/points/batch"): self._batch,
        }

    def answer(self, method: str, path: str, body: bytes, key: str) -> tuple[int, dict[str, Any]]:
        """Return status and JSON."""
        if key != self.api_key:
            return 401, {"status": {"error": "Must provide an API key"}}
        if path == "/":
            return 200, {"title": "qdrant", "version": self.version}
        with self._lock:
            try:
                result = self._act(method, path, json.loads(body) if body else None)
            except (KeyError, ValueError) as error:
                status = 404 if "not found" in str(error) else 400
                return status, {"status": {"error": str(error)}, "time": 0}
        return 200, {"result": result, "status": "ok", "time": 0}

    def _act(self, method: str, path: str, body: Any) -> Any:
        found = _PATH.fullmatch(path)
        assert found, path
        collection, rest = found["collection"], found["rest"] or ""
        if (named := _VECTOR.fullmatch(rest)) is not None:
            if self.refusal:
                raise ValueError(self.refusal)
            return self._change_vectors(method, collection, named["vector"], body)
        return self._calls[method, rest](collection, body)

    def _get(self, collection: str, _body: Any) -> Any:
        return self._client.get_collection(collection).model_dump(mode="json")

    def _create(self, collection: str, body: Any) -> Any:
        asked = self._models.CreateCollection.model_validate(body)
        return self._client.create_collection(
            collection,
            vectors_config=asked.vectors,
            sparse_vectors_config=asked.sparse_vectors,
            metadata=asked.metadata,
        )

    def _update(self, collection: str, body: Any) -> Any:
        return self._client.update_collection(collection, metadata=body["metadata"])

    def _index(self, _collection: str, body: Any) -> Any:
        self.indexed.append(self._models.CreateFieldIndex.model_validate(body).field_name)
        return _done()

    def _upsert(self, collection: str, body: Any) -> Any:
        points = self._models.PointsList.model_validate(body).points
        if self.room_points is not None:
            self.room_points -= len(points)
            if self.room_points < 0:
                raise ValueError("No space left on device")
        self._client.upsert(collection, points)
        return _done()

    def _retrieve(self, collection: str, body: Any) -> Any:
        asked = self._models.PointRequest.model_validate(body)
        found = self._client.retrieve(
            collection, asked.ids, with_payload=asked.with_payload, with_vectors=asked.with_vector
        )
        return _dumped(found)

    def _scroll(self, collection: str, body: Any) -> Any:
        asked = self._models.ScrollRequest.model_validate(body)
        points, at = self._client.scroll(
            collection,
            scroll_filter=asked.filter,
            limit=asked.limit,
            order_by=asked.order_by,
            offset=asked.offset,
            with_payload=asked.with_payload,
            with_vectors=asked.with_vector,
        )
        return {"points": _dumped(points), "next_page_offset": at}

    def _query(self, collection: str, body: Any) -> Any:
        asked = self._models.QueryRequest.model_validate(body)
        found = self._client.query_points(
            collection,
            query=asked.query,
            using=asked.using,
            query_filter=asked.filter,
            limit=asked.limit,
            with_payload=asked.with_payload,
            with_vectors=asked.with_vector,
        )
        return {"points": _dumped(found.points)}

    def _count(self, collection: str, body: Any) -> Any:
        asked = self._models.CountRequest.model_validate(body)
        return {"count": self._client.count(collection, asked.filter).count}

    def _delete(self, collection: str, body: Any) -> Any:
        asked = self._models.PointIdsList.model_validate(body)
        self._client.delete(collection, asked.points)
        return _done()

    def _batch(self, collection: str, body: Any) -> Any:
        asked = self._models.UpdateOperations.model_validate(body)
        self._client.batch_update_points(collection, asked.operations)
        return [_done() for _ in asked.operations]

    def _change_vectors(self, method: str, collection: str, vector: str, body: Any) -> Any:
        if method == "DELETE":
            self._client.delete_vector_name(collection, vector)
        else:
            config = self._models.DenseVectorNameConfig.model_validate(body)
            self._client.create_vector_name(collection, vector, config)
        return _done()


@contextmanager
def serve_qdrant() -> Generator[QdrantServer]:
    """Serve until the block ends; skip the test where Qdrant's client is not installed."""
    package = pytest.importorskip("qdrant_client")
    client = package.QdrantClient(":memory:")
    server = QdrantServer(client, package.models)
    with ThreadingHTTPServer(("127.0.0.1", 0), _endpoint_of(server)) as listening:
        server.url = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
            client.close()


def _endpoint_of(server: QdrantServer) -> type[BaseHTTPRequestHandler]:
    class Endpoint(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.partition("?")[0]
            key = self.headers.get("api-key") or ""
            if server.plain_answer:
                status, encoded = 503, server.plain_answer
            else:
                status, answer = server.answer(self.command, path, body, key)
                encoded = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _answer  # noqa: N815

    return Endpoint


def _dumped(points: Any) -> list[Any]:
    return [point.model_dump(mode="json") for point in points]


def _done() -> dict[str, Any]:
    return {"operation_id": 1, "status": "completed"}
