"""Tools from plain Python functions."""

import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal, NotRequired

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from context_assembler.errors import InvalidParameterError, InvalidToolError
from context_assembler.tools import spec_from_function, tool
from context_assembler.tools.docstrings import read_docstring


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


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


def test_a_function_becomes_a_tool() -> None:
    def search(query: str, limit: int = 10) -> list[str]:
        """Search the web.

        Args:
            query: What to look for,
                in any language.
            limit: How many at most.

        Returns:
            The titles.
        """
        return [query] * limit

    assert spec_from_function(search).input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, in any language."},
            "limit": {"type": "integer", "default": 10, "description": "How many at most."},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert spec_from_function(search).name == "search"
    assert spec_from_function(search).description == "Search the web.\n\nReturns:\nThe titles."


STYLES = {
    "google": "Add.\n\nArgs:\n    a: One.\n    b: Two.",
    "numpy": "Add.\n\nParameters\n----------\na : int\n    One.\nb\n    Two.",
    "sphinx": "Add.\n\n:param a: One.\n:param b: Two.",
}


@pytest.mark.parametrize("text", STYLES.values(), ids=STYLES.keys())
def test_every_docstring_style_describes_the_parameters(text: str) -> None:
    read = read_docstring(text)

    assert read.description == "Add."
    assert read.parameters == {"a": "One.", "b": "Two."}


def test_the_rest_of_a_docstring_stays_in_the_description() -> None:
    read = read_docstring(
        "Add.\n\nArgs:\n    a: One.\n\nRaises:\n    ValueError: Too big.\n\n"
        "Note:\n    Slow.\n\nExamples:\n    >>> add(1)\n    2\n"
    )

    for words in ("Add.", "ValueError: Too big.", "Slow.", ">>> add(1)"):
        assert words in read.description
    assert read_docstring("  ").description == ""


def kinds(  # noqa: PLR0917 - all at once
    choice: Literal["a", "b"],
    colour: Colour,
    place: Place,
    person: Person,
    maybe: int | None = None,
    many: list[dict[str, float]] = [],  # noqa: B006 - what users write
    anything: Any = None,
) -> None: ...


def untyped(a, b=2):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
    return None


def test_every_kind_of_type_has_a_sound_schema() -> None:
    spec = spec_from_function(kinds)

    Draft202012Validator.check_schema(dict(spec.input_schema))
    found = spec.input_schema["properties"]
    assert found["choice"] == {"enum": ["a", "b"], "type": "string"}
    assert found["colour"] == {"$ref": "#/$defs/Colour"}
    assert spec.input_schema["$defs"]["Place"]["required"] == ["city", "country"]
    assert "title" not in str(spec.input_schema)
    assert found["anything"] == {"default": None}


class Stop(typing.TypedDict, total=False):
    """Where to stop."""

    place: typing.Required[Place]
    minutes: Annotated[int, Field(description="How long.")]


class Route(typing.TypedDict):
    first: Stop
    others: NotRequired[list[Stop]]


class Lost(typing.TypedDict):
    a: "Nowhere"  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


class Endless(typing.TypedDict):
    again: "Endless"


def test_typed_dicts_of_either_module_are_read() -> None:
    def plan(  # noqa: PLR0917 - all at once
        route: Route,
        spare: Annotated[Stop | None, "if need be"] = None,
        by_day: typing.Dict[str, typing.List[Stop]] = {},  # noqa: B006, UP006
        either: typing.Optional[typing.Union[Stop, int]] = None,  # noqa: UP007, UP045
        plain: list[int] | None = None,
        fixed: list[Literal["a"]] | tuple[Stop, ...] = (),
    ) -> None: ...

    schema = spec_from_function(plan).input_schema

    Draft202012Validator.check_schema(dict(schema))
    assert sorted(schema["$defs"]) == ["Place", "Route", "Stop"]
    assert schema["$defs"]["Route"]["required"] == ["first"]
    assert schema["$defs"]["Stop"]["required"] == ["place"]
    assert schema["$defs"]["Stop"]["properties"]["minutes"]["description"] == "How long."
    assert schema["properties"]["spare"]["description"] == "if need be"


def test_a_parameter_without_annotation_takes_anything() -> None:
    function: Any = untyped  # pyright: ignore[reportUnknownVariableType] - that it is unknown is the point

    assert properties(function) == {"a": {}, "b": {"default": 2}}


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

    assert [found[name]["description"] for name in "abcd"] == [
        "from Field",
        "from text",
        "from Doc",
        "docstring",
    ]
    assert found["a"]["minimum"] == 1


def test_any_parameter_name_is_fine() -> None:
    def f(*, schema: str, model_config: int, _hidden: int, json: int, copy: int) -> None: ...

    assert list(properties(f)) == ["schema", "model_config", "_hidden", "json", "copy"]


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


async def fetch(url: str) -> None: ...


CALLABLES: dict[str, tuple[Callable[..., Any], str, list[str]]] = {
    "a method": (Desk().book, "book", ["seat"]),
    "a class method": (Desk.open, "open", ["hour"]),
    "a static method": (Desk.close, "close", ["hour"]),
    "a callable object": (Desk(), "Desk", ["paper"]),
    "a coroutine function": (fetch, "fetch", ["url"]),
    "a pydantic model": (Person, "Person", ["name", "age"]),
}


@pytest.mark.parametrize(
    ("function", "name", "arguments"), CALLABLES.values(), ids=CALLABLES.keys()
)
def test_whatever_can_be_called_is_a_tool(
    function: Callable[..., Any], name: str, arguments: list[str]
) -> None:
    spec = spec_from_function(function)

    assert spec.name == name
    assert list(spec.input_schema["properties"]) == arguments


def test_callables_are_described_by_what_is_called() -> None:
    assert spec_from_function(Desk()).description == "Put something on it."
    assert spec_from_function(Person).description == "Somebody."
    assert "description" not in spec_from_function(Person).input_schema


def test_a_partial_is_its_function_with_other_defaults() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    spec = spec_from_function(partial(add, b=2))

    assert (spec.name, spec.description) == ("add", "Add.")
    assert spec.input_schema["properties"]["b"] == {"default": 2, "type": "integer"}
    assert spec.input_schema["required"] == ["a"]


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


def test_a_default_that_is_no_json_stays_the_functions_own_business() -> None:
    unspeakable = object()

    def f(a: Any = unspeakable) -> None: ...

    assert properties(f) == {"a": {}}


def test_a_number_that_is_no_json_is_no_default_of_the_schema() -> None:
    class Bounds(BaseModel):
        upper: float = float("inf")

    def f(a: float = float("nan"), b: float = 1.5) -> None: ...

    assert properties(f) == {"a": {"type": "number"}, "b": {"default": 1.5, "type": "number"}}
    assert properties(Bounds) == {"upper": {"type": "number"}}


def test_a_pattern_that_looks_around_stays() -> None:
    def f(a: Annotated[str, Field(pattern="^(?!x)y")]) -> None: ...

    assert properties(f) == {"a": {"pattern": "^(?!x)y", "type": "string"}}


def test_a_field_in_the_place_of_a_default_says_what_the_parameter_is() -> None:
    def f(
        a: int = Field(description="How many.", ge=1),
        b: str = Field("x", description="Which."),
        c: list[str] = Field(default_factory=list),  # noqa: B008 - as users write it
        d: Annotated[int, "In the annotation."] = Field(default=2, le=9),
    ) -> None:
        """Do.

        Args:
            a: From the docstring.
            c: What else.
        """

    schema = spec_from_function(f).input_schema

    assert schema["required"] == ["a"]
    assert schema["properties"] == {
        "a": {"description": "How many.", "minimum": 1, "type": "integer"},
        "b": {"default": "x", "description": "Which.", "type": "string"},
        "c": {"description": "What else.", "items": {"type": "string"}, "type": "array"},
        "d": {
            "default": 2,
            "description": "In the annotation.",
            "maximum": 9,
            "type": "integer",
        },
    }


def test_what_a_function_returns_may_be_there_for_type_checkers_alone() -> None:
    def f(a: int) -> "Nowhere": ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]

    assert properties(f) == {"a": {"type": "integer"}}  # pyright: ignore[reportUnknownArgumentType]


def test_a_model_is_described_by_its_own_words_and_not_by_those_of_pydantic() -> None:
    class Silent(BaseModel):
        a: int

    class Heir(Person):
        b: int

    assert spec_from_function(Silent).description == ""
    assert spec_from_function(Heir).description == "Somebody."


def test_a_docstring_may_begin_with_its_parameters() -> None:
    assert read_docstring("Args:\n    a: The first.").parameters == {"a": "The first."}


SETTINGS: list[dict[str, Any]] = [
    {"name": 5},
    {"description": ["a"]},
    {"permission": True},
    {"safe": "no"},
    {"strict": 1},
    {"deferred": "yes"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda one: next(iter(one)))
def test_a_setting_of_another_type_is_refused_by_name(settings: dict[str, Any]) -> None:
    [name] = settings

    with pytest.raises(InvalidParameterError, match=name):
        tool(**settings)


def star(*rest: int) -> None: ...
def stars(**rest: int) -> None: ...
def lose(a: Lost) -> None: ...
def hold(a: Endless) -> None: ...
def no_schema(a: Callable[[], None]) -> None: ...
def unresolved(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]


class Odd(BaseModel):
    act: Callable[[], None]


class Unfinished(BaseModel):
    later: "Nowhere"  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownVariableType]


class Faulty:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        raise KeyError("it is broken")


def faulty(a: Faulty) -> None: ...
def plain_class(a: Desk) -> None: ...


OLD_PYTHON: dict[str, tuple[Callable[..., Any], str]] = {
    "a dict that holds itself": (hold, "'hold' .*TypedDict"),
}
UNUSABLE: dict[str, tuple[Callable[..., Any], str]] = {
    **(OLD_PYTHON if sys.version_info < (3, 12) else {}),
    "*args": (star, r"'star' .*takes \*rest"),
    "**kwargs": (stars, r"'stars' .*takes \*\*rest"),
    "a type without schema": (no_schema, "'no_schema' .*no schema describes"),
    "a type that does not exist": (unresolved, "'unresolved' .*Nowhere"),
    "a dict of what does not exist": (lose, "'lose' .*Nowhere"),
    "an unbound method": (Desk.book, "'book' .*pass obj.method"),
    "a model with a type without schema": (Odd, "'Odd' .*no schema describes"),
    "a model of what does not exist": (Unfinished, "'Unfinished' .*Nowhere"),
    "the base of all models": (BaseModel, "'BaseModel' .*subclass"),
    "a type that fails": (faulty, "'faulty' .*KeyError: 'it is broken'"),
    "a class of one's own": (plain_class, "'plain_class' .*Desk'>\\. Correct"),
    "a lambda": (lambda: None, "a lambda has no name"),
    "a class": (Desk, "'Desk' .*pydantic model"),
    "a builtin without signature": (max, "signature cannot be read"),
}


@pytest.mark.parametrize(("function", "says"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_what_cannot_be_a_tool_is_named(function: Callable[..., Any], says: str) -> None:
    with pytest.raises(InvalidToolError, match=says):
        spec_from_function(function)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="pydantic reads no such dict there")
def test_a_dict_that_holds_itself_is_described_by_reference() -> None:
    schema = spec_from_function(hold).input_schema

    assert "$ref" in f"{schema}"
    Draft202012Validator.check_schema(schema)


def test_a_callable_object_without_words_is_described_by_its_class() -> None:
    assert spec_from_function(Chair()).description == "A chair."
