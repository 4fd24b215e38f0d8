"""The hook, run as a client runs it: without site-packages, by its file."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_assembler import session_start
from context_assembler.session_start import StartContext, find_project, keep_rendered
from context_assembler.session_start.inject import ENVELOPES

HOOK = Path(session_start.__file__).parent / "hook.py"


def told(
    state: Path, asked: Any, *arguments: str, environment: dict[str, str] | None = None
) -> dict[str, Any]:
    """Return the envelope that the hook prints; it prints nothing else, and ends well."""
    raw = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
    run = subprocess.run(
        [sys.executable, "-I", "-S", str(HOOK), *arguments],
        input=raw,
        capture_output=True,
        env={**os.environ, "CONTEXT_ASSEMBLER_STATE": str(state), **(environment or {})},
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, b"")
    [line] = run.stdout.decode("ascii").splitlines()
    envelope: dict[str, Any] = json.loads(line)
    return envelope


def text_of(envelope: dict[str, Any]) -> str:
    text: str = envelope["hookSpecificOutput"]["additionalContext"]
    return text


def context(project: str, text: str) -> StartContext:
    return StartContext(project, text, 7, 2_000, {"learnings": 5, "sessions": 2})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    (folder / "src").mkdir()
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact", "fork", "new", None])
def test_every_source_gets_what_was_rendered_for_the_project(
    state: Path, project: Path, source: str | None
) -> None:
    keep_rendered(context(find_project(str(project)), "Prices are integers. 🎉"), str(state))
    keep_rendered(context("/elsewhere", "secret"), str(state))
    asked = {"session_id": "s", "cwd": str(project / "src"), "source": source, "more": [1.5, None]}

    envelope = told(state, {**asked, "hook_event_name": "SessionStart"})

    assert envelope["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert text_of(envelope) == "Prices are integers. 🎉"
    [row] = (state / "injections.tsv").read_text().splitlines()
    assert row.split("\t")[1:] == [
        "claude_code",
        source or "",
        "s",
        find_project(str(project)),
        "snapshot",
        "learnings,sessions",
        "7",
        "22",
        row.split("\t")[-1],
    ]


def test_a_snapshot_older_than_its_memory_gives_way_to_the_table(
    state: Path, project: Path, tmp_path: Path
) -> None:
    memory = tmp_path / "memory.db"
    memory.write_bytes(b"")
    kept = context(find_project(str(project)), "rendered")
    keep_rendered(kept, str(state), store=f"sqlite:{memory}")
    assert "snapshot" in route_of(state, project)
    [snapshot] = state.glob("snapshot-*.md")
    changed = snapshot.stat().st_mtime + 1
    os.utime(memory, (changed, changed))

    assert text_of(told(state, {"cwd": str(project)})) == "rendered"
    assert "table" in route_of(state, project)


def route_of(state: Path, project: Path) -> str:
    told(state, {"cwd": str(project)})
    return (state / "injections.tsv").read_text().splitlines()[-1]


def test_a_snapshot_that_names_another_project_is_not_shown(state: Path, project: Path) -> None:
    """Two projects may share the name of a snapshot's file."""
    keep_rendered(context(find_project(str(project)), "mine"), str(state))
    [snapshot] = state.glob("snapshot-*.md")
    snapshot.write_text("/other\n\n1\n\nsecret")
    (state / "rendered.db").unlink()

    assert "secret" not in text_of(told(state, {"cwd": str(project)}))


@pytest.mark.parametrize("length", [9_000, 9_999, 10_001, 60_000])
@pytest.mark.parametrize("letter", ["x", "é", "🎉"])
def test_no_more_is_printed_than_a_client_shows(
    state: Path, project: Path, length: int, letter: str
) -> None:
    text = "# Title\n" + "\n".join([letter * 99] * (length // 100))
    keep_rendered(context(find_project(str(project)), text), str(state))

    shown = text_of(told(state, {"cwd": str(project)}))

    assert len(shown.encode("utf-16-le")) // 2 <= 10_000
    assert text.startswith(shown.rsplit("\n", 1)[0])
    assert (shown == text) == (len(text.encode("utf-16-le")) // 2 <= 9_800)


@pytest.mark.parametrize(
    "environment",
    [{"LC_ALL": "C", "LANG": "C"}, {"PYTHONIOENCODING": "cp1252"}, {"PYTHONUTF8": "0"}],
    ids=repr,
)
def test_bytes_are_the_same_in_every_locale(
    state: Path, project: Path, environment: dict[str, str]
) -> None:
    keep_rendered(context(find_project(str(project)), "“é” 朝阳 🎉"), str(state))

    envelope = told(state, {"cwd": str(project)}, environment=environment)

    assert text_of(envelope) == "“é” 朝阳 🎉"


def test_trouble_is_one_line_that_says_so(state: Path, project: Path) -> None:
    said = text_of(told(state, {"cwd": str(project)}))
    state.mkdir()
    (state / "worker").write_text("127.0.0.1:9\nno\n")
    (state / "rendered.db").write_bytes(b"not a database" * 100)
    for path in ("unix:/nowhere", "127.0.0.1:1", "x", ""):
        (state / "worker").write_text(f"{path}\n")
        assert text_of(told(state, {"cwd": str(project)})) == said

    assert "could not be read" in said
    assert "\n" not in said


def test_a_project_of_which_nothing_is_known_is_told_so(state: Path, project: Path) -> None:
    for text in ("known", ""):
        keep_rendered(context(find_project(str(project)), text), str(state))

    assert "nothing is remembered" in text_of(told(state, {"cwd": str(project)}))


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
reports = st.binary(max_size=300) | st.dictionaries(
    st.sampled_from(["cwd", "session_id", "source", "hook_event_name", "x"]), json_values
).map(lambda asked: json.dumps(asked).encode())


@given(raw=reports)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_on_stdin_an_envelope_comes_out(state: Path, raw: bytes) -> None:
    assert text_of(told(state, raw))


@pytest.mark.parametrize("event", ["%s", "%e", "SessionStart", "é"])
def test_the_event_is_the_clients_own_word(state: Path, event: str) -> None:
    envelope = told(state, {"hook_event_name": event})

    assert envelope["hookSpecificOutput"]["hookEventName"] == event


def test_a_pipe_that_stays_open_is_not_waited_for(state: Path, project: Path) -> None:
    keep_rendered(context(find_project(str(project)), "told"), str(state))
    command = [sys.executable, "-I", "-S", str(HOOK)]
    environment = {**os.environ, "CONTEXT_ASSEMBLER_STATE": str(state)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        run.stdin.write(json.dumps({"cwd": str(project)}).encode())
        run.stdin.flush()
        assert text_of(json.loads(run.stdout.read())) == "told"


@pytest.mark.parametrize("client", ENVELOPES)
def test_each_client_gets_its_own_envelope(state: Path, project: Path, client: str) -> None:
    keep_rendered(context(find_project(str(project)), "told"), str(state))

    envelope = told(state, {"cwd": str(project)}, client)

    event = {"hookEventName": "SessionStart", "additionalContext": "told"}
    expected = (
        {"additional_context": "told"} if client == "cursor" else {"hookSpecificOutput": event}
    )
    assert envelope == expected
