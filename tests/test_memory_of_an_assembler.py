"""Memory as an assembler is given it: objects, URLs, settings; opened, asked, written, closed."""

import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from context_assembler import (
    AssembledContext,
    AssemblerConfig,
    ConfigurationError,
    ContextAssembler,
    ExperienceMetadata,
    FormattedContext,
    InvalidContextTypeError,
    InvalidParameterError,
    MemoryAssembler,
    MemoryFilters,
    MemoryRecord,
    PromptSection,
    SqliteMemoryStore,
    TaskStack,
    UnknownOptionError,
)
from context_assembler.values.recall_settings import RECALL_PRESETS
from tests.recall.building import Answering, Listing, hit, record

SEAT = "Where does Ada like to sit?"
FACT = record("Ada likes window seats.", id="seat")


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    file = tmp_path / "memory.db"
    async with SqliteMemoryStore(file) as store:
        await store.remember([FACT])
    return file


async def asked(assembler: ContextAssembler, query: str = SEAT, **options: Any) -> AssembledContext:
    await assembler.add_user("s", SEAT)
    given: dict[str, Any] = {"model": "gpt-5.5", "max_tokens": 500, **options}
    return await assembler.assemble("s", query=query, **given)


def note(context: AssembledContext) -> str:
    return "\n".join(message.text for message in context.messages if message.note == "memory")


def recalled_from(context: AssembledContext) -> list[str]:
    return [row.reason.partition(",")[0] for row in context.report.entries if row.kind == "memory"]


# ---- what it may be ----

FORMS: dict[str, Callable[[Path], Any]] = {
    "a path": lambda path: path,
    "a URL": lambda path: f"sqlite:{path}",
    "a store": SqliteMemoryStore,
    "an assembler of its own": MemoryAssembler,
    "several": lambda path: [f"sqlite:{path}", Listing()],
    "named": lambda path: {"team": path},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
async def test_memory_is_whatever_can_be_searched(form: Callable[[Path], Any], path: Path) -> None:
    async with ContextAssembler(memory=form(path)) as assembler:
        context = await asked(assembler)

    assert "- Ada likes window seats." in note(context)


async def test_sources_are_told_by_the_names_that_they_are_given(path: Path) -> None:
    other = Listing(record("ada may like to sit outside", id="o"))

    async with ContextAssembler(memory={"team": path, "own": other}) as assembler:
        context = await asked(assembler, "ada sit likes")

    assert recalled_from(context) == ["Recalled from own/memories", "Recalled from team/memories"]


WRONG: dict[str, tuple[Any, str]] = {
    "a number": (7, "7 is no source of memories"),
    "numbers": ([7], "7 is no source of memories"),
    "a scheme that nobody opens": ("postgre:x", "No memory store opens 'postgre:x'"),
    "a file without a scheme": ("memory.db", "No memory store opens 'memory.db'"),
}


@pytest.mark.parametrize(("given", "says"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be_searched_is_refused_with_a_remedy(given: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        ContextAssembler(memory=given)

    assert "sqlite:" in caught.value.remedy


FILES = {
    "mem.db": "Did you mean 'sqlite:mem.db'?",
    "./data/mem": "Did you mean 'sqlite:./data/mem'?",
    "sqlit:mem.db": "Write 'memory:…'",
    "redis:x": "Write 'memory:…'",
}


@pytest.mark.parametrize(("given", "told"), FILES.items(), ids=FILES.keys())
def test_a_file_without_a_scheme_is_offered_with_one(given: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ContextAssembler(memory=given)

    assert caught.value.remedy.startswith(told)


def test_the_name_of_the_note_is_taken() -> None:
    section = PromptSection(name="memory", content="Ada sits.", placement="note", origin="memory")

    assert ContextAssembler(prompt_sections=[section])
    with pytest.raises(ConfigurationError, match="another name"):
        ContextAssembler(memory="memory:", prompt_sections=iter([section]))


# ---- settings ----


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_a_file_of_settings_names_the_store(in_folder: Path, path: Path) -> None:
    (in_folder / "context-assembler.toml").write_text(
        f'[memory]\nstore = "sqlite:{path.name}"\nmax_tokens = 120\n', encoding="utf-8"
    )

    async with ContextAssembler() as assembler:
        context = await asked(assembler)

    [budget] = [row for row in context.report.parameters if row.name == "recall_tokens"]
    assert (budget.value, budget.layer) == (120, "system")
    assert "window seats" in note(context)


@pytest.mark.parametrize(
    "environment",
    [
        {"CONTEXT_ASSEMBLER_MEMORY": "sqlite:memory.db"},
        {"CONTEXT_ASSEMBLER_MEMORY": '{"store": "sqlite:memory.db"}'},
        {"CONTEXT_ASSEMBLER_MEMORY__STORE": "sqlite:memory.db"},
        {
            "CONTEXT_ASSEMBLER_MEMORY": "sqlite:memory.db",
            "CONTEXT_ASSEMBLER_MEMORY__MAX_TOKENS": "700",
        },
    ],
)
async def test_the_environment_names_the_store(
    in_folder: Path, path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert path.parent == in_folder
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    async with ContextAssembler() as assembler:
        context = await asked(assembler)

    assert "window seats" in note(context)
    expected = int(environment.get("CONTEXT_ASSEMBLER_MEMORY__MAX_TOKENS", 2000))
    assert AssemblerConfig().memory.max_tokens == expected


def test_an_empty_variable_names_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_MEMORY", "")

    assert AssemblerConfig().memory.store is None


async def test_memory_in_code_wins_over_the_settings() -> None:
    config = AssemblerConfig(memory={"store": "sqlite:/nowhere/at/all.db", "limit": 1})
    source = Listing(record("ada sits", id="a"), record("ada sits on a chair", id="b"))

    context = await asked(ContextAssembler(memory=source, config=config), "ada sits")

    assert not context.report.warnings
    assert note(context).count("\n- ") == 1


async def test_kinds_and_projects_are_bounded_by_the_settings() -> None:
    config = AssemblerConfig(memory={"context_types": ["learnings"], "namespaces": ["shop"]})
    async with SqliteMemoryStore(None) as store:
        await store.remember(
            [
                record("Ada sits here.", id="a", kind="learnings", namespace="shop"),
                record("Ada sits there.", id="b", kind="learnings", namespace="home"),
                record("Ada sits nowhere.", id="c", namespace="shop"),
            ]
        )

        context = await asked(ContextAssembler(memory=store, config=config), "Ada sits")

    assert "Ada sits here." in note(context)
    assert note(context).count("\n- ") == 1


def test_what_the_settings_say_is_what_recalls() -> None:
    config = AssemblerConfig(
        memory={"preset": "coding", "strategy": "recent", "seconds_in_all": 0.5}
    )

    settings = ContextAssembler(memory="memory:", config=config).memory.settings

    assert settings.shares == RECALL_PRESETS["coding"].shares
    assert (settings.strategy, settings.seconds_in_all) == ("recent", 0.5)


async def test_the_settings_say_how_alike_is_told_as_one() -> None:
    said = [
        record("The boat leaves at nine, from the pier.", id="a"),
        record("The boat leaves at nine from that pier.", id="b"),
        record("The boat leaves at 9, from the pier.", id="c"),
        record("The boat leaves at 8, from the pier.", id="d"),
    ]
    found: list[list[str]] = []
    for likeness in (None, 1.0, 0.8):
        config = AssemblerConfig(memory={"near_duplicate": likeness})
        async with ContextAssembler(memory="memory:", config=config) as assembler:
            await assembler.remember(said)
            context = await assembler.recall("When does the boat leave?")
        found.append(sorted(item.record.id for item in context.items))

    assert found == [["a", "c", "d"], ["a", "b", "c", "d"], ["a", "c", "d"]]


def given_as(how: str, store: SqliteMemoryStore, file: Path) -> Any:
    ways = {
        "nothing": None,
        "URL": f"sqlite:{file}",
        "path": file,
        "store": store,
        "several": [store],
        "mapping": {"own": f"sqlite:{file}"},
    }
    return ways[how]


@pytest.mark.parametrize("how", ["nothing", "URL", "path", "store", "several", "mapping"])
async def test_the_settings_hold_for_whatever_the_code_gives(how: str, tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    said: dict[str, Any] = {"embedder": "bundled", "merges_alike": 0.9, "seconds_in_all": 0.5}
    config = AssemblerConfig(memory={"store": f"sqlite:{file}", "preset": "coding", **said})
    async with (
        SqliteMemoryStore(file) as store,
        ContextAssembler(memory=given_as(how, store, file), config=config) as assembler,
    ):
        await assembler.remember("Ada wants invoices as PDF files.")
        [near] = await assembler.remember("Ada wants her invoices as PDF files.")

        assert (near.outcome, (await store.stats()).vectors) == ("duplicate", 1)
        settings = assembler.memory.settings
        assert settings.shares == RECALL_PRESETS["coding"].shares
        assert settings.seconds_in_all == 0.5


async def test_an_assembler_of_ones_own_keeps_its_settings() -> None:
    own = MemoryAssembler("memory:", preset="research")
    assembler = ContextAssembler(memory=own, config=AssemblerConfig(memory={"preset": "coding"}))

    assert assembler.memory is own
    assert assembler.memory.settings == RECALL_PRESETS["research"]


BAD_SETTINGS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a kind": ({"context_types": ["memory"]}, InvalidContextTypeError, "memories"),
    "a preset": ({"preset": "codin"}, InvalidParameterError, "Did you mean 'coding'"),
    "a strategy": ({"strategy": "newest"}, ConfigurationError, "memory.strategy"),
    "a budget": ({"max_tokens": 0}, ConfigurationError, "memory.max_tokens"),
    "a time": ({"seconds_in_all": -1}, ConfigurationError, "memory.seconds_in_all"),
    "a key": ({"stroe": "memory:"}, UnknownOptionError, "Did you mean 'store'"),
}


@pytest.mark.parametrize(("given", "error", "says"), BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
def test_bad_settings_are_refused_by_name(
    given: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        AssemblerConfig(memory=given)


@pytest.mark.parametrize(
    ("given", "says"),
    [({"store": "redis:x"}, "No memory store opens"), ({"embedder": "bundle"}, "bundled")],
)
def test_what_the_settings_name_has_to_be_there(given: dict[str, Any], says: str) -> None:
    config = AssemblerConfig(memory={"store": "memory:", **given})

    with pytest.raises(ConfigurationError, match=says):
        ContextAssembler(config=config)


async def test_with_an_embedder_what_is_remembered_is_found_by_meaning() -> None:
    pytest.importorskip("numpy")
    config = AssemblerConfig(memory={"store": "memory:", "embedder": "bundled"})
    async with ContextAssembler(config=config) as assembler:
        await assembler.remember(["The car is fast.", "The cake is in the oven."])

        context = await asked(assembler, "a quick automobile")

    assert "The car is fast." in note(context)


# ---- bounds of the settings ----

TALK = [
    record("Ada's door code is 1234.", id="ada", kind="learnings", namespace="ada"),
    record("Ada's door code opens the yard.", id="yard", kind="learnings", namespace="ada"),
    record("Ada wrote her door code down.", id="note", namespace="ada"),
    record("Bob's door code is 4711.", id="bob", kind="learnings", namespace="bob"),
]
BOUNDS: dict[str, Any] = {
    "namespaces": ["ada"],
    "context_types": ["learnings"],
    "limit": 1,
    "max_tokens": 60,
}
Ask = Callable[[ContextAssembler], Awaitable[FormattedContext]]


async def updated(assembler: ContextAssembler, **options: Any) -> FormattedContext:
    context = await assembler.recall("door code")
    return assembler.update_context(context, "Ada changed her door code to 9999.", **options)


ASKING: dict[str, Ask] = {
    "recall": lambda a: a.recall("What is the door code?"),
    "recall of other dates": lambda a: a.recall(
        "What is the door code?", filters=MemoryFilters(since=datetime(2000, 1, 1, tzinfo=UTC))
    ),
    "without a query": lambda a: a.recall(),
    "with no kinds named": lambda a: a.recall("door code", context_types=None),
    "a stack": lambda a: a.assemble_stack(TaskStack().push("Tell the door code")),
    "an update": updated,
}


@pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING.keys())
async def test_what_recalls_keeps_to_the_settings_where_a_call_says_nothing(ask: Ask) -> None:
    config = AssemblerConfig(memory=BOUNDS)
    async with ContextAssembler(memory="memory:", config=config) as assembler:
        await assembler.remember(TALK)

        context = await ask(assembler)

    assert len(context.items) == 1
    assert context.token_count <= 60
    assert {item.record.namespace for item in context.items} <= {"ada", ""}
    assert not {"bob", "note"} & {row.memory_id for row in context.explanations}


async def test_what_a_call_says_itself_holds_over_the_settings() -> None:
    config = AssemblerConfig(memory=BOUNDS)
    asked: tuple[dict[str, Any], ...] = (
        {"context_types": "memories"},
        {"filters": MemoryFilters(kinds=("memories",))},
        {"filters": MemoryFilters(namespaces=("bob",))},
    )
    async with ContextAssembler(memory="memory:", config=config) as assembler:
        await assembler.remember(TALK)

        found = [
            await assembler.recall("door code", limit=5, max_tokens=500, **own) for own in asked
        ]
        more = await updated(assembler, limit=5, max_tokens=500)

    assert [[item.record.id for item in one.items] for one in found] == [
        ["note"],
        ["note"],
        ["bob"],
    ]
    assert len(more.items) == 2


async def test_a_premortem_keeps_to_the_projects_and_the_budget_of_the_settings() -> None:
    config = AssemblerConfig(memory=BOUNDS)
    async with ContextAssembler(memory="memory:", config=config) as assembler:
        await assembler.remember(
            [
                record(
                    f"{name}'s migration broke.",
                    id=name,
                    kind="experiences",
                    namespace=name,
                    metadata=ExperienceMetadata(domain="migrations", succeeded=False),
                )
                for name in ("ada", "bob")
            ]
        )

        premortem = await assembler.get_premortem_context("migrations")
        others = await assembler.get_premortem_context(
            "migrations", filters=MemoryFilters(namespaces=("bob",))
        )
        small = await assembler.get_premortem_context("migrations", max_tokens=3)

    assert "ada's migration" in premortem.markdown
    assert "bob" not in repr(premortem)
    assert premortem.token_count <= 60
    assert "bob's migration" in others.markdown
    assert small.token_count <= 3


OF_NOBODY: dict[str, tuple[list[str], str, int]] = {
    "one project": (["ada"], "ada", 0),
    "several": (["ada", "bob"], "", 1),
    "several, and what belongs to none": (["ada", ""], "", 0),
    "any": ([], "", 0),
}


@pytest.mark.parametrize(
    ("namespaces", "goes_into", "notices"), OF_NOBODY.values(), ids=OF_NOBODY.keys()
)
async def test_what_is_remembered_without_a_project_is_found_or_told_of(
    namespaces: list[str], goes_into: str, notices: int
) -> None:
    config = AssemblerConfig(memory={"namespaces": namespaces})
    async with SqliteMemoryStore(None) as store:
        assembler = ContextAssembler(memory=store, config=config)
        kept = await assembler.remember(
            ["Ada sits.", record("Ada stands.", id="b"), record("Ada lies.", namespace="eve")]
        )
        found = await assembler.recall("Ada")
        records = [await store.get(one.id) for one in kept]

    assert [one.namespace for one in records] == [goes_into, goes_into, "eve"]
    assert [len(one.notices) for one in kept] == [notices, notices, 0]
    assert all("'ada', 'bob' alone" in notice for one in kept for notice in one.notices)
    assert len(found.items) == (0 if notices else 2 if namespaces else 3)


# ---- asking and writing by hand ----


async def test_everything_that_recalls_is_reached_from_the_assembler() -> None:
    async with ContextAssembler(memory="memory:") as assembler:
        kept = await assembler.remember(
            [
                FACT,
                MemoryRecord(
                    text="The table was locked.",
                    kind="experiences",
                    metadata=ExperienceMetadata(domain="migrations", succeeded=False),
                ),
            ]
        )

        context = await assembler.recall(SEAT, max_tokens=200, context_types=["memories"])
        updated = assembler.update_context(context, "Ada sits down by the window.")
        smaller = await assembler.compress(updated, target_tokens=40)
        premortem = await assembler.get_premortem_context("migrations")
        stack = await assembler.assemble_stack(TaskStack().push("Seat Ada"), max_tokens=300)

        assert [shown.record.id for shown in context.items] == [kept[0].id]
        assert "sits down" in updated.markdown
        assert smaller.token_count <= 40
        assert "The table was locked." in premortem.markdown
        assert stack.markdown.startswith("## Root goal")


async def test_one_text_is_remembered_and_forgotten() -> None:
    async with ContextAssembler(memory="memory:") as assembler:
        [kept] = await assembler.remember("Ada likes window seats.")
        [again] = await assembler.remember(MemoryRecord(text="ada likes window seats."))

        assert (kept.outcome, again.outcome) == ("added", "duplicate")
        assert await assembler.forget(kept.id) == [kept.id]
        assert await assembler.forget([kept.id, "unknown"]) == []
        assert (await assembler.recall(SEAT)).is_empty


async def test_what_is_forgotten_is_gone_from_every_store(tmp_path: Path) -> None:
    one, two = tmp_path / "one.db", tmp_path / "two.db"
    for store in (one, two):
        async with ContextAssembler(memory=store) as assembler:
            await assembler.remember(FACT)

    async with ContextAssembler(memory=[one, Listing(), two]) as assembler:
        assert await assembler.forget("seat") == ["seat"]
        assert (await assembler.recall(SEAT)).is_empty


async def test_without_memory_it_is_said_how_to_get_one() -> None:
    assembler = ContextAssembler()

    with pytest.raises(ConfigurationError, match="No memory is configured") as caught:
        await assembler.recall(SEAT)

    assert "memory='sqlite:memory.db'" in caught.value.remedy


async def test_sources_that_are_only_searched_cannot_remember() -> None:
    assembler = ContextAssembler(memory=Answering([hit(FACT)]))

    with pytest.raises(ConfigurationError, match="only be searched"):
        await assembler.remember("Ada sits.")
    with pytest.raises(ConfigurationError, match="only be searched"):
        await assembler.forget("seat")


UNKNOWN: dict[str, tuple[Any, str]] = {
    "a number": (7, "7 cannot be remembered"),
    "a number among others": (["tea", 7], "7 cannot be remembered"),
    "nothing": (None, "None cannot be remembered"),
    "bytes": (b"tea", "b'tea' cannot be remembered"),
    "a dict": ({"text": "tea", "kind": "learnings"}, "{'kind': 'learnings', 'text': 'tea'} cannot"),
    "dicts": ([{"text": "tea"}], "{'text': 'tea'} cannot be remembered"),
}


@pytest.mark.parametrize(("unknown", "told"), UNKNOWN.values(), ids=UNKNOWN.keys())
async def test_what_is_no_text_cannot_be_remembered(unknown: Any, told: str) -> None:
    async with ContextAssembler(memory="memory:") as assembler:
        with pytest.raises(ConfigurationError, match=re.escape(told)) as caught:
            await assembler.remember(unknown)

        assert (await assembler.recall("tea")).is_empty
    assert "MemoryRecord(text=…, kind=…)" in caught.value.remedy


BLANK: dict[str, tuple[Any, str]] = {
    "nothing": ("", "text must say something; got ''"),
    "white space": (" \n\t", "text must say something"),
    "what no reader sees": ("\x00\n", "text must say something"),
    "among others": (["tea", " "], "the text of [1] must say something"),
    "a record": (MemoryRecord(text=""), "text must say something"),
    "a record whose metadata tells of it": (
        MemoryRecord(text=" ", kind="experiences", metadata=ExperienceMetadata(lesson="wait")),
        "text must say something",
    ),
}


@pytest.mark.parametrize(("blank", "told"), BLANK.values(), ids=BLANK.keys())
@pytest.mark.parametrize("namespaces", [[], ["ada"]])
async def test_what_says_nothing_is_not_remembered(
    blank: Any, told: str, namespaces: list[str]
) -> None:
    config = AssemblerConfig(memory={"namespaces": namespaces})
    async with ContextAssembler(memory="memory:", config=config) as assembler:
        for owner in (assembler, assembler.memory):
            with pytest.raises(InvalidParameterError, match=re.escape(told)) as caught:
                await owner.remember(blank)
            assert caught.value.remedy == "Pass a word or more to remember."

        assert await assembler.remember([]) == []
        assert (await assembler.recall()).is_empty


# ---- opening and closing ----


class Closing(SqliteMemoryStore):
    """Tells whether it was closed."""

    is_closed = False

    async def close(self) -> None:
        self.is_closed = True
        await super().close()


def is_open(path: Path) -> bool:
    """Whether this process has the file open."""
    return path in [descriptor.resolve() for descriptor in Path("/proc/self/fd").iterdir()]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux lists open files there")
async def test_a_store_is_closed_by_whoever_opened_it(path: Path) -> None:
    store = Closing(None)
    own = MemoryAssembler(path)
    async with ContextAssembler(memory=store) as assembler:
        await asked(assembler)
    async with ContextAssembler(memory=own) as assembler:
        await asked(assembler)

    assert not store.is_closed
    assert not (await own.assemble_context(SEAT)).is_empty
    await own.close()
    async with ContextAssembler(memory=path) as assembler:
        assert "window seats" in note(await asked(assembler))
        assert is_open(path)
    assert not is_open(path)


def test_nothing_is_opened_before_the_first_use(tmp_path: Path) -> None:
    ContextAssembler(memory=tmp_path / "memory.db")

    assert list(tmp_path.iterdir()) == []


HEAVY = """
import asyncio, json, sys
from context_assembler import ContextAssembler

async def main():
    async with ContextAssembler(**json.loads(sys.argv[1])) as assembler:
        await assembler.add_user("s", "Hello")
        await assembler.assemble("s", model="gpt-5.5", max_tokens=500)

asyncio.run(main())
heavy = ("numpy", "rapidfuzz", "context_assembler.memory", "context_assembler.memory_assembler",
         "context_assembler.embeddings", "context_assembler.recall", "context_assembler.values.recall")
print(json.dumps([name for name in heavy if name in sys.modules]))
"""


@pytest.mark.parametrize(
    ("given", "loaded"),
    [
        ({}, []),
        ({"memory": "memory:"}, ["context_assembler.memory", "context_assembler.memory_assembler"]),
    ],
)
def test_what_recalls_is_loaded_by_those_who_have_memory_alone(
    given: dict[str, str], loaded: list[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAVY, json.dumps(given)],
        check=True,
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=100,
    )

    found = json.loads(done.stdout)
    assert not {"numpy", "rapidfuzz"} & set(found)
    assert found == [] if not loaded else set(loaded) <= set(found)


async def test_the_settings_say_what_counts_as_a_duplicate() -> None:
    config = AssemblerConfig.model_validate({"memory": {"merges_alike": 0.9}})
    async with ContextAssembler("memory:", memory="memory:", config=config) as assembler:
        await assembler.remember("Ada wants invoices as PDF files.")
        [near] = await assembler.remember("Ada wants her invoices as PDF files.")

    assert near.outcome == "duplicate"
