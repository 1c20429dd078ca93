"""The transports of other machines conform, on each shell; nothing is left over there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hackamore import Options, Timeouts
from hackamore.testing import check_transport
from hackamore.transports.remote import SSH, Command, Container, Place
from tests.contract import shows
from tests.support.machines import Podman, Sshd, eventually

if TYPE_CHECKING:
    from tests.support.shell import Shell

PYTHON = ("/usr/bin/python3", "-I", "-S")
# Python is not in the image: it has that of this machine.
OF_THIS_MACHINE = [part for folder in ("/usr", "/lib", "/lib64") for part in ("-v", f"{folder}:{folder}:ro")]


def check(place: Place, shell: Shell, python: tuple[str, ...] = PYTHON) -> None:
    # What is to be ended by force over there gets a second, not five.
    place = place.configured(Options(timeouts=Timeouts(kill_grace=1)))
    report = check_transport(place, shells=[shell.backend], python=python)
    print(
        f"{place!r}, {shell.backend}: {len(report.findings)} rules, {sum(one.seconds for one in report.findings):.1f} s"
    )
    report.raise_for_failures()


@shows("remote.conformance")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("program", ["dash", "bash", "busybox"])
def test_command(program: str, shell: Shell, tmp_path: Path) -> None:
    # `sh` over there is the one that PATH has.
    (tmp_path / "sh").symlink_to(f"/bin/{program}")
    check(Command(["env", f"PATH={tmp_path}:/usr/bin:/bin"]), shell, (sys.executable, "-I", "-S"))


@contextmanager
def left_empty(far: Sshd) -> Iterator[None]:
    yield
    assert eventually(lambda: not far.children()), far.lines()
    assert far.files() == []


@shows("remote.conformance")
@pytest.mark.timeout(180)
def test_ssh(shell: Shell) -> None:
    with Sshd() as far, left_empty(far):
        check(SSH(far.host, arguments=far.ssh_arguments), shell)


@shows("remote.conformance")
@pytest.mark.timeout(180)
def test_ssh_to_a_machine_with_busybox_only(shell: Shell) -> None:
    with Sshd(shell="ash", busybox=True) as far, left_empty(far):
        check(SSH(far.host, arguments=far.ssh_arguments), shell)


@shows("remote.conformance")
@pytest.mark.timeout(180)
def test_new_containers(shell: Shell, podman: Podman) -> None:
    check(Container(podman.image, runtime=str(podman.runtime), arguments=OF_THIS_MACHINE), shell)
    assert eventually(lambda: not podman.containers()), podman.containers()


@shows("remote.conformance")
@pytest.mark.timeout(180)
def test_a_container_that_runs(shell: Shell, podman: Podman) -> None:
    started = podman.run("run", "-d", "--rm", *OF_THIS_MACHINE, podman.image, "sleep", "1000")
    name = started.stdout.strip()
    assert name, started
    try:
        check(Container(attach=name, runtime=str(podman.runtime)), shell)
        assert eventually(lambda: "eval" not in podman.run("exec", name, "ps", "-o", "args").stdout)
    finally:
        podman.run("rm", "-f", "-t", "0", name)
