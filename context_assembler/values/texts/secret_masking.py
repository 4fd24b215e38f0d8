"""Secrets in texts: found by the patterns of detect-secrets and a few of our own, and masked."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from context_assembler.errors import MissingExtraError
from context_assembler.values.texts.cleaning import clean_text
from context_assembler.values.texts.key_ends import find_key_ends
from context_assembler.values.texts.secret_settings import SETTING_KIND, find_given_secrets
from context_assembler.values.texts.secret_signs import KINDS_WITH_SIGN, kinds_to_seek

# The detectors of detect-secrets whose patterns take linear time on any text and hardly ever match
# anything else. Those left out guess (entropy, public addresses), or backtrack.
_DETECTORS: Final = (
    "AWS Access Key",
    "Azure Storage Account access key",
    "Basic Auth Credentials",
    "Discord Bot Token",
    "GitHub Token",
    "GitLab Token",
    "Mailchimp Access Key",
    "PyPI Token",
    "SendGrid API Key",
    "Slack Token",
    "Square OAuth Secret",
    "Stripe Access Key",
    "Telegram Bot Token",
    "Twilio API Key",
)
_LINE: Final = "[masked: "
MOST_PASSES: Final = 4
"""How often a text is searched: one secret may have hidden where the next one begins."""

PRIVATE_KEY: Final = "Private Key"

# Their groups hold a kind of token, not the secret.
_WHOLE_MATCHES: Final = frozenset({"GitHub Token", "GitLab Token"})

# What detect-secrets 1.5 does not know, or finds only a part of. The last group is the secret.
_OWN_PATTERNS: Final[tuple[tuple[str, str], ...]] = (
    (
        PRIVATE_KEY,
        r"""(?x) -----BEGIN[ ](?:[A-Z0-9]+[ ]){0,4}PRIVATE[ ]KEY(?:[ ]BLOCK)?-----
        [^-]{0,20000} (?:-----END[ ][A-Z0-9 ]{0,40}-----)?""",
    ),
    ("Anthropic API Key", r"\bsk-ant-[\w-]{16,}"),
    ("OpenAI API Key", r"\bsk-(?:proj|svcacct|admin)-[\w-]{20,}"),
    ("OpenAI API Key", r"\bsk-[A-Za-z0-9]{32,}"),
    ("Google API Key", r"\bAIza[\w-]{35}"),
    ("Hugging Face Token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("GitHub Token", r"\bgithub_pat_\w{22,}"),
    ("NPM Token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("NPM Token", r":_authToken=\s{0,4}([^\s$]\S{7,})"),
    ("JSON Web Token", r"(?<![\w-])eyJ[\w-]+\.[\w-]+\.[\w.+/=-]*"),
    ("Bearer Token", r"\b[Bb]earer\s{1,4}([\w.~+/-]{20,}=*)"),
    (
        "Bearer Token",
        r"""(?xi) \bauthorization ["']? [ \t]{0,4} [:=] [ \t]{0,4} ["']? bearer [ \t]{1,4}
        (?=[a-z.~+/_-]{0,64}\d) ([\w.~+/-]{8,}=*)""",
    ),
    (  # name = "value" and "name": "value" in code and data
        SETTING_KIND,
        r"""(?x) (?:[kK](?:ey|EY) | [tT](?:oken|OKEN) | [sS](?:ecret|ECRET)
        | [pP](?:assword|ASSWORD|asswd|ASSWD))
        ["']? [ \t]{0,4} [=:] [ \t]{0,4} ["'] ([^\s"'$<{%\[(*][^\s"']{7,}) ["']""",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Where a text holds a secret (`start` included, `end` excluded), and of what kind."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedText:
    """A text without its secrets, and the kinds of those that were there, in order."""

    text: str
    kinds: tuple[str, ...] = ()

    @property
    def notice(self) -> str:
        """What was masked, in words; empty when nothing was."""
        if not self.kinds:
            return ""
        number = len(self.kinds)
        what = "a secret was" if number == 1 else f"{number} secrets were"
        return f"{what} masked ({', '.join(dict.fromkeys(self.kinds))})"


def find_secrets(text: str) -> list[Secret]:
    """Return the secrets of a text that are not masked yet, in order, without overlaps.

    Raises:
        MissingExtraError: detect-secrets is not installed.
    """
    open_ones = (secret for secret in _matches(text) if not text.startswith(_LINE, secret.start))
    found = sorted(open_ones, key=lambda secret: (secret.start, -secret.end))
    apart: list[Secret] = []
    for secret in found:
        if apart and secret.start < apart[-1].end:
            first = apart.pop()
            end = max(first.end, secret.end)
            apart.append(Secret(kind=first.kind, start=first.start, end=end))
        else:
            apart.append(secret)
    return apart


def mask_secrets(text: str) -> MaskedText:
    """Return the text with a line of its kind in place of every secret; twice is as once.

    What cleaning takes away hides nothing: a text with secrets is returned clean.

    Raises:
        MissingExtraError: detect-secrets is not installed.
    """
    told, kinds = clean_text(text), list[str]()
    for _ in range(MOST_PASSES):
        secrets = find_secrets(told)
        if not secrets:
            break
        told = put_lines(told, secrets)
        kinds += (secret.kind for secret in secrets)
    return MaskedText(text=told if kinds else text, kinds=tuple(kinds))


def put_lines(text: str, secrets: Iterable[Secret]) -> str:
    """Return the text with a line in place of each of these secrets, which stand in order."""
    pieces: list[str] = []
    done = 0
    for secret in secrets:
        pieces += (text[done : secret.start], f"{_LINE}{secret.kind}]")
        done = secret.end
    return "".join((*pieces, text[done:]))


def _matches(text: str) -> Iterator[Secret]:
    patterns, folded = _patterns(), text.casefold()
    sought = kinds_to_seek(text, folded)
    for kind, pattern in patterns:
        if kind in KINDS_WITH_SIGN and kind not in sought:
            continue
        for match in pattern.finditer(text):
            group = 0 if kind in _WHOLE_MATCHES else match.lastindex or 0
            start, end = match.span(group)
            yield Secret(kind=kind, start=start, end=end)
    for kind, start, end in find_given_secrets(text, folded):
        yield Secret(kind=kind, start=start, end=end)
    for start, end in find_key_ends(text):
        yield Secret(kind=PRIVATE_KEY, start=start, end=end)


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    own = ((kind, re.compile(pattern)) for kind, pattern in _OWN_PATTERNS)
    return (*_library_patterns(), *own)


def _library_patterns() -> Iterable[tuple[str, re.Pattern[str]]]:
    try:
        from detect_secrets.core.plugins.util import (  # noqa: PLC0415 - an extra
            get_mapping_from_secret_type_to_class,
        )
    except ImportError as error:
        raise MissingExtraError("Masking secrets", extra="secrets") from error
    classes: Mapping[str, Any] = get_mapping_from_secret_type_to_class()
    return [(kind, pattern) for kind in _DETECTORS for pattern in classes[kind]().denylist]
