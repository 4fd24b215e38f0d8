"""What OpenAI's API takes of images and documents, in both of its protocols."""

from dataclasses import replace
from typing import Final

from context_assembler.values.media.media_rules import MediaRules

MAX_IMAGES: Final = 500
"""Of one request; some versions of the API take more."""

MAX_IMAGE_CHARS: Final = 20_971_520
MAX_FILE_CHARS: Final = 73_400_320
"""Of one URL with bytes in it: what is sent keeps below, since the URL's head counts."""

_SENT_IMAGE_CHARS: Final = 20_900_000
_SENT_FILE_CHARS: Final = 73_000_000
_FIT_IMAGE_CHARS: Final = 10 * 1024 * 1024

TAKEN_BY_ALL: Final = MediaRules(
    api="OpenAI's API",
    file_owner="openai",
    image_types=("image/jpeg", "image/png", "image/gif", "image/webp"),
    image_words="JPEG, PNG, GIF and WebP",
    takes_animations=False,
)
"""What the servers that imitate it are known to take: of their limits nothing is known."""


def with_own_limits(rules: MediaRules) -> MediaRules:
    """Return the rules with the limits of OpenAI's own API.

    Of the published limits on the images of one request the lower ones. No side is too long, the
    server scales by itself; but an image of more bytes than any picture that it looks at needs is
    scaled, so that a few of them do not fill a request.

    Source:
        https://developers.openai.com/api/docs/guides/images-vision
        https://developers.openai.com/api/docs/guides/file-inputs
        https://github.com/openai/openai-openapi, InputImageContent, InputFileContent
        (read 2026-11-27)
    """
    return replace(
        rules,
        max_image_chars=_SENT_IMAGE_CHARS,
        fit_image_chars=_FIT_IMAGE_CHARS,
        max_document_chars=_SENT_FILE_CHARS,
        max_images=MAX_IMAGES,
        max_media_chars=_SENT_FILE_CHARS,
    )
