"""Callers of a server who keep their connections and never come to an end."""
import contextlib
import random
import resource
import select
import socket

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


def _junk():
    r = random.Random(1)
    while True:
        yield r.randbytes(r.randrange(1, 3000)) if r.random() < 0.5 else REQUEST.replace(b"/", bytes([r.randrange(256)]))


JUNK = _junk()
# Data that a caller sends at once. A slow reader's request is complete, but it does not read the answer.
KINDS = {"idle": lambda: b"", "half_open": lambda: REQUEST[:30], "slow_reader": lambda: REQUEST, "junk": lambda: next(JUNK)}


def files_allowed(n):
    """Whether this process may have n more files open; raises its limit where it can."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, n + 100), hard), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= n + 100


class Crowd:
    """Connections to "HOST:PORT", so many of each kind; `with` closes them."""

    def __init__(self, host, **kinds):
        self.address = (host.rsplit(":", 1)[0], int(host.rsplit(":", 1)[1]))
        self.closed = 0  # by the server, those of keep() included
        self.poll = select.epoll()
        self.callers = {}
        for kind, n in kinds.items():
            for _ in range(n):
                self.call(kind)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for s, _ in self.callers.values():
            s.close()
        self.poll.close()

    def call(self, kind):
        s = socket.socket()
        if kind == "slow_reader":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        s.setblocking(False)
        s.connect_ex(self.address)
        self.callers[s.fileno()] = (s, kind)
        # An error and the end of what the server sends are told unasked.
        self.poll.register(s, select.EPOLLOUT | select.EPOLLRDHUP)

    def keep(self, seconds):
        """Sends what is to be sent; who was closed calls again. Returns after so long or at the first event."""
        for fd, what in self.poll.poll(seconds):
            s, kind = self.callers[fd]
            if what & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
                self.poll.unregister(s)
                del self.callers[fd]
                s.close()
                self.closed += 1
                self.call(kind)
                continue
            self.poll.modify(s, select.EPOLLRDHUP)
            with contextlib.suppress(OSError):
                s.send(KINDS[kind]())
