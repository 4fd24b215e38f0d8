"""What fills project memory: transcripts, hooks, sources, learnings; each safe to run twice."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from context_assembler.errors import ConfigurationError, TranscriptError
from context_assembler.memory import MemoryFilters, MemoryRecord, open_memory
from context_assembler.memory.kinds import ChangedFunctionMetadata, SessionMetadata
from context_assembler.session_start import SessionStart, find_project, index_code, learn, observe


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Any]:
    async with open_memory(f"sqlite:{tmp_path}/memory.db") as opened:
        yield opened


def git(folder: Path, *words: str) -> None:
    settings = ("user.name=n", "user.email=e@example.com", "commit.gpgsign=false")
    given = [word for one in settings for word in ("-c", one)]
    subprocess.run(["git", "-C", str(folder), *given, *words], check=True, capture_output=True)


def commit(folder: Path, subject: str, sources: Mapping[str, str]) -> None:
    for name, text in sources.items():
        (folder / name).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", subject)


async def records(store: Any, kind: str) -> list[MemoryRecord]:
    found: list[MemoryRecord] = await store.list_records(
        limit=100, filters=MemoryFilters(kinds=(kind,))
    )
    return found


async def changes(store: Any) -> dict[str, tuple[str | None, str]]:
    """Return change and text of each function that is remembered."""
    found = dict[str, tuple[str | None, str]]()
    for record in await records(store, "changed_functions"):
        assert isinstance(record.metadata, ChangedFunctionMetadata)
        found[f"{record.metadata.path}:{record.metadata.name}"] = (
            record.metadata.change,
            record.text,
        )
    return found


# ---- code ----

PYTHON = """class Cart:
    def add(self, item, *, count: int = 1):
        return item

    async def total(self):
        return 0


def load(path):
    return path
"""
SCRIPT = """export class Cart<T> {
  total = (rate: number) => rate * 2;
  async add(item: T): Promise<void> { this.items.push(item); }
}
export const load = async (path: string) => path;
function* walk(node: Node) { yield node; }
"""


async def test_functions_of_python_and_typescript_are_found_with_their_commit(
    store: Any, project: Path
) -> None:
    commit(project, "Begin the cart", {"cart.py": PYTHON, "cart.ts": SCRIPT, "notes.md": "# x"})

    indexed = await index_code(store, str(project))

    found = await changes(store)
    assert set(found) == {
        "cart.py:Cart.add",
        "cart.py:Cart.total",
        "cart.py:load",
        "cart.ts:Cart.total",
        "cart.ts:Cart.add",
        "cart.ts:load",
        "cart.ts:walk",
    }
    assert set(found.values()) == {("added", "Begin the cart")}
    assert (indexed.commits, indexed.functions, indexed.unread) == (1, 7, {})
    [add] = [r for r in await records(store, "changed_functions") if r.id == "cart.py:Cart.add"]
    assert isinstance(add.metadata, ChangedFunctionMetadata)
    assert add.metadata.signature == "Cart.add(self, item, *, count: int=1)"
    assert add.metadata.start_line == 2


async def test_only_what_changed_since_is_read_and_twice_adds_nothing(
    store: Any, project: Path
) -> None:
    commit(project, "Begin", {"cart.py": PYTHON})
    await index_code(store, str(project))
    commit(project, "Count items", {"cart.py": PYTHON.replace("return item", "return [item]")})
    (project / "cart.py").write_text(
        (project / "cart.py").read_text().replace("def load(path):\n    return path\n", "")
    )

    first, second = await index_code(store, str(project)), await index_code(store, str(project))

    found = await changes(store)
    assert found["cart.py:Cart.add"] == ("modified", "Count items")
    assert found["cart.py:load"] == ("deleted", "not committed yet")
    assert found["cart.py:Cart.total"] == ("added", "Begin")
    assert (first.commits, second.commits) == (1, 0)
    assert len(found) == 3


async def test_a_history_that_was_rewritten_is_indexed_anew(store: Any, project: Path) -> None:
    commit(project, "Begin", {"cart.py": PYTHON})
    await index_code(store, str(project))
    git(project, "commit", "-q", "--amend", "-m", "Begin again")
    git(project, "reflog", "expire", "--expire=now", "--all")
    git(project, "gc", "-q", "--prune=now")

    indexed = await index_code(store, str(project))

    assert indexed.commits == 1
    assert set((await changes(store)).values()) == {("added", "Begin again")}


async def test_sources_that_cannot_be_parsed_are_named(store: Any, project: Path) -> None:
    commit(project, "Odd", {"broken.py": "def f(:", "fine.py": "def g(): pass", "nul.py": "\0"})

    indexed = await index_code(store, str(project))

    assert set(indexed.unread) == {"broken.py", "nul.py"}
    assert set(await changes(store)) == {"fine.py:g"}


async def test_an_edit_that_was_taken_back_is_no_change(store: Any, project: Path) -> None:
    commit(project, "Begin", {"cart.py": PYTHON})
    await index_code(store, str(project))
    (project / "cart.py").write_text(PYTHON + "\ndef later(): pass\n")
    (project / "new.py").write_text("def new(): pass\n")
    await index_code(store, str(project))
    assert {"cart.py:later", "new.py:new"} < set(await changes(store))

    (project / "cart.py").write_text(PYTHON)
    (project / "new.py").unlink()
    await index_code(store, str(project))

    assert not {"cart.py:later", "new.py:new"} & set(await changes(store))


async def test_no_program_of_the_repository_runs(store: Any, project: Path) -> None:
    commit(project, "Begin", {"cart.py": PYTHON, ".gitattributes": "*.py filter=f diff=d\n"})
    for key in ("filter.f.clean", "filter.f.process", "diff.d.textconv", "diff.external"):
        git(project, "config", key, "touch ran")
    git(project, "config", "core.fsmonitor", "touch ran")
    git(project, "config", "gpg.program", "touch ran")
    git(project, "config", "log.showSignature", "true")
    (project / "cart.py").write_text(PYTHON.replace("return 0", "return 1"))

    await index_code(store, str(project))

    assert (await changes(store))["cart.py:Cart.total"] == ("modified", "not committed yet")
    assert "ran" not in await asyncio.to_thread(os.listdir, project)


async def test_a_folder_without_a_repository_is_refused(store: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="git says"):
        await index_code(store, str(tmp_path))


# ---- transcripts and hooks ----


def row(number: int, role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {
        "type": role,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": "s1",
        "cwd": "/src/shop",
        "timestamp": f"2026-11-01T10:0{number}:00Z",
        "message": {"role": role, "content": content},
        **fields,
    }


def calls(number: int, call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    call = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
    return row(number, "assistant", [call])


def answers(number: int, call_id: str, content: str, **fields: Any) -> dict[str, Any]:
    result = {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}
    return row(number, "user", [result])


FAILURE = "E  x\n1 failed with token sk-ant-api03-" + "aB3" * 31
EDIT = {"file_path": "/src/shop/cart.py", "old_string": "a", "new_string": "b"}
ROWS = [
    row(0, "user", "Make the cart keep its items.\nIt forgets them."),
    calls(1, "t1", "Edit", EDIT),
    answers(2, "t1", "ok"),
    calls(3, "t2", "Bash", {"command": "pytest -q"}),
    answers(4, "t2", FAILURE, is_error=True),
    row(5, "assistant", [{"type": "text", "text": "The cart keeps its items now."}]),
]


def written(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "s1.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def transcript(folder: Path, *, rows: int = 6, cwd: str = "/src/shop") -> Path:
    return written(folder, *({**one, "cwd": cwd} for one in ROWS[:rows]))


async def only_session(store: Any) -> tuple[MemoryRecord, SessionMetadata]:
    """Return the one session that is remembered."""
    [session] = await records(store, "sessions")
    assert isinstance(session.metadata, SessionMetadata)
    return session, session.metadata


async def test_a_transcript_is_one_session_its_edits_and_its_failures(
    store: Any, tmp_path: Path
) -> None:
    path = transcript(tmp_path)

    first = await observe(store, path, project_path=str(tmp_path))
    second = await observe(store, path, project_path=str(tmp_path))

    assert first == second
    session, about = await only_session(store)
    assert about.title == "Make the cart keep its items."
    assert about.paths == ("cart.py",)
    assert about.ended_at == session.created_at
    assert session.text == "The cart keeps its items now."
    seen = {one.text: one for one in await records(store, "observations")}
    assert "Edited cart.py" in seen
    [failure] = [text for text in seen if text.startswith("Bash failed: pytest -q")]
    assert "aB3aB3" not in failure
    context = await SessionStart(store).build(str(tmp_path))
    assert context.layers.keys() == {"sessions", "observations"}


REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected"


FAILED: list[tuple[tuple[str, dict[str, Any]], str, str]] = [
    (("Bash", {"command": "make test"}), "Exit code 1\nok a\nFAIL b", "make test: FAIL b"),
    (
        ("Edit", {"file_path": "/src/shop/cart.py"}),
        "<tool_use_error>String not found.\nString: x</tool_use_error>",
        "cart.py: String not found.",
    ),
    (("ExitPlanMode", {"plan": "…"}), "no plan", "ExitPlanMode failed: no plan"),
    (("ExitPlanMode", {}), f"{REFUSED}\nthe user said:\nUse a real hook", "refused: Use a real"),
    (("Write", {"file_path": "/src/shop/x", "content": ""}), f"{REFUSED} STOP what", ""),
    (("Write", {"file_path": "/src/shop/x", "content": ""}), "", "Write failed: x"),
]


@pytest.mark.parametrize(("call", "error", "told"), FAILED)
async def test_a_failure_says_what_went_wrong(
    store: Any, tmp_path: Path, call: tuple[str, dict[str, Any]], error: str, told: str
) -> None:
    rows = [calls(1, "t1", *call), answers(2, "t1", error, is_error=True)]
    path = written(tmp_path, row(0, "user", "Go on."), *rows)

    await observe(store, path, project_path=str(tmp_path))

    texts = [one.text for one in await records(store, "observations")]
    assert len(texts) == bool(told)
    assert all(told in text and "tool_use_error" not in text for text in texts)


@pytest.mark.parametrize(
    ("asked", "title"),
    [
        (
            "Implement the following plan:\n\n# Keep the items\n…",
            "Implement the following plan: Keep the items",
        ),
        ("## Fix the cart:", "Fix the cart"),
        ("\n***\nFix it.\nNow.", "Fix it."),
    ],
)
async def test_a_request_is_told_by_its_first_words(
    store: Any, tmp_path: Path, asked: str, title: str
) -> None:
    path = written(tmp_path, row(0, "user", asked))

    await observe(store, path, project_path=str(tmp_path))

    assert (await only_session(store))[1].title == title


async def test_only_files_of_the_project_count_as_edited(store: Any, tmp_path: Path) -> None:
    edit = {"file_path": "/home/me/.claude/plans/cart.md", "content": "# Plan"}
    rows = [row(0, "user", "Plan it."), calls(1, "t1", "Write", edit), answers(2, "t1", "ok")]
    path = written(tmp_path, *rows)

    await observe(store, path, project_path=str(tmp_path))

    assert not await records(store, "observations")
    assert (await only_session(store))[1].paths == ()


async def test_a_session_keeps_its_title_beside_its_sub_agents_and_earlier_sessions(
    store: Any, tmp_path: Path
) -> None:
    path = transcript(tmp_path)
    other = json.dumps({"type": "summary", "summary": "An older session", "leafUuid": "else"})
    path.write_text(f"{other}\n{path.read_text()}")
    agent = tmp_path / "agent-a1.jsonl"
    asked = row(0, "user", "Find the cart.", isSidechain=True, agentId="a1")
    agent.write_text(json.dumps(asked))

    for one in (path, agent):
        await observe(store, one, project_path=str(tmp_path))

    assert (await only_session(store))[1].title == "Make the cart keep its items."


async def test_a_session_that_goes_on_is_listed_once_it_ends(store: Any, tmp_path: Path) -> None:
    hook: dict[str, Any] = {"session_id": "s1", "cwd": "/elsewhere"}
    hook["transcript_path"] = str(transcript(tmp_path, rows=3, cwd=str(tmp_path)))

    await observe(store, {**hook, "hook_event_name": "Stop"})
    during = await SessionStart(store).build(str(tmp_path))
    transcript(tmp_path, cwd=str(tmp_path))
    await observe(store, {**hook, "hook_event_name": "SessionEnd", "reason": "exit"})
    after = await SessionStart(store).build(str(tmp_path))

    assert "sessions" not in during.layers
    assert "The cart keeps its items now" in after.text
    assert len(await records(store, "sessions")) == 1


async def test_a_tool_that_a_hook_reports_is_what_the_transcript_says_later(
    store: Any, tmp_path: Path
) -> None:
    told = {
        "hook_event_name": "PostToolUse",
        "session_id": "s1",
        "cwd": "/src/shop",
        "tool_name": "Edit",
        "tool_use_id": "t1",
        "tool_input": {"file_path": "/src/shop/cart.py", "new_string": "b"},
        "tool_response": {"ok": True},
    }
    await observe(store, told, project_path=str(tmp_path))
    await observe(store, {**told, "tool_name": "Read", "tool_input": {"file_path": "x"}})
    await observe(store, transcript(tmp_path), project_path=str(tmp_path))

    edits = [one for one in await records(store, "observations") if "Edited" in one.text]
    assert [one.text for one in edits] == ["Edited cart.py"]


@pytest.mark.parametrize(
    "told",
    [{}, {"hook_event_name": "Stop"}, {"hook_event_name": "Notification", "session_id": "s"}],
)
async def test_what_is_no_report_is_refused(store: Any, told: Any) -> None:
    with pytest.raises(TranscriptError, match="report of a hook"):
        await observe(store, told)


async def test_a_learning_learnt_again_changes_how_sure_it_is(store: Any, tmp_path: Path) -> None:
    first = await learn(store, "Prices are integers.", project_path=str(tmp_path), confidence=0.4)
    second = await learn(store, "prices  are integers.", project_path=str(tmp_path), confidence=1.0)

    assert first == second
    [learning] = await records(store, "learnings")
    assert learning.namespace == find_project(str(tmp_path))
    assert "(100% sure" in (await SessionStart(store).build(str(tmp_path))).text


async def test_secrets_are_masked_before_anything_is_cut(store: Any, tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "aB3" * 31
    failed = {"hook_event_name": "PostToolUseFailure", "session_id": "s", "tool_name": "Bash"}
    for front in range(40, 80, 3):
        told = {"command": "x" * front + " " + key, "file_path": f"/src/{key}.txt"}
        await observe(store, {**failed, "tool_input": told, "error": "y" * front * 4 + " " + key})

    found = await records(store, "observations")
    assert found
    assert not any("sk-ant-api03-aB3" in repr(one) for one in found)


async def test_recorded_sessions_are_observed(corpus: Path, store: Any, tmp_path: Path) -> None:
    paths = sorted((corpus / "trajectories" / "claude_code" / "cli").glob("*.jsonl"))
    for path in paths:
        await observe(store, path, project_path=str(tmp_path))

    context = await SessionStart(store).build(str(tmp_path))

    assert context.tokens <= context.budget_tokens
    days = [line[2:12] for line in context.text.splitlines() if line.startswith("- 20")]
    sessions = days[: len(days) - context.text.split("## Observations")[1].count("\n- ")]
    assert sessions == sorted(sessions, reverse=True)
