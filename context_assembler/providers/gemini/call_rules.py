"""Rules on calls of functions and their responses."""

from collections import Counter
from collections.abc import Iterator, Sequence

from context_assembler.providers.gemini.content import RESPONSE_TYPES
from context_assembler.providers.gemini.rule_book import Sent, SentContent, SentPart, breach
from context_assembler.values.breaches import level_if
from context_assembler.values.json_shapes import is_object
from context_assembler.values.native.gemini_fields import snake_fields
from context_assembler.values.parts import Json
from context_assembler.values.reading import as_array, as_text
from context_assembler.values.report import Violation


def check_pairs(sent: Sent) -> Iterator[Violation]:
    """G2: as many responses as calls, behind them, in one content, in their order."""
    for at, content in enumerate(sent.contents):
        if content.role != "model" or not content.calls:
            continue
        answers = _answers_behind(sent.contents, at)
        responses = [part for answer in answers for part in answer.responses]
        if len(responses) != len(content.calls):
            message = f"{len(content.calls)} call(s), but {len(responses)} response(s) behind them"
            yield breach("G2", content.where, message)
            continue
        if len(answers) > 1:
            message = "responses of one set of calls belong into one content"
            # Recorded requests to gemini-2.5-flash with one content per response were accepted.
            yield breach("G2", answers[1].where, message, level=level_if(sent.is_signed))
        yield from _check_matches(content.calls, responses)
        for answer in answers:
            if len(answer.responses) < len(answer.parts):
                message = "responses should stand alone in their content"
                yield breach("G2", answer.where, message, level="avoid")


def _answers_behind(contents: Sequence[SentContent], at: int) -> list[SentContent]:
    answers: list[SentContent] = []
    for place in range(at + 1, len(contents)):
        content = contents[place]
        if content.role == "model" or not content.responses:
            break
        answers.append(content)
    return answers


def _check_matches(calls: Sequence[SentPart], responses: Sequence[SentPart]) -> Iterator[Violation]:
    """Compare what is called with what is answered, by id where both have one, else by name."""
    called = [_key(part.call) for part in calls]
    answered = [_key(part.response) for part in responses]
    if not all(key for key, _ in (*called, *answered)):
        called = [("", name) for _, name in called]
        answered = [("", name) for _, name in answered]
    for call, answer, part in zip(called, answered, responses, strict=True):
        if call != answer:
            is_known = Counter(called) == Counter(answered)
            message = (
                "is not in the order of the calls" if is_known else "answers none of the calls"
            )
            yield breach("G2", f"{part.where}.function_response", message, level="avoid")


def _key(fields: dict[str, Json]) -> tuple[str, str]:
    return as_text(fields.get("id")), as_text(fields.get("name"))


def check_order(sent: Sent) -> Iterator[Violation]:
    """G3: calls stand behind the user or a response, responses behind calls."""
    before: SentContent | None = None
    for content in sent.contents:
        if content.role == "model":
            if content.calls and before is None:
                yield breach("G3", content.where, "a history cannot begin with a call")
            elif content.calls and before is not None and before.role == "model":
                message = "calls follow the user or a response, not the model"
                yield breach("G3", content.where, message)
            for part in content.responses:
                yield breach("G3", part.where, "the model answers no calls")
        else:
            is_answer = before is not None and bool(before.calls or before.responses)
            if content.responses and not is_answer:
                yield breach("G3", content.where, "responses stand directly behind their calls")
            for part in content.calls:
                yield breach("G3", part.where, "only the model calls")
        before = content


def check_signatures(sent: Sent) -> Iterator[Violation]:
    """G4: in the turn in progress, the first call of each step carries its signature."""
    if not sent.is_signed:
        return
    for content in sent.contents[_turn_start(sent.contents) :]:
        first = content.calls[0] if content.role == "model" and content.calls else None
        if first is not None and not first.fields.get("thought_signature"):
            message = "the first call of a step needs its thought signature"
            yield breach("G4", f"{first.where}.thought_signature", message)


def _turn_start(contents: Sequence[SentContent]) -> int:
    """Return where the turn in progress begins: at the last thing that the user said."""
    for at in range(len(contents) - 1, -1, -1):
        content = contents[at]
        if content.role != "model" and len(content.responses) < len(content.parts):
            return at
    return 0


def check_responses(sent: Sent) -> Iterator[Violation]:
    """G6: responses with a name, an object, and media where the model takes them."""
    for content in sent.contents:
        for part in content.calls:
            yield from _check_call(part)
        for part in content.responses:
            yield from _check_response(sent, part)


def _check_call(part: SentPart) -> Iterator[Violation]:
    where = f"{part.where}.function_call"
    if not as_text(part.call.get("name")):
        yield breach("G7", f"{where}.name", "is missing")
    arguments = part.call.get("args")
    if arguments is not None and not is_object(arguments):
        yield breach("G6", f"{where}.args", "must be an object")


def _check_response(sent: Sent, part: SentPart) -> Iterator[Violation]:
    where, fields = f"{part.where}.function_response", part.response
    if not as_text(fields.get("name")):
        yield breach("G6", f"{where}.name", "is missing")
    if not is_object(fields.get("response")):
        yield breach("G6", f"{where}.response", "must be an object")
    inner = as_array(fields.get("parts"))
    if inner and sent.is_unsigned:
        yield breach("G6", f"{where}.parts", "the model takes no media in a response")
    for index, entry in enumerate(inner):
        media_type = as_text(snake_fields(snake_fields(entry).get("inline_data")).get("mime_type"))
        if media_type and media_type not in RESPONSE_TYPES:
            message = f"{media_type} is none of {', '.join(RESPONSE_TYPES)}"
            yield breach("G6", f"{where}.parts[{index}]", message, level="avoid")
