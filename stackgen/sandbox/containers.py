"""What every use of a container engine shares: its errors, and the streams of a container."""

import contextlib
import re
import socket
import struct
import time

import docker
import requests
import urllib3
from docker import errors as docker_errors

UNPRIVILEGED = "65534:65534"
"""User and group without rights, as ``uid:gid``."""
ENGINE_FAULTS = (
    *(docker_errors.DockerException, requests.RequestException),
    *(urllib3.exceptions.HTTPError, ConnectionError, TimeoutError),
)
"""Exceptions of the client: the engine does not answer, or refuses."""
STDOUT = 1
_HEADER = struct.Struct(">BxxxL")
_STDERR_BYTES = 4096
_SEND_S = 60.0
_RECEIVED_BYTES = 1 << 16


def engine_message(error: BaseException) -> str:
    """Return the engine's or the system's own message, without the client's wrapping."""
    if isinstance(error, docker_errors.APIError) and error.explanation:
        return str(error.explanation)
    found = re.findall(r"\[Errno -?\d+\] ([^\"')]+)|(timed out)", str(error))
    return "".join(found[-1]).lower() if found else str(error) or repr(error)


class ContainerStreams:
    """Standard streams of a container's first process, over a connection of their own.

    Both outputs share the connection, in frames. Unlike the client's own streams, reading has a
    time limit, and closing leaves no socket open.
    Source: Docker Engine API, "Attach to a container", stream format.
    """

    def __init__(self, api: docker.APIClient, container: str, *, stdin: bool = False) -> None:
        """Attach to a container, which need not run yet."""
        params = {"stdin": int(stdin), "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
        self._opened = api.attach_socket(container, params)
        self._socket: socket.socket = getattr(self._opened, "_sock", self._opened)
        self._unread = b""
        self._stream, self._left = 0, 0
        self._stderr = b""

    def send(self, text: bytes) -> None:
        """Write to standard input.

        Raises:
            OSError: the process does not read, or the connection is lost.
        """
        self._socket.settimeout(_SEND_S)
        self._socket.sendall(text)

    def read(self, timeout_s: float) -> tuple[int, bytes]:
        """Return the next piece of output with the number of its stream; (0, b"") at the end.

        Raises:
            TimeoutError: there is no output in time.
            OSError: the connection is lost.
        """
        deadline = time.monotonic() + timeout_s
        while not self._left:
            while len(self._unread) < _HEADER.size:
                if not self._receive(deadline):
                    return 0, b""
            self._stream, self._left = _HEADER.unpack_from(self._unread)
            self._unread = self._unread[_HEADER.size :]
        if not self._unread and not self._receive(deadline):
            return 0, b""
        piece, self._unread = self._unread[: self._left], self._unread[self._left :]
        self._left -= len(piece)
        return self._stream, piece

    def receive(self, timeout_s: float) -> bytes:
        """Return the next piece of standard output, b"" at the end; keep the end of the other one.

        Raises:
            TimeoutError: there is no output in time.
            OSError: the connection is lost.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            stream, piece = self.read(max(0.001, deadline - time.monotonic()))
            if stream in (0, STDOUT):
                return piece
            self._stderr = (self._stderr + piece)[-_STDERR_BYTES:]

    def last_stderr(self) -> str:
        """Return the end of standard error, as far as ``receive`` met it."""
        return self._stderr.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Close the connection; a process that reads its standard input meets its end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        getattr(self._opened, "_response", self._opened).close()
        self._socket.close()

    def _receive(self, deadline: float) -> bool:
        """Receive more; return False at the end."""
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        part = self._socket.recv(_RECEIVED_BYTES)
        self._unread += part
        return bool(part)
