"""Project memory from the command line: what fills it, the hook in a client's settings, the doctor."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from context_assembler.cli.hook import CLIENTS
from tests.cli.conftest import Run
from tests.session_start.test_feeds import transcript
from tests.session_start.test_hook import text_of, told

MEMORY = ("--memory", "sqlite:memory.db")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "cart.py").write_text("def total(cart):\n    return 0\n")
    settings = ("-c", "user.name=n", "-c", "user.email=e@example.com")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "Begin")):
        command = ["git", "-C", str(folder), *settings, *words]
        subprocess.run(command, check=True, capture_output=True)
    return folder


def test_what_is_remembered_is_what_the_hook_tells(
    run: Run, state: Path, project: Path, tmp_path: Path
) -> None:
    assert run("memory", "index-code", str(project), *MEMORY).code == 0
    assert (
        run("memory", "learn", "Prices are integers.", "--project", str(project), *MEMORY).code == 0
    )
    path = transcript(tmp_path)
    seen = run("memory", "observe", str(path), "--project", str(project), *MEMORY, "--json")

    assert [row["session_id"] for row in seen.json] == ["s1"]
    text = text_of(told(state, {"cwd": str(project)}))
    for part in ("total(cart)", "Prices are integers.", "The cart keeps its items now", "Edited"):
        assert part in text
    rows = run("hook", "log", "--json").json
    assert [row["route"] for row in rows] == ["snapshot"]
    assert "snapshot" in run("hook", "log").out


def test_what_faded_is_rendered_no_more(run: Run, state: Path, project: Path) -> None:
    run("memory", "learn", "Prices are integers.", "--project", str(project), *MEMORY)
    before = text_of(told(state, {"cwd": str(project)}))

    done = run("memory", "fade", *MEMORY, "--half-life-days", "1e-12", "--json")

    assert "Prices are integers." in before
    assert len(done.json["forgotten"]) == 1
    assert "Prices" not in text_of(told(state, {"cwd": str(project)}))


def test_a_hook_reports_on_stdin(run: Run, state: Path, project: Path, tmp_path: Path) -> None:
    report = {"hook_event_name": "SessionEnd", "session_id": "s1", "cwd": str(project)}
    report["transcript_path"] = str(transcript(tmp_path, cwd=str(project)))

    done = run("memory", "observe", *MEMORY, stdin=json.dumps(report).encode())
    refused = run("memory", "observe", *MEMORY, stdin=b"[1]")
    unread = run("memory", "observe", str(project / "cart.py"), *MEMORY)

    assert done.code == 0
    assert "The cart keeps its items now" in text_of(told(state, {"cwd": str(project)}))
    assert (refused.code, unread.code) == (0, 2)  # a failing hook does not stop its client
    assert "report of a hook" in refused.err


def test_the_doctor_runs_the_hook_and_names_what_is_wrong(
    run: Run, state: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(state.parent))
    before = run("doctor", "--project", str(project), "--json").json
    run("memory", "learn", "Prices are integers.", "--project", str(project), *MEMORY)
    run("hook", "install")
    monkeypatch.setenv("CONTEXT_ASSEMBLER_MEMORY", "sqlite:memory.db")
    after = run("doctor", "--project", str(project), "--json").json

    assert len(before["problems"]) == 4
    assert before["exit_code"] == after["exit_code"] == 0
    assert "Prices are integers." in after["text"]
    assert (after["installed"], after["problems"]) == (["claude_code"], [])
    assert "would read" in run("doctor", "--project", str(project)).out


def test_the_doctor_finds_the_hook_in_the_project_s_own_settings(
    run: Run, state: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(state.parent))
    run("hook", "install", "--settings", str(project / ".claude" / "settings.json"))

    found = run("doctor", "--project", str(project), "--json").json

    assert found["installed"] == ["claude_code"]


OTHERS: dict[str, Any] = {
    "model": "opus",
    "hooks": {
        "SessionStart": [{"matcher": "startup", "hooks": [{"type": "command", "command": "mine"}]}],
        "PreToolUse": [],
    },
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "given", [None, {}, OTHERS, {"hooks": {}}], ids=["none", "empty", "more", "no"]
)
def test_the_hook_goes_in_once_and_out_again_without_a_trace(
    run: Run, tmp_path: Path, client: str, given: Any
) -> None:
    path = tmp_path / "settings.json"
    if given is not None:
        path.write_text(json.dumps(given))
    flags = (client, "--settings", str(path))

    first, second = (run("hook", "install", *flags, "--json").json for _ in range(2))
    installed = json.loads(path.read_text())
    removed = run("hook", "uninstall", *flags, "--json").json

    assert (first["changed"], second["changed"], removed["changed"]) == (True, False, True)
    assert "hook.py" in json.dumps(installed["hooks"][CLIENTS[client].event])
    left = json.loads(path.read_text())
    left.pop("version", None)
    assert left == (given if given and given.get("hooks") else {})
    if given == OTHERS:
        assert installed["model"] == "opus"
        assert json.loads(path.with_name("settings.json.bak").read_text())["model"] == "opus"
    assert run("hook", "uninstall", *flags, "--json").json["changed"] is False


def test_a_hook_beside_ours_in_one_entry_stays(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    flags = ("--settings", str(path))
    run("hook", "install", *flags, "--no-observe")
    held = json.loads(path.read_text())
    held["hooks"]["SessionStart"][0]["hooks"].append({"type": "command", "command": "mine"})
    path.write_text(json.dumps(held))

    run("hook", "uninstall", *flags)

    left = json.loads(path.read_text())["hooks"]["SessionStart"]
    assert left == [{"hooks": [{"type": "command", "command": "mine"}]}]


@pytest.mark.parametrize("text", ["{", "[1]", '{"hooks": []}', "{/* mine */}"])
def test_settings_that_cannot_be_read_are_left_alone(run: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)

    for word in ("install", "uninstall"):
        assert run("hook", word, "--settings", str(path)).code == 2
    assert path.read_text() == text
    assert run("hook", "install", "clawd").code == 2


def test_only_our_own_commands_are_ours(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    mine = [
        "~/.claude/hooks/session_start_hook.py",
        "echo done && python -m context_assembler memory observe",
        "python session_start/hook.py",
    ]
    hooks = {event: [{"hooks": [{"command": one} for one in mine]}] for event in ("Stop", "Other")}
    given = {"hooks": {**hooks, "enabled": True}, "size": 1}
    path.write_text(json.dumps(given))
    link = tmp_path / "link.json"
    link.symlink_to(path)

    for word in ("install", "uninstall"):
        assert run("hook", word, "--settings", str(link)).code == 0

    assert json.loads(path.read_text()) == given
    assert link.is_symlink()


def test_what_was_forgotten_is_told_no_more(run: Run, state: Path, project: Path) -> None:
    learnt = run("memory", "learn", "The key is red.", "--project", str(project), *MEMORY, "--json")
    assert "The key is red." in text_of(told(state, {"cwd": str(project)}))

    run("memory", "forget", learnt.json["id"], *MEMORY)

    assert "red" not in text_of(told(state, {"cwd": str(project)}))
