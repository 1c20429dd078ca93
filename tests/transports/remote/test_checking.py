"""`check` of a place: each broken set-up has a finding of its own, and a healthy machine has none."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from hackamore import Options
from hackamore.errors import OptionsError, RemoteStartError
from hackamore.policy import Policy
from hackamore.testing import ScriptedModel
from hackamore.transports.remote import SSH, CheckReport, Command, Container
from hackamore.transports.remote.places import Place
from tests.contract import shows
from tests.support.leaks import wait_gone
from tests.support.machines import SET_UPS, Podman, Sshd, set_up
from tests.support.servers import free_port
from tests.support.shell import Shell

CODES = {
    "no-cli": "no-cli",
    "old-cli": "old-version",
    "no-login": "no-login",
    "read-only-home": "read-only-home",
    "no-folder": "no-folder",
    "noisy": "noisy-shell",
    "fish": "other-shell",
    "tcsh": "other-shell",
    "no-locale": "no-locale",
    "host-key": "host-key",
    "key-refused": "key-refused",
    "no-space": "no-temp",
    "clock": "clock-off",
}
WARNINGS = {"read-only-home", "noisy-shell", "other-shell", "no-locale", "clock-off", "no-space", "no-version"}
CUT = "ssh_dispatch_run_fatal: Connection to 127.0.0.1 port 59619: Broken pipe"  # its sshd was killed during the exchange of keys
KEY = "sk-ant-a-key-of-a-test"
ANSWERS = "if [ \"$1\" = --version ]; then echo '2.1.330 (Claude Code)'; exit; fi\n"
READY = "read -r line\necho '" + json.dumps({"type": "control_response", "response": {"subtype": "success"}}) + "'\n"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model
        assert model.requests == ()


def options(model: ScriptedModel, *, login: bool = True, **more: Any) -> Options:
    return Options(env={name: value for name, value in model.env.items() if login or "API_KEY" not in name}, **more)


def codes(report: CheckReport) -> list[str]:
    assert report.ok == all(finding.code in WARNINGS for finding in report.findings)
    return [finding.code for finding in report.findings]


def check(shell: Shell, place: Place, *arguments: Any) -> CheckReport:
    found: list[CheckReport] = []

    async def scenario() -> None:
        found.append(place.check_sync(*arguments) if shell.blocking else await place.check(*arguments))

    shell.play(scenario)
    return found[0]


@shows("remote.findings")
@pytest.mark.real_cli
def test_a_healthy_machine(shell: Shell, far: Sshd, model: ScriptedModel) -> None:
    steps: list[str] = []
    place = SSH(far.host, arguments=far.ssh_arguments, cwd=str(far.work))
    report = check(shell, place, options(model), steps.append)
    assert codes(report) == [], report
    report.raise_for_findings()
    assert steps == ["Connecting", "Looking around", "Starting the CLI", "A hook"]
    facts = dict(report.facts)
    assert facts.pop("system").startswith("Linux ")
    assert 0 < facts.pop("round_trip") < 60
    assert facts == {
        "user": "agent",
        "shell": "dash",
        "home": str(far.home),
        "folder": str(far.work),
        "temp": "/dev/shm",
        "locale": "C.UTF-8",
        "cli": str(far.bin / "claude"),
        "version": "2.1.330",
        "login": "ANTHROPIC_API_KEY",
    }
    assert str(report).startswith("ssh://far: ready\n")
    assert list(far.home.glob(".claude/projects/*/*.jsonl")) == []
    assert [name for name in far.files() if name.startswith("hackamore")] == []


@pytest.mark.real_cli
def test_a_machine_with_busybox_only(claude_path: str, model: ScriptedModel) -> None:
    with Sshd(shell="ash", busybox=True, claude=claude_path) as far:
        report = SSH(far.host, arguments=far.ssh_arguments).check_sync(options(model))
        assert codes(report) == [], report
        assert report.facts["folder"] == report.facts["home"] == str(far.home)


@pytest.mark.real_cli
def test_a_container(podman: Podman, model: ScriptedModel) -> None:
    report = Container(podman.image, runtime=str(podman.runtime)).check_sync(options(model))
    assert codes(report) == [], report
    for image in ("localhost/no-such-image", "no/such-image"):  # the second one names no registry
        missing = Container(image, runtime=str(podman.runtime)).check_sync()
        assert codes(missing) == ["no-container"], missing


@shows("remote.findings")
@pytest.mark.real_cli
@pytest.mark.parametrize("name", SET_UPS)
def test_each_broken_set_up_has_its_own_finding(name: str, claude_path: str, model: ScriptedModel) -> None:
    with set_up(name, claude_path) as (_, row, arguments):
        report = SSH(**arguments).check_sync(options(model, login=row.login))
        assert codes(report) == [CODES[name]], report
        ((code, level, text, fix),) = report.findings
        assert code in str(report)
        assert text in str(report)
        assert fix in str(report)
        if level == "error":
            with pytest.raises(RemoteStartError) as caught:
                report.raise_for_findings()
            assert (caught.value.code, caught.value.fix) == (code, fix)
        else:
            report.raise_for_findings()


@pytest.mark.parametrize(
    ("text", "found", "says"),
    [
        ("echo broken >&2\nexit 3\n", "no-start", "it ended with code 3, and said: broken"),
        (READY + 'read -r line\necho \'{"type":"assistant"}\'\nread -r line\n', "no-hook", "no hook"),
        (READY.replace("success", "error") + "read -r line\n", "no-start", "does not start"),
        ("head -c 5000000 /dev/zero | tr '\\0' x\nread -r line\n", "no-start", "more than"),
        ('printf \'\\036\\033[31m\\n[]\\n{"type":[]}\\n{"type":"result","response":7}\\n\'\n', "no-start", "code 0"),
    ],
    ids=["exits", "no-hook", "refuses", "floods", "writes-nonsense"],
)
def test_a_cli_that_does_not_work(shell: Shell, text: str, found: str, says: str) -> None:
    with Sshd(programs={"claude": f"#!/bin/sh\n{ANSWERS}{text}"}) as far:
        report = check(shell, SSH(far.host, arguments=far.ssh_arguments))
        assert codes(report) == [found], report
        assert says in report.findings[0].text


def test_a_version_that_does_not_come() -> None:
    programs = {
        "sleep": "#!/bin/sh\nexec /bin/sleep 0.02\n",
        "claude": '#!/bin/sh\n[ "$1" = --version ] || exit 4\n/bin/sleep 1000 &\nwait\n',
    }
    with Sshd(programs=programs) as far:
        # The seconds of a silence over there are as short as those of the version.
        report = SSH(far.host, arguments=far.ssh_arguments, heartbeat=3_600).check_sync()
        assert codes(report) == ["no-version", "no-start"], report
        assert "no answer within 20 s" in report.findings[0].text
        assert all(map(wait_gone, far.children()))


def test_texts_of_the_other_side_are_safe_to_show() -> None:
    claude = '#!/bin/sh\nprintf \'hello \\033[31m %s %s\' "$ANTHROPIC_API_KEY" "$MINE"\nexit 3\n'
    with Sshd(programs={"claude": claude}, shell="bash", rc="printf 'Hi\\033]0;x\\007\\n'") as far:
        place = SSH(far.host, arguments=far.ssh_arguments)
        report = place.check_sync(Options(env={"ANTHROPIC_API_KEY": KEY, "MINE": "canary-of-mine"}))
        assert codes(report) == ["noisy-shell", "no-version", "no-start"], report
        assert all(character >= " " or character == "\n" for character in str(report))
        assert "\\x1b[31m" in report.findings[1].text
        assert KEY not in str(report)
        assert "canary-of-mine" not in str(report)


def test_a_disk_that_is_nearly_full() -> None:
    with Sshd(setup='mount -t tmpfs -o size=64k,uid=$user none "$home"') as far:
        report = SSH(far.host, arguments=far.ssh_arguments).check_sync()
        assert codes(report) == ["no-space", "no-cli"], report


def test_a_folder_of_the_configuration_that_cannot_be_written() -> None:
    with Sshd() as far:
        report = SSH(far.host, arguments=far.ssh_arguments).check_sync(
            Options(env={"CLAUDE_CONFIG_DIR": "/proc/here/below"})
        )
        assert codes(report) == ["read-only-home", "no-cli"], report


@pytest.mark.parametrize(
    ("place", "code"),
    [
        (Command(["false"]), "closed"),
        (Command(["sh", "-c", "exec sleep 1000"], connect_seconds=0.2), "timeout"),
        (SSH("far", program="/nonexistent/ssh"), "no-program"),
        (SSH("127.0.0.1", arguments=["-F", "none", "-p", str(free_port())]), "unreachable"),
        (Command(["sh", "-c", f"echo '{CUT}' >&2; exit 255"]), "unreachable"),
    ],
    ids=["closed", "timeout", "no-program", "unreachable", "cut"],
)
def test_a_link_that_does_not_come_about(shell: Shell, place: Place, code: str) -> None:
    report = check(shell, place)
    assert codes(report) == [code], report
    assert report.facts == {}


PROBE = """
import os, sys
tag = os.read(0, 100).split()[0].decode().partition("=")[2]
sys.stdout.write(f"\x1e{tag} ready\\n" + sys.argv[1] * int(sys.argv[2]) + f"\x1e{tag} exit 0\\n")
"""


@pytest.mark.parametrize(
    "line", ["clock 1", f"clock {'9' * 5_000}", f"clock {'9' * 400}", f"free {'9' * 5_000}", "free 1"]
)
def test_a_far_side_that_makes_its_facts_up(line: str) -> None:
    report = Command([sys.executable, "-c", PROBE, f"{line}\n", "500"], name="far").check_sync()
    assert codes(report)[-1] == "no-cli"
    assert len(codes(report)) <= 2


def test_options_that_do_not_fit_are_the_mistake_of_the_caller(shell: Shell) -> None:
    with pytest.raises(OptionsError, match="policy"):
        check(shell, Command(["sh"]), Options(policy=Policy.read_only()))
