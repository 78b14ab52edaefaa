"""Which user of this machine is at the other end of a loopback connection, as the kernel knows it.

Linux lists every TCP socket with the user who made it in /proc/net/tcp and tcp6.
"""

import os
import socket
import sys
from ipaddress import ip_address
from pathlib import Path

_TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_UID, _INODE = 7, 9
"""Columns."""

type SocketAddress = tuple[str, int]


def user_of(client: SocketAddress, server: SocketAddress) -> int | None:
    """Who has the socket `client` that is connected to `server`. None where that is unknown, or
    where it is closed already: the kernel then gives it to root, whoever had it."""
    ends = f" {_listed(client)} {_listed(server)} ".encode()
    try:
        table = _TABLES[ip_address(client[0]).version].read_bytes()
    except OSError:
        return None
    if (at := table.find(ends)) < 0:
        return None
    columns = table[table.rfind(b"\n", 0, at) + 1 :].split(b"\n", 1)[0].split()
    return int(columns[_UID]) if columns[_INODE] != b"0" else None


def can_tell() -> bool:
    """Whether this kernel says whose a loopback connection is; tried with a connection."""
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname()) as client,
        ):
            return user_of(client.getsockname(), server.getsockname()) == os.geteuid()
    except (OSError, ValueError, IndexError):
        return False


def _listed(end: SocketAddress) -> str:
    """An address as in the tables: words of 32 bits, each in the byte order of this machine."""
    packed = ip_address(end[0]).packed
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    host = "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
    return f"{host}:{end[1]:04X}"
