"""What pydantic makes of the parameters of a function, or of a model: their JSON Schema."""

import inspect
import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any

from context_assembler.errors import InvalidToolError
from context_assembler.values.foreign_errors import said_by, tell_problem
from context_assembler.values.json_shapes import is_object
from context_assembler.values.parts import Json, JsonObject


def schema_of_parameters(
    parameters: Iterable[tuple[inspect.Parameter, Any, str | None]], *, tool: str
) -> JsonObject:
    """Return the schema of parameters, each with its annotation and the words for it.

    A default may be pydantic's `Field(…)`: it says what the parameter is, and whether it has one.

    Raises:
        InvalidToolError: A type has no schema.
    """

    def make() -> Json:
        from pydantic import ConfigDict, create_model  # noqa: PLC0415 - slow to load

        fields: dict[str, Any] = {}
        for index, (parameter, annotation, words) in enumerate(parameters):
            fields[f"argument_{index}"] = _field(parameter, annotation, words)
        # Nothing is validated with it, and its other engine knows fewer patterns.
        config = ConfigDict(extra="forbid", regex_engine="python-re")
        model = create_model("Arguments", __config__=config, **fields)
        return model.model_json_schema(schema_generator=_quiet_generator())

    return _described(make, tool=tool)


def schema_of_model(model: type, *, tool: str) -> JsonObject:
    """Return the schema of a pydantic model.

    Raises:
        InvalidToolError: It is none, or a type in it has no schema.
    """
    make: Callable[..., Json] | None = getattr(model, "model_json_schema", None)
    if make is None:
        raise InvalidToolError(tool, reason="a class is a tool only if it is a pydantic model")
    schema = _described(lambda: make(schema_generator=_quiet_generator()), tool=tool)
    return {key: value for key, value in schema.items() if key != "description"}


def own_words_of(model: type) -> str:
    """Return the docstring of a model; those of pydantic's own classes are not about it."""
    for one in model.__mro__:
        if one.__module__.startswith("pydantic."):
            return ""
        if words := vars(one).get("__doc__"):
            return inspect.cleandoc(words)
    return ""


def _field(parameter: inspect.Parameter, annotation: Any, words: str | None) -> tuple[Any, Any]:
    from pydantic import Field  # noqa: PLC0415 - slow to load
    from pydantic.fields import FieldInfo  # noqa: PLC0415 - slow to load

    default, factory = parameter.default, None
    if isinstance(default, FieldInfo):
        annotation = Annotated[annotation, default]
        words = default.description or words
        default, factory = default.default, default.default_factory
    # An alias, since a parameter may bear a name that a model reserves for itself.
    shared: dict[str, Any] = {"alias": parameter.name, "description": words}
    if factory is not None:
        return annotation, Field(default_factory=factory, **shared)
    return annotation, Field(... if default is parameter.empty else default, **shared)


def _described(make: Callable[[], Json], *, tool: str) -> JsonObject:
    try:
        schema = make()
    except Exception as error:  # types say themselves what they are, in foreign code
        raise InvalidToolError(
            tool, reason=f"no schema describes its arguments: {_reason(error)}"
        ) from error
    assert is_object(schema)
    return {key: value for key, value in _without_titles(schema).items() if key != "title"}


def _reason(error: Exception) -> str:
    """Return the first line of what pydantic says, without advice that is for models alone."""
    if not type(error).__module__.startswith("pydantic"):
        return tell_problem(error)
    first = (said_by(error).splitlines() or [""])[0]
    return first.split(". Set `arbitrary_types_allowed")[0].rstrip(".")


@cache
def _quiet_generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415 - slow to load
    from pydantic_core import PydanticSerializationError  # noqa: PLC0415 - slow to load

    class Quiet(GenerateJsonSchema):
        """Leaves out titles and, without a warning, defaults that are no JSON."""

        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's hook
            return False

        def encode_default(self, dft: Any) -> Any:
            encoded = super().encode_default(dft)
            try:
                json.dumps(encoded, allow_nan=False)
            except ValueError as error:
                raise PydanticSerializationError(str(error)) from error
            return encoded

        def emit_warning(self, kind: Any, detail: str) -> None:
            """Say nothing: a default that is no JSON stays the function's own business."""

    return Quiet


def _without_titles(schema: JsonObject) -> JsonObject:
    """Leave out the titles that pydantic gives to nested models: the key says the same."""
    definitions = schema.get("$defs")
    if not is_object(definitions):
        return schema
    untitled = {
        name: {key: value for key, value in one.items() if key != "title"}
        for name, one in definitions.items()
        if is_object(one)
    }
    return {**schema, "$defs": untitled}
