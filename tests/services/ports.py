"""Ports on loopback for servers that have to be told theirs."""

from __future__ import annotations

import contextlib
import secrets
import socket

HOST = "127.0.0.1"
LOWEST, END = 10_000, 32_768  # from there on Linux takes ports for connections, by itself


def free_ports(count: int, beside: int = 0) -> list[int]:
    """So many that nobody has, each with the one that is so far beside it."""
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            port = LOWEST + secrets.randbelow(END - LOWEST - beside)
            with contextlib.ExitStack() as pair, contextlib.suppress(OSError):
                for one in {port, port + beside}:
                    pair.enter_context(socket.socket()).bind((HOST, one))
                held.enter_context(pair.pop_all())
                ports.append(port)
    return ports
