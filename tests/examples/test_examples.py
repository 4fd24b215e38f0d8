"""Every example runs as its own program, without a key and without a network."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
# What a user sees of each.
LINES = {
    "anthropic_loop": "Two mugs cost 25.80.",
    "claude_code_hook/session": "The cart keeps its items now. (`cart.py`)",
    "compact": "It stands for 126 events",
    "cost": "of  20,000 tokens: $",
    "edit_while_running": "agent changed",
    "explain_a_session": "The history does not fit, and the oldest exchanges go first.",
    "gateway/three_sdks": " of 4000 tokens; ",
    "mcp_tools": "12.90",
    "notes_folder": "guide.md:1-2`, Deployment: The deployment is on Monday.",
    "openai_loop": "Two mugs cost 25.80.",
    "premortem": "in place: 0 of 2 succeeded (0%)",
    "recall": "Ten kilometres.",
    "skills": "Pay back to the card that was charged.",
    "sub_agents": "researcher (claude-haiku-5-5): The shop next door",
    "switch_provider": "were made by another provider.",
    "templates": "Look a price up before you name it (look_up_price).",
    "trim_my_list": " rewrites in ",
    "task_stack": "Write the changelog",
}
KEPT = ("anthropic_loop", "task_stack")
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "MODEL")


def test_every_example_is_run() -> None:
    found = (path.relative_to(FOLDER).with_suffix("") for path in FOLDER.rglob("*.py"))
    others = "integrations/"  # tests/integrations run them, where the frameworks are
    assert sorted(LINES) == sorted(n for n in map(str, found) if not n.startswith(others))


@pytest.mark.parametrize("name", LINES)
def test_an_example_shows_what_it_promises(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = str(FOLDER / f"{name}.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script])
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)

    for _ in range(2 if name in KEPT else 1):  # a second run goes on with what the first one stored
        runpy.run_path(script, run_name="__main__")
        assert LINES[name] in capfd.readouterr().out
