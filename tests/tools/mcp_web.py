"""A server of the protocol before 2026 over HTTP, with sessions, in a thread of the tests."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


class OldWebServer(ThreadingHTTPServer):
    """Forgets its sessions when told to, as a server does that is started anew.

    Attributes:
        refuses: The status that calls are answered with instead, if any.
        refuses_by_tool: The same for calls of some tools; the body comes once `has_answered` is set.
        has_refused: Set once such a status was sent.
        fails: Tools whose calls fail as MCP says; the body comes once `has_answered` is set.
        has_failed: Set once the status of one was sent.
        calls: The sessions of the calls that were run.
        was_listened_to: Set once a stream of the server's own was asked for, and refused.
    """

    refuses = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Endpoint)
        self.refuses_by_tool: dict[str, int] = {}
        self.fails: set[str] = set()
        self.has_refused, self.has_failed, self.has_answered = Event(), Event(), Event()
        self.sessions: list[str] = []
        self.calls: list[str] = []
        self.was_listened_to = Event()
        self.begun = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"

    def begin(self) -> str:
        self.begun += 1
        self.sessions.append(f"session {self.begun}")
        return self.sessions[-1]


@contextmanager
def serve_old_web() -> Generator[OldWebServer]:
    with OldWebServer() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class _Endpoint(BaseHTTPRequestHandler):
    server: OldWebServer  # pyright: ignore[reportIncompatibleVariableOverride] - only it makes one

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        session = self.headers.get("mcp-session-id", "")
        method = request["method"]
        if method == "server/discover":
            self._answer(400)
        elif method == "initialize":
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "old web", "version": "1"},
            }
            self._answer(200, request, result, session=self.server.begin())
        elif session not in self.server.sessions:
            self._answer(404)
        elif method == "tools/list":
            self._answer(
                200, request, {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}
            )
        elif method == "tools/call" and (called := request["params"]["name"]) != "a":
            self._hold_back(request, called)
        elif method == "tools/call" and self.server.refuses:
            self._answer(self.server.refuses)
        elif method == "tools/call":
            self.server.calls.append(session)
            self._answer(200, request, {"content": [{"type": "text", "text": session}]})
        else:
            self._answer(202)

    def do_GET(self) -> None:
        self._answer(405)
        self.server.was_listened_to.set()

    def do_DELETE(self) -> None:
        self._answer(200)

    def _hold_back(self, request: dict[str, Any], tool: str) -> None:
        """Send the status, and what it is about once the server is told to."""
        said = {"code": -32602, "message": "that is odd"}
        answer = {"jsonrpc": "2.0", "id": request["id"], "error": said}
        body = json.dumps(answer).encode() if tool in self.server.fails else b"try later"
        self.send_response(self.server.refuses_by_tool.get(tool, 200))
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.flush()
        told = self.server.has_failed if tool in self.server.fails else self.server.has_refused
        told.set()
        self.server.has_answered.wait()
        self.wfile.write(body)

    def _answer(
        self,
        status: int,
        request: dict[str, Any] | None = None,
        result: dict[str, Any] | None = None,
        *,
        session: str = "",
    ) -> None:
        body = b""
        if request is not None:
            answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
            body = json.dumps(answer).encode()
        self.send_response(status)
        if session:
            self.send_header("mcp-session-id", session)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has
        pass
