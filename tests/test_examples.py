"""The examples run as they are, against the local provider."""

import ast
import asyncio
import os
import runpy
import shutil
import sys
from pathlib import Path

import pytest

from context_assembler import open_store
from context_assembler.testing import ProviderServer, ScriptedReply, serve_providers
from context_assembler.values.parts import ToolCall

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

LOOK_UP = ToolCall(call_id="call_1", name="look_up_price", arguments={"article": "mug"})
ASK_TWICE = [ScriptedReply(tool_calls=(LOOK_UP,)), ScriptedReply(text="Two mugs cost 25.80.")]


class Runner:
    """Runs an example as a program in a folder of its own, its SDKs led to a server."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.chdir(folder)

    def __call__(self, name: str, server: ProviderServer, *words: str) -> str:
        for variable, value in server.environment.items():
            self._monkeypatch.setenv(variable, value)
        return self.without_server(name, *words)

    def without_server(self, name: str, *words: str) -> str:
        path = str(ROOT / "examples" / name)  # a whole path stays what it is
        self._monkeypatch.setattr(sys, "argv", [path, *words])
        runpy.run_path(path, run_name="__main__")
        return self._capsys.readouterr().out


@pytest.fixture
def run_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Runner:
    return Runner(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("name", ["anthropic_loop.py", "openai_loop.py"])
def test_a_loop_runs_its_tool_and_prints_the_answer(name: str, run_example: Runner) -> None:
    with serve_providers(ASK_TWICE) as server:
        printed = run_example(name, server)

    assert printed == "Two mugs cost 25.80.\n"
    assert not server.refusals
    assert "12.90" in str(server.requests[1].body["messages"])


def test_a_second_run_goes_on_with_the_session(run_example: Runner) -> None:
    with serve_providers() as server:
        run_example("anthropic_loop.py", server)
        run_example("anthropic_loop.py", server)

    first, second = (seen.body["messages"] for seen in server.requests)
    assert second[: len(first)] == first
    assert not server.refusals


def test_a_session_moves_from_claude_to_gpt_to_gemini(run_example: Runner) -> None:
    ferry = ToolCall(call_id="t1", name="look_up_ferry", arguments={"island": "Hiddensee"})
    script = [
        ScriptedReply(thinking="An island without cars.", tool_calls=(ferry,)),
        ScriptedReply(thinking="There is one.", text="Hiddensee, from Stralsund."),
        ScriptedReply(thinking="May is cool.", text="A raincoat."),
        ScriptedReply(text="Hiddensee with a raincoat."),
    ]
    with serve_providers(script) as server:
        printed = run_example("switch_provider.py", server)

    providers = ["anthropic", "anthropic", "openai_responses", "gemini"]
    assert printed.splitlines() == [
        "claude-opus-5-5: Hiddensee, from Stralsund.",
        "gpt-6.2-sol: A raincoat.",
        "  cleared: 2 thinking part(s), the last one here, were made by another provider.",
        "gemini-4-argon: Hiddensee with a raincoat.",
        "  cleared: 3 thinking part(s), the last one here, were made by another provider.",
    ]
    assert [(seen.provider, seen.refusal) for seen in server.requests] == [
        (provider, None) for provider in providers
    ]
    assert not any(seen.left_out for seen in server.requests)
    told = str(server.requests[-1].body["contents"])
    assert all(said in told for said in ("Hiddensee", "two and a half hours", "A raincoat."))


def test_a_transcript_is_explained(run_example: Runner) -> None:
    with serve_providers() as server:
        printed = run_example("explain_a_session.py", server)

    assert "history" in printed
    assert "shortened: " in printed or "dropped: " in printed
    assert len(printed.splitlines()) < 30


@pytest.mark.parametrize("name", ["cost.py", "explain_a_session.py"])
def test_a_copied_example_finds_its_sample(name: str, run_example: Runner, tmp_path: Path) -> None:
    copied = shutil.copy(ROOT / "examples" / name, tmp_path)

    assert "tokens" in run_example.without_server(str(copied))


def test_a_transcript_of_ones_own_is_explained(run_example: Runner) -> None:
    with serve_providers() as server:
        printed = run_example(
            "explain_a_session.py", server, str(ROOT / "tests" / "samples" / "broken.json")
        )

    assert "repaired" in printed


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("switch_provider.py", "gemini-4-argon: Hiddensee with a raincoat."),
        ("edit_while_running.py", "And today? – Sell mugs and tea."),
        ("anthropic_loop.py", "Two mugs cost 25.80."),
        ("openai_loop.py", "Two mugs cost 25.80."),
    ],
)
def test_without_a_key_a_local_provider_stands_in(
    name: str, said: str, run_example: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(key)
    before = dict(os.environ)

    assert said in run_example.without_server(name)
    assert dict(os.environ) == before


@pytest.mark.parametrize("name", ["anthropic_loop.py", "openai_loop.py"])
async def test_without_a_key_a_loop_calls_its_tool_in_every_run(
    name: str, run_example: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(key)
    for _ in range(2):
        await asyncio.to_thread(run_example.without_server, name)
    store = open_store("sqlite:agent.db")
    results = [e.text async for e in store.load("shop") if e.type == "tool_result"]
    await store.close()

    assert results == ["12.90", "12.90"]


def test_an_edit_waits_until_it_is_let_in(run_example: Runner) -> None:
    with serve_providers() as server:
        printed = run_example("edit_while_running.py", server)

    asked = [line for line in printed.splitlines() if not line.startswith(" ")]
    assert asked == [
        "What do you sell? – Sell mugs.",
        "Anything else? – Sell mugs.",
        "And today? – Sell mugs and tea.",
    ]
    assert "agent: It has changed, and the text that the epoch began with is sent" in printed
    assert "(agent changed): a new epoch begins" in printed
    assert not server.refusals


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_an_example_imports_public_names_only(example: Path) -> None:
    imported = [
        node.module or ""
        for node in ast.walk(ast.parse(example.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
    ]

    inner = [name for name in imported if name.startswith("context_assembler.")]
    assert set(inner) <= {"context_assembler.testing", "context_assembler.resources"}


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_an_example_is_short(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < 60


def test_a_session_is_replayed_and_its_cost_drawn(run_example: Runner) -> None:
    printed = run_example.without_server("cost.py")

    everything, in_steps, *at_every_call = printed.splitlines()
    assert everything.startswith("everything")
    assert in_steps.startswith("smart, in steps")
    assert len(at_every_call) == 2
    assert Path("cost.svg").read_text(encoding="utf-8").startswith("<svg")
