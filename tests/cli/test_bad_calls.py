"""What goes wrong is said in two lines: the problem, and what to do about it."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

BAD = {
    "import gone.json": "Check the path",
    "import text.txt": "JSON Lines transcript",
    "import chat.json": "pass --append",
    "import chat.json ./chat.json": "one by one",
    "export chat --format xml": "Known: anthropic",
    "export chta": "Did you mean 'chat'?",
    "sessions --sessions sqlite:agnet.db": "Did you mean 'agent.db'?",
    "sessions --sessions sqlite:gone/agent.db": "folder",
    "sessions --sessions ": "CONTEXT_ASSEMBLER_SESSIONS",
    "count -m gpt-5.5": "--help",
    "count chat.json": "Pass --model ID",
    "count chat.json -m gtp-5.5": "Did you mean 'gpt-5.5'",
    "assemble chat": "Pass --model ID",
    "assemble chat -m gpt-5.5 --strategy simpel": "Did you mean 'simple'?",
    "assemble chat -m claude-opus-5-5 --temperature 0.5": "temperature",
    "assemble chat -m gpt-5.5 --tool-choice {oops": "--tool-choice is not JSON",
    "assemble chat -m gpt-5.5 --max-context-tokens 2": "tokens are needed",
    "explain chat -m gpt-5.5 --provider azure": "Known: anthropic",
    "check chat -m gpt-5.5 --bootstrap gone": "Name the folder that holds AGENT.md",
    "check chat -m gpt-5.5 --tools text.json": 'a list called "tools"',
    "fit text.txt -m gpt-5.5": "it is not JSON",
    "fit empty.json": "Pass --model ID",
    "lint gone": "Name the folder",
    "lint-payload text.txt": "is not JSON",
    "lint-payload text.json": "A payload is a JSON object",
    "lint-payload empty.json": "Pass --provider, one of",
    "memory search tea --memory sqlite:memroy.db": "memory.db",
    "memory add x --kind fact": "memories, observations",
    "memory forget mem_x": "mem_x",
    "memory fade": "--half-life-days",
    "memory eval gone.jsonl": "gone.jsonl",
    "models show gpt-41": "Did you mean 'gpt-4.1'",
    "models list --feature visoin": "Did you mean 'vision'?",
    "imprt": "--help",
    "sessions --all": "--help",
}


@pytest.fixture
def filled(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return `run` in a folder with a session and a memory, which the environment names."""
    monkeypatch.setenv("CONTEXT_ASSEMBLER_SESSIONS", "sqlite:agent.db")
    monkeypatch.setenv("CONTEXT_ASSEMBLER_MEMORY", "sqlite:memory.db")
    Path("chat.json").write_text(json.dumps([{"role": "user", "content": "Hi there."}]), "utf-8")
    for name, text in {"text.txt": "Just a text.", "text.json": '"a"', "empty.json": "{}"}.items():
        Path(name).write_text(text, "utf-8")
    assert run("import", "chat.json").code == run("memory", "add", "Ada likes tea.").code == 0
    return run


def test_bad_calls_say_what_to_do(filled: Run) -> None:
    for words, says in BAD.items():
        refused = filled(*words.split(" "))

        assert refused.code == 2, words
        assert refused.err.startswith("Error: "), words
        assert says in refused.err, words
        assert "Traceback" not in refused.err
        assert len(refused.err.splitlines()) == 2
