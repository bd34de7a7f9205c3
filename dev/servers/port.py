"""Loopback ports: which is free, and where to pick one."""

import secrets
import socket
from pathlib import Path

LOOPBACK = "127.0.0.1"
_LOWEST = 20_000
_TRIES = 100


def _ephemeral_start() -> int:
    """Return the first port the kernel gives to outgoing connections."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32_768


def is_free(port: int) -> bool:
    """Tell whether a server could listen on `port` of 127.0.0.1 now."""
    with socket.socket() as candidate:
        # As servers do: a connection in TIME_WAIT does not make the port taken.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free now; it may be taken before the caller binds it.

    It lies below the ephemeral ports where there is room: while a server is down, a client that
    retries could otherwise be given the server's own port and connect to itself.
    """
    highest = _ephemeral_start()
    if highest - _LOWEST >= _TRIES:
        for _ in range(_TRIES):
            port = _LOWEST + secrets.randbelow(highest - _LOWEST)
            if is_free(port):
                return port
    with socket.socket() as candidate:
        candidate.bind((LOOPBACK, 0))
        port = candidate.getsockname()[1]
        return int(port)
