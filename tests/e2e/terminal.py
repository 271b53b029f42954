"""A command on a terminal of its own, driven as a person would: see something, then type."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from common import TACHY


class Terminal:
    """`tachy ARGS` with all three streams on a new terminal. `stdout`: a file that gets standard output."""

    def __init__(self, *args, columns=100, cwd=None, env=None, stdout=None, argv=None):
        self.shown = ""
        self.seen = 0  # what expect() has passed
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # Test runs in the background have these signals ignored; a terminal's shell does not.
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGTSTP):
                signal.signal(number, signal.SIG_DFL)
            if cwd:
                os.chdir(cwd)
            if stdout:
                os.dup2(os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 1)
            os.environ.update({"TERM": "xterm", **(env or {})})
            argv = [str(a) for a in (argv or [TACHY, *args])]
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))  # before it is looked at
            os.execvp(argv[0], argv)

    def read(self, seconds):
        """Takes in what is shown next; False at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern, seconds=60):
        """Waits until `pattern` has been shown behind what was expected before; returns the match."""
        end = time.monotonic() + seconds
        while True:
            m = re.search(pattern, self.shown[self.seen:], re.S)
            if m:
                self.seen += m.end()
                return m
            if time.monotonic() > end or not self.read(0.1):
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError(f"{pattern!r} was not shown in:\n{self.shown[self.seen:]}\n(all: {self.shown})")

    def type(self, text):
        os.write(self.fd, text.encode())

    def stop_output(self):
        """Types Ctrl-S and waits until the terminal has stopped."""
        fcntl.ioctl(self.fd, termios.TIOCPKT, struct.pack("i", 1))
        self.type("\x13")
        while not os.read(self.fd, 4096)[0] & 4:  # TIOCPKT_STOP
            pass
        fcntl.ioctl(self.fd, termios.TIOCPKT, struct.pack("i", 0))

    def echoes(self):
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def wait(self, seconds=60):
        """Exit status once the command has ended; negative: the signal that ended it."""
        end = time.monotonic() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"it did not end:\n{self.shown}")
            self.read(0.05)
        while select.select([self.fd], [], [], 0.05)[0] and self.read(0):
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)
