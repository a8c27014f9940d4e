"""Servers of the tests start whatever somebody else takes meanwhile."""

from __future__ import annotations

import socket

import pytest

from tests.services import seaweed
from tests.services.ports import END, HOST, free_ports
from tests.services.seaweed import GRPC, s3_server


def test_ports_are_none_that_connections_take() -> None:
    """Nor are those beside them."""
    ports = free_ports(20, beside=GRPC)
    assert len({*ports}) == 20
    assert max(ports) + GRPC < END


@pytest.mark.s3
def test_a_port_that_is_taken_meanwhile_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test hits the moment between choice and use, so the choice is of one that is taken."""
    chosen = []

    def choose(count: int, beside: int) -> list[int]:
        ports = free_ports(count, beside)
        if not chosen:
            ports[3] = taken.getsockname()[1]
        chosen.append(ports)
        return ports

    monkeypatch.setattr(seaweed, "free_ports", choose)
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with s3_server() as server:
            assert server.port == chosen[-1][0]
    assert len(chosen) == 2
