"""What a summary must not lose: the user's constraints, open tasks, files, commands and identifiers."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from context_assembler import events
from context_assembler.events import Json, SessionEvent, is_list, is_object
from context_assembler.texts import BLANKS, find_names, one_line

Author: TypeAlias = Literal["user", "assistant", "call", "result", "summary"]

# What a name counts for, by who uses it: results hold many that nobody meant.
_WEIGHTS: Final = {"user": 4.0, "assistant": 2.0, "call": 3.0, "result": 0.5, "summary": 0.5}
_HALF_LIFE: Final = 12  # replies after which what was new counts for half of it
_RECENT: Final = 10  # replies
_NEW_FACTOR: Final = 6  # what was named last counts so much more
_MOST_NAMES_OF_RESULT: Final = 300
_ENDINGS: Final = (
    "bat c cc cfg conf cpp cs css csv db env gif go gz h hpp html htm ini ipynb java jpg js json jsonl "
    "jsx kt lock log lua md mjs pdf php pl png proto ps1 py pyi r rb rs rst scala sh sql svelte svg "
    "swift tar tf toml ts tsv tsx txt vue wasm xlsx xml yaml yml zip"
)
_FILE: Final = re.compile(
    rf"(?:[A-Za-z_.@~][\w.@-]+/)+[\w.@-]{{2,}}|[\w.@-]+\.(?:{_ENDINGS.replace(' ', '|')})"
)
_MOST_COMMAND_CHARS: Final = 160
# Words by which a user sets a rule, in the languages that are written most.
_RULE: Final = re.compile(
    r"\b(?:must|never|always|do not|don't|only|without|ensure|make sure|should not|shouldn't|"
    r"may not|cannot|can't|avoid|keep|at most|at least|no more than|instead of|"
    r"muss|müssen|nie|niemals|immer|nicht|nur|kein(?:e|en)?|jamais|toujours|doit|sans|"
    r"nunca|siempre|debe|solo|sempre|deve)\b|必须|不要|禁止|绝不|务必|只能|必ず|しないで|禁止",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"\n+|(?<=[.!?\u3002\uff01\uff1f])\s+")
_RULE_CHARS: Final = range(8, 301)
_MOST_RULES_OF_MESSAGE: Final = 12
_BOX: Final = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+\[( |x|X|-|~)\]\s+(.+)$", re.MULTILINE)
_TASK_KEYS: Final = ("content", "step", "title", "task", "description", "text", "name", "subject")
_DONE: Final = frozenset({"completed", "complete", "done", "cancelled", "canceled", "closed"})
_COMMAND_KEYS: Final = ("command", "cmd", "script", "code")


class Piece(NamedTuple):
    """What one part of an event says; `name` is the tool of a call."""

    seq: int
    by: Author
    text: str
    name: str = ""
    arguments: Json = None


class Essentials(NamedTuple):
    """What a stretch of a session is about; names and commands most used and newest first.

    Attributes:
        requests: What the user said, oldest first.
        constraints: Sentences in which the user sets a rule, verbatim, newest first.
        tasks: Those that the latest list of tasks leaves open.
        replies: What the model said, oldest first.
        recent: Names in what was said and called last.
    """

    requests: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    recent: frozenset[str] = frozenset()


def read_pieces(
    stored: Iterable[SessionEvent], clean: Callable[[str], str] = str
) -> Iterator[Piece]:
    """Yield what events say, in order; notes and reasoning are left out.

    Args:
        clean: Masks what must not be read; it is given every text.
    """
    tools: dict[str, str] = {}
    for event in stored:
        if event.note is not None or event.type == "system":
            continue
        by: Author = "user" if event.type == "user" else "assistant"
        by = "summary" if event.type == "compaction" else by
        for part in event.parts:
            match part:
                case events.ToolCall(call_id=call_id, name=name, arguments=arguments):
                    tools[call_id] = name
                    text = part.arguments_json or events.compact_json(events.to_json(arguments))
                    yield Piece(event.seq, "call", clean(text), name, arguments)
                case events.ToolResult(call_id=call_id, text=text):
                    yield Piece(event.seq, "result", clean(text), tools.get(call_id, ""))
                case events.Text(text=text) | events.Opaque(text=text) if text.strip():
                    yield Piece(event.seq, by, clean(text))
                case events.Image() | events.Document():
                    yield Piece(event.seq, by, f"[{type(part).__name__.lower()}]")
                case _:
                    pass


def essentials_of(pieces: Sequence[Piece], clean: Callable[[str], str] = str) -> Essentials:
    """Return what a summary of these pieces must not lose; see `read_pieces`."""
    scores, commands = Counter[str](), Counter[str]()
    rules, tasks, recent = list[str](), list[str](), set[str]()
    for piece, age in zip(pieces, _ages(pieces), strict=True):
        weight = _WEIGHTS[piece.by] * (1 + (_NEW_FACTOR - 1) * 0.5 ** (age / _HALF_LIFE))
        for name, number in _names(piece):
            scores[name] += weight * number
            if age < _RECENT and piece.by in ("user", "assistant", "call"):
                recent.add(name)
        if piece.by == "user":
            rules += _rules(piece.text)
        elif piece.by == "call":
            for command in _commands(piece.arguments):
                commands[clean(command)] += weight
        found = _tasks(piece)
        tasks = tasks if found is None else found
    ranked = [name for name, _ in scores.most_common()]
    files = dict.fromkeys(filter(_is_file, ranked))
    return Essentials(
        requests=_said(pieces, "user"),
        constraints=tuple(dict.fromkeys(reversed(rules))),
        tasks=tuple(map(clean, tasks)),
        replies=_said(pieces, "assistant"),
        files=tuple(files),
        commands=tuple(command for command, _ in commands.most_common()),
        identifiers=tuple(name for name in ranked if name not in files),
        recent=frozenset(recent),
    )


def _said(pieces: Sequence[Piece], by: Author) -> tuple[str, ...]:
    """Return what somebody said, each text once."""
    return tuple(dict.fromkeys(one_line(one.text) for one in pieces if one.by == by))


def _ages(pieces: Sequence[Piece]) -> list[int]:
    """Return how many replies came after each piece."""
    age, ages = 0, list[int]()
    for piece in reversed(pieces):
        ages.append(age)
        age += piece.by in ("assistant", "call")
    return ages[::-1]


def _names(piece: Piece) -> Iterator[tuple[str, int]]:
    """Yield the telling names of a piece: paths, and what has capitals, digits or signs within."""
    text = BLANKS.sub(" ", piece.text) if piece.by == "call" else piece.text
    numbers = Counter(find_names(text))
    if piece.by == "result":
        return iter([(name, 1) for name in list(numbers)[:_MOST_NAMES_OF_RESULT]])
    return iter(numbers.items())


def _is_file(name: str) -> bool:
    return "://" not in name and _FILE.fullmatch(name) is not None


def _rules(text: str) -> list[str]:
    sentences = (one_line(one) for one in _SENTENCE.split(text))
    found = [one for one in sentences if len(one) in _RULE_CHARS and _RULE.search(one)]
    return found[:_MOST_RULES_OF_MESSAGE]


def _commands(arguments: Json) -> Iterator[str]:
    for key in _COMMAND_KEYS if is_object(arguments) else ():
        given = arguments.get(key)
        said = " ".join(map(str, given)) if is_list(given) else given
        if isinstance(said, str) and (line := one_line(said.strip().split("\n", 1)[0])):
            yield line[:_MOST_COMMAND_CHARS]


def _tasks(piece: Piece) -> list[str] | None:
    """Return the open tasks of a list in the piece; `None` if it holds no such list."""
    if piece.by == "call":
        values: list[Any] = [*piece.arguments.values()] if is_object(piece.arguments) else []
        for rows in values:
            if is_list(rows) and rows and all(is_object(row) and "status" in row for row in rows):
                named = [(str(row["status"]), _task_text(row)) for row in rows]
                return [t for status, t in named if t and status.lower() not in _DONE]
        return None
    boxes = _BOX.findall(piece.text) if piece.by in ("user", "assistant") else ()
    return [one_line(text) for mark, text in boxes if mark in " -~"] if boxes else None


def _task_text(row: Any) -> str:
    texts = (row.get(key) for key in _TASK_KEYS)
    return one_line(next((text for text in texts if isinstance(text, str) and text.strip()), ""))
