"""Real servers for tests of stores and journals, each on a free port: Redis and PostgreSQL of the operating system, S3 by moto."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import patience


class Missing(Exception):
    """The program is not on this machine."""


_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 20
_PORTS = itertools.cycle(itertools.chain(range(start := os.getpid() % 1_000, 1_000), range(start)))


def free_port() -> int:
    """Return a port for a server that starts later. The system gives it to nobody meanwhile: it chooses among those above 32,767."""
    for number in _PORTS:
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port := 10_000 + 1_000 * _WORKER + number))
            return port
    raise AssertionError


def find(name: str, *folders: str) -> str:
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", *folders))
    found = shutil.which(name, path=path)
    if found is None:
        raise Missing(
            f"{name} is not on this machine (Debian: apt install redis-server postgresql openssh-server busybox)"
        )
    return found


# Ends a server whose tests were killed: then its standard input ends without a line. The arguments are a process and its folder.
GUARD = 'read -r over || { kill -9 "$1"; sleep 1; rm -rf -- "$2"; }'


class Server:
    """A program that listens on a port of this machine. It ends when this process ends, in any way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.guard: subprocess.Popen[bytes] | None = None
        self.prepare()
        self.start()

    def prepare(self) -> None:
        """Make what the program needs."""

    def command(self) -> list[str]:
        raise NotImplementedError

    def ready(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        user, group = self.user_and_group()
        self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, cwd=self.folder, user=user, group=group)
        log.close()
        guarding = ["/bin/sh", "-c", GUARD, "guard", str(self.process.pid), str(self.folder)]
        self.guard = subprocess.Popen(guarding, stdin=subprocess.PIPE, start_new_session=True)
        until = time.monotonic() + patience(60)
        while not self.ready():
            if time.monotonic() > until or self.process.poll() is not None:
                text = (self.folder / "log").read_text(errors="replace")[-2_000:]
                self.kill()
                pytest.fail(f"the server does not start: {text}")
            time.sleep(0.05)

    def user_and_group(self) -> tuple[str | None, int | None]:
        return None, None

    def kill(self, number: int = signal.SIGKILL) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.send_signal(number)
            process.wait(patience(60))
        guard, self.guard = self.guard, None
        if guard is not None:
            guard.communicate(b"over\n", patience(60))

    def listens(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False


def running(kind: type[Server]) -> Iterator[Any]:
    """Yield a running server; skip the test where its program is missing."""
    # Not in the folder of pytest, which is closed to the other user that PostgreSQL may need.
    with tempfile.TemporaryDirectory(prefix=f"hackamore-{kind.__name__.lower()}-") as folder:
        try:
            server = kind(Path(folder))
        except Missing as reason:
            pytest.skip(str(reason))
        try:
            yield server
        finally:
            server.kill()


class Redis(Server):
    """A Redis server that writes each command to the disk before it answers."""

    def prepare(self) -> None:
        self.program = find("redis-server")

    def command(self) -> list[str]:
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
        }
        return [self.program, *(part for name, value in options.items() for part in (f"--{name}", value))]

    def ready(self) -> bool:
        import redis

        try:
            with redis.Redis(port=self.port) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


class Postgres(Server):
    """A PostgreSQL server. It refuses to run as root, so root gives it to another user."""

    def prepare(self) -> None:
        folders = sorted(str(path) for path in Path("/usr/lib/postgresql").glob("*/bin"))
        self.program = os.path.realpath(find("postgres", *folders))
        initdb = os.path.join(os.path.dirname(self.program), "initdb")
        self.user: str | None = None
        if os.geteuid() == 0:
            names = {entry.pw_name for entry in pwd.getpwall()}
            self.user = next((name for name in ("postgres", "nobody") if name in names), None)
            if self.user is None:
                raise Missing("PostgreSQL does not run as root, and there is no other user for it")
            shutil.chown(self.folder, self.user)
        self.data = self.folder / "data"
        user, group = self.user_and_group()
        # Mutation testing starts a server for each change: the first one keeps its empty database here, and the others copy it.
        kept = os.environ.get("HACKAMORE_TEST_POSTGRES")
        if kept and os.path.isdir(kept):
            subprocess.run(["cp", "-a", kept, self.data], check=True)
            return
        done = subprocess.run(
            [initdb, "-D", str(self.data), "-U", "tester", "-A", "trust", "-N", "--no-locale", "-E", "UTF8"],
            capture_output=True,
            cwd=self.folder,
            timeout=patience(120),
            user=user,
            group=group,
        )
        if done.returncode:
            pytest.fail(f"initdb: {done.stderr.decode(errors='replace')[-2_000:]}")
        if kept:
            copy = f"{kept}.{os.getpid()}"
            subprocess.run(["cp", "-a", self.data, copy], check=True)
            with suppress(OSError):  # another process was faster
                os.rename(copy, kept)

    def user_and_group(self) -> tuple[str | None, int | None]:
        return self.user, pwd.getpwnam(self.user).pw_gid if self.user is not None else None

    def command(self) -> list[str]:
        return [self.program, "-D", str(self.data), "-p", str(self.port), "-h", "127.0.0.1", "-k", ""]

    def start(self) -> None:
        (self.data / "postmaster.pid").unlink(missing_ok=True)  # of a server that a test killed
        super().start()

    def ready(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Kill all processes of the server: its children may hold on to its memory for a moment, and a new one would refuse to start."""
        process = self.process
        children = _children(process.pid) if process is not None else []
        super().kill(number)
        until = time.monotonic() + patience(30)
        for child in children:
            with suppress(OSError):
                os.kill(child, number)
            while os.path.exists(f"/proc/{child}") and time.monotonic() < until:
                time.sleep(0.01)

    @property
    def url(self) -> str:
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


class Moto(Server):
    """The S3 of moto. It keeps everything in memory."""

    def command(self) -> list[str]:
        code = "import sys; from moto.server import main; main(['-H', '127.0.0.1', '-p', sys.argv[1]])"
        return [sys.executable, "-W", "ignore", "-c", code, str(self.port)]

    def ready(self) -> bool:
        return self.listens()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"
