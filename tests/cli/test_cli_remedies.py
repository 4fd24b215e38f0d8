"""What errors advise at a command line, where nobody writes Python."""

import pytest

from tests.cli.running import run
from tests.cli.samples import STORE, stored

COMMANDS = ["assemble", "explain", "check"]


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_model_the_option_is_named(command: str) -> None:
    stored()

    ran = run(command, "chat", "--sessions", STORE)

    assert ran.exit_code == 2
    assert "Model ID is required" in ran.stderr
    assert "Pass --model ID" in ran.stderr
    assert "model='" not in ran.stderr


MODELS = {
    "shown": ("models", "show", "gpt-55"),
    "checked": ("models", "check", "gpt-55"),
    "counted by": ("count", "chat.json", "--model", "gpt-55"),
    "assembled for": ("assemble", "chat", "--sessions", STORE, "--model", "gpt-55"),
}


@pytest.mark.parametrize("words", MODELS.values(), ids=MODELS.keys())
def test_an_unknown_model_is_found_or_added_without_python(words: tuple[str, ...]) -> None:
    stored()

    ran = run(*words)

    assert ran.exit_code == 2
    assert "Did you mean 'gpt-5" in ran.stderr
    assert "context-assembler models" in ran.stderr
    assert 'model_limits.local.yaml: models: {"gpt-55": {' in ran.stderr
    assert "register_model" not in ran.stderr


@pytest.mark.parametrize("session", ["nobody", "chad"])
@pytest.mark.parametrize("command", [*COMMANDS, "export"])
def test_an_unknown_session_is_found_or_made_by_commands(command: str, session: str) -> None:
    stored()
    model = () if command == "export" else ("--model", "gpt-5.5")

    ran = run(command, session, "--sessions", STORE, *model)

    assert ran.exit_code == 2
    assert "add_user" not in ran.stderr
    expected = "Did you mean 'chat'?" if session == "chad" else "context-assembler import FILE"
    assert expected in ran.stderr
