"""Settings from code, the environment and TOML files."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from context_assembler import BootstrapLoader, FolderSkills
from context_assembler.config import AssemblerConfig, BootstrapSettings, PromptSettings
from context_assembler.errors import ConfigurationError, InvalidParameterError, UnknownOptionError
from context_assembler.values.options import (
    AssembleOptions,
    ClockSettings,
    CompactionSettings,
    TruncationSettings,
)
from context_assembler.values.tools import ToolChoice

TOML = """
account = "production"

[defaults]
model = "a"
stop_sequences = ["END"]
tool_choice = "any"

[agents.reviewer]
temperature = 0.5

[compaction]
trigger_share = 0.7

[bootstrap]
agent_names = ["AGENTS.md", "CLAUDE.md"]

[prompt.inherits]
researcher = ["agent", "tools"]

[prompt.max_tokens]
context = 4000
"""


def write(folder: Path, text: str, *, name: str = "context-assembler.toml") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_without_any_source_the_defaults_hold(tmp_path: Path) -> None:
    config = AssemblerConfig(folder=tmp_path)

    assert config.defaults == AssembleOptions()
    assert config.clock == ClockSettings()
    assert config.truncation == TruncationSettings()
    assert config.compaction == CompactionSettings()
    assert config.cache.ttl_seconds == 60
    assert config.bootstrap_folder == tmp_path / "bootstrap"


def test_a_file_gives_options_in_their_own_types(tmp_path: Path) -> None:
    config = AssemblerConfig(folder=write(tmp_path, TOML))

    assert config.defaults == AssembleOptions(
        model="a", stop_sequences=("END",), tool_choice=ToolChoice(mode="any")
    )
    assert config.agents == {"reviewer": AssembleOptions(temperature=0.5)}
    assert config.compaction == CompactionSettings(trigger_share=0.7)
    assert config.bootstrap.agent_names == ("AGENTS.md", "CLAUDE.md")
    assert config.prompt.inherits == {"researcher": ("agent", "tools")}
    assert config.prompt.max_tokens == {"context": 4000}
    assert config.account == "production"


def test_an_agent_has_the_sections_that_it_inherits() -> None:
    prompt = PromptSettings(inherits={"researcher": ("agent",)})

    assert prompt.has_section("agent", agent_id="researcher")
    assert not prompt.has_section("skills", agent_id="researcher")
    assert prompt.has_section("skills", agent_id="writer")
    assert prompt.has_section("skills", agent_id=None)


def test_the_own_file_is_over_the_table_in_pyproject(tmp_path: Path) -> None:
    write(
        tmp_path,
        '[tool.context-assembler]\naccount="p"\nunknown_model="conservative"',
        name="pyproject.toml",
    )

    config = AssemblerConfig(folder=write(tmp_path, TOML))

    assert config.account == "production"
    assert config.unknown_model == "conservative"


def test_code_is_over_environment_is_over_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_ACCOUNT", "from the environment")
    monkeypatch.setenv("CONTEXT_ASSEMBLER_DEFAULTS__MODEL", "b")

    config = AssemblerConfig(folder=write(tmp_path, TOML), defaults={"model": "c"})

    assert config.account == "from the environment"
    assert config.defaults.model == "c"
    assert config.defaults.stop_sequences == ("END",)


def test_the_environment_gives_every_kind_of_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "DEFAULTS__MAX_TOKENS": "1000",
        "DEFAULTS__MODEL": "123",
        "DEFAULTS__PERMISSIONS": '["fs.*"]',
        "DEFAULTS__DISABLED_TOOLS": "search",
        "AGENTS__REVIEWER__FRESH": "true",
        "AGENTS__WRITER": '{"temperature": 0.5}',
        "COMPACTION__TARGET_SHARE": "0.3",
        "TRUNCATION__CACHE_STABLE": "false",
        "CACHE__TTL_SECONDS": "5",
        "BOOTSTRAP": '{"max_file_tokens": 5}',
        "PROMPT__INHERITS": '{"researcher": ["agent"]}',
        "PROMPT__MAX_TOKENS__CONTEXT": "500",
        "CORPUS": "a variable that is not ours to read",
    }.items():
        monkeypatch.setenv(f"CONTEXT_ASSEMBLER_{name}", value)

    config = AssemblerConfig(folder=tmp_path)

    assert config.defaults == AssembleOptions(
        max_tokens=1000, model="123", permissions=("fs.*",), disabled_tools=("search",)
    )
    assert config.agents == {
        "reviewer": AssembleOptions(fresh=True),
        "writer": AssembleOptions(temperature=0.5),
    }
    assert config.compaction.target_share == 0.3
    assert config.truncation.cache_stable is False
    assert config.cache.ttl_seconds == 5
    assert config.bootstrap.max_file_tokens == 5
    assert config.prompt.inherits == {"researcher": ("agent",)}
    assert config.prompt.max_tokens == {"context": 500}


def test_values_may_be_given_as_objects(tmp_path: Path) -> None:
    def search() -> None: ...

    options = AssembleOptions(
        model="a", additional_tools=(search,), tool_choice=ToolChoice(mode="tool", name="search")
    )

    config = AssemblerConfig(
        folder=tmp_path,
        defaults=options,
        agents={"r": options},
        clock=ClockSettings(is_enabled=False),
    )

    assert config.defaults == options
    assert config.agents == {"r": options}
    assert config.clock.is_enabled is False


UNKNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "at the top": ({"compactoin": {}}, "Unknown setting 'compactoin'. Did you mean 'compaction'"),
    "in a table": ({"bootstrap": {"foldr": 1}}, "setting in bootstrap 'foldr'. .*'folder'"),
    "in settings": ({"compaction": {"triger": 1}}, "'compaction': Unknown setting .*trigger_share"),
    "among defaults": ({"defaults": {"temprature": 1}}, "'defaults': .*'temperature'"),
    "among an agent's": ({"agents": {"a": {"max_token": 1}}}, "'agents.a': .*'max_tokens'"),
}


@pytest.mark.parametrize(("given", "says"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_an_unknown_key_names_its_place_and_the_nearest(
    tmp_path: Path, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(UnknownOptionError, match=says):
        AssemblerConfig(folder=tmp_path, **given)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "wrong type": ({"cache": {"ttl_seconds": "x"}}, "'cache.ttl_seconds': .*valid number"),
    "a text in place of a list": (
        {"bootstrap": {"agent_names": "AGENTS.md"}},
        r"'bootstrap.agent_names': must be a list; .* Write a list: \['AGENTS.md'\]",
    ),
    "a number in place of a table": ({"agents": 3}, "'agents': must be a table"),
    "a text in place of a number": (
        {"bootstrap": {"max_file_tokens": "x"}},
        "'bootstrap.max_file_tokens': must be a whole number",
    ),
    "two at once": ({"cache": {"ttl_seconds": "x", "max_entries": 0}}, r"\(1 more\)"),
    "no table": ({"defaults": "x"}, "'defaults'"),
    "a target above the trigger": (
        {"compaction": {"trigger_share": 0.1}},
        "setting 'compaction': .*every message would trigger it again",
    ),
    "a step of nothing": ({"truncation": {"step_share": 0}}, "'truncation': step_share must be"),
    "a gap below zero": ({"clock": {"gap_seconds": -1}}, "'clock': gap_seconds must be"),
    "no time zone": ({"clock": {"time_zone": "Mars/Base"}}, "'clock': time_zone must be .*IANA"),
    "no format of a time": ({"clock": {"format": " "}}, "'clock': format must be"),
    "no budget for a section": ({"prompt": {"max_tokens": {"context": 0}}}, "max_tokens.context"),
    "a section that is no list": ({"prompt": {"inherits": {"r": "agent"}}}, "prompt.inherits.r"),
    "no time for tools": ({"tools": {"timeout_seconds": 0}}, "'tools.timeout_seconds'"),
}


@pytest.mark.parametrize(("given", "says"), BAD.values(), ids=BAD.keys())
def test_a_bad_value_says_where_and_what(tmp_path: Path, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        AssemblerConfig(folder=tmp_path, **given)


def test_an_options_error_keeps_its_facts(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        AssemblerConfig(folder=tmp_path, defaults={"temperature": 9})

    assert caught.value.name == "temperature"
    assert str(caught.value).startswith("In the setting 'defaults': temperature must be between")


def test_a_misspelt_variable_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_COMPACTON__TRIGGER_SHARE", "0.5")

    with pytest.raises(UnknownOptionError, match=r"COMPACTON__TRIGGER_SHARE .*'compaction'"):
        AssemblerConfig(folder=tmp_path)


def test_a_list_in_the_environment_that_is_no_json_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_TOOLS__INCLUDE", "[a")

    with pytest.raises(ConfigurationError, match="written as JSON"):
        AssemblerConfig(folder=tmp_path)


@pytest.mark.parametrize("name", ["context-assembler.toml", "pyproject.toml"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path, "a = [", name=name)

    with pytest.raises(ConfigurationError, match=name):
        AssemblerConfig(folder=tmp_path)


@pytest.mark.parametrize("path", [r"C:\Users\me", r"C:\data", r"C:\x1"])
def test_a_file_with_backslashes_in_double_quotes_says_how_to_write_them(
    tmp_path: Path, path: str
) -> None:
    write(tmp_path, f'[bootstrap]\nfolder = "{path}"')

    with pytest.raises(ConfigurationError, match="in single quotes, as 'C:") as caught:
        AssemblerConfig(folder=tmp_path)

    advice = caught.value.remedy
    for told in re.findall(r"""'C:[^']+'|"C:[^"]+\"""", advice):
        assert tomllib.loads(f"a = {told}") == {"a": r"C:\Users\me"}


def test_a_folder_may_lie_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path, '[bootstrap]\nfolder = "~/told"\n[skills]\nfolders = ["~/skills", "~~/no"]')

    config = AssemblerConfig(folder="~")

    assert config.folder == tmp_path
    assert config.bootstrap_folder == BootstrapLoader("~/told").folder == tmp_path / "told"
    assert config.skill_folders == [tmp_path / "skills", tmp_path / "~~/no"]
    assert FolderSkills("~/skills").folders == (tmp_path / "skills",)


def test_settings_cannot_be_changed_afterwards(tmp_path: Path) -> None:
    config = AssemblerConfig(folder=tmp_path)

    with pytest.raises(ValueError, match="frozen"):
        config.bootstrap = BootstrapSettings()
    with pytest.raises(ValueError, match="frozen"):
        config.bootstrap.required = ()


def test_the_files_lie_in_the_folder_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_FOLDER", str(write(tmp_path, TOML)))

    assert AssemblerConfig() == AssemblerConfig(folder=tmp_path)


def test_a_folder_in_the_arguments_wins_over_the_environment_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_FOLDER", str(write(tmp_path, "nonsense = 1")))
    (tmp_path / "inner").mkdir()

    assert AssemblerConfig(folder=tmp_path / "inner").folder == tmp_path / "inner"


def test_a_folder_that_is_no_path_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'folder'"):
        AssemblerConfig(folder=7)
