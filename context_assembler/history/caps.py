"""An oversized entry is shortened when it is first sent, as a function of itself alone.

What a call returned, or a user pasted, is cut to its cap whatever else is sent, and an image is scaled
to its own, so that no later call has to change it. The whole of it stays in the store.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from context_assembler.errors import MissingExtraError
from context_assembler.events import KIND_MASK, PINNED, TOOL_RESULT, UNUSUAL, USER, JsonObject
from context_assembler.options import TruncationSettings
from context_assembler.report import Decision, Rule
from context_assembler.texts import shorten_text

_ToolOf: TypeAlias = Callable[[str], str]
_SHORTENED: Final = "Longer than what one entry may take; the whole text stays in the session."


class Caps:
    """What one assembler changes of an event before it is first sent: secrets, forged tags, caps.

    Args:
        count_text: Measures texts.
        masks: Where secrets are masked.
    """

    def __init__(
        self,
        settings: TruncationSettings,
        count_text: Callable[[str], int],
        masks: Sequence[str] = (),
    ) -> None:
        self._settings, self._count, self._masks = settings, count_text, masks
        by_tool = settings.max_result_tokens_by_tool.values()
        caps = [settings.max_result_tokens, settings.max_user_tokens, *by_tool]
        self._least = min([cap for cap in caps if cap is not None], default=None)
        if settings.max_image_side_px is not None:
            self._least = 0  # a picture of any size may have a side that is too long

    def candidates(self, kinds: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """Return the places of the events that may have to be changed."""
        least, places = self._least, set[int]()
        if least is not None and max(tokens, default=0) > least:
            places.update(
                place
                for place, (kind, size) in enumerate(zip(kinds, tokens, strict=True))
                if size > least and kind & (KIND_MASK | PINNED) in (USER, TOOL_RESULT)
            )
        if self._masks:
            from context_assembler.history.secrets import may_mask

            places.update(at for at, kind in enumerate(kinds) if may_mask(kind, self._masks))
        return sorted(places)

    def fit(
        self, kind: int, parts: Sequence[JsonObject], *, tool_of: _ToolOf, handle: str = ""
    ) -> tuple[Sequence[JsonObject], list[tuple[Decision, Rule, str]]]:
        """Return the parts that are sent, the same object if nothing is changed, and what was done.

        Args:
            tool_of: Returns the tool that a call, by its id, is for.
            handle: How the whole event is read, as a marker says it.

        Raises:
            MissingExtraError: An image is over its cap, and Pillow is not installed.
        """
        done: list[tuple[Decision, Rule, str]] = []
        if self._masks:
            from context_assembler.history.secrets import masked_parts

            parts, masked = masked_parts(kind, parts, self._masks)
            if masked:
                done.append(("repaired", "secrets.masked", masked))
        if kind & UNUSUAL and kind & KIND_MASK in (USER, TOOL_RESULT):
            from context_assembler.history.secrets import escaped_parts

            parts, escaped = escaped_parts(parts)
            if escaped:
                done.append(("repaired", "text.tag", escaped))
        told: list[str] = []
        fitted = [self._fit(kind, part, tool_of, handle, told) for part in parts]
        if told:
            done.append(("shortened", "entry.cap", " ".join(dict.fromkeys(told))))
        return fitted if told else parts, done

    def _fit(
        self, kind: int, part: JsonObject, tool_of: _ToolOf, handle: str, told: list[str]
    ) -> JsonObject:
        if part["type"] == "tool_result":
            tool = part.get("tool_name") or tool_of(part["call_id"])
            content = self._shorten(part.get("content", ()), self._cap_of(tool), handle, told)
            return {**part, "content": [self._scaled(inner, told) for inner in content]}
        if kind & KIND_MASK == USER:
            [part] = self._shorten([part], self._settings.max_user_tokens, handle, told)
        return self._scaled(part, told)

    def _cap_of(self, tool: str) -> int | None:
        from fnmatch import fnmatchcase

        by_tool = self._settings.max_result_tokens_by_tool.items()
        own = (cap for name, cap in by_tool if fnmatchcase(tool, name))
        return next(own, self._settings.max_result_tokens)

    def _shorten(
        self, content: Sequence[JsonObject], cap_tokens: int | None, handle: str, told: list[str]
    ) -> Sequence[JsonObject]:
        """Return content with its texts cut to one cap together: the first ones are kept longest.

        Images and documents stay, and so does signed text.
        """
        if cap_tokens is None:
            return content
        left, kept = cap_tokens, list[JsonObject]()
        for part in content:
            if part["type"] != "text" or part.get("signature") is not None:
                kept.append(part)
                continue
            most: Any = {"max_tokens": max(left, 0), "count_text": self._count}
            text = shorten_text(part["text"], handle=handle, **most)
            left -= self._count(text)
            told += [_SHORTENED] if text != part["text"] else []
            kept.append({**part, "text": text})
        return kept

    def _scaled(self, part: JsonObject, told: list[str]) -> JsonObject:
        """Return an image with no side longer than its cap; as it is if it cannot be read."""
        side_px = self._settings.max_image_side_px
        if side_px is None or part["type"] != "image":
            return part
        from context_assembler.providers.media import WITHOUT_PILLOW, MediaRules, fit_image

        fitted = fit_image(part, MediaRules("", "", fit_side_px=side_px))
        if fitted == WITHOUT_PILLOW:
            raise MissingExtraError(f"Scaling images to {side_px:,} pixels", extra="images")
        if fitted is None or isinstance(fitted, str) or fitted[1] != "image.scaled":
            return part
        told.append(fitted[2])
        return fitted[0]
