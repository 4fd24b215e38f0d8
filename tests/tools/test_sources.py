"""Where tools come from: functions, literal specs in every provider's shape, objects that list tools."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from context_assembler import ContextAssembler
from context_assembler.errors import ConfigurationError, InvalidToolError
from context_assembler.ports import Skill, ToolSpec
from context_assembler.tools import (
    ExecutorTools,
    ListedTools,
    open_skill_tools,
    open_tool_sources,
    spec_from_function,
    tool,
)

# ---- functions ----


class Colour(Enum):
    RED = "red"


class Place(TypedDict):
    city: str
    country: str


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int = 0


@dataclass
class Doc:
    documentation: str


def properties(function: Callable[..., Any]) -> Any:
    return spec_from_function(function).input_schema["properties"]


def search(query: str, limit: int = 10) -> list[str]:
    """Search the web.

    Args:
        query: What to look for,
            in any language.
        limit (int): How many at most.

    Returns:
        The titles.
    """
    return [query] * limit


def test_a_function_becomes_a_tool() -> None:
    spec = spec_from_function(search)

    assert (spec.name, spec.description) == (
        "search",
        "Search the web.\n\nReturns:\n    The titles.",
    )
    assert spec.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, in any language."},
            "limit": {"type": "integer", "default": 10, "description": "How many at most."},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


DOCSTRINGS = {
    "google": "Add.\n\nArgs:\n    a: One.\n    b: Two.",
    "numpy": "Add.\n\nParameters\n----------\na : int\n    One.\nb\n    Two.",
    "sphinx": "Add.\n\n:param a: One.\n:param b: Two.",
    "the parameters first": "Args:\n    a: One.\n    b: Two.\n\nAdd.",
}


@pytest.mark.parametrize("text", DOCSTRINGS.values(), ids=DOCSTRINGS)
def test_every_docstring_style_describes_the_parameters(text: str) -> None:
    def add(a: int, b: int) -> None: ...

    add.__doc__ = text

    assert spec_from_function(add).description == "Add."
    assert {name: one["description"] for name, one in properties(add).items()} == {
        "a": "One.",
        "b": "Two.",
    }


def test_the_rest_of_a_docstring_stays_in_the_description() -> None:
    def add(a: int) -> None:
        """Add.

        Args:
            a: One.

        Raises:
            ValueError: Too big.

        Note:
            Slow.

        Examples:
            >>> add(1)
            2
        """

    words = spec_from_function(add).description

    for said in ("Add.", "ValueError: Too big.", "Slow.", ">>> add(1)"):
        assert said in words


def kinds(
    choice: Literal["a", "b"],
    colour: Colour,
    place: Place,
    *,
    person: Person,
    maybe: int | None = None,
    many: list[dict[str, float]] | None = None,
    anything: Any = None,
) -> None: ...


def test_every_kind_of_type_has_a_sound_schema() -> None:
    schema = spec_from_function(kinds).input_schema

    Draft202012Validator.check_schema(dict(schema))
    assert schema["properties"]["choice"] == {"enum": ["a", "b"], "type": "string"}
    assert schema["properties"]["colour"] == {"$ref": "#/$defs/Colour"}
    assert schema["properties"]["anything"] == {"default": None}
    assert schema["$defs"]["Place"]["required"] == ["city", "country"]
    assert "title" not in str(schema)


# Types that are read without pydantic, and what pydantic makes of them.
simple = st.sampled_from([str, int, float, bool, Any, list, dict, Literal["a"], Literal["a", "b"]])
plain_types = st.recursive(
    simple,
    lambda inner: st.one_of(
        inner.map(lambda one: list[one]),  # type: ignore[valid-type]  # made at run time
        inner.map(lambda one: dict[str, one]),  # type: ignore[valid-type]  # made at run time
        inner.map(lambda one: one | None),
        inner.map(lambda one: Annotated[one, "words"]),
    ),
    max_leaves=3,
)
defaults = st.sampled_from([..., None, 1, 1.5, True, "x", [], [1, "a"], float("nan"), (1,)])


@given(annotation=plain_types, default=defaults)
def test_plain_types_have_the_schema_that_pydantic_makes(annotation: Any, default: Any) -> None:
    def plain(a: Any) -> None: ...

    def read_by_pydantic(a: Any, b: Person) -> None: ...

    for function in (plain, read_by_pydantic):
        function.__annotations__["a"] = annotation
    plain.__defaults__ = None if default is ... else (default,)
    read_by_pydantic.__defaults__ = None if default is ... else (default, Person(name="x"))

    assert properties(plain)["a"] == properties(read_by_pydantic)["a"]


def test_plain_functions_do_not_load_pydantic() -> None:
    program = (
        "import sys\n"
        "from context_assembler.tools import ToolCollector\n"
        "def f(a: str, b: int | None = None) -> None:\n"
        "    '''Do.\\n\\n    Args:\\n        a: One.\\n    '''\n"
        "print(ToolCollector([f]).collect_now().tools[0].name)\n"
        "print(sorted({'pydantic', 'asyncio', 'yaml'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.split("\n")[:2] == ["f", "[]"]


def test_a_parameter_without_annotation_takes_anything() -> None:
    def untyped(a: Any, b: Any = 2) -> None: ...

    untyped.__annotations__.clear()

    assert properties(untyped) == {"a": {}, "b": {"default": 2}}


def test_descriptions_in_annotations_win_over_the_docstring() -> None:
    def f(
        a: Annotated[int, Field(description="from Field", ge=1)],
        b: Annotated[int, "from text"],
        c: Annotated[int, Doc("from Doc")],
        d: Annotated[int, object()],
    ) -> None:
        """Do.

        Args:
            a: docstring
            b: docstring
            c: docstring
            d: docstring
        """

    found = properties(f)

    words = [found[name]["description"] for name in "abcd"]
    assert words == ["from Field", "from text", "from Doc", "docstring"]
    assert found["a"]["minimum"] == 1


def test_a_field_in_the_place_of_a_default_says_what_the_parameter_is() -> None:
    def f(a: int, b: str, c: list[str], d: Annotated[int, "In the annotation."]) -> None: ...

    f.__defaults__ = (
        Field(description="How many.", ge=1),
        Field("x", description="Which."),
        Field(default_factory=list),
        Field(default=2, le=9),
    )

    schema = spec_from_function(f).input_schema

    assert schema["required"] == ["a"]
    assert schema["properties"] == {
        "a": {"description": "How many.", "minimum": 1, "type": "integer"},
        "b": {"default": "x", "description": "Which.", "type": "string"},
        "c": {"items": {"type": "string"}, "type": "array"},
        "d": {"default": 2, "description": "In the annotation.", "maximum": 9, "type": "integer"},
    }


class Desk:
    """A desk."""

    def book(self, seat: int) -> None:
        """Book a seat."""

    @classmethod
    def open(cls, hour: int) -> None: ...

    @staticmethod
    def close(hour: int) -> None: ...

    def __call__(self, paper: str) -> None:
        """Put something on it."""


class Chair:
    """A chair."""

    def __call__(self) -> None: ...


async def fetch(url: str, *, schema: str = "", model_config: int = 0) -> None: ...


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Silent(BaseModel):
    a: int


CALLABLES: dict[str, tuple[Callable[..., Any], str, str, list[str]]] = {
    "a method": (Desk().book, "book", "Book a seat.", ["seat"]),
    "a class method": (Desk.open, "open", "", ["hour"]),
    "a static method": (Desk.close, "close", "", ["hour"]),
    "a callable object": (Desk(), "Desk", "Put something on it.", ["paper"]),
    "one that is described by its class": (Chair(), "Chair", "A chair.", []),
    "a coroutine function": (fetch, "fetch", "", ["url", "schema", "model_config"]),
    "a partial": (partial(add, b=2), "add", "Add.", ["a", "b"]),
    "a pydantic model": (Person, "Person", "Somebody.", ["name", "age"]),
    "a model without words": (Silent, "Silent", "", ["a"]),
}


@pytest.mark.parametrize(
    ("called", "name", "words", "arguments"), CALLABLES.values(), ids=CALLABLES
)
def test_whatever_can_be_called_is_a_tool(
    called: Callable[..., Any], name: str, words: str, arguments: list[str]
) -> None:
    spec = spec_from_function(called)

    assert (spec.name, spec.description) == (name, words)
    assert list(spec.input_schema["properties"]) == arguments


def test_the_decorator_says_what_the_signature_cannot() -> None:
    @tool(
        name="rm",
        description="Remove.",
        permission="fs.write",
        safe=False,
        strict=True,
        deferred=True,
    )
    def remove(path: str) -> str:
        """Remove a file."""
        return path

    @tool
    def plain(path: str) -> str:
        return path

    spec = spec_from_function(remove)

    assert (spec.name, spec.description, spec.permission) == ("rm", "Remove.", "fs.write")
    assert (spec.is_safe, spec.is_strict, spec.is_deferred) == (False, True, True)
    assert remove("x") == plain("x") == "x"
    assert spec_from_function(plain).name == "plain"


def test_the_decorator_refuses_unknown_options() -> None:
    with pytest.raises(TypeError, match="deferral"):
        tool(deferral=True)  # type: ignore[call-overload]  # the point of the test


def test_defaults_that_are_no_json_stay_the_functions_own_business() -> None:
    class Bounds(BaseModel):
        upper: float = float("inf")

    def f(a: Any = Colour, b: float = float("nan"), c: float = 1.5) -> None: ...

    assert properties(f) == {
        "a": {},
        "b": {"type": "number"},
        "c": {"default": 1.5, "type": "number"},
    }
    assert properties(Bounds) == {"upper": {"type": "number"}}


def test_what_a_function_returns_may_be_there_for_type_checkers_alone() -> None:
    def f(a: int) -> None: ...

    f.__annotations__["return"] = "Nowhere"

    assert properties(f) == {"a": {"type": "integer"}}


class Faulty:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        raise KeyError("it is broken")


def star(*rest: int) -> None: ...
def stars(**rest: int) -> None: ...
def no_schema(a: Callable[[], None]) -> None: ...
def unresolved(a: Any) -> None: ...


unresolved.__annotations__["a"] = "Nowhere"


def faulty(a: Faulty) -> None: ...
def plain_class(a: Desk) -> None: ...


UNUSABLE: dict[str, tuple[Callable[..., Any], str]] = {
    "*args": (star, r"'star' .*takes \*rest"),
    "**kwargs": (stars, r"'stars' .*takes \*\*rest"),
    "a type without schema": (no_schema, "'no_schema' .*no schema describes"),
    "a type that does not exist": (unresolved, "'unresolved' .*Nowhere"),
    "an unbound method": (Desk.book, "'book' .*pass obj.method"),
    "the base of all models": (BaseModel, "'BaseModel' .*subclass"),
    "a type that fails": (faulty, "'faulty' .*KeyError: 'it is broken'"),
    "a class of one's own": (plain_class, "'plain_class' .*Desk'>\\. Correct"),
    "a lambda": (lambda: None, "a lambda has no name"),
    "a class": (Desk, "'Desk' .*pydantic model"),
    "a builtin without signature": (max, "signature cannot be read"),
}


@pytest.mark.parametrize(("function", "says"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_cannot_be_a_tool_is_named(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(InvalidToolError, match=says):
        spec_from_function(function)


# ---- specs in every provider's shape ----

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}
BARE: dict[str, Any] = {"name": "search", "description": "Find."}
CAPITALS = {"type": "OBJECT", "properties": {"q": {"type": "STRING"}}}
SHAPES: dict[str, dict[str, Any]] = {
    "OpenAI chat": {"type": "function", "function": {**BARE, "parameters": SCHEMA}},
    "OpenAI chat without type": {"function": {**BARE, "parameters": SCHEMA}},
    "OpenAI responses": {"type": "function", **BARE, "parameters": SCHEMA},
    "OpenAI's first functions": {**BARE, "parameters": SCHEMA},
    "Anthropic": {**BARE, "input_schema": SCHEMA},
    "Anthropic with type": {**BARE, "type": "custom", "input_schema": SCHEMA},
    "MCP": {**BARE, "inputSchema": SCHEMA, "title": "Search", "outputSchema": SCHEMA},
    "Gemini": {"functionDeclarations": [{**BARE, "parameters": CAPITALS}]},
    "Gemini in snake case": {"function_declarations": [{**BARE, "parameters_json_schema": SCHEMA}]},
    "Gemini with JSON": {"functionDeclarations": [{**BARE, "parametersJsonSchema": SCHEMA}]},
    "Bedrock": {"toolSpec": {**BARE, "inputSchema": {"json": SCHEMA}}},
}


def read(spec: Any) -> ListedTools:
    return ListedTools([spec])


@pytest.mark.parametrize("spec", SHAPES.values(), ids=SHAPES)
def test_a_function_reads_the_same_from_every_shape(spec: dict[str, Any]) -> None:
    source = read(spec)

    assert source.list_now() == (ToolSpec(**BARE, input_schema=SCHEMA),)
    assert (source.notes, source.problems) == ((), ())


OWN: dict[str, tuple[dict[str, Any], str, str]] = {
    "Anthropic's": ({"type": "web_search_20260209", "name": "web"}, "anthropic", "web"),
    "Anthropic's MCP": ({"type": "mcp_toolset", "mcp_server_name": "docs"}, "anthropic", "docs"),
    "OpenAI's": ({"type": "web_search"}, "openai_responses", "web_search"),
    "OpenAI's MCP": ({"type": "mcp", "server_label": "wiki"}, "openai_responses", "wiki"),
    "OpenAI's custom": ({"type": "custom", "name": "sql", "format": {}}, "openai_responses", "sql"),
    "chat's custom": ({"type": "custom", "custom": {"name": "sql"}}, "openai_chat", "sql"),
    "a gateway's": ({"type": "openrouter:web_search"}, "openai_chat", "openrouter_web_search"),
    "Gemini's search": ({"googleSearch": {}}, "gemini", "google_search"),
    "Gemini's code": ({"code_execution": {}}, "gemini", "code_execution"),
    "Bedrock's": ({"systemTool": {"name": "nova"}}, "bedrock", "nova"),
}


@pytest.mark.parametrize(("spec", "provider", "name"), OWN.values(), ids=OWN)
def test_a_providers_own_tool_is_for_that_provider_alone(
    spec: dict[str, Any], provider: str, name: str
) -> None:
    assert read(spec).list_now() == (ToolSpec(name=name, native_specs={provider: spec}),)


def test_gemini_may_list_functions_and_its_own_tools_together() -> None:
    declared: dict[str, Any] = {
        "functionDeclarations": [{"name": "a"}, {"name": "b"}],
        "googleSearch": {},
    }

    names = [one.name for one in read({**declared, "retrieval": None}).list_now()]

    assert names == ["a", "b", "google_search"]


def test_strictness_safety_and_deferral_are_read() -> None:
    [strict] = read({"name": "a", "input_schema": SCHEMA, "strict": True}).list_now()
    [deferred] = read({"function": {"name": "a"}, "defer_loading": True}).list_now()
    marks = (
        {"readOnlyHint": True},
        {"readOnlyHint": 1},
        {"readOnlyHint": True, "destructiveHint": True},
    )
    safe = [
        read({"name": "a", "inputSchema": SCHEMA, "annotations": one}).list_now()[0].is_safe
        for one in marks
    ]

    called = {"name": "a", "input_schema": SCHEMA, "allowed_callers": ["code_execution_20260120"]}
    assert read(called).list_now()[0].allowed_callers == ("code_execution_20260120",)
    assert not read(called).notes
    assert (strict.is_strict, deferred.is_deferred) == (True, True)
    assert safe == [True, None, None]


async def test_which_tools_may_call_a_tool_is_sent_to_anthropic_alone() -> None:
    run = {"type": "code_execution_20260120", "name": "code_execution"}
    query = {"name": "query", "input_schema": SCHEMA, "allowed_callers": [run["type"]]}
    assembler = ContextAssembler("memory:", tools=[run, query])
    await assembler.add_user("s", "How many?")

    claude = await assembler.assemble("s", model="claude-opus-5-5", max_tokens=100)
    gpt = await assembler.assemble("s", model="gpt-5.5", max_tokens=100)

    assert claude.to_request()["tools"][1]["allowed_callers"] == ["code_execution_20260120"]
    assert "allowed_callers" not in str(gpt.to_request()["tools"])


UNREADABLE: dict[str, tuple[Any, str]] = {
    "nothing": ({}, "none of the known shapes"),
    "no name": ({"type": "function", "function": {"parameters": SCHEMA}}, "name is missing"),
    "an empty name": ({"name": " ", "input_schema": SCHEMA}, "name is missing"),
    "a name that is not text": ({"name": 3, "input_schema": SCHEMA}, "name is missing"),
    "a schema that is no object": ({"name": "a", "parameters": "x"}, "'a' .*not an object"),
    "a declaration that is no object": ({"functionDeclarations": ["a"]}, "name is missing"),
    "a number": (5, "an int is neither a spec nor a function"),
}


@pytest.mark.parametrize(("spec", "says"), UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_tool_is_a_problem_of_its_own(spec: Any, says: str) -> None:
    source = ListedTools([spec, search])

    assert [one.name for one in source.list_now()] == ["search"]
    with pytest.raises(InvalidToolError, match=says):
        raise source.problems[0]


def test_what_is_not_carried_over_and_a_function_without_words_are_noted() -> None:
    source = ListedTools(
        [{**BARE, "input_schema": {}, "input_examples": [], "cache_control": {}}, star_less]
    )

    source.list_now()

    assert source.notes == (
        "Tool 'search': 'input_examples' is not carried over.",
        "star_less has no docstring: the model gets its name and arguments alone.",
    )


def star_less(a: int) -> None: ...


# ---- short forms, and objects that list tools ----


@dataclass
class SdkTool:
    """What an SDK's own tool object looks like."""

    name: str

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"name": self.name, "inputSchema": {"type": "object"}}


class Executor:
    def list_tools(self) -> list[Any]:
        return [ToolSpec(name="run"), BARE, add, SdkTool("sdk"), 3, {"name": "x", "parameters": 1}]


@dataclass
class Listing:
    tools: list[Any]


class Client:
    name = "docs"

    async def list_tools(self) -> Listing:
        return Listing(tools=[BARE])


class Deferred:
    def list_tools(self) -> Any:
        return self._later()

    async def _later(self) -> Sequence[Any]:
        return [BARE]


class Lazy:
    def list_tools(self) -> Iterator[Any]:
        yield BARE


class Undumpable:
    name = "undumpable"

    def model_dump(self, **_: Any) -> Any:
        raise RecursionError("too deep")


async def test_every_short_form_opens() -> None:
    given_tools = [add, BARE, Client(), [ToolSpec(name="spec"), SdkTool("sdk")], None]

    found = {
        one.name: [spec.name for spec in await one.list_tools()]
        for one in open_tool_sources(given_tools)
    }

    assert found == {"functions": ["add"], "docs": ["search"], "listed": ["search", "spec", "sdk"]}


def test_nothing_opens_nothing_and_a_source_stays_itself() -> None:
    source = ExecutorTools(Executor())

    assert open_tool_sources(None) == open_tool_sources([]) == []
    assert open_tool_sources(source) == [source]


@pytest.mark.parametrize("wrong", [3, "search", [object()]])
def test_what_is_no_source_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="not a source of tools"):
        open_tool_sources(wrong)


async def test_an_executor_may_list_anything_and_keeps_the_good() -> None:
    source = ExecutorTools(Executor())

    listed = await source.list_tools()

    assert source.name == "executor"
    assert [spec.name for spec in listed] == ["run", "search", "add", "sdk"]
    assert [problem.name for problem in source.problems] == ["(unnamed)", "x"]
    assert source.list_now is not None
    assert source.list_now() == listed


@pytest.mark.parametrize("executor", [Client(), Deferred(), Lazy()])
async def test_an_executor_may_answer_now_or_later(executor: Any) -> None:
    assert [spec.name for spec in await ExecutorTools(executor).list_tools()] == ["search"]


async def test_what_fails_when_it_is_looked_at_is_left_out_by_itself() -> None:
    source = ListedTools([Undumpable(), add])

    assert [spec.name for spec in source.list_now()] == ["add"]
    assert "'undumpable' cannot be offered: it cannot be read: RecursionError" in str(
        source.problems[0]
    )


class Wrong:
    def list_tools(self) -> Any:
        return None


async def test_a_list_that_is_none_and_its_own_errors_arrive() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        await ExecutorTools(Wrong()).list_tools()


async def test_the_loop_goes_on_while_an_executor_blocks() -> None:
    loop = asyncio.get_running_loop()
    went_on = asyncio.Event()

    class Blocking:
        def list_tools(self) -> list[Any]:
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
            loop.call_soon_threadsafe(went_on.set)
            return [BARE]

    assert len(await ExecutorTools(Blocking()).list_tools()) == 1
    assert went_on.is_set()


def test_skills_bring_tools_of_their_own() -> None:
    [source] = open_skill_tools([Skill(name="pdf", description="d", tools=(BARE,))])

    assert source.name == "skill pdf"
