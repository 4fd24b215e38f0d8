"""Options: read at the edge, settled from four layers, held against what one model takes."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from google.genai.types import GenerateContentConfig, Schema, Type
from pydantic import BaseModel

from context_assembler import AssembleOptions, AssemblerConfig, DefaultsResolver, get_model_limits
from context_assembler.errors import (
    AssemblyError,
    ConfigurationError,
    InvalidParameterError,
    MissingModelError,
    UnknownOptionError,
)
from context_assembler.options import (
    CALL_OPTIONS,
    SETTINGS,
    CompactionSettings,
    Parameters,
    PromptSettings,
    Settled,
    TruncationSettings,
    validate_for_model,
    validate_tool_choice,
)
from context_assembler.ports import ResponseFormat, ToolChoice, ToolSpec

SONNET = "claude-sonnet-4-5"
OPUS = "claude-opus-5-5"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings are looked for in the working folder."""
    monkeypatch.chdir(tmp_path)


# ---- the list ----


def test_every_option_says_what_it_is() -> None:
    declared = [*CALL_OPTIONS.values(), *(o for table in SETTINGS.values() for o in table.values())]

    assert {option.name for option in declared if not option.help.endswith((".", ")"))} == set()


CLEAR = "clear_tool_uses_20250919"


class City(BaseModel):
    name: str


PLACE: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
_FORM: dict[str, Any] = {"name": "place", "schema": PLACE, "strict": False}
FORM = ResponseFormat(PLACE, "place", is_strict=False)
DEEP = '{"items": ' * 201 + "{}" + "}" * 201
NO_SCHEMAS: list[tuple[str, Any, str]] = [
    ("a word", "json", "Pass a JSON schema"),
    ("an instance", City(name="Lisbon"), "the class of a pydantic model"),
    ("another object of an SDK", GenerateContentConfig(top_k=3), "neither a type nor"),
    ("a type of Python", list[City], "is no JSON object"),
    ("names alone", {"city": {"type": "string"}}, "neither a type nor properties"),
    ("a form without one", {"type": "json_schema"}, "'json_schema' is not a type"),
    ("an unknown type", {"type": "object", "items": {"type": "x"}}, "'x' is not a type"),
    ("too deep a one", DEEP, "nested deeper than 200 levels"),
    ("what UTF-8 cannot say", {"type": "string", "title": "\ud800"}, "surrogates not allowed"),
    ("a list by name", {"type": "object", "properties": [PLACE]}, "'properties' cannot be"),
    ("a null", {"type": "object", "description": None}, "'description' cannot be None"),
    ("no model", BaseModel, "the class of a pydantic model"),
    ("no number", {"type": "number", "maximum": float("nan")}, "not JSON compliant"),
    ("words of Gemini", Schema(type=Type.OBJECT, properties={}), "'OBJECT' is not a type"),
    ("text", {"response_mime_type": "text/x.enum", "response_schema": {}}, "is not JSON"),
]
FORMATS: dict[str, tuple[Any, Any]] = {
    "a schema": (PLACE, ResponseFormat(PLACE)),
    "a schema as JSON": (json.dumps(PLACE), ResponseFormat(PLACE)),
    "a model": (City, ResponseFormat(City.model_json_schema(), "City")),
    "Chat's schema": ({"type": "json_schema", "json_schema": _FORM}, FORM),
    "Responses' schema": ({"format": {"type": "json_schema", **_FORM}}, FORM),
    "Anthropic's schema": (
        {"format": {"type": "json_schema", "schema": PLACE}},
        ResponseFormat(PLACE),
    ),
    "Gemini's schema": (
        {"response_mime_type": "application/json", "response_schema": City},
        ResponseFormat(City.model_json_schema(), "City"),
    ),
    "Gemini's objects": (
        GenerateContentConfig(
            response_mime_type="application/json", response_json_schema=City.model_json_schema()
        ),
        ResponseFormat(City.model_json_schema()),
    ),
    "a form that does not say strict": (
        {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE}},
        FORM,
    ),
    "any object": ({"type": "json_object"}, ResponseFormat()),
}
CHOICES: dict[str, tuple[Any, Any]] = {
    "a mode": ("required", ToolChoice(mode="any")),
    "Anthropic's": (
        {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        ToolChoice(mode="tool", name="look", allows_parallel=False),
    ),
    "Chat's": (
        {"type": "function", "function": {"name": "look"}},
        ToolChoice(mode="tool", name="look"),
    ),
    "allowed tools of Chat": (
        {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"function": {"name": "look"}}]},
        },
        ToolChoice(mode="any", allowed=("look",)),
    ),
    "allowed tools of Responses": (
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]},
        ToolChoice(allowed=("look",)),
    ),
    "our own fields": (
        {"mode": "auto", "allowed": ["b", "a"], "allows_parallel": False},
        ToolChoice(allowed=("a", "b"), allows_parallel=False),
    ),
}
READ: dict[str, tuple[str, Any, Any]] = {
    **{name: ("response_format", *row) for name, row in FORMATS.items()},
    "a whole number for a number": ("temperature", 1, 1.0),
    "one text for a list": ("stop_sequences", "END", ("END",)),
    "blanks of a text": ("stop_sequences", ["\n\nHuman:"], ("\n\nHuman:",)),
    "a set for a list": ("disabled_tools", {"rm"}, ("rm",)),
    "one tool": ("additional_tools", print, (print,)),
    "several tools": ("additional_tools", [print, len], (print, len)),
    "a compaction now": ("provider_compaction", "now", "now"),
    "a threshold in words": ("provider_compaction", "100000", 100_000),
    "an edit by name": ("context_edits", "clear_tool_uses", ({"type": CLEAR},)),
    "edits in the order of the API": (
        "context_edits",
        [{"type": "clear_tool_uses", "keep": {}}, "clear_thinking_20251015"],
        ({"type": "clear_thinking_20251015"}, {"type": CLEAR, "keep": {}}),
    ),
    **{name: ("tool_choice", *row) for name, row in CHOICES.items()},
}


@pytest.mark.parametrize(("name", "given", "read"), READ.values(), ids=READ.keys())
def test_a_value_is_read_into_the_type_of_its_option(name: str, given: Any, read: Any) -> None:
    options: Any = {name: given}

    assert getattr(AssembleOptions(**options), name) == read


REFUSED: dict[str, tuple[dict[str, Any], type[AssemblyError], str]] = {
    "an unknown option": ({"modle": "x"}, UnknownOptionError, "Did you mean 'model'"),
    "another of a closed set": ({"cache": "of"}, UnknownOptionError, "Did you mean 'off'"),
    "out of bounds": ({"top_p": 2}, InvalidParameterError, "top_p must be between 0 and 1; got 2"),
    "too small": ({"max_tokens": 0}, InvalidParameterError, "a whole number of at least 1"),
    "a truth for a number": ({"top_k": True}, InvalidParameterError, "a whole number"),
    "no number at all": ({"temperature": float("nan")}, InvalidParameterError, "between 0 and 2"),
    "blank text": ({"model": " "}, InvalidParameterError, "text that is not blank"),
    "text for a truth": ({"exact": "yes"}, InvalidParameterError, "true or false"),
    "a number for a list": ({"permissions": 5}, InvalidParameterError, "a list, each text"),
    **{
        f"{why} for a schema": ({"response_format": given}, InvalidParameterError, says)
        for why, given, says in NO_SCHEMAS
    },
    "a truth for a threshold": ({"provider_compaction": True}, InvalidParameterError, "or 'now'"),
    "an unknown edit": ({"context_edits": ["compact"]}, InvalidParameterError, "must name edits"),
    "no choice": ({"tool_choice": {"type": "maybe"}}, InvalidParameterError, "Use 'auto'"),
}


@pytest.mark.parametrize(("given", "error", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_fit_is_refused_with_what_is_expected(
    given: dict[str, Any], error: type[AssemblyError], says: str
) -> None:
    with pytest.raises(error, match=says):
        AssembleOptions(**given)


def test_options_and_settings_are_values() -> None:
    options, settings = AssembleOptions(model="m", top_k=None), TruncationSettings(window_turns=5)

    assert options == AssembleOptions(model="m") != AssembleOptions(model="n")
    assert hash(settings) == hash(TruncationSettings(window_turns=5))
    assert repr(options) == "AssembleOptions(model='m')"
    assert repr(settings) == "TruncationSettings(window_turns=5)"
    assert copy.deepcopy(settings) == settings
    assert pickle.loads(pickle.dumps(options)).model == "m"
    with pytest.raises(AttributeError, match="immutable"):
        settings.stub_tokens = 1  # type: ignore[misc]


def test_a_setting_that_does_not_exist_is_named_with_its_table() -> None:
    with pytest.raises(UnknownOptionError, match=r"'window_turn'.*'window_turns'"):
        TruncationSettings(window_turn=5)  # type: ignore[call-arg]
    with pytest.raises(UnknownOptionError, match=r"of bootstrap 'foldr'. Did you mean 'folder'"):
        AssemblerConfig(bootstrap={"foldr": "x"})


def test_a_compaction_that_every_message_would_trigger_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="every message would start it again"):
        CompactionSettings(trigger_share=0.5)


# ---- places of settings ----


def test_arguments_win_over_variables_and_these_over_both_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_TRUNCATION__WINDOW_TURNS", "2")
    monkeypatch.setenv("CONTEXT_ASSEMBLER_TRUNCATION__STUB_TOKENS", "2")
    Path("context-assembler.toml").write_text(
        "truncation.window_turns = 3\ntruncation.stub_tokens = 3\ntruncation.step_share = 0.3\n"
    )
    Path("pyproject.toml").write_text(
        "[tool.context-assembler.truncation]\nstep_share = 0.4\ncache_stable = false\n"
    )

    found = AssemblerConfig(truncation=TruncationSettings(window_turns=1)).truncation

    assert (found.window_turns, found.stub_tokens, found.step_share) == (1, 2, 0.3)
    assert not found.cache_stable
    assert found.strategy == "smart"


VARIABLES: dict[str, tuple[str, str, Any]] = {
    "a number": ("BOOTSTRAP__MAX_FILE_TOKENS", "7", {"bootstrap": {"max_file_tokens": 7}}),
    "a truth": ("CALIBRATES_TOKENS", "false", {"calibrates_tokens": False}),
    "a list": ("TOOLS__INCLUDE", '["a", "b"]', {"tools": {"include": ["a", "b"]}}),
    "a table": ("TOOLS", '{"exclude": ["a"]}', {"tools": {"exclude": ["a"]}}),
    "a table's first setting": ("MEMORY", "sqlite:m.db", {"memory": {"store": "sqlite:m.db"}}),
    "a default": ("DEFAULTS__MODEL", "gpt-5.5", {"defaults": {"model": "gpt-5.5"}}),
    "an agent": ("AGENTS__PILOT__MODEL", "gpt-5.5", {"agents": {"pilot": {"model": "gpt-5.5"}}}),
    "nothing": ("ACCOUNT", "", {}),
    "another program's": ("PORT", "tcp://10.0.0.1:80", {}),
}


@pytest.mark.parametrize(("name", "text", "same"), VARIABLES.values(), ids=VARIABLES.keys())
def test_a_variable_sets_what_its_name_says(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, same: dict[str, Any]
) -> None:
    expected = AssemblerConfig(**same)
    monkeypatch.setenv(f"CONTEXT_ASSEMBLER_{name}", text)

    assert AssemblerConfig() == expected


def test_the_more_specific_variable_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ASSEMBLER_MEMORY", '{"limit": 1, "preset": "coding"}')
    monkeypatch.setenv("CONTEXT_ASSEMBLER_MEMORY__LIMIT", "2")

    found = AssemblerConfig().memory

    assert (found.limit, found.preset) == (2, "coding")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("CACHE__TTL_SECONDS", "soon", "cache.ttl_seconds must be a number of at least 0"),
        ("TOOLS__INCLUDE", "[a]", "is not JSON"),
        ("TRUNCATON__STRATEGY", "smart", "Did you mean 'truncation'"),
        ("ACOUNT", "mine", "Did you mean 'account'"),
        ("AGENTS__PILOT", '{"modle": 1}', "of agents.pilot 'modle'"),
    ],
)
def test_a_bad_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, says: str
) -> None:
    monkeypatch.setenv(f"CONTEXT_ASSEMBLER_{name}", text)

    with pytest.raises(ConfigurationError, match=says) as caught:
        AssemblerConfig()

    assert f"CONTEXT_ASSEMBLER_{name}" in str(caught.value)


BAD_FILES = {
    "no TOML": ("context-assembler.toml", "a = ", "is not TOML"),
    "bytes": ("context-assembler.toml", "\ud800", "is not TOML"),
    "an unknown setting": ("context-assembler.toml", "acount = 'x'", "Did you mean 'account'"),
    "a wrong type": ("context-assembler.toml", "clock.is_enabled = 1", "clock.is_enabled must be"),
    "no table": ("context-assembler.toml", "cache = 1", "cache must be a table"),
    "no table of ours": ("pyproject.toml", "[tool]\ncontext-assembler = 5", "must be a table"),
    "text for a table": ("context-assembler.toml", "prompt = 'Be a pirate.'", "prompt must be a"),
    "text for globs": ("context-assembler.toml", "tools = 'search'", "tools must be a table"),
    "a path with NUL": (
        *("context-assembler.toml", 'skills.folders = ["a\\u0000b"]'),
        "skills.folders must be a path",
    ),
    "a format with NUL": (
        *("context-assembler.toml", 'clock.format = "a\\u0000b"'),
        "a format of strftime",
    ),
    "a time zone": ("context-assembler.toml", "clock.time_zone = 'Mars'", "an IANA time zone"),
    "a bad option": ("pyproject.toml", "[tool.context-assembler.defaults]\ntop_p = 3", "top_p"),
    "a bad agent": ("pyproject.toml", "[tool.context-assembler.agents]\na = 3", "agents.a must be"),
    "a closed set": (
        *("pyproject.toml", "[tool.context-assembler]\non_tool_conflict = 'eror'"),
        "Did you mean 'error'",
    ),
}


@pytest.mark.parametrize(("file", "text", "says"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_bad_file_is_named_with_the_key(file: str, text: str, says: str) -> None:
    Path(file).write_bytes(text.encode("utf-8", "surrogatepass"))

    with pytest.raises(ConfigurationError, match=says) as caught:
        AssemblerConfig()

    assert file in str(caught.value)


def test_a_file_that_cannot_be_read_is_named() -> None:
    Path("context-assembler.toml").mkdir()

    with pytest.raises(ConfigurationError, match=r"context-assembler.toml cannot be read"):
        AssemblerConfig()


def test_a_project_file_of_other_programs_is_left_alone() -> None:
    Path("pyproject.toml").write_text("no TOML = at all")

    assert AssemblerConfig() == AssemblerConfig(folder=".")


def test_text_for_memory_names_its_store_and_an_unknown_home_stays_as_it_is() -> None:
    config = AssemblerConfig(memory="sqlite:m.db", skills={"folders": ["~nobody-here/skills"]})

    assert config.memory.store == "sqlite:m.db"
    assert config.skills.folders == (Path("~nobody-here/skills"),)


def test_folders_are_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/context-assembler.toml").write_text('skills.folders = ["more", "~/mine"]\n')

    config = AssemblerConfig(folder="conf")

    assert config.bootstrap_folder == Path("conf/bootstrap")
    assert config.skill_folders == [Path("conf/more"), Path("~/mine").expanduser()]


def test_a_configuration_shows_what_is_not_as_by_default() -> None:
    config = AssemblerConfig(account="me", prompt=PromptSettings(inherits={"pilot": ("agent",)}))

    assert repr(AssemblerConfig()) == "AssemblerConfig()"
    assert "account='me', prompt=PromptSettings(inherits=" in repr(config)
    assert len(repr(AssemblerConfig(account="x" * 999))) <= 300
    assert not config.prompt.has_section("memory", agent_id="pilot")


# ---- layers ----


def test_the_highest_layer_that_gives_a_value_wins() -> None:
    resolver = DefaultsResolver({"model": "a", "top_k": 4, "top_p": 0.4, "max_tokens": 4})

    settled = resolver.resolve(
        AssembleOptions(max_tokens=1, top_k=None),
        session={"top_p": 0.2, "max_tokens": 2},
        agent={"top_k": 3, "top_p": 0.3},
    )

    assert settled.options == AssembleOptions(model="a", max_tokens=1, top_p=0.2, top_k=3)
    assert list(settled.layers) == ["max_tokens", "top_p", "top_k", "model"]
    assert list(settled.layers.values()) == ["request", "session", "agent", "system"]


def test_a_call_needs_a_model() -> None:
    with pytest.raises(MissingModelError, match="Model ID is required"):
        DefaultsResolver().resolve({"top_k": 3})


def test_what_cannot_be_read_of_a_session_is_left_out_with_a_warning() -> None:
    stored = {"model": "m", "colour": "red", "top_k": "many", "disabled_tools": 5}

    settled = DefaultsResolver().resolve(session=stored)

    assert settled.options == AssembleOptions(model="m", permissions=())
    assert len(settled.warnings) == 3
    assert "'colour'" in settled.warnings[0]


# ---- what one model takes ----


def settle(model: str, *, layer: Any = "request", **options: Any) -> tuple[Parameters, Settled]:
    layers: Any = dict.fromkeys(options, layer)
    settled = Settled(AssembleOptions(model=model, **options), layers)
    return validate_for_model(settled, get_model_limits(model))


REJECTED: dict[str, tuple[str, dict[str, Any], str]] = {
    "an effort of no model": (OPUS, {"thinking_level": "huge"}, "must be one of low"),
    "an effort of a model that has none": (
        *(
            SONNET,
            {"thinking_level": "low"},
            "thinking_level is not supported, but thinking_budget is",
        ),
    ),
    "a budget of a model that has none": (OPUS, {"thinking_budget": 2000}, "is not supported"),
    "a small budget": (SONNET, {"thinking_budget": 5}, "at least 1,024 tokens"),
    "a budget over its maximum": (
        *("gemini-2.5-flash", {"thinking_budget": 99_000}, "between .* and 24,576 tokens"),
    ),
    "a budget over the reply": (
        *(SONNET, {"thinking_budget": 2000, "max_tokens": 1500}, "less than max_tokens"),
    ),
    "a level and a budget": (
        *(
            "gemini-3.1-pro-preview",
            {"thinking_level": "low", "thinking_budget": 100},
            "thinking_budget is not supported",
        ),
    ),
    "thinking that cannot be off": (OPUS, {"thinking_budget": 0}, "thinking"),
    "a model that does not reason": ("gpt-4o", {"thinking_level": "low"}, "does not reason"),
    "sampling that is not supported": (OPUS, {"temperature": 1}, "is not supported"),
    "sampling while it reasons": ("gpt-5.5", {"temperature": 1}, "thinking_level='none'"),
    "sampling while Claude thinks": (
        *(SONNET, {"thinking_budget": 2000, "top_p": 0.5}, "unless it is at least 0.95"),
    ),
    "both kinds of sampling": (
        *(SONNET, {"temperature": 1, "top_p": 0.5}, "cannot be combined with temperature"),
    ),
    "more heat than it takes": (SONNET, {"temperature": 2}, "between 0 and 1 for claude"),
    "top_k of OpenAI": ("gpt-4o", {"top_k": 5}, "top_k is not supported"),
    "a reply too long": ("gpt-4o", {"max_tokens": 99_999}, "at most 16,384"),
    "a forced tool": (OPUS, {"tool_choice": "any"}, "cannot force a call"),
    "a forced tool while thinking": (
        *(SONNET, {"tool_choice": "any", "thinking_budget": 2000}, "cannot be combined"),
    ),
    "a compaction that nobody makes": (SONNET, {"provider_compaction": "now"}, "use compact()"),
    "a compaction on a host without": (
        *(f"bedrock/{OPUS}", {"provider_compaction": "now"}, "is not supported"),
    ),
    "a compaction too early": (OPUS, {"provider_compaction": 9_000}, "at least 50,000 tokens"),
    "edits of another's": ("gpt-5.5", {"context_edits": "clear_thinking"}, "is not supported"),
    "stops of a model that takes none": ("gpt-5", {"stop_sequences": ["x"]}, "is not supported"),
}


@pytest.mark.parametrize(("model", "options", "says"), REJECTED.values(), ids=REJECTED.keys())
def test_a_value_that_the_model_rejects_is_an_error_of_the_request_alone(
    model: str, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidParameterError, match=says):
        settle(model, **options)

    _, settled = settle(model, layer="session", **options)

    assert "the session layer" in settled.warnings[0]
    again = validate_for_model(settled._replace(warnings=()), get_model_limits(model))
    assert again[1].warnings == ()


ALLOWED: dict[str, tuple[str, dict[str, Any]]] = {
    "a wide top_p while Claude thinks": (SONNET, {"thinking_budget": 2000, "top_p": 0.95}),
    "sampling without reasoning": ("gpt-5.5", {"thinking_level": "none", "temperature": 1}),
    "an effort": (OPUS, {"thinking_level": "low"}),
    "a compaction": ("gpt-5.5", {"provider_compaction": 1_000}),
    "a small budget where there is no least": ("gemini-2.5-flash", {"thinking_budget": 100}),
    "both where both are taken": (
        *("claude-opus-4-6", {"thinking_level": "low", "thinking_budget": 2000}),
    ),
}


@pytest.mark.parametrize(("model", "options"), ALLOWED.values(), ids=ALLOWED.keys())
def test_what_a_model_takes_is_sent(model: str, options: dict[str, Any]) -> None:
    parameters, settled = settle(model, **options)

    assert settled.warnings == ()
    assert {name: getattr(parameters, name) for name in options} == options


def test_of_two_options_that_exclude_each_other_the_lower_layers_is_left_out() -> None:
    options = AssembleOptions(model=SONNET, temperature=1, top_p=0.5)
    settled = Settled(options, {"temperature": "agent", "top_p": "request"})

    parameters, settled = validate_for_model(settled, get_model_limits(SONNET))

    assert (parameters.temperature, parameters.top_p) == (None, 0.5)
    assert "temperature cannot be combined with top_p" in settled.warnings[0]


def test_switching_thinking_off_where_there_is_none_has_no_effect() -> None:
    parameters, settled = settle("gpt-4o", thinking_level="none")

    assert parameters.thinking_level is None
    assert "was left out" in settled.warnings[0]


def test_a_reply_is_as_long_as_model_and_window_allow() -> None:
    assert settle("gpt-4o")[0].max_tokens == 16_000
    assert settle("gpt-4")[0].max_tokens == 2_048  # a quarter of a window that is shared
    assert settle(SONNET)[1].layers["max_tokens"] == "model"
    assert settle(SONNET, thinking_budget=8000)[0].max_tokens == 21_333
    assert settle("gpt-4o", layer="agent", max_tokens=99_999)[0].max_tokens == 16_384


def test_a_tool_that_is_not_offered_cannot_be_chosen() -> None:
    tools = [ToolSpec(name="look"), ToolSpec(name="web", native_specs={"openai_chat": {}})]

    def choose(choice: Any, layer: Any = "request") -> Settled:
        options = AssembleOptions(model="m", tool_choice=choice)
        settled = Settled(options, {"tool_choice": layer})
        return validate_tool_choice(settled, tools, provider="anthropic")

    assert choose({"name": "look"}).options.tool_choice == ToolChoice(mode="tool", name="look")
    with pytest.raises(InvalidParameterError, match="Did you mean 'look'"):
        choose({"name": "lok"})
    with pytest.raises(InvalidParameterError, match="'web', which is not offered"):
        choose({"mode": "auto", "allowed": ["look", "web"]})
    assert choose({"name": "web"}, "agent").options.tool_choice is None
    tools.clear()
    assert choose("none").options.tool_choice == ToolChoice(mode="none")
    with pytest.raises(InvalidParameterError, match="needs a tool to call"):
        choose("any")
