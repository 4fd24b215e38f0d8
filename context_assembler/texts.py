"""Text: read from files, and safe to send: cleaned, on one line, between tags, shortened."""

import errno
import os
import re
import stat
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Final, TypeAlias

CountText: TypeAlias = Callable[[str], int]

SUMMARY_TAG: Final = "summary"
REMINDER_TAG: Final = "system-reminder"
FORGED: Final = "A copy of the assembler's own tag in the text was escaped."

BLANKS: Final = re.compile(r"\\[nrt]")
"""Line ends and tabs in JSON."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@#-]{3,}")
_TELLING: Final = re.compile(r"[/._@#]|[a-z][A-Z]|\d|-.*-")
_LETTER: Final = re.compile("[A-Za-z]")
_MOST_NAME_CHARS: Final = 160

# What a reader, or a model, may take for the beginning of a tag, and what nobody sees.
_OPENS: Final = "[<\uff1c\ufe64\u2039\u3008\u27e8]"
_HIDDEN: Final = "[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]"
_WIDE: Final = 0xFEE0  # from an ASCII character to its full-width form
_JOINERS: Final = "\u200d\u200c"  # parts of words and of emoji
_HEAD_SHARE: Final = 0.6
_SNAP_SHARE: Final = 0.25  # how much of a piece may be given up for a cut between two lines
_ENOUGH_SHARE: Final = 0.85
_LONGEST_CLUSTER_CHARS: Final = 64


def is_western(text: str) -> bool:
    """Whether the code page of Western languages (1252) holds the text: quick to find out.

    Then it has no script without spaces, and of what shows nothing only the soft hyphen.
    """
    return text.isascii() or len(text.encode("cp1252", "ignore")) == len(text)


def clean_text(text: str) -> str:
    """Return the text without NULs, surrogate pairs joined, lone ones as U+FFFD; itself if clean."""
    if "\0" in text:
        text = text.replace("\0", "")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Surrogates come from UTF-16: a round trip joins the pairs among them.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def one_line(text: str) -> str:
    """Return the text on one line, without control characters or characters that show nothing."""
    if not text.isprintable():
        from unicodedata import category

        shown = (" " if char.isspace() else char for char in clean_text(text))
        text = "".join(
            char for char in shown if char in _JOINERS or category(char) not in ("Cc", "Cf")
        )
    return " ".join(text.split())


def find_names(text: str) -> list[str]:
    """Return the telling names in a text: paths, and what has capitals, digits or signs within."""
    found = (name.strip("./:-@#") for name in _NAME.findall(text))
    return [name for name in found if 4 <= len(name) <= _MOST_NAME_CHARS and _is_telling(name)]


@lru_cache(maxsize=8192)
def _is_telling(name: str) -> bool:
    """Whether a word is a name rather than a word of the language, or a short number."""
    if not _LETTER.search(name):
        return sum(map(str.isdigit, name)) > 4
    return _TELLING.search(name) is not None


def fence(tag: str, text: str, *, nonce: str = "") -> str:
    """Return the text between tags that nothing inside it can close."""
    name = f"{tag}-{nonce}" if nonce else tag
    return f"<{name}>\n{escape_tag(tag, text)}\n</{name}>"


def escape_tag(tag: str, text: str) -> str:
    """Return the text, without anything in it that reads as the tag, with or without a nonce."""
    return _escape(rf"{_like(tag)}\b", text)


def escape_notes(text: str) -> str:
    """Return the text, without anything in it that reads as a note or a summary of the assembler.

    A summary has the tag of HTML's `<summary>`: only with a nonce is it one of ours.
    """
    own = rf"(?:{_like(REMINDER_TAG)}\b|{_like(f'{SUMMARY_TAG}-')}[0-9a-f]{{6}}\b)"
    return _escape(own, text)


def _escape(name: str, text: str) -> str:
    if "<" not in text and (text.isascii() or re.search(_OPENS, text) is None):
        return text
    slashes = rf"(?:[\s/\uff0f\u2215\u2044]|{_HIDDEN})*+"
    return re.sub(rf"{_OPENS}(?={slashes}{name})", "&lt;", text, flags=re.IGNORECASE)


@cache
def _like(name: str) -> str:
    """Return what finds the name: also in wide letters, and with what shows nothing in between."""
    letters = (f"[{re.escape(char)}{chr(ord(char) + _WIDE)}]" for char in name)
    return f"{_HIDDEN}*".join(letters)


def shorten_text(
    text: str, *, max_tokens: int, count_text: CountText, unit: str = "tokens", handle: str = ""
) -> str:
    """Return the text, or its head and tail around a marker that says the full size.

    The result depends on text and limit alone. Cuts fall between lines if a line ends nearby, and
    never inside a character as people see it. If not even the marker fits, the marker alone is
    returned: the only result over the limit.

    Args:
        unit: What `count_text` counts, as the marker calls it.
        handle: How the whole text is read, at the end of the marker.
    """
    total = count_text(text)
    if total <= max_tokens:
        return text
    marker = f"[… shortened: {total:,} {unit} in full{handle} …]"
    room = max_tokens - count_text(f"\n{marker}\n")
    size, per_token = len(text), len(text) / max(total, 1)
    while room > 1:
        head_tokens = max(1, int(room * _HEAD_SHARE))
        tail_tokens = room - head_tokens
        head = _fitting_chars(
            lambda chars: count_text(text[:chars]), head_tokens, int(head_tokens * per_token), size
        )
        tail = _fitting_chars(
            lambda chars: count_text(text[size - chars :]),
            tail_tokens,
            int(tail_tokens * per_token),
            size - head,
        )
        ends = (text[: _head_end(text, head)], marker, text[_tail_start(text, size - tail) :])
        joined = "\n".join(piece for piece in ends if piece)
        over = count_text(joined) - max_tokens
        if over <= 0:
            return joined
        room -= max(over, room // 8)
    return marker


def _fitting_chars(tokens_of: Callable[[int], int], tokens: int, guess: int, most: int) -> int:
    """Return how many characters of an end hold at most so many tokens, and nearly as many."""
    best, too_many, chars = 0, most + 1, min(guess, most)
    for _ in range(12):
        if not best < chars < too_many:
            break
        counted = tokens_of(chars)
        if counted <= tokens:
            best = chars
            if counted >= tokens * _ENOUGH_SHARE:
                break
        else:
            too_many = chars
        chars = int(chars * tokens / max(counted, 1) * 0.95)
        if not best < chars < too_many:
            chars = (best + too_many) // 2
    return best


def _head_end(text: str, end: int) -> int:
    line_end = text.rfind("\n", end - int(end * _SNAP_SHARE), end)
    return whole_end(text, line_end if line_end > 0 else end)


def whole_end(text: str, end: int) -> int:
    """Return the place at or before `end` that parts no character as people see it."""
    first, at = max(0, end - _LONGEST_CLUSTER_CHARS), end
    while at > first and _continues(text, at):
        at -= 1
    return at


def _tail_start(text: str, start: int) -> int:
    line_end = text.find("\n", start, start + int((len(text) - start) * _SNAP_SHARE))
    if line_end >= 0:
        return line_end + 1
    at = start
    while at < len(text) and at - start < _LONGEST_CLUSTER_CHARS and _continues(text, at):
        at += 1
    return at


def _continues(text: str, at: int) -> bool:
    """Whether the code points on both sides of a cut inside the text belong together."""
    if at >= len(text):
        return False
    before, after = text[at - 1], text[at]
    if before in _JOINERS or after in _JOINERS or (before == "\r" and after == "\n"):
        return True
    if after.isascii():
        return False
    from unicodedata import category

    is_flag = _is_regional(before) and _is_regional(after)  # two of them make one flag
    is_tone = "\U0001f3fb" <= after <= "\U0001f3ff"
    return is_flag or is_tone or category(after) in ("Mn", "Me", "Mc")


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


# Where a system knows them: not to wait for the writer of a pipe, not to follow a link.
_OPEN: Final = sum(getattr(os, f"O_{name}", 0) for name in ("NONBLOCK", "CLOEXEC", "BINARY"))
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
_FOLDER: Final = _NO_LINK | getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0)


def read_file(
    path: str | os.PathLike[str], *, inside: str = "", most_bytes: int = -1
) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a regular file, and what the system knows of the file that was opened.

    Args:
        inside: A folder above the file; no part of the path below it may be a link.

    Raises:
        OSError: It cannot be read, or is a folder, a pipe, a socket or a device.
    """
    folder, place = None, os.fspath(path)
    try:
        if inside and os.open in os.supports_dir_fd:
            *folders, place = os.path.relpath(place, inside).split(os.sep)
            folder = os.open(inside, _FOLDER)
            for name in folders:
                outer, folder = folder, os.open(name, _FOLDER, dir_fd=folder)
                os.close(outer)
        file = os.open(place, os.O_RDONLY | _OPEN | (_NO_LINK if inside else 0), dir_fd=folder)
    except ValueError as error:  # a name that no system takes
        raise OSError(errno.EINVAL, str(error), place) from error
    finally:
        if folder is not None:
            os.close(folder)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", place)
        with open(file, "rb", closefd=False) as opened:
            return opened.read(most_bytes), found
    finally:
        os.close(file)


def decode_text(raw: bytes) -> tuple[str, str, list[str]]:
    """Return the text with Unix line ends, how it was encoded, and what was odd about its bytes."""
    encoding, marks, warnings = "utf-8", "", list[str]()
    known = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
    for mark in filter(raw.startswith, known):
        raw, encoding, marks = raw[len(mark) :], known[mark], ", BOM"
        break
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        text = raw.decode(encoding, "replace")
        line, name = raw.count(b"\n", 0, error.start) + 1, encoding.upper()
        warnings.append(f"bytes that are not {name} were replaced, first in line {line}")
    if "\0" in text:
        text = text.replace("\0", "")
        warnings.append("NUL characters were removed")
    if "\r" in text:
        text, marks = text.replace("\r\n", "\n").replace("\r", "\n"), f"{marks}, CRLF"
    return text.removeprefix("\ufeff"), encoding + marks, warnings
