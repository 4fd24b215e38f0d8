"""A server on this machine that answers as OpenAI's endpoint for embeddings does, over real HTTP."""

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Answer = tuple[int, Any, Mapping[str, str]]
MOST_TEXTS = 2_048


@dataclass(kw_only=True)
class EmbeddingServer:
    """Where it is, what it was asked, and what it says instead of an answer, one for each request."""

    base_url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    instead: list[Callable[[dict[str, Any]], Answer]] = field(default_factory=list)


def numbers_of(text: str, dimension: int) -> list[float]:
    digest = sha256(text.encode()).digest()
    return [(digest[i % len(digest)] - 127.5) / 128 for i in range(dimension)]


def answer(body: dict[str, Any]) -> Answer:
    texts = body["input"]
    if not texts or len(texts) > MOST_TEXTS or not all(texts):
        return refuse(400, "input is empty, or too long")
    dimension = body.get("dimensions", 8)
    rows = [
        {"object": "embedding", "index": i, "embedding": numbers_of(text, dimension)}
        for i, text in enumerate(texts)
    ]
    rows.reverse()  # the order of the rows is not promised
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return 200, {"object": "list", "data": rows, "model": body["model"], "usage": usage}, {}


def refuse(status: int, message: str, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, {"error": {"message": message, "type": "refused"}}, named


@contextmanager
def serve_embeddings() -> Generator[EmbeddingServer]:
    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            served.keys.append(self.headers["authorization"])
            served.requests.append({"path": self.path, **body})
            act = served.instead.pop(0) if served.instead else answer
            status, said, headers = act(body)
            content = said.encode() if isinstance(said, str) else json.dumps(said).encode()
            self.send_response(status)
            kind = "text/plain" if isinstance(said, str) else "application/json"
            for name, value in {"content-type": kind, **headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name http.server gives it
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        served = EmbeddingServer(base_url=f"http://127.0.0.1:{server.server_port}/v1")
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
