"""What callers without types pass in the wrong place, and what comes of it."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final

import context_assembler
from context_assembler import AssemblyError

PACKAGE: Final = str(Path(context_assembler.__file__).parent)


class Stranger:
    """Of no type that anybody takes."""

    def __repr__(self) -> str:
        return "<a stranger>"


WRONG: Final[tuple[Any, ...]] = (
    None,
    3,
    -1,
    float("nan"),
    True,
    "x",
    "",
    b"x",
    [3],
    [None],
    {"a": 3},
    {3: 3},
    Stranger(),
)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a public name that works, and the names of the other arguments that it takes."""

    function: Callable[..., Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    others: Sequence[str] = ()

    def mistaken(self) -> Iterator[tuple[Sequence[Any], Mapping[str, Any]]]:
        """Yield the arguments with one of them wrong, each in turn, in every way."""
        for wrong in WRONG:
            for at in range(len(self.args)):
                yield [*self.args[:at], wrong, *self.args[at + 1 :]], self.kwargs
            for name in (*self.kwargs, *self.others):
                yield self.args, {**self.kwargs, name: wrong}


def call_of(
    function: Callable[..., Any], *args: Any, without: Sequence[str] = (), **kwargs: Any
) -> Call:
    """Return the call; the other arguments are those of the signature that have a default."""
    taken = list(inspect.signature(function).parameters.values())[len(args) :]
    has_default = [one.name for one in taken if one.default is not one.empty]
    others = [name for name in has_default if name not in {*kwargs, *without}]
    return Call(function=function, args=args, kwargs=kwargs, others=others)


async def find_bare_errors(call: Call) -> list[str]:
    """Return what was raised from within the package that is none of its errors."""
    await finish(call.function(*call.args, **call.kwargs))
    found: list[str] = []
    for args, kwargs in call.mistaken():
        try:
            await finish(call.function(*args, **kwargs))
        except AssemblyError:
            continue
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            if is_from_within(error):
                found.append(f"{error!r} of {args} {kwargs}")
    return found


async def finish(answer: Any) -> None:
    """Wait for what is waited for, and walk through what is walked through."""
    if isinstance(answer, Awaitable):
        await answer
    elif inspect.isasyncgen(answer):
        async for _ in answer:
            pass
    elif inspect.isgenerator(answer):
        list(answer)


def is_from_within(error: BaseException) -> bool:
    """Whether the package was running; Python itself refuses what a signature does not take."""
    files = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    return any(name.startswith(PACKAGE) for name in files)
