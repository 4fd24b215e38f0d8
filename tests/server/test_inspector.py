"""The inspector's pages as a program reads them: what they show, to whom, and what they never show."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest

from context_assembler import ContextAssembler
from context_assembler.cli import main
from context_assembler.compaction import extract_summary
from context_assembler.events import ToolCall
from context_assembler.server import Worker, create_app
from context_assembler.testing import ScriptedReply, serve_providers
from tests.server.conftest import CALLS, HOSTILE, SECRET, SESSION, read_file, serving


def list_files() -> str:
    """List the files."""
    return "a.py"


def _parts(client: httpx.Client) -> dict[str, str]:
    """Return every page, and every part that a page asks for."""
    asked = {"id": SESSION}
    found = {
        "/": client.get("/"),
        "/session": client.get("/session", params=asked),
        "/session/costs": client.get("/session/costs", params=asked),
        "/memory": client.get("/memory", params={"q": f"integers prices {HOSTILE}"}),
        "/instructions": client.get("/instructions"),
        "problem": client.get(
            "/session", params={"id": HOSTILE + SECRET}, headers={"Accept": "text/html"}
        ),
    }
    for provider in ("anthropic", "openai_chat", "openai_responses", "gemini"):
        found[provider] = client.get("/session/payload", params={**asked, "provider": provider})
    for step in range(1, CALLS + 2):
        found[f"step {step}"] = client.get("/session/step", params={**asked, "at": step})
    assert {name: page.status_code for name, page in found.items() if page.is_error} == {
        "problem": 404
    }
    return {name: page.text for name, page in found.items()}


def test_every_recorded_step_is_made_again_as_it_was_sent(
    pages: httpx.Client, recorded: tuple[dict[str, str], list[Any]]
) -> None:
    asked = {"id": SESSION, "provider": "anthropic"}
    bodies = json.loads(json.dumps(recorded[1]).replace(SECRET, "[masked: Anthropic API Key]"))

    for number, body in enumerate(bodies, 1):
        step = pages.get("/session/step", params={**asked, "at": number}).json()
        payload = pages.get("/session/payload", params={**asked, "at": number}).json()

        assert "As it was sent." in step["html"], number
        assert payload == body
    assert len(bodies) == CALLS


async def test_a_session_that_changed_everything_is_made_again_as_it_was_sent(
    tmp_path: Path,
) -> None:
    url, agent = f"sqlite:{tmp_path}/agent.db", tmp_path / "AGENT.md"
    calls = [
        ToolCall(call_id=f"call_{at:04d}", name="read_file", arguments={"path": "a.py"})
        for at in range(24)
    ]
    replies = [
        ScriptedReply(text=f"{at}", thinking="Hm.", tool_calls=[call] * (at % 3 != 2))
        for at, call in enumerate(calls)
    ]
    agent.write_text("Be kind.\n")
    with serve_providers(replies) as provider:
        clients = {
            "anthropic": anthropic.AsyncAnthropic(base_url=provider.anthropic_url, api_key="t"),
            "openai_responses": openai.AsyncOpenAI(base_url=provider.openai_url, api_key="t"),
        }

        async def turn(assembler: ContextAssembler, **options: Any) -> None:
            await assembler.add_user("s", "Go on.")
            waiting: Any = True
            while waiting:
                context = await assembler.assemble("s", **options)
                client: Any = clients[context.provider]
                create = client.messages if context.provider == "anthropic" else client.responses
                reply = await create.create(**context.to_request())
                waiting = (await assembler.record("s", reply, context))[-1].tool_calls
                for call in waiting:
                    await assembler.add_tool_result("s", call.call_id, "x = 1\n" * 400)

        large: dict[str, Any] = {"model": "claude-opus-5-5", "max_context_tokens": 20_000}
        small: dict[str, Any] = {"model": "claude-opus-5-5", "max_context_tokens": 12_000}
        async with ContextAssembler(url, bootstrap=tmp_path, tools=[read_file]) as assembler:
            await turn(assembler, **large)
            await turn(assembler, **large)
            begun = (await assembler.sessions.head("s")).last_seq
            await turn(assembler, model="gpt-5.5", max_context_tokens=20_000)
            agent.write_text("Be kind and quick.\n")
            await turn(assembler, thinking_level="high", **large)
            await assembler.compact("s", extract_summary, **small)
            await turn(assembler, **small)
            await assembler.rewind("s", begun)
            await turn(assembler, **small)
        async with ContextAssembler(
            url, bootstrap=tmp_path, tools=[read_file, list_files]
        ) as assembler:
            await turn(assembler, **small)
            weather: Any = {"notes": {"weather": "It rains."}, "truncation_strategy": "sliding"}
            await turn(assembler, model="claude-haiku-4-5", **weather)
        sent = [request.body for request in provider.requests]
        assert not provider.refusals

    app = create_app(Worker(sessions=url))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost"
    ) as client:
        for number, body in enumerate(sent, 1):
            asked: dict[str, Any] = {"id": "s", "at": number}
            asked["provider"] = "anthropic" if "messages" in body else "openai_responses"
            step = (await client.get("/session/step", params=asked)).json()
            payload = (await client.get("/session/payload", params=asked)).json()

            assert "As it was sent." in step["html"], number
            assert {key: payload[key] for key in body} == body, number
    assert len(sent) == len(replies)


def test_another_budget_is_not_what_was_sent(pages: httpx.Client) -> None:
    asked: dict[str, Any] = {"id": SESSION, "at": CALLS}
    other = {**asked, "max_context_tokens": 3_000, "truncation_strategy": "sliding"}

    was, tried = (pages.get("/session/step", params=one).json() for one in (asked, other))

    assert tried["used"] <= 3_000 < was["used"]
    assert "Made again with other options" in tried["html"]


def test_no_page_shows_a_secret_or_runs_what_a_session_says(pages: httpx.Client) -> None:
    found = _parts(pages)

    assert {name for name, text in found.items() if "aB3aB3" in text} == set()
    html = {name: text for name, text in found.items() if "<" in text[:10]}
    html |= {name: json.loads(found[name])["html"] for name in found if name.startswith("step")}
    for name, text in html.items():
        assert "<script>document" not in text, name
        assert "<img" not in text, name
        assert "<b>42" not in text, name


def test_a_page_may_load_nothing_from_elsewhere(pages: httpx.Client) -> None:
    for path in ("/", "/memory", "/instructions", "/inspector.js", "/inspector.css"):
        policy = pages.get(path).headers["content-security-policy"]

        assert policy.startswith("default-src 'none'"), path
        assert "unsafe" not in policy
        assert not re.findall(r"(?:https?:)?//[a-z]", policy)
    sources = Path(__file__).parents[2] / "context_assembler" / "server" / "pages"
    for source in sources.iterdir():
        assert not re.findall(r"https?://|@import|url\([^#]", source.read_text()), source


def test_sessions_are_found_by_name_and_first_message(pages: httpx.Client) -> None:
    assert "1 of 1 sessions" in pages.get("/", params={"q": "look AGAIN"}).text
    assert "0 of 1 sessions" in pages.get("/", params={"q": "nothing of the kind"}).text


def test_a_browser_gives_the_token_as_a_password(
    tmp_path: Path, recorded: tuple[dict[str, str], list[Any]]
) -> None:
    with serving(tmp_path, token="s3cret", **recorded[0]) as client:
        asked = {
            None: 401,
            "Basic " + base64.b64encode(b"me:wrong").decode(): 401,
            "Basic no base64": 401,
            "Basic " + base64.b64encode(b"me:s3cret").decode(): 200,
            "Bearer s3cret": 200,
        }
        client.headers.pop("Authorization")
        for given, status in asked.items():
            answer = client.get("/", headers={"Authorization": given} if given else {})

            assert answer.status_code == status, given
            assert ("Basic" in answer.headers.get("www-authenticate", "")) == (status == 401)


def test_the_page_of_a_session_in_one_file_needs_nothing_else(
    tmp_path: Path, recorded: tuple[dict[str, str], list[Any]]
) -> None:
    file = tmp_path / "report.html"
    asked = ["explain", SESSION, "--sessions", recorded[0]["sessions"], "--html", str(file)]

    with pytest.raises(SystemExit, match="0"):
        main(asked)

    text = file.read_text("utf-8")
    assert "aB3aB3" not in text
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)", text)
    assert "connect-src" not in text
    assert text.count("<script>") == 1
    data = json.loads(re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)[0])
    assert [one["number"] for one in data["file"]["steps"]] == [*range(1, CALLS + 2)]
