"""The official SDKs of three providers, through the gateway: only the base URL is another.

    context-assembler serve --gateway
    GATEWAY_URL=http://127.0.0.1:8808 python examples/gateway/three_sdks.py

Without GATEWAY_URL this starts a gateway of its own, in front of a provider on this machine that
repeats what it receives: no key and no network are needed.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import anthropic
import openai
from google import genai
from google.genai import types

PAGE = "12:00:00 GET /orders 200, 14 items, nothing odd\n" * 20
TURNS = 12


@contextmanager
def gateway() -> Generator[str]:
    """Yield the address of a gateway; one of our own passes on at most 4,000 tokens."""
    if url := os.environ.get("GATEWAY_URL"):
        yield url
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with TemporaryDirectory() as state:
        limit = {"CONTEXT_ASSEMBLER_DEFAULTS__MAX_CONTEXT_TOKENS": "4000"}
        command = [sys.executable, "-m", "context_assembler", "serve", "--demo", "--gateway"]
        command += ["--port", str(port), "--state", state]
        quiet = subprocess.DEVNULL
        running = subprocess.Popen(command, env=os.environ | limit, stderr=quiet)
        try:
            while not os.path.exists(f"{state}/worker") and running.poll() is None:
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            running.terminate()
            running.wait()


def ask_claude(base: str) -> str:
    client = anthropic.Anthropic(base_url=base, api_key=os.environ.get("ANTHROPIC_API_KEY", "none"))
    messages: list[Any] = []
    done = ""
    for page in range(TURNS):
        messages.append({"role": "user", "content": f"Page {page}:\n{PAGE}"})
        reply = client.messages.with_raw_response.create(
            model="claude-haiku-4-5", max_tokens=500, messages=messages
        )
        messages.append({"role": "assistant", "content": reply.parse().content})
        done = reply.headers["x-context-assembler"]
    return done


def ask_openai(base: str) -> str:
    key = os.environ.get("OPENAI_API_KEY", "none")
    client = openai.OpenAI(base_url=f"{base}/v1", api_key=key)
    items: list[Any] = []
    done = ""
    for page in range(TURNS):
        items.append({"role": "user", "content": f"Page {page}:\n{PAGE}"})
        reply = client.responses.with_raw_response.create(
            model="gpt-5.5", input=items, store=False, include=["reasoning.encrypted_content"]
        )
        items += reply.parse().output
        done = reply.headers["x-context-assembler"]
    return done


def ask_gemini(base: str) -> str:
    key = os.environ.get("GEMINI_API_KEY", "none")
    client = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=base))
    contents: list[Any] = []
    done = ""
    for page in range(TURNS):
        part = types.Part(text=f"Page {page}:\n{PAGE}")
        contents.append(types.Content(role="user", parts=[part]))
        reply = client.models.generate_content(model="gemini-3-flash-preview", contents=contents)
        if reply.candidates and reply.candidates[0].content:
            contents.append(reply.candidates[0].content)
        if reply.sdk_http_response and reply.sdk_http_response.headers:
            done = reply.sdk_http_response.headers["x-context-assembler"]
    return done


def main() -> None:
    with gateway() as base:
        print("Claude:", ask_claude(base))
        print("OpenAI:", ask_openai(base))
        print("Gemini:", ask_gemini(base))


if __name__ == "__main__":
    main()
