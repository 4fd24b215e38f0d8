"""What the generations of Gemini models, and the two hosts of them, differ in."""

import re
from typing import Final

from context_assembler.values.limits import ModelLimits

_ID: Final = re.compile(r"gemini-(\d+)(?:\.(\d+))?")

SIGNED: Final = (3, 0)
"""From here on calls must be signed, thinking has levels, and functions may return media.

Source:
    https://ai.google.dev/gemini-api/docs/thought-signatures
    https://ai.google.dev/gemini-api/docs/thinking
    https://ai.google.dev/gemini-api/docs/function-calling (read 2026-11-27)
"""

_KNOWS_SIGNATURES: Final = (2, 5)


def generation_of(model: str) -> tuple[int, int] | None:
    """Return a model's generation, `(2, 5)` for `gemini-2.5-flash`; `None` where the id tells none."""
    found = _ID.search(model)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def takes_media_in_responses(model: str) -> bool:
    """Whether functions may return images and documents, as far as the id tells."""
    generation = generation_of(model)
    return generation is None or generation >= SIGNED


def takes_signatures(model: str) -> bool:
    """Whether calls may carry signatures, as far as the id tells.

    They are asked for from the generation after on; but requests for retired models are served by
    newer ones, and the generation that came first takes them.

    Source:
        https://ai.google.dev/gemini-api/docs/thought-signatures
        https://ai.google.dev/gemini-api/docs/deprecations (read 2026-11-27)
    """
    generation = generation_of(model)
    return generation is None or generation >= _KNOWS_SIGNATURES


def is_on_vertex(limits: ModelLimits | None) -> bool:
    """Whether the model is known to be asked through Vertex AI, whose rules differ."""
    return limits is not None and limits.host == "vertex_ai"
