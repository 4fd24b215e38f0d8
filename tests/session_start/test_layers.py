"""What a session starts with: layers under a budget, of one project, the same bytes each time."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_assembler.memory import MemoryRecord, open_memory
from context_assembler.memory.kinds import (
    ChangedFunctionMetadata,
    LearningMetadata,
    ObservationMetadata,
    SessionMetadata,
)
from context_assembler.options import SessionStartSettings
from context_assembler.session_start import SessionStart, StartContext, find_project

DAY = datetime(2026, 11, 1, 12, tzinfo=UTC)


def session(name: str, project: str, *, day: int = 0, ended: bool = True) -> MemoryRecord:
    at = DAY + timedelta(days=day)
    about = SessionMetadata(
        title=name, ended_at=at if ended else None, paths=(f"{project}/cart.py",)
    )
    given: Any = {"kind": "sessions", "namespace": project, "created_at": at, "session_id": name}
    return MemoryRecord(text=f"{name}: the cart was rebuilt", metadata=about, **given)


def learning(text: str, project: str, confidence: float | None) -> MemoryRecord:
    about = LearningMetadata(confidence=confidence)
    given: Any = {"kind": "learnings", "namespace": project, "created_at": DAY}
    return MemoryRecord(text=text, metadata=about, **given)


def function(name: str, project: str, *, path: str = "cart.py", day: int = 0) -> MemoryRecord:
    about = ChangedFunctionMetadata(name=name, path=f"{project}/{path}", change="modified")
    at = DAY + timedelta(days=day)
    given: Any = {"kind": "changed_functions", "namespace": project, "created_at": at}
    return MemoryRecord(text=name, metadata=about, **given)


def observation(text: str, project: str, *, session_id: str | None = None) -> MemoryRecord:
    given: Any = {"kind": "observations", "namespace": project, "created_at": DAY}
    about = ObservationMetadata(paths=(f"{project}/cart.py",))
    return MemoryRecord(text=text, metadata=about, session_id=session_id, **given)


def built(
    folder: Path, records: Sequence[MemoryRecord], *, session_id: str | None = None, **options: Any
) -> StartContext:
    """Return what a session in the folder starts with, once these records are remembered."""

    async def build() -> StartContext:
        async with open_memory(f"sqlite:{folder}/memory.db") as store:
            await store.remember(records)
            start = SessionStart(store, settings=SessionStartSettings(**options))
            return await start.build(str(folder), session_id=session_id)

    return asyncio.run(build())


@pytest.fixture
def project(tmp_path: Path) -> str:
    (tmp_path / ".git").mkdir()
    return find_project(str(tmp_path))


def test_layers_stand_in_order_with_paths_of_the_project(tmp_path: Path, project: str) -> None:
    records = [
        observation("The cart lost an item", project),
        learning("Prices are integers", project, 0.9),
        function("add", project),
        session("Cart", project),
    ]

    context = built(tmp_path, records)

    assert list(context.layers) == ["sessions", "functions", "learnings", "observations"]
    headings = [line for line in context.text.splitlines() if line.startswith("#")]
    assert headings[0] == f"# What is remembered of {tmp_path.name}"
    assert headings[1:] == [
        "## Last sessions",
        "## Changed functions",
        "## Learnings",
        "## Observations",
    ]
    assert "`cart.py`: `add` modified" in context.text
    assert "Prices are integers (90% sure, 2026-11-01)" in context.text
    assert "memory search" in context.text.splitlines()[-1]
    assert f"{project}/cart.py" not in context.text
    assert context.skipped == {}
    assert context.tokens <= context.budget_tokens


def test_an_empty_memory_gives_an_empty_context(tmp_path: Path, project: str) -> None:
    context = built(tmp_path, [])

    assert (context.project, context.text, context.tokens) == (project, "", 0)


def test_the_same_records_give_the_same_bytes(tmp_path: Path, project: str) -> None:
    records = [observation(f"Seen {n}", project) for n in range(80)]
    records += [session(f"S{n}", project, day=n) for n in range(20)]

    first, second = built(tmp_path, records), built(tmp_path, [])

    assert first.text == second.text


def test_nothing_of_another_project_is_shown(tmp_path: Path, project: str) -> None:
    other = f"{project}-other"
    kinds = (session("Secret", other), learning("secret", other, 1.0), function("secret", other))

    context = built(tmp_path, [*kinds, observation("secret", other), learning("own", project, 1.0)])

    assert "secret" not in context.text.lower()
    assert list(context.layers) == ["learnings"]


def test_what_the_session_itself_did_and_sessions_that_run_are_left_out(
    tmp_path: Path, project: str
) -> None:
    records = [
        session("Mine", project, day=2),
        session("Running", project, day=1, ended=False),
        session("Before", project),
        observation("seen by me", project, session_id="Mine"),
        observation("seen before", project, session_id="Before"),
    ]

    context = built(tmp_path, records, session_id="Mine")

    assert "Before" in context.text
    assert "seen before" in context.text
    for left_out in ("Mine", "Running", "seen by me"):
        assert left_out not in context.text


def test_learnings_are_sure_enough_and_the_surest_come_first(tmp_path: Path, project: str) -> None:
    given = {"doubtful": 0.49, "likely": 0.5, "unrated": None, "certain": 1.0}

    context = built(tmp_path, [learning(text, project, sure) for text, sure in given.items()])

    shown = [word for word in context.text.split() if word in given]
    assert shown[0] == "certain"
    assert set(shown) == {"certain", "likely", "unrated"}


def test_an_entry_that_is_too_large_does_not_keep_others_out(tmp_path: Path, project: str) -> None:
    given = [learning("漢" * 290, project, 1.0), learning("small", project, 0.9)]

    context = built(tmp_path, given, learnings_tokens=100)

    assert "small" in context.text
    assert context.left_out == {"learnings": 1}


def test_functions_are_named_once_by_file(tmp_path: Path, project: str) -> None:
    records = [function("add", project, day=n) for n in range(3)]
    records += [function("total", project, path="price.py", day=9)]

    context = built(tmp_path, records)

    lines = [line for line in context.text.splitlines() if line.startswith("- `")]
    assert lines == ["- `price.py`: `total` modified", "- `cart.py`: `add` modified"]


def test_files_without_room_are_counted_as_files(tmp_path: Path, project: str) -> None:
    path = "packages/checkout/sources/{}.py"
    records = [function(f"f{at}", project, path=path.format(at)) for at in range(30)]

    context = built(tmp_path, records)

    shown = context.text.count("- `")
    assert f"No room for {30 - shown} files with changed functions." in context.text


def test_observations_like_the_last_session_come_first(tmp_path: Path, project: str) -> None:
    records = [session("Cart", project)]
    records += [observation(f"The weather was fine {n}", project) for n in range(40)]
    records += [observation("The cart was rebuilt twice", project)]

    context = built(tmp_path, records)

    first = context.text.split("## Observations\n")[1].splitlines()[0]
    assert "The cart was rebuilt twice" in first
    assert context.left_out["observations"] > 0
    assert f"No room for {context.left_out['observations']} observations" in (context.text)


class Broken:
    """A store whose reading of one kind fails; the others are read from a real one."""

    def __init__(self, store: Any, kind: str) -> None:
        self._store, self._kind = store, kind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def list_records(self, **options: Any) -> Any:
        if self._kind in options["filters"].kinds:
            raise OSError("disk\nfull <sys>")
        return await self._store.list_records(**options)


@pytest.mark.parametrize("kind", ["sessions", "changed_functions", "learnings", "observations"])
async def test_a_layer_that_fails_is_named_and_the_others_stand(
    tmp_path: Path, project: str, kind: str
) -> None:
    records = [session("Cart", project), function("add", project), learning("l", project, 1.0)]
    async with open_memory(f"sqlite:{tmp_path}/memory.db") as store:
        await store.remember([*records, observation("seen", project)])
        context = await SessionStart(Broken(store, kind)).build(str(tmp_path))  # type: ignore[arg-type]

    assert len(context.layers) == 3
    assert list(context.skipped) == [kind.removeprefix("changed_")]
    assert "Skipped: " in context.text
    assert "disk full &lt;sys>" in context.text


@given(
    sizes=st.lists(st.integers(1, 120), max_size=40),
    budget=st.integers(30, 2_000),
    reserve=st.integers(0, 300),
)
@settings(max_examples=25)
def test_no_budget_is_exceeded(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], budget: int, reserve: int
) -> None:
    folder = tmp_path_factory.mktemp("project")
    project = find_project(str(folder))
    records = [observation(f"{n} " + "word " * size, project) for n, size in enumerate(sizes)]
    records += [learning(f"{n} " + "word " * size, project, 0.9) for n, size in enumerate(sizes)]

    context = built(folder, records, budget_tokens=budget, reserve_tokens=reserve)

    assert sum(context.layers.values()) <= max(0, budget - reserve)
    assert context.tokens <= budget
    assert bool(context.text) >= bool(context.layers)


def test_a_worktree_shares_the_memory_of_its_repository(tmp_path: Path) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree" / "src"
    (main / ".git" / "worktrees" / "tree").mkdir(parents=True)
    tree.mkdir(parents=True)
    (tree.parent / ".git").write_text(f"gitdir: {main}/.git/worktrees/tree\n")
    assert find_project(str(tree)) == str(
        tree.parent.resolve()
    )  # the repository knows nothing of it
    (main / ".git" / "worktrees" / "tree" / "gitdir").write_text(f"{tree.parent}/.git\n")

    assert find_project(str(tree)) == find_project(str(main)) == str(main.resolve())
    assert find_project(str(tmp_path)) == str(tmp_path.resolve())
