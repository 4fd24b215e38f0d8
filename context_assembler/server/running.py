"""Serving the worker on the loopback, a Unix socket, or, with a token, anywhere."""

import json
import os
import secrets
import socket as sockets
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from signal import SIGTERM, signal
from typing import Any, Final

import uvicorn
from uvicorn.supervisors import Multiprocess

from context_assembler.errors import ConfigurationError
from context_assembler.server.app import Worker, create_app
from context_assembler.session_start.inject import state_folder

_SETTINGS: Final = "_CONTEXT_ASSEMBLER_WORKER"  # what the processes of several workers are told
_GRACE_SECONDS: Final = 5
_IDLE_SECONDS: Final = 75  # SDKs reuse a connection for 5; what they send to a closed one is lost
_APP: Final = "context_assembler.server.running:app_of_environment"


def run(
    *,
    host: str = "127.0.0.1",
    port: int = 8808,
    socket: str | Path | None = None,
    token: str | None = None,
    workers: int = 1,
    state: str | None = None,
    **stores: Any,
) -> None:
    """Serve until the process is told to stop; answers that have begun get 5 seconds more.

    The hook finds the worker by the file `worker` in the state folder, which only its owner may read.

    Args:
        port: 0 takes a free one.
        socket: Path of a Unix socket, instead of host and port.
        token: Needed for any host but the loopback.
        workers: Processes; several need stores that several machines could share, or SQLite files.
        state: By default CONTEXT_ASSEMBLER_STATE, or `~/.context-assembler`.
        stores: `sessions`, `memory` and `bootstrap` of `Worker`.

    Raises:
        ConfigurationError: The host is not the loopback, and there is no token; or the address is
            taken.
    """
    if token is not None and not token.strip():
        remedy = "Pass a token, or leave it out and listen on 127.0.0.1."
        raise ConfigurationError("The token is empty.", remedy=remedy)
    if socket is None and token is None and not is_loopback(host):
        raise ConfigurationError(
            f"{host} can be reached from other machines, and no token is given.",
            remedy="Pass --token, or listen on 127.0.0.1.",
        )
    state, own = state or state_folder(), secrets.token_urlsafe(24)
    os.makedirs(state, mode=0o700, exist_ok=True)
    told = {"token": token, "state": state, **stores}
    # The server hands the signal on once it has stopped; the file with its address has to go too.
    signal(SIGTERM, _stop)
    bound = _bind(host, port, socket)
    with bound, _announced(state, bound, token or own):
        os.environ[_SETTINGS] = json.dumps(told, default=str)
        config = uvicorn.Config(
            _APP,
            factory=True,
            workers=workers,
            log_level="warning",
            access_log=False,
            server_header=False,  # a provider's answer has its own
            date_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            timeout_keep_alive=_IDLE_SECONDS,
        )
        if workers == 1:
            uvicorn.Server(config).run([bound])
        else:
            Multiprocess(config, [bound]).run()


def _stop(_signal: int, _frame: object) -> None:
    sys.exit(0)


def app_of_environment() -> Any:
    """Return the application that `run` was asked for, in the process that serves it."""
    told = json.loads(os.environ[_SETTINGS])
    token = told.pop("token")
    return create_app(Worker(**told), token=token)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bind(host: str, port: int, path: str | Path | None) -> sockets.socket:
    """Return the socket to listen on; one in the file system is for its owner alone."""
    family = sockets.AF_INET6 if ":" in host else sockets.AF_INET
    if path is None:  # asyncio sends small pieces at once where the protocol is named
        bound = sockets.socket(family, sockets.SOCK_STREAM, sockets.IPPROTO_TCP)
    else:
        bound = sockets.socket(sockets.AF_UNIX)
    before = os.umask(0o077)
    try:
        if path is None:
            bound.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
            bound.bind((host, port))
        else:
            _clear(Path(path))
            bound.bind(str(path))
    except OSError as error:
        bound.close()
        problem = f"The worker cannot listen on {path or f'{host}:{port}'}: {error}."
        remedy = "Stop what listens there, or pass another --port or --socket."
        raise ConfigurationError(problem, remedy=remedy) from error
    finally:
        os.umask(before)
    bound.set_inheritable(True)
    bound.listen()  # from now on whoever reads the address can connect
    return bound


def _clear(path: Path) -> None:
    """Remove a socket that nobody listens on any more; anything else there is somebody's."""
    if not path.is_socket():
        return
    with sockets.socket(sockets.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()


@contextmanager
def _announced(state: str, bound: sockets.socket, token: str) -> Generator[None]:
    """Keep the address where the hook finds it, as long as the worker runs."""
    name, path = bound.getsockname(), Path(state) / "worker"
    address = f"unix:{Path(name).resolve()}" if isinstance(name, str) else f"{name[0]}:{name[1]}"
    told = f"{address}\n{token}\n"
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(told)
    try:
        yield
    finally:
        with suppress(OSError):  # of two workers with one state folder the later one is found
            if path.read_text() == told:
                path.unlink()
