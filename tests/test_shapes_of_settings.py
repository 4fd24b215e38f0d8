"""Whatever a file or the environment holds is read as meant, or refused with its place in words."""

from pathlib import Path
from typing import Any

import pytest

from context_assembler import AssemblerConfig, ContextAssembler
from context_assembler.errors import ConfigurationError, UnknownOptionError
from context_assembler.values.options import AssembleOptions

OWN, PYPROJECT = "context-assembler.toml", "pyproject.toml"
TABLES = sorted(
    name
    for name, field in AssemblerConfig.model_fields.items()
    if field.default_factory is not None
)
NO_TABLES = ["1", "'x'", "[]", "[{}]", "true", "nan", "1979-05-27"]


def write(folder: Path, text: str | bytes, *, name: str = OWN) -> Path:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def given(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"CONTEXT_ASSEMBLER_{name}", value)


@pytest.mark.parametrize("value", NO_TABLES)
@pytest.mark.parametrize("line", ["tool = {}", "[tool]\ncontext-assembler = {}"])
def test_pyproject_with_no_table_where_one_belongs(tmp_path: Path, line: str, value: str) -> None:
    write(tmp_path, line.replace("{}", value), name=PYPROJECT)

    with pytest.raises(ConfigurationError, match=rf"{PYPROJECT}: tool\S* must be a table; got"):
        AssemblerConfig(folder=tmp_path)


@pytest.mark.parametrize("value", NO_TABLES)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_is_none_is_named_with_its_file(tmp_path: Path, name: str, value: str) -> None:
    write(tmp_path, f"{name} = {value}")

    with pytest.raises(ConfigurationError, match=f"{OWN}: The setting '{name}': must be a table"):
        AssemblerConfig(folder=tmp_path)


def test_a_table_that_is_none_is_refused_though_a_higher_source_has_one(tmp_path: Path) -> None:
    write(tmp_path, "[cache]\nmax_mb = 4")
    write(tmp_path, "[tool.context-assembler]\ncache = 5", name=PYPROJECT)

    with pytest.raises(ConfigurationError, match=f"{PYPROJECT}, .*'cache': must be a table"):
        AssemblerConfig(folder=tmp_path)


@pytest.mark.parametrize("table", ["context_assembler", "Context-Assembler", "contextassembler"])
def test_a_table_of_pyproject_that_is_nearly_ours_is_refused(tmp_path: Path, table: str) -> None:
    write(tmp_path, f"[tool.{table}]\naccount = 'a'", name=PYPROJECT)

    with pytest.raises(ConfigurationError, match=r"Write \[tool.context-assembler\]"):
        AssemblerConfig(folder=tmp_path)


def test_the_table_of_pyproject_has_no_place_in_the_own_file(tmp_path: Path) -> None:
    write(tmp_path, "[tool.context-assembler]\naccount = 'a'")

    with pytest.raises(ConfigurationError, match=rf"{OWN}: .* belongs in {PYPROJECT}"):
        AssemblerConfig(folder=tmp_path)


def test_the_tables_of_other_tools_are_not_ours_to_read(tmp_path: Path) -> None:
    write(tmp_path, "[tool.assembler]\naccount = 1\n[tool]\ncontext = 2", name=PYPROJECT)

    assert AssemblerConfig(folder=tmp_path).account is None


@pytest.mark.parametrize(("name", "table"), [(OWN, ""), (PYPROJECT, "[tool.context-assembler]\n")])
def test_a_byte_order_mark_is_read_over(tmp_path: Path, name: str, table: str) -> None:
    write(tmp_path, f"\ufeff{table}account = 'a'", name=name)

    assert AssemblerConfig(folder=tmp_path).account == "a"


@pytest.mark.parametrize("content", ["a = 'ä'".encode("utf-16"), "a = 'ä'".encode("latin-1")])
def test_another_encoding_is_refused_in_words(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, content)

    with pytest.raises(ConfigurationError, match="must be TOML in UTF-8"):
        AssemblerConfig(folder=tmp_path)


PLACES: dict[str, tuple[str, str, dict[str, str], str]] = {
    "a wrong value in the own file": (
        "[cache]\nttl_seconds = 'x'",
        "",
        {},
        rf"{OWN}: .*ttl_seconds",
    ),
    "an unknown key in the own file": ("[cache]\nttl = 1", "", {}, rf"{OWN}: Unknown .*'ttl'"),
    "an option below one that is set above": (
        "[defaults]\ntemperature = 9",
        "",
        {"DEFAULTS__MODEL": "m"},
        rf"{OWN}: .*temperature must be",
    ),
    "a wrong value in pyproject": (
        "[cache]\nmax_mb = 1",
        "[cache]\nttl_seconds = 'x'",
        {},
        rf"{PYPROJECT}, \[tool.context-assembler\]: .*'cache.ttl_seconds'",
    ),
    "a part of a text": ("", "", {"ACCOUNT__X": "1"}, "^CONTEXT_ASSEMBLER_ACCOUNT__X: .*be text"),
    "a part of a number": (
        "",
        "",
        {"CACHE__TTL_SECONDS__X": "1"},
        "^CONTEXT_ASSEMBLER_CACHE__TTL_SECONDS__X: .*valid number",
    ),
    "a part of a table in JSON": (
        "",
        "",
        {"CACHE": '{"max_mb": "x"}'},
        "^CONTEXT_ASSEMBLER_CACHE: .*'cache.max_mb'",
    ),
    "a text for a list": (
        "",
        "",
        {"TOOLS__INCLUDE": "fs"},
        r'^CONTEXT_ASSEMBLER_TOOLS__INCLUDE: .*Write a list: \["fs"\]',
    ),
    "what two places give together": (
        "[compaction]\ntrigger_share = 0.3",
        "",
        {"COMPACTION__TARGET_SHARE": "0.4"},
        "^In the setting 'compaction'",
    ),
    "what two variables give together": (
        "",
        "",
        {"COMPACTION__TARGET_SHARE": "0.4", "COMPACTION__TRIGGER_SHARE": "0.3"},
        "^CONTEXT_ASSEMBLER_COMPACTION…: In the setting 'compaction'",
    ),
}


@pytest.mark.parametrize("case", PLACES)
def test_an_error_names_the_place_that_gave_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    own, table, variables, says = PLACES[case]
    write(tmp_path, own)
    write(tmp_path, table.replace("[", "[tool.context-assembler."), name=PYPROJECT)
    given(monkeypatch, **variables)

    with pytest.raises(ConfigurationError, match=says) as caught:
        AssemblerConfig(folder=tmp_path)

    assert str(caught.value) == f"{caught.value.problem} {caught.value.remedy}"


def test_what_code_gives_has_no_place(tmp_path: Path) -> None:
    write(tmp_path, "[cache]\nttl_seconds = 'x'")

    with pytest.raises(ConfigurationError, match=r"^The setting 'cache\.ttl_seconds'"):
        AssemblerConfig(folder=tmp_path, cache={"ttl_seconds": "y"})


def test_an_error_keeps_passwords_to_itself(tmp_path: Path) -> None:
    write(tmp_path, "memory.store = ['postgresql://me:hidden@host/db']")

    with pytest.raises(ConfigurationError, match=r"memory\.store") as caught:
        AssemblerConfig(folder=tmp_path)

    assert "hidden" not in str(caught.value)


def test_tables_and_lists_in_variables_are_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(
        monkeypatch,
        TRUNCATION__MAX_RESULT_TOKENS_BY_TOOL='{"grep": 500}',
        TRUNCATION__MAX_RESULT_TOKENS_BY_TOOL__Read="700",
        PROMPT__INHERITS__Researcher='["agent"]',
        SKILLS__FOLDERS=' ["skills"]',
        CLOCK__FORMAT="[%H:%M]",
        DEFAULTS__ADDITIONAL_SYSTEM_PROMPT="{Be brief.}",
    )

    config = AssemblerConfig(folder=tmp_path)

    assert config.truncation.max_result_tokens_by_tool == {"grep": 500, "Read": 700}
    assert config.prompt.inherits == {"Researcher": ("agent",)}
    assert config.skills.folders == (Path("skills"),)
    assert config.clock.format == "[%H:%M]"
    assert config.defaults.additional_system_prompt == "{Be brief.}"


@pytest.mark.parametrize(
    "name",
    ["CACHE", "AGENTS__A", "TRUNCATION__MAX_RESULT_TOKENS_BY_TOOL", "DEFAULTS__PERMISSIONS"],
)
@pytest.mark.parametrize("value", ['{"a": 500', "['a']", "[" * 100_000])
def test_broken_json_names_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    given(monkeypatch, **{name: value})

    with pytest.raises(
        ConfigurationError, match=f"^CONTEXT_ASSEMBLER_{name} is no JSON: .*as JSON"
    ):
        AssemblerConfig(folder=tmp_path)


def agents(**by_name: AssembleOptions) -> dict[str, AssembleOptions]:
    return by_name


WARM, BOTH = AssembleOptions(temperature=0.5), AssembleOptions(temperature=0.5, model="m")
NAMES: dict[str, tuple[str, dict[str, str], dict[str, AssembleOptions]]] = {
    "as it is spelled": ("", {"Reviewer__TEMPERATURE": "0.5"}, agents(Reviewer=WARM)),
    "in capitals": ("", {"REVIEWER__TEMPERATURE": "0.5"}, agents(reviewer=WARM)),
    "in capitals, of a file": (
        "[agents.Reviewer]\ntemperature = 0.5",
        {"REVIEWER__MODEL": "m"},
        agents(Reviewer=BOTH),
    ),
    "in capitals, of a file in capitals": (
        "[agents.QA]\ntemperature = 0.5",
        {"QA__MODEL": "m"},
        agents(QA=BOTH),
    ),
    "in both": (
        "",
        {"REVIEWER__MODEL": "m", "Reviewer__TEMPERATURE": "0.5"},
        agents(Reviewer=BOTH),
    ),
    "two in a file": (
        "[agents.QA]\ntemperature = 0.5\n[agents.qa]\ntemperature = 0.5",
        {"QA__MODEL": "m"},
        agents(QA=BOTH, qa=WARM),
    ),
}


@pytest.mark.parametrize(("own", "variables", "agents"), NAMES.values(), ids=NAMES.keys())
def test_the_agent_that_a_variable_names_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str,
    variables: dict[str, str],
    agents: dict[str, AssembleOptions],
) -> None:
    write(tmp_path, own)
    given(monkeypatch, **{f"AGENTS__{name}": value for name, value in variables.items()})

    assert AssemblerConfig(folder=tmp_path).agents == agents


def test_the_agent_of_code_is_found_in_capitals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, AGENTS__REVIEWER__MODEL="m")

    config = AssemblerConfig(folder=tmp_path, agents={"Reviewer": {"temperature": 0.5}})

    assert config.agents == {"Reviewer": BOTH}


def test_a_part_of_no_setting_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, REGION__NAME="eu")

    with pytest.raises(UnknownOptionError, match=r"REGION__NAME 'region'\. Known: "):
        AssemblerConfig(folder=tmp_path)


async def test_a_variable_that_nobody_reads_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, REGION="eu", SESSIONS="memory:", PORT_80_TCP="x", SERVICE_HOST="x")
    config = AssemblerConfig(folder=tmp_path, defaults={"model": "gpt-4.1"})
    assembler = ContextAssembler("memory:", config=config)
    await assembler.add_user("s", "Hello.")

    report = await assembler.explain("s")

    [warning] = [warning for warning in report.warnings if "variable" in warning]
    assert warning.startswith("Nothing reads the environment variable CONTEXT_ASSEMBLER_REGION.")


LOOP: dict[str, Any] = {}
LOOP["loop"] = LOOP


@pytest.mark.parametrize("name", [*sorted(AssemblerConfig.model_fields), "nonsense"])
def test_settings_that_hold_themselves_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError):
        AssemblerConfig(**{"folder": tmp_path, name: LOOP})
