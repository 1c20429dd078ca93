"""Other machines on this one: OpenSSH's sshd on loopback, where an ordinary user logs in, and containers of podman without a registry."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.support.leaks import alive, command_line, wait_gone
from tests.support.patience import patience
from tests.support.servers import Missing, Server, find

if TYPE_CHECKING:
    from typing import Self

USER = 20_001 if os.geteuid() == 0 else os.geteuid()
GROUP = 20_001 if os.geteuid() == 0 else os.getegid()

# The machine has mounts and process ids of its own, so it can have another passwd file, and all of its processes are known by their
# namespace and end with the first one. Without root it needs a namespace of users, which not every system allows.
UNSHARE = ("unshare", "-m", "-p", "-f", "--mount-proc", "--kill-child")
ROOTLESS = ("-U", "--map-current-user", "--keep-caps")
DROP = f"--reuid {USER} --regid {GROUP} --clear-groups" if os.geteuid() == 0 else "--ambient-caps -all --inh-caps -all"

START_UP_FILES = {
    "bash": ".bashrc",
    "fish": ".config/fish/config.fish",
    "tcsh": ".tcshrc",
    # These read nothing for a command; sshd runs this file for each of them.
    "dash": ".ssh/rc",
    "ash": ".ssh/rc",
}


def unshared() -> list[str]:
    """Return the start of a command line that gives a program mounts and process ids of its own.

    Raises:
        Missing: the system does not allow it.
    """
    find("setpriv")
    start = [find("unshare"), *UNSHARE[1:], *(() if os.geteuid() == 0 else ROOTLESS)]
    probe = [*start, "sh", "-ec", 'mount -t tmpfs none "$1"; mount --bind "$1" /etc', "probe", "/mnt"]
    tried = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=False)
    if tried.returncode:
        raise Missing(f"this machine does not allow namespaces of mounts: {tried.stderr.strip()}")
    return start


class Sshd(Server):
    """A machine that is reached by `ssh`: a user with a home, a login shell, a PATH and mounts of its own.

    It ends with the block, or with this process.

    Args:
        shell: the login shell: dash, bash, ash (of busybox), fish or tcsh.
        rc: commands at the start of each login, in the language of the shell.
        claude: the program `claude` in the PATH; None for none.
        programs: texts of more programs in the PATH, before those of the system.
        variables: more variables of logins.
        busybox: True if the PATH has busybox only.
        setup: commands of sh before sshd starts, as root over there: mounts. They may use `$home`, `$tmp` and `$user`.
        name: the name of the host in the configuration of `ssh`.

    Attributes:
        host: the name of the host.
        ssh_arguments: arguments of `ssh` that make it use the configuration.
        home: the home over there.
        work: a folder for `cwd`, not in the home.
        tmp: the folder for temporary files over there.
        near: the folder with what the near side of ssh needs: `config`, `key`, `known_hosts`.
        pid: the process id of sshd here.
    """

    def __init__(
        self,
        *,
        shell: str = "dash",
        rc: str = "",
        claude: str | os.PathLike[str] | None = None,
        programs: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
        busybox: bool = False,
        setup: str = "",
        name: str = "far",
    ) -> None:
        self.shell, self.rc, self.claude, self.busybox, self.setup, self.host = shell, rc, claude, busybox, setup, name
        self.programs = programs or {}
        folder = Path(tempfile.mkdtemp(prefix="hackamore-sshd-"))
        folder.chmod(0o711)
        self.home, self.work, self.tmp = folder / "home", folder / "work", folder / "tmp"
        self.bin, self.near = folder / "bin", folder / "near"
        self.ssh_arguments = ["-F", str(self.near / "config")]
        path = str(self.bin) if busybox else f"{self.bin}:/usr/bin:/bin"
        self.variables = {"PATH": path, "LANG": "C.UTF-8", "TMPDIR": str(self.tmp), **(variables or {})}
        self.pid = 0
        try:
            super().__init__(folder)
            self.pid = _children(self.process.pid)[0] if self.process is not None else 0
        except Missing as reason:
            shutil.rmtree(folder)
            pytest.skip(str(reason))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prepare(self) -> None:
        self.start_of_command = unshared()
        find("ssh")
        for path in (self.work, self.tmp, self.bin, self.home / ".ssh"):
            path.mkdir(parents=True)
        self.near.mkdir(mode=0o700)
        for key in (self.near / "key", self.folder / "host_key"):
            make_key(key)
        self.admit(self.near / "key")
        self.know(self.folder / "host_key")
        self._configure()
        if self.rc:
            file = self.home / START_UP_FILES[self.shell]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.rc)
        if self.busybox or self.shell == "ash":
            names = subprocess.run([find("busybox"), "--list"], capture_output=True, text=True, check=True).stdout
            for applet in names.split() if self.busybox else ["ash"]:
                (self.bin / applet).symlink_to(find("busybox"))
        for program, text in self.programs.items():
            (self.bin / program).write_text(text)
            (self.bin / program).chmod(0o755)
        # An empty file that the program is mounted over: its own place may be in a folder that the user cannot read.
        if self.claude is not None:
            (self.bin / "claude").touch()
        if os.geteuid() == 0:
            for path in (self.home, self.work, self.tmp, *self.home.rglob("*"), self.folder / "host_key"):
                os.chown(path, USER, GROUP)

    def _configure(self) -> None:
        shell = self.bin / "ash" if self.shell == "ash" else find(self.shell)
        passwd = Path("/etc/passwd").read_text()
        others = [line for line in passwd.splitlines() if line.split(":")[2] != str(USER)]
        entry = f"agent:x:{USER}:{GROUP}::{self.home}:{shell}"
        (self.folder / "passwd").write_text("\n".join([entry, *others]) + "\n")
        variables = " ".join(f'"{name}={value}"' for name, value in self.variables.items())
        (self.folder / "sshd_config").write_text(
            f"""\
ListenAddress 127.0.0.1
Port {self.port}
HostKey {self.folder}/host_key
AuthorizedKeysFile {self.folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PrintLastLog no
MaxStartups 200
MaxSessions 200
SetEnv {variables}
"""
        )
        (self.near / "config").write_text(
            f"""\
Host {self.host}
  HostName 127.0.0.1
  Port {self.port}
  User agent
  IdentityFile {self.near}/key
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile {self.near}/known_hosts
  GlobalKnownHostsFile none
"""
        )

    def know(self, key: Path) -> None:
        """Make the near side know this host by a key."""
        words = key.with_suffix(".pub").read_text().split()
        (self.near / "known_hosts").write_text(f"[127.0.0.1]:{self.port} {words[0]} {words[1]}\n")

    def admit(self, key: Path) -> None:
        """Let a key log in, and no other."""
        (self.folder / "authorized_keys").write_bytes(key.with_suffix(".pub").read_bytes())

    def command(self) -> list[str]:
        mounted = f"home={self.home} tmp={self.tmp} user={USER}\nmount --bind {self.folder}/passwd /etc/passwd\n"
        mounted += "mount -t tmpfs -o mode=1777 none /dev/shm\n"
        if self.claude is not None:
            mounted += f"mount --bind {shlex.quote(os.fspath(self.claude))} {self.bin}/claude\n"
        sshd = f"{find('sshd')} -D -e -f {self.folder}/sshd_config"
        return [
            *self.start_of_command,
            "sh",
            "-ec",
            f"{mounted}{self.setup}\nexec setpriv --pdeathsig keep {DROP} {sshd}",
        ]

    def ready(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            return connection.recv(4) == b"SSH-"
        return False

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command over there, in the login shell, by plain `ssh`."""
        line = ["ssh", *self.ssh_arguments, *arguments, self.host, command]
        return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    def log(self) -> str:
        """Return what sshd has said."""
        return (self.folder / "log").read_text(errors="replace")

    def children(self) -> list[int]:
        """Return the processes that run over there, as process ids here, without those of sshd itself."""
        return [pid for pid in self._everything() if _name(pid) != "sshd"]

    def connections(self) -> list[int]:
        """Return the processes of sshd that serve a connection: for each one the monitor, then the one that talks."""
        return [pid for pid in self._everything() if _name(pid) == "sshd" and pid != self.pid]

    def files(self) -> list[str]:
        """Return the temporary files of Hackamore over there."""
        folders = (self.tmp, self.home, Path("/proc", str(self.pid), "root", "dev", "shm"))
        return [name for folder in folders for name in os.listdir(folder) if name.startswith("hackamore")]

    def lines(self) -> list[str]:
        """Return the command lines of `children()`."""
        return [command_line(pid) for pid in self.children()]

    def _everything(self) -> Iterable[int]:
        namespace = _namespace(self.pid)
        found = (int(name) for name in os.listdir("/proc") if name.isdigit())
        return sorted(pid for pid in found if namespace and _namespace(pid) == namespace and alive(pid))

    def close(self) -> None:
        """End sshd and everything that runs over there, and remove the folder."""
        self.kill()
        if self.pid:
            assert wait_gone(self.pid)
        shutil.rmtree(self.folder, ignore_errors=True)


class SetUp(NamedTuple):
    """A machine on which something is wrong, or unusual.

    Attributes:
        machine: arguments of `Sshd`.
        claude: True if the machine has the CLI that the test gives.
        login: True if the caller sends a key for the API.
        cwd: the folder over there, below that of the machine.
        afterwards: changes it once it runs.
    """

    machine: Mapping[str, Any] = {}
    claude: bool = True
    login: bool = True
    cwd: str = "work"
    afterwards: Callable[[Sshd], object] = lambda far: None


FULL = 'mount -t tmpfs -o size=64k,uid=$user none "{0}"; head -c 1M /dev/zero >"{0}/full" 2>/dev/null || :\n'

SET_UPS: dict[str, SetUp] = {
    "no-cli": SetUp(claude=False),
    "old-cli": SetUp({"programs": {"claude": "#!/bin/sh\necho '1.0.0 (Claude Code)'\n"}}, claude=False),
    "no-login": SetUp(login=False),
    "read-only-home": SetUp({"setup": 'mount --bind "$home" "$home"; mount -o remount,bind,ro "$home"'}),
    "no-folder": SetUp(cwd="missing"),
    "noisy": SetUp({"shell": "bash", "rc": 'echo Welcome to build1\necho \'{"type":"system"}\'\n'}),
    "fish": SetUp({"shell": "fish"}),
    "tcsh": SetUp({"shell": "tcsh"}),
    "no-locale": SetUp({"variables": {"LANG": "", "LC_ALL": "xx_XX"}}),
    "host-key": SetUp(afterwards=lambda far: far.know(make_key(far.near / "former"))),
    "key-refused": SetUp(afterwards=lambda far: far.admit(make_key(far.near / "former"))),
    "no-space": SetUp({"setup": "".join(FULL.format(place) for place in ("$home", "$tmp", "/dev/shm"))}),
    "clock": SetUp({"programs": {"date": "#!/bin/sh\nexec /bin/date -d '-5 hours' \"$@\"\n"}}),
}
"""The set-ups that `check` has a finding for, by a name of what is wrong."""


@contextmanager
def set_up(name: str, claude: str | os.PathLike[str]) -> Iterator[tuple[Sshd, SetUp, dict[str, Any]]]:
    """Run a machine of `SET_UPS`.

    Yields:
        The machine, the row, and the arguments for `SSH(**arguments)`.
    """
    row = SET_UPS[name]
    with Sshd(claude=claude if row.claude else None, **row.machine) as far:
        row.afterwards(far)
        yield far, row, {"host": far.host, "arguments": far.ssh_arguments, "cwd": str(far.folder / row.cwd)}


PODMAN_CONFIGURATION = """\
[containers]
# podman asks for more than this process may have, where it has no CAP_SYS_RESOURCE.
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
# A model of the tests listens on loopback; `--network=none` is for a container without.
netns = "host"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "{runtime}"
"""
# The parts of `podman` that stay when the client is killed are known by the folder on their command line.
PODMAN_PROGRAM = """\
#!/bin/sh
CONTAINERS_CONF={folder}/containers.conf
export CONTAINERS_CONF
exec {podman} --root {folder}/root --runroot {folder}/run --tmpdir {folder}/tmp --storage-driver {driver} "$@"
"""
PODMAN_GUARD = 'read -r over || { "$1/podman" rm -afi -t 0; rm -rf -- "$1"; } >/dev/null 2>&1'


class Podman:
    """Containers of podman with a store of their own, and an image that has busybox and the libraries of a program, no Python.

    They end with the block, or with this process.

    Args:
        claude: the program `claude` in the image; None for none.

    Attributes:
        runtime: a program `podman` with the options that make it use the store.
        image: the name of the image.
    """

    image = "localhost/busybox:1"

    def __init__(self, claude: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hackamore-podman-"))
        self.runtime = self.folder / "podman"
        self.guard: subprocess.Popen[bytes] | None = None
        try:
            self._start(claude)
        except Missing as reason:
            self.close()
            pytest.skip(str(reason))
        except BaseException:
            self.close()
            raise

    def _start(self, claude: str | os.PathLike[str] | None) -> None:
        podman = find("podman")
        # crun refuses the mixture of both versions of control groups that some systems have; runc takes it.
        runtime = shutil.which("runc", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin") or find("crun")
        name = os.path.basename(runtime)
        configuration = f'{PODMAN_CONFIGURATION.format(runtime=name)}[engine.runtimes]\n{name} = ["{runtime}"]\n'
        (self.folder / "containers.conf").write_text(configuration)
        archive = busybox_root(self.folder, claude)
        guarding = ["/bin/sh", "-c", PODMAN_GUARD, "guard", str(self.folder)]
        self.guard = subprocess.Popen(guarding, stdin=subprocess.PIPE, start_new_session=True)
        said = ""
        for driver in ("overlay", "vfs"):
            self.runtime.write_text(PODMAN_PROGRAM.format(folder=self.folder, podman=podman, driver=driver))
            self.runtime.chmod(0o755)
            for arguments in (["import", "-q", str(archive), self.image], ["run", "--rm", self.image, "true"]):
                done = self.run(*arguments)
                said = done.stderr.strip()
                if done.returncode:
                    break
            else:
                archive.unlink()
                return
            shutil.rmtree(self.folder / "root", ignore_errors=True)
        raise Missing(f"podman with {name} runs no container on this machine: {said[-500:]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `podman` with arguments."""
        return subprocess.run(
            [self.runtime, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def containers(self) -> list[str]:
        """Return the ids of all containers, also of those that do not run."""
        return self.run("ps", "-aq").stdout.split()

    def processes(self) -> list[int]:
        """Return the processes of podman and its monitors that still run."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if f"{self.folder}/root" in command_line(pid) and alive(pid)]

    def close(self) -> None:
        """End and remove all containers, and the store."""
        if self.guard is not None:
            self.run("rm", "-afi", "-t", "0")
            while left := self.processes():  # monitors that clean up: they would make the folder again
                assert all(map(wait_gone, left))
            self.guard.communicate(b"over\n", 60)
        shutil.rmtree(self.folder, ignore_errors=True)


def busybox_root(folder: Path, claude: str | os.PathLike[str] | None) -> Path:
    """Make an archive of a root file system: busybox, the libraries of it and of a program, and the program as `claude`.

    Returns:
        The archive, for `podman import`.
    """
    busybox = find("busybox")
    programs = [Path(busybox), *([Path(claude)] if claude is not None else [])]
    libraries = {
        found
        for program in programs
        for found in re.findall(
            r"/\S+", subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        )
    }
    archive = folder / "root.tar"
    with tarfile.open(archive, "w") as tar:

        def link(name: str, target: str) -> None:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)

        def new(name: str, mode: int) -> None:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)

        for name in (
            "bin",
            "dev",
            "etc",
            "home",
            "proc",
            "root",
            "sys",
            "usr",
            "usr/bin",
            "usr/local",
            "usr/local/bin",
        ):
            new(name, 0o755)
        new("tmp", 0o1777)
        tar.add(busybox, "bin/busybox")
        for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
            if applet != "busybox":
                link(f"bin/{applet}", "busybox")
        for library in sorted(libraries):
            tar.add(os.path.realpath(library), library.lstrip("/"))
        if claude is not None:
            tar.add(os.path.realpath(claude), "usr/local/bin/claude")
        passwd = tarfile.TarInfo("etc/passwd")
        line = b"root:x:0:0::/root:/bin/sh\n"
        passwd.size = len(line)
        tar.addfile(passwd, io.BytesIO(line))
    return archive


def eventually(condition: Callable[[], Any], seconds: float = 10.0) -> bool:
    """Wait until the condition holds; return whether it does."""
    until = time.monotonic() + patience(seconds)
    while not condition():
        if time.monotonic() > until:
            return False
        threading.Event().wait(0.02)
    return True


def make_key(path: Path) -> Path:
    """Make a key without a passphrase, and `path.pub`."""
    subprocess.run([find("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    return path


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _namespace(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
