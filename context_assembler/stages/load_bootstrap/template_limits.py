"""A Jinja2 environment in which a template ends soon, whatever it says.

Time would run differently on every machine; work is counted instead: every turn of a loop with the
text in its body, every call, and every text or list that an operator, a filter or a call makes. What
would be huge at once is refused before it is made.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, TypeGuard

from jinja2 import StrictUndefined, nodes, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_WORK: Final = 1_000_000
"""Characters, list entries and loop turns that one template may take: ten times a large file."""

_CALL_WORK: Final = 20  # a call takes about as long as so many turns of a loop
_TAG_WORK: Final = 200  # so long takes one tag to be parsed and compiled
_NODE_WORK: Final = 50
_MAX_WIDTH: Final = 10_000
# Where the arguments begin that say how wide or deep a text becomes.
_FIRST_WIDTH: Final[Mapping[str, int]] = {
    "ljust": 1,
    "rjust": 1,
    "center": 1,
    "zfill": 1,
    "indent": 1,
    "wordwrap": 2,
    "tojson": 2,
}
_COUNTED: Final = "_counted"
_WIDE_FIELD: Final = re.compile(r"[%:.][^%{}a-zA-Z]*\d{5,}")
_WIDTH_AMONG_VALUES: Final = re.compile(r"%[^%a-zA-Z]*\*|\{[^{}]*\{")
_WRAP_WORK: Final = 10  # as long takes each character that is wrapped
_NUMBERING_FILTERS: Final = frozenset({"batch", "slice", "round"})
# Each makes much of little, or bytes, whose own methods nobody counts.
_UNSAFE_METHODS: Final[tuple[tuple[type, frozenset[str]], ...]] = (
    (str, frozenset({"translate", "expandtabs", "encode"})),
    (int, frozenset({"to_bytes"})),
)
# These look at a value's entries at most, and never spell it as text.
_STRUCTURAL: Final = frozenset(
    {
        "abs",
        "attr",
        "batch",
        "count",
        "d",
        "default",
        "dictsort",
        "first",
        "float",
        "groupby",
        "int",
        "items",
        "last",
        "length",
        "list",
        "map",
        "max",
        "min",
        "reject",
        "rejectattr",
        "reverse",
        "round",
        "select",
        "selectattr",
        "slice",
        "sort",
        "sum",
        "unique",
    }
)

_work_left: ContextVar[list[int]] = ContextVar("_work_left")


class TooMuchWorkError(Exception):
    """A template asks for more than `MAX_WORK`."""

    def __init__(self) -> None:
        super().__init__(f"it does not end within {MAX_WORK:,} steps and characters")


@contextmanager
def limited_work() -> Generator[None]:
    """Let one template be compiled and rendered inside."""
    token = _work_left.set([MAX_WORK])
    try:
        yield
    finally:
        _work_left.reset(token)


class LimitedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, counting; usable inside `limited_work` only."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, autoescape=False, finalize=_shown)
        self.filters = {name: _limited(name, act) for name, act in self.filters.items()}
        self.filters[_COUNTED] = _count_turns
        del self.globals["lipsum"]  # random text: every prompt would be another one

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may reach the attribute."""
        multiplies = any(isinstance(obj, kind) and attr in named for kind, named in _UNSAFE_METHODS)
        return not multiplies and super().is_safe_attribute(obj, attr, value)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call for a template."""
        method = getattr(obj, "__wrapped__", obj)  # the sandbox wraps `format`
        owner = getattr(method, "__self__", None)
        if isinstance(owner, str):
            _check_arguments(method.__name__, (owner, *args), kwargs)
        _spend(_CALL_WORK)
        return _made(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Work out an operator for a template."""
        _check_operands(operator, left, right)
        return _made(super().call_binop(context, operator, left, right))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        _spend(_TAG_WORK * sum(map(source.count, ("{{", "{%"))))
        template = super()._parse(source, name, filename)
        for _ in template.find_all(nodes.Node):
            _spend(_NODE_WORK)
        for joined in template.find_all(nodes.Concat):
            joined.nodes = [_filtered(node, "string") for node in joined.nodes]
        for loop in template.find_all(nodes.For):
            literal_chars = sum(len(text.data) for text in loop.find_all(nodes.TemplateData))
            loop.iter = _filtered(loop.iter, _COUNTED, nodes.Const(1 + literal_chars))
        return template


def _filtered(node: nodes.Node, name: str, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(arguments), [], None, None, lineno=node.lineno)


@pass_context  # so that it is not tried at compile time
def _count_turns(_context: Context, entries: Iterable[Any], cost: int) -> Iterator[Any]:
    for entry in entries:
        _spend(cost)
        yield entry


def _limited(name: str, act: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(act)  # carries over the mark of filters that want the context
    def limited(*args: Any, **kwargs: Any) -> Any:
        _spend(1)
        if name not in _STRUCTURAL:
            _check_arguments(name, args, kwargs)
        elif name in _NUMBERING_FILTERS:
            _spend_numbers([*args[1:], *kwargs.values()])
        elif name == "sum" and any(map(_takes_room, (*args[3:], kwargs.get("start")))):
            raise TooMuchWorkError  # lists are copied again for each one that is added
        return _made(act(*args, **kwargs))

    return limited


def _spend(amount: int) -> None:
    left = _work_left.get()
    left[0] -= amount
    if left[0] < 0:
        raise TooMuchWorkError


def _made(value: Any) -> Any:
    """Return what was made; its size is work."""
    if _takes_room(value):
        _spend(len(value))
    return value


def _takes_room(value: object) -> TypeGuard[Sized]:
    return isinstance(value, (str, list, tuple, dict))


def _shown(value: Any) -> Any:
    """Return what is put out; the length of its text is work."""
    _spend_text(value)
    return value


def _spend_text(value: Any) -> None:
    """Spend the characters of a value's text: the entries of what has some, as often as they show."""
    waiting: list[Any] = [value]
    while waiting:
        held = waiting.pop()
        _spend(len(held) if isinstance(held, str) else 1)
        if isinstance(held, Mapping):
            waiting += [*held.keys(), *held.values()]
        elif isinstance(held, (list, tuple, set)):
            waiting += held


def _check_arguments(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse a call that makes a text as long as an argument says, or that multiplies texts.

    Args:
        args: The arguments, the text whose method it is among them.
    """
    given = [*args, *kwargs.values()]
    widths = [*args[_FIRST_WIDTH.get(name, len(args)) :], *kwargs.values()]
    if name != "format":
        _check_widths(widths)
    for one in given:
        if isinstance(one, (list, tuple, dict)):
            _spend_text(one)
    texts = [one for one in given if isinstance(one, str)]
    if not texts:
        return
    if name == "format":
        _check_format(texts[0], given)
    elif name == "replace" and len(texts) >= 3:
        _refuse_if_over(texts[0].count(texts[1]) * len(texts[2]))
    elif name == "join":
        entries = max((len(one) for one in given if isinstance(one, Sized)), default=0)
        _refuse_if_over(max(map(len, texts)) * entries)
    elif name in {"indent", "wordwrap"}:
        longest = max([abs(w) for w in widths if isinstance(w, int)] + [*map(len, texts[1:]), 1])
        _refuse_if_over((texts[0].count("\n") + 1) * longest)
        _spend(_WRAP_WORK * len(texts[0]) if name == "wordwrap" else 0)


def _check_widths(values: Iterable[Any]) -> None:
    if any(isinstance(one, int) and abs(one) > _MAX_WIDTH for one in values):
        raise TooMuchWorkError


def _spend_numbers(values: Sequence[Any]) -> None:
    """Spend what numbers say is to be made: entries that fill a list up, lists, digits."""
    _check_widths(values)
    _spend(sum(abs(one) for one in values if isinstance(one, int)))


def _check_format(text: str, values: Iterable[Any]) -> None:
    """Refuse a field of enormous width; where widths are among the values, they must be small."""
    if _WIDE_FIELD.search(text):
        raise TooMuchWorkError
    if _WIDTH_AMONG_VALUES.search(text):
        _check_widths(values)


def _check_operands(operator: str, left: Any, right: Any) -> None:
    if operator == "%" and isinstance(left, str):
        _check_arguments("format", (left, right, *(right if _is_tuple(right) else ())), {})
    elif operator == "**" and isinstance(left, int) and isinstance(right, int):
        _refuse_if_over(left.bit_length() * abs(right))
    elif operator == "*" and isinstance(left, int) and isinstance(right, int):
        _refuse_if_over(left.bit_length() + right.bit_length())
    elif operator == "*":
        _refuse_if_over(_length(left) * _length(right))


def _is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def _length(factor: Any) -> int:
    if isinstance(factor, int):
        return abs(factor)
    return len(factor) if isinstance(factor, Sized) else 0


def _refuse_if_over(size: int) -> None:
    if size > MAX_WORK:
        raise TooMuchWorkError
