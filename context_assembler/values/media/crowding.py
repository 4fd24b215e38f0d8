"""Which images and documents make way where they are too many, or too large together."""

from collections.abc import Sequence
from typing import Final

from context_assembler.values.media.image_sizes import measure_base64
from context_assembler.values.media.media_rules import MediaRules, Objection
from context_assembler.values.parts import Base64Source, Document, Image

# What is left out for its number goes in steps of this share of the limit: so the payloads of the
# next calls begin as this one does, and are found in the provider's cache.
_STEPS: Final = 4


def find_surplus(media: Sequence[Image | Document], *, rules: MediaRules) -> dict[int, Objection]:
    """Return the places of those that have to make way, oldest first, and why."""
    images = [index for index, part in enumerate(media) if isinstance(part, Image)]
    surplus: dict[int, Objection] = {}
    number = count_oldest([1] * len(images), most=rules.max_images)
    reason = f"at most {rules.max_images} images are taken, the oldest make way"
    surplus |= dict.fromkeys(images[:number], Objection(rule="media.count", reason=reason))
    number = count_oldest(list(map(_chars_of, media)), most=rules.max_media_chars)
    reason = "a request takes no more bytes, the oldest make way"
    surplus |= dict.fromkeys(range(number), Objection(rule="media.bytes", reason=reason))
    images = [index for index in images if index not in surplus]
    number = _count_crowd([media[index] for index in images], rules=rules)
    reason = (
        f"of more than {rules.crowd_images} images none may have a side over "
        f"{rules.crowd_side_px} pixels, the oldest make way"
    )
    return surplus | dict.fromkeys(images[:number], Objection(rule="media.crowd", reason=reason))


def _count_crowd(images: Sequence[Image | Document], *, rules: MediaRules) -> int:
    """Return how many of the oldest go, until they are no crowd or all of them are small."""
    if rules.crowd_images is None or len(images) <= rules.crowd_images:
        return 0
    large = [index for index, image in enumerate(images) if _side_of(image) > _crowd_side(rules)]
    if not large:
        return 0
    return min(large[-1] + 1, count_oldest([1] * len(images), most=rules.crowd_images))


def _crowd_side(rules: MediaRules) -> int:
    assert rules.crowd_side_px is not None
    return rules.crowd_side_px


def _side_of(part: Image | Document) -> int:
    source = part.source
    size = measure_base64(source.data) if isinstance(source, Base64Source) else None
    return max(size) if size is not None else 0


def _chars_of(part: Image | Document) -> int:
    return len(part.source.data) if isinstance(part.source, Base64Source) else 0


def count_oldest(weights: Sequence[int], *, most: int | None) -> int:
    """Return how many of the oldest go, so that the rest weigh at most so much.

    In steps of a part of what is allowed: as long as one more step suffices, the same ones go.
    """
    excess = 0 if most is None else sum(weights) - most
    if most is None or excess <= 0:
        return 0
    step = max(1, most // _STEPS)
    target = -(-excess // step) * step
    total = 0
    for number, weight in enumerate(weights):
        if total >= target:
            return number
        total += weight
    return len(weights)
