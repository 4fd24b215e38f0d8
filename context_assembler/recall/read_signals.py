"""The step that reads from a query what it looks for."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final, TypeAlias

from context_assembler.recall.date_mentions import find_dates
from context_assembler.recall.word_forms import other_forms_of
from context_assembler.values.memories.stop_words import STOP_WORDS
from context_assembler.values.memories.words import query_terms
from context_assembler.values.recall import Intent, Signals
from context_assembler.values.texts.cleaning import clean_text

_END_CHARS: Final = 4_000  # of each end of a long query: what is asked stands at one of them
_MAX_ENTITIES: Final = 32
_NAME: Final = re.compile(
    r"`([^`\n]{1,80})`|\"([^\"\n]{1,80})\"|((?:[A-Z][\w'’]*)(?:[ -][A-Z][\w'’]*){0,3})"
)
_QUESTION: Final = re.compile(
    r"^\s*(who|whom|whose|what|when|where|which|how|why|is|are|was|were|do|does|did|has|have|had|can"
    r"|could|would|will|should)\b",
    re.IGNORECASE,
)
_INTENTS: Final[Mapping[Intent, re.Pattern[str]]] = {
    "fix": re.compile(
        r"\b(fix|bug|broken|error|fails?|failed|failing|failure|crash(es|ed)?|exception|traceback"
        r"|debug|repair|regression)\b",
        re.IGNORECASE,
    ),
    "explain": re.compile(
        r"\b(explain|why|understand|describe|how does|how do|walk me through)\b", re.IGNORECASE
    ),
}
_EVENT_WORDS: Final = {
    "error": "error exception traceback crash failed failure fails bug",
    "tool_call": "ran run command executed tool called",
    "test": "test tests pytest suite coverage",
    "commit": "commit committed merge merged branch",
    "decision": "decided decision agreed chose",
}
_ASKED_FOR: Final = re.compile(
    r"\b(?:how (?:many|much|long|often|far|old)|(?:what|which) (?:kind|type|sort)s?(?: of)?)\b",
    re.IGNORECASE,
)
_AUXILIARY: Final = re.compile(r"\b(did|didn't|has|have|had|was|were)\b", re.IGNORECASE)
_TIME: Final = re.compile(r"\b(when|what (day|date|time|year|month)|how long ago)\b", re.IGNORECASE)

Relate: TypeAlias = Callable[[Iterable[str]], Mapping[str, Mapping[str, float]]]
"""Returns for words those that say the same, and how closely."""


def read_signals(
    query: str, *, now: datetime | None = None, relate: Relate | None = None
) -> Signals:
    """Return what the query tells: words, names, dates, and what is wanted.

    Any text is a query. Of one that is very long both ends are read.

    Args:
        now: What `yesterday` in the query is counted from.
        relate: What knows words of like meaning; without it only other forms are known.
    """
    text = clean_text(query)
    if len(text) > 2 * _END_CHARS:
        text = f"{text[:_END_CHARS]} {text[-_END_CHARS:]}"
    # "How many" and "what kind of" say what is wanted, not what is talked about.
    asked = _ASKED_FOR.sub(" ", text)
    if not query_terms(asked):
        asked = text
    terms = tuple(query_terms(asked))
    # "Did she run?" is answered by "she ran"; other questions have the form of their answers.
    forms = other_forms_of(terms) if _AUXILIARY.search(text) else {}
    close: Mapping[str, Mapping[str, float]] = {} if relate is None else relate(terms)
    return Signals(
        query=text,
        search_text=" ".join((asked, *dict.fromkeys(f for given in forms.values() for f in given))),
        terms=terms,
        related={
            term: {**close.get(term, {}), **dict.fromkeys(forms.get(term, ()), 1.0)}
            for term in terms
            if term in close or term in forms
        },
        entities=_entities(text),
        intent=_intent(text),
        event_types=_event_types(text),
        dates=find_dates(text, now=now),
        wants_time=_TIME.search(text) is not None,
    )


def _entities(text: str) -> tuple[str, ...]:
    names = (
        code or quoted or _without_opening(plain.removesuffix("'s").removesuffix("’s"))
        for code, quoted, plain in _NAME.findall(text)
    )
    return tuple(dict.fromkeys(name for name in names if name))[:_MAX_ENTITIES]


def _without_opening(name: str) -> str:
    """Return the name without words that are capital only because a sentence begins."""
    words = name.split(" ")
    while words and words[0].lower().partition("'")[0] in STOP_WORDS:
        words = words[1:]
    return " ".join(words)


def _intent(text: str) -> Intent:
    for intent, pattern in _INTENTS.items():
        if pattern.search(text):
            return intent
    return "question" if "?" in text or _QUESTION.match(text) else "action"


def _event_types(text: str) -> tuple[str, ...]:
    words = set(re.findall("[a-z]+", text.lower()))
    return tuple(name for name, cues in _EVENT_WORDS.items() if words & set(cues.split()))
