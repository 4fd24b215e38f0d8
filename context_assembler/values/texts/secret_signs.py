"""What a secret cannot be without, so that most texts are known in microseconds to hold none.

Each sign stands in every match of its patterns, in the case-folded text; tests draw secrets from
every pattern that there is, and compare what is found with and without a look at the signs.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from string import ascii_letters, digits
from typing import Final

from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.secret_settings import SETTING_KIND, may_give_secret

SIGNS_BY_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    "AWS Access Key": ("akia", "asia", "abia", "acca", "a3t", "aws"),
    "Anthropic API Key": ("sk-ant-",),
    "Azure Storage Account access key": ("accountkey=",),
    "Basic Auth Credentials": ("://",),
    "Bearer Token": ("bearer",),
    "GitHub Token": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    "GitLab Token": (
        *("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "gr1348941", "glcbt-"),
        *("glimt-", "glptt-", "glagent-", "gloas-"),
    ),
    "Google API Key": ("aiza",),
    "Hugging Face Token": ("hf_",),
    "JSON Web Token": ("eyj",),
    "Mailchimp Access Key": ("-us",),
    "NPM Token": ("npm_", "_authtoken="),
    "OpenAI API Key": ("sk-",),
    "Private Key": ("-----begin ",),
    "PyPI Token": ("pypi-ag",),
    SETTING_KIND: ("key", "token", "secret", "passw"),
    "SendGrid API Key": ("sg.",),
    "Slack Token": ("xox", "hooks.slack.com"),
    "Square OAuth Secret": ("sq0csp-",),
    "Stripe Access Key": ("k_live_",),
}
_DISCORD: Final = "Discord Bot Token"
SHAPES_BY_KIND: Final[Mapping[str, bytes]] = {
    _DISCORD: b"x" * 24 + b"." + b"x" * 6 + b"." + b"x" * 27,
    "Telegram Bot Token": b":" + b"x" * 35,
    "Twilio API Key": b"x" * 34,
}
"""Kinds without a sign: an `x` stands for a letter, a digit, a line or a dash; of digits those of
any script count for a pattern, so that for Discord's a character beyond ASCII may be one.

A kind that is in neither table is looked for in every text.
"""

# What is in neither of the first two is in a run of twenty, or given to a name.
_RUN: Final = b"x" * 20
_SIGNS_WITHOUT_RUN: Final = ("bearer", "eyj", "aiza")
# The character is found much faster than the rest.
_SIGNS_BY_CHAR: Final = (
    ("-", ("sk-ant-", "sk-proj-", "sk-svcacct-", "sk-admin-", "xox", "-----begin ", "-----end ")),
    ("_", ("github_pat_",)),
    ("/", ("hooks.slack.com",)),
    ("\\", ("sq0csp-",)),
    ('"', ("aws",)),
    ("'", ("aws",)),
)
_SIGNS_IN_RUN: Final = tuple(
    sign
    for kind in sorted(
        SIGNS_BY_KIND.keys() - {"Basic Auth Credentials", SETTING_KIND, "Private Key"}
    )
    for sign in SIGNS_BY_KIND[kind]
    if sign not in {"aws", "_authtoken=", "hooks.slack.com", *_SIGNS_WITHOUT_RUN}
)
_KIND_BY_SIGN: Final = tuple((s, kind) for kind, signs in SIGNS_BY_KIND.items() for s in signs)
KINDS_WITH_SIGN: Final = frozenset({*SIGNS_BY_KIND, *SHAPES_BY_KIND})
_LOGIN: Final = re.compile(r"://[^/\s@]+@")  # in a URL
_IN_RUN: Final = frozenset(f"{ascii_letters}{digits}_-".encode())
_SHAPE: Final = bytes(
    ord("x") if code in _IN_RUN else code if code in b".:" else ord(" ") for code in range(256)
)
_WIDE_SHAPE: Final = _SHAPE[: ord("?")] + b"x" + _SHAPE[ord("?") + 1 :]
# Of these the patterns are known; with any other version every text is looked at.
_KNOWN_VERSIONS: Final = frozenset({"1.5.0"})


def may_hold_secret(text: str) -> bool:
    """Whether it is worth looking for secrets, which takes several times as long as this."""
    text = clean_text(text)
    folded = text.casefold()
    if _holds_any(folded, _SIGNS_WITHOUT_RUN) or may_give_secret(folded):
        return True
    for char, signs in _SIGNS_BY_CHAR:
        if char in text and _holds_any(folded, signs):
            return True
    if "://" in text and _LOGIN.search(text) is not None:
        return True
    return _may_hold_token(text, folded) or not patterns_are_known()


def kinds_to_seek(text: str, folded: str) -> frozenset[str]:
    """Return the kinds in the tables that a text may hold.

    Args:
        folded: The text, case-folded.
    """
    if not patterns_are_known():
        return KINDS_WITH_SIGN
    kinds = [kind for sign, kind in _KIND_BY_SIGN if sign in folded]
    return frozenset((*kinds, *_kinds_of_shape(text)))


@cache
def patterns_are_known() -> bool:
    """Whether the signs were made for the detect-secrets that is installed."""
    metadata = import_module("importlib.metadata")  # slow to import, and not often needed
    try:
        return metadata.version("detect-secrets") in _KNOWN_VERSIONS
    except metadata.PackageNotFoundError:
        return True  # nothing is found without it, and who looks for secrets is told


def _may_hold_token(text: str, folded: str) -> bool:
    # A third of the time that a pattern takes.
    has_run = _RUN in text.encode("ascii", "replace").translate(_SHAPE)
    if has_run and _holds_any(folded, _SIGNS_IN_RUN):
        return True
    return (has_run or not text.isascii()) and bool(_kinds_of_shape(text))


def _kinds_of_shape(text: str) -> list[str]:
    encoded = text.encode("ascii", "replace")  # a question mark for all that is not ASCII
    shape, wide = encoded.translate(_SHAPE), encoded.translate(_WIDE_SHAPE)
    return [
        kind
        for kind, wanted in SHAPES_BY_KIND.items()
        if wanted in (wide if kind == _DISCORD else shape)
    ]


def _holds_any(folded: str, signs: Iterable[str]) -> bool:
    for sign in signs:  # noqa: SIM110 – any() takes three times as long
        if sign in folded:
            return True
    return False
