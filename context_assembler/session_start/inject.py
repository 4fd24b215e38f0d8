"""What the hook does: find the project's rendered memory, and print it as the client reads it.

This runs without site-packages, at the start of every session: only modules that are compiled into
Python or load in a moment are imported, each where it is needed. The worker's snapshot is read first,
then the worker is asked, then the table of rendered layers; if all fail, one line says so. The exit
code is always 0, and nothing but the envelope is written to stdout.
"""

import os
import time

TYPE_CHECKING = False  # `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

DEADLINE_SECONDS = 5.0
WORKER_SECONDS = 1.5
LOCKED_SECONDS = 0.5
MOST_CHARS = 10_000  # of a JavaScript string; Claude Code shows less of anything longer
_MARGIN_CHARS = 200
_MOST_INPUT_BYTES = 4_000_000
_MOST_FILE_BYTES = 1_000_000
_FRESH_SECONDS = 600  # of a snapshot whose memory is not a file
SNAPSHOT_HEADS = 4  # lines above the text: project, memory file, tokens, layers
NOTHING_YET = "context-assembler: nothing is remembered of this project yet."
NOT_READ = (
    "context-assembler: the project's memory could not be read; run context-assembler doctor."
)

# What each client reads on stdout; `%s` is the context as a JSON string, `%e` the event's name.
_SPECIFIC = '{"hookSpecificOutput":{"hookEventName":%e,"additionalContext":%s}}'
ENVELOPES = {
    # https://code.claude.com/docs/en/hooks#sessionstart-decision-control (read 2026-11-30)
    "claude_code": _SPECIFIC,
    # openai/codex, codex-rs/hooks/schema/generated/session-start.command.output.schema.json; 0.154.0
    # refused the field for a while: https://github.com/openai/codex/issues/45999 (read 2026-11-30)
    "codex": _SPECIFIC,
    # https://geminicli.com/docs/hooks/reference (read 2026-11-30)
    "gemini_cli": _SPECIFIC,
    # obra/superpowers, hooks/session-start (read 2026-11-30): snake case, and nothing around it
    "cursor": '{"additional_context":%s}',
}


# ---- the project ----


def find_project(path: str) -> str:
    """Return the root of the project that a path lies in: of its repository, else the path itself.

    A worktree belongs to the repository that it was made from, so that both share their memory.
    """
    start = folder = os.path.realpath(path)
    while True:
        marker = os.path.join(folder, ".git")
        if os.path.isdir(marker):
            return folder
        if os.path.isfile(marker):
            return _main_repository(marker) or folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return start
        folder = parent


def _main_repository(marker: str) -> str:
    """Return the root of the repository that a worktree's `.git` file names; empty: it names none.

    https://git-scm.com/docs/gitrepository-layout (read 2026-11-30): `gitdir: <main>/.git/worktrees/…`
    """
    text = _read_file(marker).decode("utf-8", "replace").strip()
    where = text.removeprefix("gitdir:").strip()
    where = os.path.realpath(os.path.join(os.path.dirname(marker), where))
    root, inside, _ = where.replace("\\", "/").partition("/.git/worktrees/")
    if not inside:
        return ""
    try:  # the repository has to know of the worktree as well
        back = _read_file(os.path.join(where, "gitdir")).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    is_known = os.path.realpath(os.path.join(where, back)) == os.path.realpath(marker)
    return os.path.realpath(root) if is_known else ""


def state_folder() -> str:
    """Return the folder of snapshots, rendered layers, the log and the worker's address."""
    given = os.environ.get("CONTEXT_ASSEMBLER_STATE")
    return given or os.path.join(os.path.expanduser("~"), ".context-assembler")


def snapshot_path(state: str, project: str) -> str:
    """Return where a project's snapshot lies; its first line names the project."""
    from binascii import crc32

    return os.path.join(state, f"snapshot-{crc32(project.encode('utf-8', 'replace')):08x}.md")


# ---- where the text comes from ----


def read_snapshot(state: str, project: str) -> "tuple[str, str, str]":
    """Return text, tokens and layers of the snapshot, if it is as new as the memory that it shows."""
    path = snapshot_path(state, project)
    made = os.stat(path).st_mtime
    name, memory, tokens, layers, text = _read_file(path).decode().split("\n", SNAPSHOT_HEADS)
    if name != project:
        raise LookupError("the snapshot is another project's")
    files = [f for f in (memory, f"{memory}-wal") if memory and os.path.exists(f)]
    changed = max((os.stat(file).st_mtime for file in files), default=time.time() - _FRESH_SECONDS)
    if changed > made:
        raise LookupError("the memory changed since")
    return text, tokens, layers


def ask_worker(state: str, project: str, session_id: str) -> "tuple[str, str, str]":
    """Return what the worker answers."""
    address, token = _read_file(os.path.join(state, "worker")).decode().split("\n")[:2]
    import _socket

    where: Any
    if address.startswith("unix:"):
        link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        where = address.removeprefix("unix:")
    else:
        host, _, port = address.rpartition(":")
        family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
        link = _socket.socket(family, _socket.SOCK_STREAM)
        where = (host, int(port))
    try:
        link.settimeout(WORKER_SECONDS)
        link.connect(where)
        query = f"project_path={_quoted(project)}&session_id={_quoted(session_id)}"
        link.sendall(
            f"GET /api/context?{query} HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n"
            f"Authorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = _read_all(link.recv, until=time.monotonic() + WORKER_SECONDS)
    finally:
        link.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    if lines[0].split(" ")[1] != "200":
        raise LookupError(lines[0])
    fields = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
    if len(body) != int(fields["content-length"]):
        raise LookupError("the answer broke off")
    return body.decode(), fields.get("x-tokens", ""), fields.get("x-layers", "")


def read_table(state: str, project: str) -> "tuple[str, str, str]":
    """Return what was rendered last, from the table that holds it."""
    path = os.path.join(state, "rendered.db")
    os.stat(path)
    from _sqlite3 import connect

    db = connect(path, timeout=LOCKED_SECONDS)
    try:
        found = db.execute(
            "SELECT text, tokens, layers FROM rendered WHERE project = ?", (project,)
        ).fetchone()
    finally:
        db.close()
    if found is None:
        raise LookupError("nothing was rendered")
    text, tokens, layers = found
    return text, str(tokens), layers


# ---- what goes out ----


def clipped(text: str, most_chars: int = MOST_CHARS - _MARGIN_CHARS) -> str:
    """Return the first whole lines that fit, with a line that says so; a JavaScript string's length."""
    kept: list[str] = []
    used = 0
    for line in text.split("\n"):
        used += len(line) + 1 + sum(char > "\uffff" for char in line)
        if used > most_chars:
            return "\n".join((*kept, "(The rest was cut: the client shows no more.)"))
        kept.append(line)
    return text


def envelope(client: str, event: str, text: str) -> bytes:
    """Return what the client reads, as bytes that every code page leaves alone."""
    before, _, after = ENVELOPES.get(client, ENVELOPES["claude_code"]).partition("%s")
    before = before.replace("%e", _json_text(event))
    return f"{before}{_json_text(text)}{after}\n".encode()


class _Output:
    """Stdout, written to once: by the hook, or by its deadline."""

    def __init__(self, client: str) -> None:
        from _thread import allocate_lock, start_new_thread

        self.client, self.event, self._lock = client, "SessionStart", allocate_lock()
        try:
            start_new_thread(self._watch, ())
        except RuntimeError:  # no thread is to be had: no deadline then
            return

    def _watch(self) -> None:
        time.sleep(DEADLINE_SECONDS)
        self.write(NOT_READ)
        os._exit(0)

    def write(self, text: str) -> None:
        if self._lock.acquire(False):
            left = memoryview(envelope(self.client, self.event, text))
            while left:
                left = left[os.write(1, left) :]


def main(arguments: "list[str]") -> None:
    """Run the hook; whatever happens, the client gets its envelope and the exit code 0."""
    started = time.perf_counter()
    output = _Output(arguments[0] if arguments else "claude_code")
    try:
        asked = _read_stdin()
        output.event = _text_of(asked, "hook_event_name") or output.event
        session_id, source = _text_of(asked, "session_id"), _text_of(asked, "source")
        folder = _text_of(asked, "cwd") or os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd()
        state, project = state_folder(), find_project(folder)
        # What was rendered tells of all sessions; the worker leaves out the one that goes on.
        goes_on = source in ("resume", "clear", "compact")
        order = ("worker", "snapshot", "table") if goes_on else ("snapshot", "worker", "table")
        route, text, tokens, layers = _first_found(order, state, project, session_id)
        text = clipped(text) if text.strip() else NOTHING_YET
        output.write(text)
        spent = f"{(time.perf_counter() - started) * 1_000:.1f}"
        row = (output.client, source, session_id, project, route, layers, tokens, len(text), spent)
        log_injection(state, row)
    except BaseException:  # the deadline answers if this does
        output.write(NOT_READ)
    finally:
        os._exit(0)


def _first_found(
    order: "tuple[str, ...]", state: str, project: str, session_id: str
) -> "tuple[str, str, str, str]":
    """Return the route that led to a text, the text, its tokens and layers."""
    trouble: list[str] = []
    for name in order:
        try:
            if name == "worker":
                return name, *ask_worker(state, project, session_id)
            read = read_snapshot if name == "snapshot" else read_table
            return name, *read(state, project)
        except Exception as error:
            trouble.append(f"{name}: {error or type(error).__name__}")
    return f"none ({'; '.join(trouble)})", NOT_READ, "", ""


def log_injection(state: str, row: "tuple[object, ...]") -> None:
    """Add a row to the log: time, client, source, session, project, route, layers, tokens, chars, ms."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    fields = (" ".join(str(field).split()) for field in (moment, *row))
    flags, path = os.O_WRONLY | os.O_APPEND | os.O_CREAT, os.path.join(state, "injections.tsv")
    file = os.open(path, flags, 0o600)
    try:
        if os.fstat(file).st_size > _MOST_FILE_BYTES:
            os.replace(path, f"{path}.old")
        os.write(file, ("\t".join(fields) + "\n").encode("utf-8", "replace"))
    finally:
        os.close(file)


# ---- bytes and JSON ----


def _read_stdin() -> "dict[str, object]":
    """Return the JSON object on stdin, as soon as it is whole: some clients keep the pipe open."""
    raw = b""
    while len(raw) < _MOST_INPUT_BYTES and (chunk := os.read(0, 65_536)):
        raw += chunk
        if chunk.rstrip().endswith(b"}") and (asked := _read_object(raw)):
            return asked
    return _read_object(raw)


def _read_file(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        return os.read(file, _MOST_FILE_BYTES)
    finally:
        os.close(file)


def _read_all(read: "Callable[[int], bytes]", until: float) -> bytes:
    raw = b""
    while chunk := read(65_536):
        raw += chunk
        if len(raw) > _MOST_INPUT_BYTES or time.monotonic() > until:
            raise OSError("too much, or too slow")
    return raw


def _quoted(text: str) -> str:
    kept = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/"
    raw = text.encode("utf-8", "replace")
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in raw)


def _text_of(asked: "dict[str, object]", name: str) -> str:
    value = asked.get(name)
    return value if isinstance(value, str) else ""


class _Settings:
    """What the scanner of `json` is made from; importing `json` itself takes as long as Python."""

    strict, object_hook, object_pairs_hook = False, None, None
    parse_float, parse_int, parse_constant = float, int, float


def _read_object(raw: bytes) -> "dict[str, object]":
    """Return the JSON object on stdin; an empty one if there is none."""
    text, settings = raw.decode("utf-8-sig", "replace").strip(), _Settings()
    value: Any
    from _json import make_scanner

    try:
        value = make_scanner(settings)(text, 0)[0]  # type: ignore[arg-type]  # any such object does
    except (StopIteration, ValueError, RecursionError):
        return {}
    return value if value.__class__ is dict else {}


def _json_text(text: str) -> str:
    from _json import encode_basestring_ascii

    return encode_basestring_ascii(text)
