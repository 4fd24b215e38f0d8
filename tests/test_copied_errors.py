"""Errors are copied, and come back from other processes, as they were raised."""

import copy
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

import context_assembler
from context_assembler.errors import AssemblyError, UnknownSessionError

# What a parameter is given, by its annotation; one that is not here has its name.
SAMPLES: dict[str, Any] = {
    "int": 7,
    "int | None": 7,
    "float": float("nan"),
    "object": "an object",
    "Collection[str]": ("one", "two"),
    "Sequence[str]": ("one", "two"),
    "Mapping[str, int]": {"history": 3},
}


def every_error() -> list[type[AssemblyError]]:
    for module in pkgutil.walk_packages(
        context_assembler.errors.__path__, "context_assembler.errors."
    ):
        importlib.import_module(module.name)
    return sorted({AssemblyError, *_below(AssemblyError)}, key=lambda kind: kind.__name__)


def _below(kind: type[AssemblyError]) -> Iterator[type[AssemblyError]]:
    for one in kind.__subclasses__():
        if one.__module__.startswith("context_assembler.errors"):
            yield one
            yield from _below(one)


def sample(kind: type[AssemblyError]) -> AssemblyError:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        annotation = str(parameter.annotation).replace("collections.abc.", "")
        value = SAMPLES.get(inspect.formatannotation(parameter.annotation), SAMPLES.get(annotation))
        value = name if value is None else value
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            named[name] = value
        else:
            positional.append(value)
    return kind(*positional, **named)


def told(error: AssemblyError) -> dict[str, str]:
    return {"class": type(error).__name__, "text": str(error)} | {
        name: repr(value) for name, value in vars(error).items()
    }


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_an_error_is_copied_with_all_that_it_says(kind: type[AssemblyError]) -> None:
    error = sample(kind)
    error.add_note("while the session was read")

    copies = [copy.copy(error), copy.deepcopy(error)]
    copies += [
        pickle.loads(pickle.dumps(error, protocol))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    ]

    assert [told(other) for other in copies] == [told(error)] * len(copies)


def fail(session_id: str) -> None:
    raise UnknownSessionError(session_id, known=["s1", "s2"])


def test_a_pool_of_processes_outlives_an_error_of_one_task() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(UnknownSessionError, match="There is no session 's3'"):
            pool.submit(fail, "s3").result(timeout=60)

        assert pool.submit(len, "abc").result(timeout=60) == 3
