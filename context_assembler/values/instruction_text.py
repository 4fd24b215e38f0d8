"""Reads the text of instruction files: encodings, front matter, and what in Markdown is code."""

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Final, Literal, TypeAlias

from context_assembler.values.json_shapes import is_array, is_object
from context_assembler.values.parts import Json, JsonObject

# UTF-32 first: its little-endian mark begins like that of UTF-16.
_MARKS: Final = (
    (BOM_UTF8, "utf-8"),
    (BOM_UTF32_LE, "utf-32-le"),
    (BOM_UTF32_BE, "utf-32-be"),
    (BOM_UTF16_LE, "utf-16-le"),
    (BOM_UTF16_BE, "utf-16-be"),
)
_FENCE: Final = re.compile(r" {0,3}(?:[-*+>] +|\d{1,9}[.)] +)*(?P<fence>`{3,}|~{3,})(?P<rest>.*)")
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
_TOKENS: Final = re.compile(r"`+|<!--")
_LIST_START: Final = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")
_PLAIN_LINE: Final = re.compile(r"(?P<key>[A-Za-z][\w-]*)\s*:(?:\s+(?P<value>.*))?$")
_MAX_FRONT_MATTER_CHARS: Final = 65_536
_MAX_YAML_DEPTH: Final = 32

PieceKind: TypeAlias = Literal["text", "code", "comment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedText:
    """Text with Unix line ends and without byte-order mark, and what was odd about its bytes."""

    text: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    """A file's metadata, the text behind it, and the line (from 1) on which that text begins."""

    text: str
    metadata: JsonObject = field(default_factory=dict[str, Json])
    first_line: int = 1
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of Markdown; joined, the pieces are the whole text."""

    kind: PieceKind
    text: str


def decode_text(raw_bytes: bytes) -> DecodedText:
    """Decode a file that should be UTF-8; any bytes are accepted."""
    for mark, encoding in _MARKS:
        if raw_bytes.startswith(mark):
            return _decoded(raw_bytes[len(mark) :], encoding)
    if (
        len(raw_bytes) >= 2
        and raw_bytes[1::2].count(0) * 10 > len(raw_bytes[1::2]) * 4
        and 0 not in raw_bytes[::2]
    ):
        decoded = _decoded(raw_bytes, "utf-16-le")
        guess = "no byte-order mark, but every other byte is zero: read as UTF-16"
        return DecodedText(text=decoded.text, warnings=(guess, *decoded.warnings))
    return _decoded(raw_bytes, "utf-8")


def _decoded(raw_bytes: bytes, encoding: str) -> DecodedText:
    warnings: list[str] = []
    try:
        text = raw_bytes.decode(encoding)
    except UnicodeDecodeError as error:
        text = raw_bytes.decode(encoding, "replace")
        line = raw_bytes.count(b"\n", 0, error.start) + 1
        warnings.append(
            f"bytes that are not {encoding.upper()} were replaced, first in line {line}"
        )
    if "\0" in text:
        text = text.replace("\0", "")
        warnings.append("NUL characters were removed")
    text = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    return DecodedText(text=text, warnings=tuple(warnings))


def split_front_matter(text: str) -> FrontMatter:
    """Take YAML front matter off the top; a text that only begins with a rule stays whole."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return FrontMatter(text=text)
    ends = (i for i, line in enumerate(lines[1:], 1) if line.rstrip() in {"---", "..."})
    end = next(ends, None)
    if end is None or sum(map(len, lines[:end])) > _MAX_FRONT_MATTER_CHARS:
        return FrontMatter(text=text)
    read = _read_yaml(lines[1:end])
    if read is None:
        return FrontMatter(text=text)
    metadata, warnings = read
    body = "\n".join(lines[end + 1 :])
    return FrontMatter(text=body, metadata=metadata, first_line=end + 2, warnings=warnings)


def _read_yaml(lines: list[str]) -> tuple[JsonObject, tuple[str, ...]] | None:
    import yaml  # noqa: PLC0415 - loaded when first needed

    try:
        loaded: Json = yaml.safe_load("\n".join(lines))
        if loaded is None:
            return {}, ()
        # A rule, some prose and another rule are no front matter.
        return ({str(k): _plain(v) for k, v in loaded.items()}, ()) if is_object(loaded) else None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        simple = _read_simple_lines(lines)
        if not simple:
            return None
        reason = str(getattr(error, "problem", None) or error).splitlines()[0]
        return simple, (f"its front matter is not YAML ({reason}); simple lines were read",)


def _read_simple_lines(lines: list[str]) -> dict[str, Json]:
    """Read `key: value` lines of front matter that YAML refuses; nothing if prose is among them."""
    found: dict[str, Json] = {}
    for line in lines:
        match = _PLAIN_LINE.match(line)
        if match:
            found[match["key"]] = (match["value"] or "").strip().strip("\"'")
        elif line.strip() and not line.startswith((" ", "\t", "-", "#")):
            return {}
    return found


def _plain(value: Json, depth: int = 0) -> Json:
    """Turn what YAML knows and JSON does not (dates, keys that are numbers) into JSON."""
    if depth > _MAX_YAML_DEPTH:
        raise ValueError("it is nested too deeply")
    if is_object(value):
        return {str(key): _plain(one, depth + 1) for key, one in value.items()}
    if is_array(value):
        return [_plain(one, depth + 1) for one in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return value.isoformat() if isinstance(value, date | datetime) else str(value)


def split_markdown(text: str) -> list[Piece]:
    """Tell code (fenced, indented or in backticks) and HTML comments from the rest.

    A comment that never closes is text: the rest of the file must not vanish with it.
    """
    return _Lexer(text).read()


@dataclass(slots=True)
class _Lexer:
    text: str
    kinds: list[PieceKind] = field(default_factory=list[PieceKind])
    parts: list[list[str]] = field(default_factory=list[list[str]])
    fence: str = ""
    in_comment: bool = False
    after_blank: bool = True
    in_list: bool = False
    last_close: int = -1

    def read(self) -> list[Piece]:
        self.last_close = self.text.rfind("-->")
        position = 0
        for line in _LINES.findall(self.text):
            self._read_line(line, position)
            position += len(line)
        return [
            Piece(kind, "".join(parts)) for kind, parts in zip(self.kinds, self.parts, strict=True)
        ]

    def _add(self, kind: PieceKind, text: str) -> None:
        if not text:
            return
        if not self.kinds or self.kinds[-1] != kind:
            self.kinds.append(kind)
            self.parts.append([])
        self.parts[-1].append(text)

    def _read_line(self, line: str, position: int) -> None:
        if self.in_comment:
            self._read_text(line, position)
        elif self.fence:
            self._add("code", line)
            bare = line.strip()
            if len(bare) >= len(self.fence) and bare == self.fence[0] * len(bare):
                self.fence = ""
        elif (opened := _FENCE.match(line)) and not (
            opened["fence"][0] == "`" and "`" in opened["rest"]
        ):
            self.fence = opened["fence"]
            self._add("code", line)
        elif self._is_indented_code(line):
            self._add("code", line)
        else:
            self._read_text(line, position)
            if line.strip():
                self.in_list = bool(_LIST_START.match(line)) or (
                    self.in_list and line.startswith((" ", "\t"))
                )
            self.after_blank = not line.strip()

    def _is_indented_code(self, line: str) -> bool:
        is_indented = line.startswith(("    ", "\t")) and bool(line.strip())
        return is_indented and self.after_blank and not self.in_list

    def _read_text(self, line: str, position: int) -> None:
        done = 0
        while done < len(line):
            if self.in_comment:
                close = line.find("-->", done)
                end = len(line) if close < 0 else close + 3
                self._add("comment", line[done:end])
                self.in_comment = close < 0
                done = end
                continue
            token = _TOKENS.search(line, done)
            if token is None:
                self._add("text", line[done:])
                return
            self._add("text", line[done : token.start()])
            done = self._read_token(line, token, position)

    def _read_token(self, line: str, token: re.Match[str], position: int) -> int:
        if token[0] == "<!--":
            self.in_comment = self.last_close >= position + token.end()
            if not self.in_comment:
                self._add("text", token[0])
                return token.end()
            self._add("comment", token[0])
            return token.end()
        for close in re.finditer("`+", line[token.end() :]):
            if len(close[0]) == len(token[0]):
                end = token.end() + close.end()
                self._add("code", line[token.start() : end])
                return end
        self._add("text", token[0])
        return token.end()
