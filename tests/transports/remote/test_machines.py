"""The laboratory itself: what the other machines of these tests are."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.leaks import wait_gone
from tests.support.machines import SET_UPS, USER, Podman, Sshd, eventually, set_up


@pytest.mark.parametrize("shell", ["dash", "bash", "ash", "fish", "tcsh"])
def test_a_machine_has_a_user_a_home_and_a_login_shell(shell: str) -> None:
    with Sshd(shell=shell, rc="echo noise\n") as far:
        found = far.run("id -u; pwd; env; exit 3")
        assert found.stdout.splitlines()[:3] == ["noise", str(USER), str(far.home)]
        assert {f"{name}={value}" for name, value in far.variables.items()} < set(found.stdout.splitlines())
        assert f"HOME={far.home}" in found.stdout
        assert found.returncode == 3
        assert os.path.basename(far.run("echo $SHELL").stdout.split()[-1]) == shell
        assert far.run("claude").returncode in {1, 127}
        assert eventually(lambda: not far.children()), far.lines()


def test_a_machine_with_busybox_only() -> None:
    with Sshd(shell="ash", busybox=True) as far:
        assert far.run("sh -c 'ls --help' 2>&1").stdout.startswith("BusyBox")
        assert far.run("perl").returncode == 127


def test_the_cli_over_there(claude_path: str) -> None:
    with Sshd(claude=claude_path) as far:
        assert far.run("claude --version").stdout.endswith("(Claude Code)\n")


def test_its_processes_are_known_and_end_with_it() -> None:
    with Sshd() as far:
        line = ["ssh", *far.ssh_arguments, far.host, "setsid sleep 1000 >/dev/null 2>&1 & echo on; exec sleep 1001"]
        with subprocess.Popen(line, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"on\n"
            children = far.children()
            assert eventually(lambda: len(far.connections()) == 2)  # that of the first look at the port may just end
            process.kill()
        far.close()
    assert len(children) == 2
    assert all(wait_gone(pid) for pid in [far.pid, *children])


def test_containers(claude_path: str) -> None:
    with Podman(claude_path) as podman:
        found = podman.run("run", "--rm", "--network=none", podman.image, "claude", "--version")
        assert found.stdout.endswith("(Claude Code)\n"), found
        assert podman.run("run", "--rm", podman.image, "python3").returncode == 127
        assert podman.run("run", "-d", podman.image, "sleep", "1000").returncode == 0
        assert len(podman.containers()) == 1
        assert podman.processes() != []
    assert not podman.folder.exists()
    assert podman.processes() == []


EXPECTED = {
    "no-cli": ("command -v claude", "", ""),
    "old-cli": ("claude --version", "1.0.0 (Claude Code)", ""),
    "no-login": ("env | grep -c ANTHROPIC", "0", ""),
    "read-only-home": ("touch $HOME/x; touch $TMPDIR/x; echo $?", "0", "Read-only file system"),
    "no-folder": ("ls $HOME/../missing", "", "No such file or directory"),
    "noisy": ("echo done", 'Welcome to build1\n{"type":"system"}\ndone', ""),
    "fish": ("echo $version | cut -c1", "3", ""),
    "tcsh": ("echo $tcsh | cut -c1", "6", ""),
    "no-locale": ("echo $LC_ALL$LANG", "xx_XX", ""),
    "host-key": ("echo done", "", "Host key verification failed"),
    "key-refused": ("echo done", "", "Permission denied (publickey)"),
    "no-space": (
        "for f in $HOME $TMPDIR /dev/shm; do head -c 99999 /dev/zero >$f/x; done",
        "",
        "No space left on device",
    ),
    "clock": ("echo $(($(/bin/date +%s) - $(date +%s)))", "18000", ""),
}


@pytest.mark.parametrize("name", SET_UPS)
def test_set_ups(name: str, claude_path: str) -> None:
    command, printed, complaint = EXPECTED[name]
    with set_up(name, claude_path) as (far, row, arguments):
        found = far.run(command)
        assert found.stdout.strip() == printed, found
        assert complaint in found.stderr, found
        assert arguments["cwd"] == str(far.work) or row.cwd == "missing"
