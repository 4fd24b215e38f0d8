"""Messages without secrets, one behind the other."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from context_assembler.stages.mask_secrets.told_texts import change_fields, change_text
from context_assembler.values.messages import Message
from context_assembler.values.options import MaskedPlace
from context_assembler.values.parts import Opaque, Part
from context_assembler.values.report import ReportEntry
from context_assembler.values.texts.secret_masking import MaskedText

if TYPE_CHECKING:
    from context_assembler.values.texts.secrets_across import MaskedTexts

MaskTexts: TypeAlias = Callable[[Sequence[str], bool], tuple["MaskedTexts | None", bool]]
"""Returns masked texts, `None` where nothing is to be masked, and whether a key is left open."""

# Blocks of what a model said itself, which is not masked.
_SAID: Final = frozenset({"message", "refusal", "text", None})


@dataclass(slots=True, kw_only=True)
class MessageMasker:
    """Masks one message after the other.

    Attributes:
        is_open: Whether a private key in the last one may go on in the next.
        rows: One for each that held a secret.
    """

    places: Collection[MaskedPlace]
    mask_texts: MaskTexts
    is_open: bool = False
    rows: list[ReportEntry] = field(default_factory=list[ReportEntry])

    def mask(self, message: Message) -> Message:
        """Return the message without secrets; the same object where there are none to mask."""
        is_open, self.is_open = self.is_open, False
        kinds: list[str] = []
        parts = self._masked(message, kinds, is_open=is_open)
        if not kinds:
            return message
        self.rows.append(_row(message, kinds))
        return replace(message, parts=parts)

    def _masked(self, message: Message, kinds: list[str], *, is_open: bool) -> tuple[Part, ...]:
        match message.role, message.kind:
            case "user", "said" if "user" in self.places:
                parts, self.is_open = self._mask_in_a_row(message.parts, kinds, is_open=is_open)
                return self._mask_fields(parts, kinds)
            case "tool", "said" | "synthetic" if "tool_results" in self.places:
                return self._mask_fields(self._mask_results(message.parts, kinds), kinds)
            case "assistant", _ if "tool_results" in self.places:
                return tuple(self._mask_told(part, kinds) for part in message.parts)
            case _, "summary":  # of what users wrote and tools returned
                return self._mask_in_a_row(message.parts, kinds, keeps_blocks=True)[0]
            case _:
                return message.parts

    def _mask_results(self, results: Sequence[Part], kinds: list[str]) -> tuple[Part, ...]:
        """Return the results of one set of calls; a file may have been read in several of them."""
        masked: list[Part] = []
        is_open = False
        for result in results:
            told, is_open = self._mask_in_a_row([result], kinds, is_open=is_open)
            masked += told
        return tuple(masked)

    def _mask_in_a_row(
        self,
        parts: Sequence[Part],
        kinds: list[str],
        *,
        is_open: bool = False,
        keeps_blocks: bool = False,
    ) -> tuple[tuple[Part, ...], bool]:
        """Return the parts with what is masked in their texts, read in a row, laid back into each."""
        texts: list[str] = []

        def read(text: str) -> str:
            texts.append(text)
            return text

        for part in parts:
            change_text(part, read)
        masked, leaves_open = self.mask_texts(texts, is_open)
        if masked is None:
            return tuple(parts), leaves_open
        kinds += masked.kinds
        told = iter(masked.texts)
        changed = (
            change_text(part, lambda _: next(told), keeps_blocks=keeps_blocks) for part in parts
        )
        return tuple(changed), leaves_open

    def _mask_fields(self, parts: Sequence[Part], kinds: list[str]) -> tuple[Part, ...]:
        def mask(text: str) -> str:
            masked, _ = self.mask_texts([text], False)
            if masked is None:
                return text
            kinds.extend(masked.kinds)
            return masked.texts[0]

        return tuple(change_fields(part, mask) for part in parts)

    def _mask_told(self, part: Part, kinds: list[str]) -> Part:
        """Return the part of a reply; what the model's server returned has another text elsewhere.

        To where it came from it goes back as it is, since it is part of what the model said.
        """
        if not isinstance(part, Opaque) or part.block.get("type") in _SAID:
            return part
        return self._mask_in_a_row([part], kinds, keeps_blocks=True)[0][0]


def _row(message: Message, kinds: Sequence[str]) -> ReportEntry:
    notice = MaskedText(text="", kinds=tuple(kinds)).notice
    if message.role == "assistant":
        notice = f"in what other providers are told of a server's tools {notice}"
    return ReportEntry(
        kind="message",
        id=message.id or message.kind,
        decision="repaired",
        reason=f"{notice[:1].upper()}{notice[1:]}.",
        rule="secrets.masked",
    )
