"""Finds secrets that are given to names without quotes, as in settings, command lines and queries.

What only looks like it – code that passes a variable on, a reference, an empty or a masked value, a
count of tokens, a place in a list of pages – is none.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_MAX_NAME_CHARS: Final = 60
_MAX_LINE_CHARS: Final = 200
_MIN_CHARS: Final = 8
_MIN_PASSWORD_CHARS: Final = 6
_MAX_BACK_CHARS: Final = 500

# The end of a name, how a value is given to it, and the value's beginning: bounded and without going
# back, so that no text takes long. What stands before is looked at where this matches.
_SETTING: Final = re.compile(
    r"""(?ix) (?P<word> passw(?:or)?d | passphrase | (?<=_)pwd | secret | token
    | (?:api|access|secret|private|encryption|signing|account|master|auth)[_-]?key )
    (?P<given> [ \t]{0,4} = [ \t]{0,4} | :[ \t]{1,4} )
    (?P<value> [^\s"'`<>$={%\[(*|&;,)] [^\s"'`<>]{0,500}+ )"""
)
_BACKWARDS: Final = re.compile(r"[\w.-]*+", re.ASCII)
# A path of attributes, or a variable named for what it holds: with digits between its letters it is
# rather what somebody made up, unless it is written in snake case.
_CODE: Final = re.compile(
    r"""(?ix) [a-z_]\w*(?:\.[a-z_]\w*)+
    | (?=\w*(?:passw|secret|token|key|pwd)) (?: [a-z_]+\d{0,2} | [a-z0-9]*_\w* )"""
)
_CALL: Final = re.compile(r"[A-Za-z_][\w.]*[(\[{]")
_REFERENCE: Final = re.compile(r"\$[({A-Z_]|\{\{")
_SNAKE: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_ENDS_IN_CODE: Final = re.compile(r"[;,)|]|&(?:&|\w+[=;])|\\[nrt\"']")
_ENDS_IN_SHELL: Final = re.compile(r";|&\w+=|\\[nrt\"']")
_PLACES: Final = re.compile(
    r"(?:page|next|sync|cursor|continuation|cancellation)[_.-]?$", re.IGNORECASE
)
_COUNTS: Final = re.compile(r"(?:max|min|num|count|limit|per)[_.-]", re.IGNORECASE)
_PATH: Final = re.compile(
    r"(?:~|\.\.?)/|/(?:app|etc|home|mnt|opt|root|run|secrets|srv|tmp|usr|Users|var)/"
)
_WORDS: Final = frozenset(
    {"undefined", "required", "optional", "disabled", "enabled", "default", "string", "prompt"}
)

# One more way of the shell: the option's value behind a space; a Dockerfile's old way as well.
_SPACED: Final = re.compile(
    r"""(?imx) (?:(?<![\w-])--(?:[\w-]{0,40}[_-])? | ^[ \t]{0,8}ENV[ \t]{1,4}(?:\w{0,40}_)?)
    (?:passw(?:or)?d|passphrase|secret|token|(?:api|access|secret|auth)[_-]?key) [ \t]{1,4}
    (?=\S{0,64}\d) ([^\s"'`<>$={%\[(*|&;,)-] [^\s"'`<>]{5,1000}+)"""
)
# Whether it is curl's option shows in what stands before.
_LOGIN: Final = re.compile(
    r"""(?x) (?<=\s)(?:-u|-U|--user|--proxy-user) [ \t=]{0,4} ["']? [^\s:"'`$<{]{1,64} :
    ([^\s"'`$<>{\[][^\s"'`<>]{0,200}+)"""
)
_CURL: Final = re.compile(r"\bcurl\b")
_AUTHORIZATION: Final = re.compile(
    r"""(?x) (?i:authorization) ["']? [ \t]{0,4} [:=] [ \t]{0,4} ["']?
    (?i:basic|token|digest|apikey) [ ]{1,4} (?=[a-z+/_-]{0,64}[A-Z0-9=]) ([\w.~+/-]{6,}+={0,2})"""
)

# What the case-folded text of all that is found holds. Folding makes one letter of s and the long s,
# of k and the Kelvin sign, as ignoring case does, but not of i and those with and without a dot.
_NAMES: Final = ("key", "token", "secret", "pass", "pwd")
_GIVEN: Final = re.compile(
    r"""(?:key|token|secret|passw(?:or)?d|passphrase|pwd)["']?[ \t]{0,4}[=:]"""
)
_AUTHORIZED: Final = re.compile(r"author.{1,2}zat")

SETTING_KIND: Final = "Secret in a setting"
LOGIN_KIND: Final = "Basic Auth Credentials"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """A name, what stands before it in its line, how the value is given (`=`), and the value."""

    name: str
    word: str
    line: str
    given: str
    value: str

    @property
    def is_password(self) -> bool:
        return self.word.lower().startswith(("pass", "pwd"))

    @property
    def is_spaced(self) -> bool:
        return self.given != "="

    @property
    def is_variable(self) -> bool:
        """Whether it is written as variables of the environment are, outside a call's arguments."""
        return self.name.isupper() and not self.is_spaced and not self.line.endswith(("(", ", "))

    @property
    def is_option(self) -> bool:
        """Whether it is an option of a command, or in the query of an address."""
        return not self.is_spaced and (
            self.name.startswith("-") or self.line.endswith(("?", "&", ";"))
        )


def find_given_secrets(text: str, folded: str) -> Iterator[tuple[str, int, int]]:
    """Yield the kind of each secret, where it begins, and where it ends.

    Args:
        folded: The text, case-folded.
    """
    if _has_name(folded):
        if _GIVEN.search(folded) is not None:
            yield from _find_settings(text)
        if _may_hold_option(folded):
            for match in _SPACED.finditer(text):
                yield SETTING_KIND, *match.span(1)
    if _AUTHORIZED.search(folded) is not None:
        for match in _AUTHORIZATION.finditer(text):
            yield LOGIN_KIND, *match.span(1)
    if "curl" in folded:
        yield from _find_logins(text)


def may_give_secret(folded: str) -> bool:
    """Whether a case-folded text is worth a look: where this says no, nothing is found."""
    is_option, is_given = _may_hold_option(folded), "=" in folded or ":" in folded
    if (
        (is_option or is_given)
        and _has_name(folded)
        and (is_option or _GIVEN.search(folded) is not None)
    ):
        return True
    return "curl" in folded or _AUTHORIZED.search(folded) is not None


def _may_hold_option(folded: str) -> bool:
    return "--" in folded or "env" in folded


def _has_name(folded: str) -> bool:
    for name in _NAMES:  # noqa: SIM110 – any() takes three times as long
        if name in folded:
            return True
    return False


def _find_settings(text: str) -> Iterator[tuple[str, int, int]]:
    at = 0
    while (found := _SETTING.search(text, at)) is not None:
        start = found.start("value")
        chars = _secret_chars(_setting_at(found))
        if chars:
            yield SETTING_KIND, start, start + chars
        at = start + chars


def _find_logins(text: str) -> Iterator[tuple[str, int, int]]:
    for match in _LOGIN.finditer(text):
        before = text[max(0, match.start() - _MAX_BACK_CHARS) : match.start()]
        if _CURL.search(before.replace("\\\n", " ").rpartition("\n")[2]):
            yield LOGIN_KIND, *match.span(1)


def _setting_at(found: re.Match[str]) -> _Setting:
    text, end = found.string, found.start("word")
    before = text[max(0, end - _MAX_LINE_CHARS) : end]
    chars = _chars_of_name(before[: -_MAX_NAME_CHARS - 1 : -1])
    line, prefix = before[: len(before) - chars].rpartition("\n")[2], before[len(before) - chars :]
    if line.endswith("\\") and prefix[:1] in {"n", "r", "t"}:  # a line break as JSON spells it
        prefix, line = prefix[1:], ""
    return _Setting(
        name=prefix + found["word"],
        word=found["word"],
        line=line,
        given=found["given"],
        value=found["value"],
    )


def _chars_of_name(reversed_text: str) -> int:
    found = _BACKWARDS.match(reversed_text)
    return 0 if found is None else found.end()


def _secret_chars(setting: _Setting) -> int:
    """Return how many characters of the value are secret; 0 for a value that is none."""
    ends = _ENDS_IN_SHELL if setting.is_variable else _ENDS_IN_CODE
    value = ends.split(setting.value, maxsplit=1)[0].rstrip(",\\")
    if _is_empty(setting, value) or _is_reference(setting, value):
        return 0
    if setting.is_variable or setting.is_option or _looks_random(setting, value):
        return len(value)
    return 0


def _is_empty(setting: _Setting, value: str) -> bool:
    least = _MIN_PASSWORD_CHARS if setting.is_password else _MIN_CHARS
    may_count = not setting.is_variable or _COUNTS.search(setting.name) is not None
    is_count = value.isdecimal() and may_count and not setting.is_password
    is_blank = len(set(value)) <= 2 or value.lower() in _WORDS
    return len(value) < least or is_count or is_blank or "[masked:" in value


def _is_reference(setting: _Setting, value: str) -> bool:
    if _PATH.match(value) or _CALL.match(value) or _REFERENCE.search(value):
        return True
    if setting.word.lower() == "token" and _PLACES.search(setting.name[: -len("token")]):
        return True
    if setting.is_variable or setting.is_option:
        return False
    return any(char in value for char in "({[") or _CODE.fullmatch(value) is not None


def _looks_random(setting: _Setting, value: str) -> bool:
    """Whether a value that might be code is none: words alone are passwords in settings only."""
    is_plain = value.replace("_", "").isalpha()
    is_line = not setting.line.strip(" \t-") or setting.line.endswith(('"', "'"))
    if setting.given.startswith(":"):
        is_named = setting.name.lower() not in {"secret", "token"}
        return is_named and is_line and any(map(str.isdigit, value)) and not value.isdecimal()
    if setting.name.isupper() and setting.given.startswith("= "):
        return False  # to a shell it is empty
    if not setting.is_spaced and is_line:
        return True
    return not is_plain and (setting.is_password or _SNAKE.fullmatch(value) is None)
