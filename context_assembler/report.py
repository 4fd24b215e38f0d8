"""What was kept, cut and repaired, and why: computed when somebody reads it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from context_assembler.errors import brief_repr
from context_assembler.events import Json

if TYPE_CHECKING:
    from context_assembler.context import Ledger
    from context_assembler.options import Layer, Settled

PieceKind: TypeAlias = Literal["file", "section", "skill", "tool", "memory", "message", "note"]
# What became of a piece.
#
# kept: It is sent as it is.
# shortened: Some of it is sent.
# cleared: Reasoning that it held is not sent.
# dropped: It is not sent.
# blocked: It may not be sent: a file out of place, a tool that is not permitted.
# repaired: It is sent, and a part of it is not as it was stored.
Decision: TypeAlias = Literal["kept", "shortened", "cleared", "dropped", "blocked", "repaired"]
# The rule behind an entry; empty: nothing was done to the piece.
#
# file.ok: The file is part of the prompt.
# file.missing: There is no such file.
# file.empty: Nothing is left of it but comments and white space.
# file.unreadable: It cannot be read.
# file.blocked: It lies outside of the folder, or it was read before.
# file.waiting: It was edited; the edit waits for the next rewrite point.
# file.shortened: It was over its limit.
# section.cut: The section of skills does not hold all of it.
# empty: The section has no text.
# failed: Its function failed, or took too long.
# inherits: The agent does not inherit it.
# overridden: A file, the session or the call gives the section.
# note: It is placed after the history.
# origin: It is placed after the history, because what others wrote has no authority.
# system.shorten: It is optional, and the prompt leaves too little for the history.
# system.drop: As `system.shorten`, and nothing of it fits.
# system.frozen: What was sent stays until the next rewrite point; the change waits.
# system.note: It has changed; the new text is a note until the next rewrite point.
# rewrite.system: The prompt is not that of the last call, so nothing is read from the cache.
# rewrite.tools: The tools are declared again, so nothing is read from the cache.
# active: Its instructions are in the prompt.
# listed: Its name and description are.
# filter: `skill_filter` or `skip_skills` leaves it out.
# hidden: Only people may activate it, and it is not active.
# broken: It cannot be read.
# too_many: The folder holds more folders than are searched.
# skill_budget: The list of skills has no room for all of it.
# duplicate: Another one has its name: another skill, or the same tool of another source.
# disabled: `disabled_tools` names it.
# excluded: The patterns to include and exclude leave it out.
# permission: No permission pattern allows it.
# sandbox: It is not marked safe, and sandbox mode is on.
# name_conflict: Another tool has its name, so it has a new one.
# schema: Its schema was repaired, or cannot be used.
# tool.schema: The API cannot take its schema as it is.
# tool.strict: It is offered without strict mode.
# tool.native: It exists for another provider alone.
# tool.count: The API takes no more tools.
# tool.added: It is sent after the history, so that what was sent before stays.
# tool.deferred: The model finds it by searching.
# tool.withdrawn: It cannot be called any more; its definition stays until the next rewrite.
# memory.recalled: It was recalled.
# memory.shortened: It was recalled, and shortened.
# memory.left_out: It was found; the budget or the limit left it out.
# memory.no_room: Nothing of what was found fits.
# memory.nothing: Nothing relevant was found.
# memory.unanswered: Some sources gave no answer.
# smart.shorten: A large tool result further back was shortened.
# smart.repeat: A line stands for a large tool result, since the same call got a newer one.
# smart.drop: The history does not fit, and the oldest exchanges go first.
# smart.marker: It says how many messages are missing.
# simple.drop: As `smart.drop`.
# sliding.drop: As `smart.drop`.
# sliding.window: It is older than the newest turns that the strategy keeps.
# own.drop: Your function left it out.
# own.marker: As `smart.marker`.
# overflow.shorten: What may not be left out does not fit.
# overflow.clock: The note with the time went first.
# entry.cap: It is over the limit of one message or result.
# secrets.masked: A secret was masked.
# text.tag: A tag that could be taken for one of ours was escaped.
# repair.added: The provider would refuse the messages without it.
# repair.arguments: The arguments are not a JSON object; they are sent as written, with an error.
# repair.blank: Blank text was left out.
# repair.clean_text: NULs or lone surrogates were cleaned away.
# repair.empty: It holds nothing that can be sent.
# repair.first_user: The history began with the assistant.
# repair.misplaced: Parts that its author cannot write were taken out.
# repair.missing_result: A call has no result; an error stands in for it.
# repair.moved_result: Results were moved right after their calls.
# repair.orphan_result: No call waits for the result.
# repair.prefill: The model refuses a history that ends with a reply.
# repair.refused: The provider refused the reply, or would refuse the message as it is.
# repair.server_call: A call that a provider runs itself had no result, or a result no call.
# reply.replaced: It began a reply again that is stored further on.
# rewind: The session went back to an earlier event; what followed that event is not sent.
# compaction.covers: The summary stands for these events.
# compaction.twin: The plain text of a provider's own compaction is sent.
# compaction.sealed: A provider's own compaction cannot be read; what it covers is sent.
# edits.applied: The provider cleared it of what the model reads; the session keeps it.
# content.caller: The program that called the tool is not sent.
# content.fields: The API does not take some of its fields.
# content.foreign: A block of another provider is sent as text.
# content.malformed: A block that the provider would refuse is sent as text.
# content.repeated: An item came twice.
# content.text: The text of a block is sent.
# content.undeclared: The tool that the block belongs to is not declared.
# image.scaled: The picture was too large.
# image.recoded: The picture was in a format that the API does not take.
# media.bytes: It is too large for a request.
# media.count: There are too many; the oldest make way.
# media.crowd: With so many pictures, each must be smaller.
# media.empty: It is empty.
# media.locked: It needs a password.
# media.pages: It has too many pages.
# media.role: The API does not take it from that author.
# media.size: It has too many pixels, or too many characters of base64.
# media.source: The API does not take it from there.
# media.type: The API does not take that type.
# media.unsupported: The model does not take that kind.
# reasoning.account: It came from another account.
# reasoning.chain: Something before it is not sent.
# reasoning.empty: Nothing was left of the message without its reasoning.
# reasoning.model: It came from another model.
# reasoning.origin: It was imported, so nobody knows what it belongs to.
# reasoning.prefix: What was sent before it has changed.
# reasoning.prefix_unknown: Nobody knows what was sent before it.
# reasoning.protocol: It came over another API.
# reasoning.provider: It came from another provider.
# reasoning.unfinished: Its reply was cut off.
# reasoning.unsigned: It has no signature.
# reasoning.unsupported: The model does not take it back.
# parameter.allowed_tools: The API cannot limit a call to some of the tools.
# parameter.context_edits: The API cannot clear parts of the history, or not in this request.
# parameter.expired: The provider no longer keeps it.
# parameter.parallel_tool_calls: The API has no switch for it.
# parameter.provider_compaction: The API cannot compact, or not together with this.
# parameter.response_format: The API takes another form of the schema.
# parameter.temperature: The model does not heed it, or takes another value.
# parameter.thinking_budget: The calls in flight began without thinking.
# parameter.thinking_level: The API takes another level for this request.
# parameter.top_k: The model does not heed it.
# parameter.top_p: The model does not heed it.
# note.waits: Only results may come first.
Rule: TypeAlias = Literal[
    Literal["file.ok", "file.missing", "file.empty", "file.unreadable", "file.blocked"],
    Literal["file.waiting", "file.shortened", "section.cut", "empty", "failed"],
    Literal["inherits", "overridden", "note", "origin", "system.shorten", "system.drop"],
    Literal["system.frozen", "system.note", "rewrite.system", "rewrite.tools"],
    Literal["active", "listed", "filter", "hidden", "broken", "too_many", "skill_budget"],
    Literal["duplicate", "disabled", "excluded", "permission", "sandbox", "name_conflict"],
    Literal["schema", "tool.schema", "tool.strict", "tool.native", "tool.count", "tool.added"],
    Literal["tool.deferred", "tool.withdrawn", "memory.recalled", "memory.shortened"],
    Literal["memory.left_out", "memory.no_room", "memory.nothing", "memory.unanswered"],
    Literal["smart.shorten", "smart.repeat", "smart.drop", "smart.marker", "simple.drop"],
    Literal["sliding.drop", "sliding.window", "own.drop", "own.marker"],
    Literal["overflow.shorten", "overflow.clock", "entry.cap", "secrets.masked", "text.tag"],
    Literal["repair.added", "repair.arguments", "repair.blank", "repair.clean_text"],
    Literal["repair.empty", "repair.first_user", "repair.misplaced", "repair.missing_result"],
    Literal["repair.moved_result", "repair.orphan_result", "repair.prefill", "repair.refused"],
    Literal["repair.server_call", "reply.replaced", "rewind"],
    Literal["compaction.covers", "compaction.twin", "compaction.sealed", "edits.applied"],
    Literal["content.caller", "content.fields", "content.foreign", "content.malformed"],
    Literal["content.repeated", "content.text", "content.undeclared"],
    Literal["image.scaled", "image.recoded", "media.bytes"],
    Literal["media.count", "media.crowd", "media.empty", "media.locked", "media.pages"],
    Literal["media.role", "media.size", "media.source", "media.type", "media.unsupported"],
    Literal["reasoning.account", "reasoning.chain", "reasoning.empty", "reasoning.model"],
    Literal["reasoning.origin", "reasoning.prefix", "reasoning.prefix_unknown"],
    Literal["reasoning.protocol", "reasoning.provider", "reasoning.unfinished"],
    Literal["reasoning.unsigned", "reasoning.unsupported", "parameter.allowed_tools"],
    Literal["parameter.context_edits", "parameter.expired", "parameter.parallel_tool_calls"],
    Literal["parameter.provider_compaction", "parameter.response_format"],
    Literal["parameter.temperature", "parameter.thinking_budget", "parameter.thinking_level"],
    Literal["parameter.top_k", "parameter.top_p", "note.waits", ""],
]

OFFERED: Final[frozenset[Decision]] = frozenset({"kept", "shortened", "repaired"})
"""The decisions on a section or tool that the model has in the end."""

_MOST_NAMES: Final = 5
_FILE_DECISIONS: Final[Mapping[str, Decision]] = {"ok": "kept", "blocked": "blocked"}
_FILE_REASONS: Final = {
    "missing": "There is no such file.",
    "empty": "Nothing is left of it but comments and white space.",
    "unreadable": "It cannot be read.",
    "blocked": "It was refused.",
    "waiting": "It is not sent yet.",
}
# For want of room: what a setting allows a section is no surprise.
_CUT_SECTIONS: Final = ("system.shorten", "system.drop")
_CUT_MESSAGES: Final = "overflow.shorten"
_LOSSES: Final = ("media.", "content.", "repair.orphan_result")
_RAISE: Final = "Raise max_context_tokens, or choose a model with a larger window"
_REQUIRE: Final = (
    "make it required ([bootstrap] required, or is_required=True of a section given in code)"
)


class ReportEntry(NamedTuple):
    """What became of one piece.

    `id` names the piece within its kind (a path, a section's or tool's name, an event id); `reason`
    is the sentence for people. docs/reference/report.md lists the rules.
    """

    kind: PieceKind
    id: str
    decision: Decision
    tokens_before: int = 0
    tokens_after: int = 0
    reason: str = ""
    rule: Rule = ""

    def __repr__(self) -> str:
        return brief_repr(self)


class Violation(NamedTuple):
    """A provider's rule that a payload breaks.

    Attributes:
        rule: Short id, as in docs/reference/provider-rules.md (`A1`, `C1` …).
        level: `refused` if the provider answers with an error, `advice` if it merely harms.
        where: Path into the payload, such as `messages[3].content[0]`.
        source: Where the rule is written.
    """

    rule: str
    level: Literal["refused", "advice"]
    where: str
    message: str
    source: str

    def __repr__(self) -> str:
        return brief_repr(self)

    def __str__(self) -> str:
        return f"{self.rule} at {self.where}: {self.message}"


class Violations(list[Violation]):
    """What a payload's check found, both levels apart: an empty `refused` is the promise."""

    @property
    def refused(self) -> list[Violation]:
        """Those for which the provider answers with an error."""
        return [one for one in self if one.level == "refused"]

    @property
    def advice(self) -> list[Violation]:
        """Those that the provider takes, and something is lost."""
        return [one for one in self if one.level == "advice"]


class ResolvedParameter(NamedTuple):
    """An option's value and the layer that it came from."""

    name: str
    value: Json
    layer: "Layer"


# ---- what the prompt cache will have ----


class CacheSplit(NamedTuple):
    """The tokens of a call: read from the cache, written to it, neither; together all there are.

    `long_written_tokens` are those of the written ones that are kept for the longer lifetime.
    `remarks` say why less is read than could be.
    """

    read_tokens: int = 0
    written_tokens: int = 0
    long_written_tokens: int = 0
    uncached_tokens: int = 0
    remarks: tuple[str, ...] = ()

    @property
    def total_tokens(self) -> int:
        """All tokens of the call."""
        return self.read_tokens + self.written_tokens + self.uncached_tokens


class InputPrice(NamedTuple):
    """US dollars for the input of calls; `None`, with the reason: a price is not known.

    `uncached_usd` is what the same input costs if nothing is read from a cache or written to it.
    """

    usd: float | None
    uncached_usd: float | None
    why_unknown: str = ""


class PrefixBreak(NamedTuple):
    """Where a call stops to be what the call before it was, and why."""

    piece: Literal["model", "section", "tool", "message"]
    id: str
    reason: str


class CacheForecast(NamedTuple):
    """What the provider will read, write and charge of one call's input.

    Attributes:
        after: The reply whose call this one is compared with, by its event's id; empty: there is
            none.
        broken: Where this call is not what that one was; `None`: it begins with all of it.
    """

    split: CacheSplit
    price: InputPrice
    after: str = ""
    broken: PrefixBreak | None = None

    @property
    def read_share(self) -> float:
        """The share of the input that is read from the cache."""
        total = self.split.total_tokens
        return self.split.read_tokens / total if total else 0.0

    def __str__(self) -> str:
        read, written, _, uncached, remarks = self.split
        parts = {
            "read from the cache": read,
            "written to the cache": written,
            "not cached": uncached,
        }
        told = ", ".join(f"{count:,} tokens {what}" for what, count in parts.items() if count)
        usd = "" if self.price.usd is None else f"; the input costs ${self.price.usd:,.4f}"
        why = [*remarks, self.price.why_unknown, self.broken.reason if self.broken else ""]
        return " ".join([f"{told}{usd}.", *filter(None, why)])


# ---- the report ----


class Report:
    """Everything that was considered for one payload, in order of appearance.

    It is made of callables, and nothing is computed before it is read.
    """

    def __init__(
        self,
        *,
        ledger: "Callable[[], Ledger]",
        entries: Callable[[], Iterable[ReportEntry]] = tuple,
        parameters: Callable[[], Iterable[ResolvedParameter]] = tuple,
        warnings: Callable[[], Iterable[str]] = tuple,
        forecast: Callable[[], CacheForecast | None] = lambda: None,
    ) -> None:
        self._ledger, self._entries, self._parameters = ledger, entries, parameters
        self._warnings, self._forecast = warnings, forecast

    def __repr__(self) -> str:
        return f"Report({len(self.entries):,} entries, {len(self.warnings)} warnings)"

    @cached_property
    def entries(self) -> tuple[ReportEntry, ...]:
        """One for each piece, and for each thing that was done to it."""
        return tuple(self._entries())

    @cached_property
    def ledger(self) -> "Ledger":
        """Who uses how many tokens of the window."""
        return self._ledger()

    @cached_property
    def parameters(self) -> tuple[ResolvedParameter, ...]:
        """The options that have a value, with their layers."""
        return tuple(self._parameters())

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What the application should know, as sentences; each only once."""
        return tuple(dict.fromkeys((*self._warnings(), *cut_warnings(self.entries))))

    @cached_property
    def forecast(self) -> CacheForecast | None:
        """What the provider will read from its cache, write to it, and charge; `None`: not known."""
        return self._forecast()

    @property
    def changed(self) -> bool:
        """Whether anything of the history was changed or left out."""
        return any(e.kind == "message" and e.decision != "kept" for e in self.entries)

    def of(self, *decisions: Decision) -> tuple[ReportEntry, ...]:
        """Return the entries with one of these decisions."""
        return tuple(entry for entry in self.entries if entry.decision in decisions)

    def to_json(self) -> dict[str, Json]:
        """Return the report as plain JSON."""
        names = ("entries", "ledger", "parameters", "warnings", "forecast")
        return {name: _plain(getattr(self, name)) for name in names} | {"changed": self.changed}


def _plain(value: Any) -> Json:
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if hasattr(value, "items"):
        return {str(key): _plain(held) for key, held in value.items()}
    if hasattr(value, "__iter__") and not isinstance(value, str):
        return [_plain(held) for held in value]
    return value if isinstance(value, str | int | float | None) else str(value)


# ---- entries of pieces ----


def find_bearers(entries: Iterable[ReportEntry]) -> dict[tuple[PieceKind, str], int]:
    """Return for each piece which of its entries says what it is in the end, by index.

    Two sources may offer tools of one name: then one of them is offered, and the others are not.
    """
    best_first = sorted(enumerate(entries), key=lambda pair: pair[1].decision not in OFFERED)
    return {(entry.kind, entry.id): at for at, entry in reversed(best_first)}


def overlay(entries: Iterable[ReportEntry], changes: Iterable[ReportEntry]) -> list[ReportEntry]:
    """Return the entries; those of pieces that were changed later in their changed form.

    Of several entries of one piece the one that is offered changes. A piece that is not offered has
    its own reason for that, whatever was done to the definition that has to stay. What is offered
    has both reasons, and stays repaired if the change leaves it as it is; what was shortened before
    keeps the size that it had before that.
    """
    changed = {(entry.kind, entry.id): entry for entry in changes}
    known = list(entries)
    for piece, at in find_bearers(known).items():
        entry, change = known[at], changed.pop(piece, None)
        if change is None or (
            change.decision == "repaired" and entry.decision in ("dropped", "blocked")
        ):
            continue
        if entry.decision in OFFERED:
            is_repaired = entry.decision == "repaired" and change.decision == "kept"
            was_cut = entry.decision == "shortened"
            change = change._replace(
                decision="repaired" if is_repaired else change.decision,
                tokens_before=entry.tokens_before if was_cut else change.tokens_before,
                reason=_both(entry.reason, change.reason),
            )
        known[at] = change
    return [*known, *changed.values()]


def _both(reason: str, later: str) -> str:
    """Return two reasons in a row, or one of them if it says what the other says as well."""
    if later in reason:
        return reason
    if not reason or reason in later:
        return later
    return f"{reason.removesuffix('.')}. {later}"


def size_pieces(entries: Sequence[ReportEntry], ledger: "Ledger") -> Iterator[ReportEntry]:
    """Yield the entries of pieces with their tokens in the ledger, so that both add up.

    Skills share what the ledger has for their section. Of a tool's entries one bears what its
    definition takes, even if the tool is withdrawn and the definition has to stay.
    """
    from context_assembler.context import divide_tokens

    tokens_by_piece = {(row.kind, row.name): row.tokens for row in ledger.rows}
    listed = [entry for entry in entries if entry.kind == "skill" and entry.tokens_after]
    weights = [entry.tokens_after for entry in listed]
    whole = tokens_by_piece.get(("system", "skills"), 0)
    shares = iter(divide_tokens(whole, weights) if listed else ())
    bearers = find_bearers(entries)
    for at, entry in enumerate(entries):
        tokens = 0
        if entry.kind == "tool" and bearers[entry.kind, entry.id] == at:
            tokens = tokens_by_piece.get(("tools", entry.id), 0)
        elif entry.kind == "skill" and entry.tokens_after:
            tokens = next(shares)
        elif entry.kind == "section" and entry.decision in OFFERED:
            tokens = tokens_by_piece.get(("system", entry.id), 0)
        keeps_size = entry.kind == "tool" or entry.decision == "shortened"
        before = max(entry.tokens_before if keeps_size else 0, tokens)
        is_sized = tokens or entry.kind == "tool"
        yield entry._replace(tokens_before=before, tokens_after=tokens) if is_sized else entry


def file_entries(
    files: Iterable[Any], *, count_text: Callable[[str], int]
) -> Iterator[ReportEntry]:
    """Yield an entry for each instruction file that was considered (`prompt.BootstrapFile`)."""
    for file in files:
        tokens = count_text(file.text) if file.text else 0
        is_cut = file.state == "ok" and file.is_shortened
        decision: Decision = "shortened" if is_cut else _FILE_DECISIONS.get(file.state, "dropped")
        # Of one that is sent, whose place it takes.
        reason = "; ".join(file.warnings) or _FILE_REASONS.get(file.state) or file.absence
        rule: Any = "file.shortened" if is_cut else f"file.{file.state}"
        yield ReportEntry("file", file.path, decision, tokens, tokens, reason, rule)


def parameters_of(settled: "Settled") -> list[ResolvedParameter]:
    """Return the options that have a value, with their layers."""
    given = settled.options.given
    layers = settled.layers.items()
    return [ResolvedParameter(name, given[name], layer) for name, layer in layers if name in given]


# ---- entries of messages ----


def message_entries(
    messages: Iterable[tuple[str, int, int | None]],
    *,
    repairs: Iterable[ReportEntry] = (),
    cuts: Iterable[ReportEntry] = (),
) -> list[ReportEntry]:
    """Return an entry for each message, and for each thing that was done to it.

    What repair left out is in no message: it comes first, so that nobody overlooks it.

    Args:
        messages: Id, tokens and tokens that are sent (`None`: it is not sent) of each message of the
            repaired history, oldest first.
        repairs: What repair, masks, caps and the provider did to messages.
        cuts: What was shortened or dropped to fit, with its tokens.
    """
    changes = defaultdict[str, list[ReportEntry]](list)
    for entry in (*repairs, *cuts):
        changes[entry.id].append(entry)
    entries: list[ReportEntry] = []
    for name, tokens, left in messages:
        rows = changes.pop(name, []) if name else []
        if any(row.tokens_before for row in rows):
            *others, bearer = sorted(rows, key=lambda row: row.tokens_before > 0)
            most = max(row.tokens_before for row in rows)
            entries += [row._replace(tokens_before=0, tokens_after=0) for row in others]
            entries.append(bearer._replace(tokens_before=most, tokens_after=left or 0))
        elif left is None:
            entries += rows
        else:
            # What is kept has what else there is to say of it: what a summary covers.
            kept = next((row for row in rows if row.decision == "kept"), None)
            kept = kept or ReportEntry("message", name, "kept")
            entries += [row for row in rows if row.decision != "kept"]
            entries.append(kept._replace(tokens_before=tokens, tokens_after=left))
    unplaced = [row._replace(tokens_after=0) for rows in changes.values() for row in rows]
    return [*unplaced, *entries]


# ---- warnings ----


def loss_warnings(entries: Iterable[ReportEntry]) -> Iterator[str]:
    """Yield a warning for what a provider does not take; one for all pieces of one reason.

    What is sent in other words is no loss, and is in the report alone.
    """
    names = defaultdict[str, list[str]](list)
    lost = Counter[str]()
    for entry in entries:
        if entry.kind != "message" and entry.rule.startswith(("tool.", "parameter.")):
            names[entry.reason].append(entry.id)
        elif entry.kind == "message" and entry.decision in ("dropped", "shortened"):
            lost[entry.reason] += entry.rule.startswith(_LOSSES)
    for reason, of_reason in names.items():
        yield f"{_listed(of_reason)}: {reason}"
    for reason, number in lost.items():
        if number:
            yield reason if number == 1 else f"{reason} (in {number} messages)"


def cut_warnings(entries: Iterable[ReportEntry]) -> Iterator[str]:
    """Yield a warning for each section, and each kind of message, that nobody expects to be cut."""
    by_reason = defaultdict[str, list[str]](list)
    for entry in entries:
        before, after = f"{entry.tokens_before:,}", f"{entry.tokens_after:,} tokens"
        if entry.rule in _CUT_SECTIONS:
            happened = f"was shortened from {before} to {after}"
            if entry.decision == "dropped":
                happened = f"was left out ({before} tokens)"
            yield (
                f"The section {entry.id!r} of the system prompt {happened}: it had no room. "
                f"{_RAISE}, or {_REQUIRE}."
            )
        elif entry.rule == _CUT_MESSAGES:
            by_reason[entry.reason].append(f"message {entry.id!r} ({before} → {after})")
    for reason, messages in by_reason.items():
        said = _listed(messages)
        yield f"{said[:1].upper()}{said[1:]}: {reason} {_RAISE}."


def _listed(names: Sequence[str]) -> str:
    """Return the first names and how many there are besides; the report has them all."""
    said, left = ", ".join(names[:_MOST_NAMES]), len(names) - _MOST_NAMES
    return f"{said} and {left:,} more" if left > 0 else said
