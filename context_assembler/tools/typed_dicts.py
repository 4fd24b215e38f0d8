"""Lets pydantic read `typing.TypedDict` on every Python.

Before Python 3.12 pydantic takes `typing_extensions.TypedDict` alone; users write the other one
(https://errors.pydantic.dev/2.14/u/typed-dict-version). This can go with Python 3.11.
"""

import sys
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)


def readable(annotation: Any) -> Any:
    """Return the annotation with every `typing.TypedDict` in it replaced by its twin."""
    if sys.version_info >= (3, 12):  # pragma: no cover - nothing to do there
        return annotation
    return _twin(annotation, above=())


def _twin(annotation: Any, *, above: tuple[Any, ...]) -> Any:
    if is_typeddict(annotation):
        return _twin_of_typed_dict(annotation, above=above)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is None or origin is Literal or not args:
        return annotation
    if origin is Annotated:
        return Annotated[(_twin(args[0], above=above), *args[1:])]
    twins = tuple(_twin(arg, above=above) for arg in args)
    if all(twin is arg for twin, arg in zip(twins, args, strict=True)):
        return annotation
    if origin is UnionType:
        union: Any = twins[0]
        for twin in twins[1:]:
            union |= twin
        return union
    copy_with = getattr(annotation, "copy_with", None)  # List[…], Union[…] and their like
    return origin[twins] if copy_with is None else copy_with(twins)


def _twin_of_typed_dict(annotation: Any, *, above: tuple[Any, ...]) -> Any:
    import typing_extensions  # noqa: PLC0415 - slow to load

    if annotation in above:
        return annotation  # one that holds itself stays as it is; pydantic says what is wrong
    optional: frozenset[str] = annotation.__optional_keys__
    keys = {
        key: _twin(_bare(hint), above=(*above, annotation))
        for key, hint in get_type_hints(annotation, include_extras=True).items()
    }
    spelled = {key: NotRequired[hint] if key in optional else hint for key, hint in keys.items()}
    make: Any = typing_extensions.TypedDict
    twin = make(annotation.__name__, spelled)
    twin.__doc__ = annotation.__doc__
    return twin


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) in {NotRequired, Required} else hint
