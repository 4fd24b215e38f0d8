"""A server on this machine that answers as the vendors' Models APIs do, over real HTTP."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

ANTHROPIC: Final = {
    "data": [
        {
            "type": "model",
            "id": "claude-opus-5-5",
            "display_name": "Claude Opus 5.5",
            "created_at": "2026-09-22T00:00:00Z",
            "lifecycle": "active",
            "max_input_tokens": 1_000_000,
            "max_tokens": 128_000,
            "retires_at": None,
        },
        {
            "type": "model",
            "id": "claude-haiku-4-5",
            "display_name": "Claude Haiku 4.5",
            "created_at": "2025-10-01T00:00:00Z",
            "lifecycle": "deprecated",
            "max_input_tokens": 200_000,
            "max_tokens": 96_000,
            "retires_at": "2027-03-01T00:00:00Z",
        },
        {
            "type": "model",
            "id": "claude-fable-6",
            "display_name": "Claude Fable 6",
            "created_at": "2026-11-27T00:00:00Z",
            "lifecycle": "active",
            "max_input_tokens": 2_000_000,
            "max_tokens": 256_000,
            "retires_at": None,
        },
    ],
    "has_more": False,
    "first_id": "claude-opus-5-5",
    "last_id": "claude-fable-6",
}
OPENAI: Final = {
    "object": "list",
    "data": [
        {"id": "gpt-5.5", "object": "model", "created": 1, "owned_by": "x", "shutdown_date": None},
        {
            "id": "gpt-5.4",
            "object": "model",
            "created": 1,
            "owned_by": "x",
            "shutdown_date": "2027-09-01",
        },
    ],
}
GOOGLE: Final = {
    "models": [
        {
            "name": "models/gemini-4-argon",
            "inputTokenLimit": 1_048_576,
            "outputTokenLimit": 65_536,
        },
        {
            "name": "models/gemini-3.8-flash",
            "inputTokenLimit": 1_048_576,
            "outputTokenLimit": 131_072,
        },
    ]
}
ANSWERS: Final[Mapping[str, Any]] = {
    "/v1/models": ANTHROPIC,
    "/openai/models": OPENAI,
    "/google/v1/models": GOOGLE,
}


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = ANSWERS.get(self.path.partition("?")[0])
        body = json.dumps(answer or {"error": {"message": "there is no such thing"}}).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it is called by
        """Stay quiet."""


@contextmanager
def serving() -> Generator[str, None, None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


KEYS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
)


def vendor_settings(base_url: str) -> dict[str, str]:
    """Return the variables that lead the official SDKs to this server."""
    return {
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": base_url,
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": f"{base_url}/openai",
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": f"{base_url}/google",
    }
