"""Instructions that a folder was named for and that are not sent: every report warns of them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from context_assembler import AssemblerConfig, BootstrapLoader, ContextAssembler

_MODEL = "gpt-5.5"

# What lies in the folder `kept`, by name; what is named, and what the warning has to say.
FOLDERS: dict[str, tuple[dict[str, str], str, tuple[str, ...]]] = {
    "a folder that is not there": ({}, "typo", ("there is no folder", "typo", "bootstrap=")),
    "nearly the name of one": ({"AGENT.md": "x"}, "keptt", ("keptt", "but 'kept' beside it")),
    "a file in place of a folder": ({"AGENT.md": "x"}, "kept/AGENT.md", ("is no folder",)),
    "an empty folder": ({"README": "x"}, "kept", ("no AGENT.md in", "Write it")),
    "another case": ({"agent.md": "x"}, "kept", ("but agent.md", "rename", "agent_names")),
    "another client's name": ({"AGENTS.md": "x"}, "kept", ("but AGENTS.md", "agent_names")),
    "a misspelt name": ({"AGNET.md": "x"}, "kept", ("but AGNET.md", "rename")),
    "another agent's own": ({"AGENT.ada.md": "x"}, "kept", ("no AGENT.md in", "Write it")),
    "sections besides the agent's": ({"SOUL.md": "x"}, "kept", ("no AGENT.md in", "required")),
    "a file of comments alone": ({"AGENT.md": "<!-- x -->"}, "kept", ("AGENT.md", "comments")),
    "a template that is empty": (
        {"AGENT.md": "---\ntemplate: jinja2\n---\n{{ agent }}"},
        "kept",
        ("AGENT.md", "filled"),
    ),
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _fill(files: dict[str, str]) -> None:
    for name, text in files.items():
        path = Path("kept", name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


async def _ask(assembler: ContextAssembler) -> tuple[str, ...]:
    await assembler.add_user("s", "Hello.")
    return await _warned(assembler)


async def _warned(assembler: ContextAssembler) -> tuple[str, ...]:
    return (await assembler.assemble("s", model=_MODEL)).report.warnings


WAYS: dict[str, Callable[[str], ContextAssembler]] = {
    "in code": lambda folder: ContextAssembler("sqlite:s.db", bootstrap=folder),
    "by a loader": lambda folder: ContextAssembler(
        "sqlite:s.db", bootstrap=BootstrapLoader(folder)
    ),
    "in the settings": lambda folder: ContextAssembler(
        "sqlite:s.db", config=AssemblerConfig(bootstrap={"folder": folder})
    ),
}


@pytest.mark.parametrize("name", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize(("files", "folder", "told"), FOLDERS.values(), ids=FOLDERS.keys())
async def test_every_report_warns_of_instructions_that_are_not_there(
    files: dict[str, str],
    folder: str,
    told: tuple[str, ...],
    name: Callable[[str], ContextAssembler],
) -> None:
    _fill(files)

    async with name(folder) as assembler, name(folder) as another:
        first, second = await _ask(assembler), await _ask(assembler)
        fresh = await _warned(another)

    (warning,) = first
    assert "lacks 'agent'" in warning
    assert all(word in warning for word in told)
    assert first == second == fresh


async def test_the_environment_names_a_folder_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_BOOTSTRAP__FOLDER", "typo")

    (warning,) = await _ask(ContextAssembler())

    assert "there is no folder" in warning


@pytest.mark.parametrize("in_code", [True, False])
async def test_a_folder_of_settings_that_is_not_there_is_told_of(
    in_code: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not in_code:
        monkeypatch.setenv("CONTEXT_ASSEMBLER_FOLDER", "typo")
    config = AssemblerConfig(folder=Path("typo")) if in_code else AssemblerConfig()

    (warning,) = await _ask(assembler := ContextAssembler(config=config))

    assert "typo is no folder" in warning
    assert await _ask(assembler) == (warning,)


async def test_whoever_names_no_folder_is_told_of_none() -> None:
    assert await _ask(ContextAssembler()) == ()


QUIET: dict[str, tuple[dict[str, str], AssemblerConfig]] = {
    "the agent's alone": ({"AGENT.md": "x"}, AssemblerConfig()),
    "what is required is another": (
        {"SOUL.md": "x"},
        AssemblerConfig(bootstrap={"required": ["soul"]}),
    ),
    "another client's, by setting": (
        {"AGENTS.md": "x"},
        AssemblerConfig(bootstrap={"agent_names": ["AGENTS.md"]}),
    ),
    "what is required is there twice": (
        {"AGENT.md": "x", "SOUL.md": "x"},
        AssemblerConfig(bootstrap={"required": ["agent", "soul"]}),
    ),
}


@pytest.mark.parametrize(("files", "config"), QUIET.values(), ids=QUIET.keys())
async def test_nothing_is_missed_where_what_is_required_is_sent(
    files: dict[str, str], config: AssemblerConfig
) -> None:
    _fill(files)

    warnings = await _ask(ContextAssembler(bootstrap="kept", config=config))

    assert not any("lacks" in one for one in warnings)


async def test_an_agent_without_sections_of_files_misses_none() -> None:
    config = AssemblerConfig(prompt={"inherits": {"ada": ["tools"]}})
    assembler = ContextAssembler(bootstrap="typo", config=config)
    await assembler.add_user("s", "Hello.")

    context = await assembler.assemble("s", "ada", model=_MODEL)

    assert context.report.warnings == ()


async def test_several_sections_that_are_required_share_their_reason() -> None:
    config = AssemblerConfig(bootstrap={"required": ["agent", "soul"], "folder": "typo"})

    (warning,) = await _ask(ContextAssembler(config=config))

    assert warning.startswith("The system prompt lacks 'agent' and 'soul': there is no folder")


CHANGES: dict[str, Callable[[Path], object]] = {
    "deleted": lambda file: file.unlink(),
    "emptied": lambda file: file.write_text(""),
    "renamed": lambda file: file.rename(file.with_name("agent.md")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_instructions_that_go_while_a_session_runs_are_missed_from_then_on(
    change: Callable[[Path], object],
) -> None:
    _fill({"AGENT.md": "Be kind.", "SOUL.md": "Be brief."})
    assembler = ContextAssembler(bootstrap="kept")
    before = await _ask(assembler)
    change(Path("kept", "AGENT.md"))

    after, later = await _ask(assembler), await _ask(assembler)
    _fill({"AGENT.md": "Be kind again."})

    assert before == ()
    assert after == later
    assert "lacks 'agent'" in after[0]
    assert await _ask(assembler) == ()


async def test_a_file_with_nearly_the_name_is_seen_when_it_comes() -> None:
    _fill({"README": "x"})
    assembler = ContextAssembler(bootstrap="kept")
    before = await _ask(assembler)

    _fill({"agent.md": "x"})

    assert "agent.md" not in before[0]
    assert "but agent.md" in (await _ask(assembler))[0]
