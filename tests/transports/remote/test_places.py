"""Places: their command lines, their paths, and what they refuse."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hackamore import Options, OptionsError, Session
from hackamore.fleet import Copy, Fleet
from hackamore.policy import Machine, Policy, PolicyError, Rule
from hackamore.testing import Script, SimulatedCLI
from hackamore.transports.process.prepare import launch_plan
from hackamore.transports.remote import SSH, Command, Container, Machines, PathMap
from tests.contract import shows


def test_the_arguments_of_a_user_come_first_and_a_host_is_no_option() -> None:
    argv = list(SSH("ada@build1", arguments=["-F", "mine"], connect_seconds=7).link_argv("PROGRAM"))
    assert argv[:3] == ["ssh", "-F", "mine"]
    assert "ConnectTimeout=7" in argv
    assert "BatchMode=yes" in argv
    assert argv[-3:] == ["--", "ada@build1", "exec sh -c 'PROGRAM'"]
    for host in ("", "-oProxyCommand=touch x"):
        with pytest.raises(ValueError, match="name of a machine"):
            SSH(host)


def test_a_container_has_its_mounts_and_not_its_entry_point() -> None:
    place = Container("img:1", mounts={".": "/repo"}, runtime="docker", arguments=["--network", "none"])
    argv = list(place.link_argv("PROGRAM"))
    assert argv[:4] == ["docker", "run", "--rm", "-i"]
    assert f"--mount=type=bind,source={os.getcwd()},target=/repo" in argv
    assert argv[-7:] == ["--network", "none", "--entrypoint", "sh", "img:1", "-c", "PROGRAM"]
    assert place.folder(None) == "/repo"
    assert place.folder(os.path.join(os.getcwd(), "src")) == "/repo/src"
    running = Container(attach="box", runtime="podman").link_argv("PROGRAM")
    assert list(running) == ["podman", "exec", "-i", "box", "sh", "-c", "PROGRAM"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"image": "a", "attach": "b"},
        {"image": "--privileged"},
        {"attach": ""},
        {"attach": "b", "mounts": {".": "/x"}},
        {"image": "a", "mounts": {".": "x"}},
        {"image": "a", "mounts": {".": "/x,readonly"}},
        {"image": "a", "heartbeat": 0.5},
        {"image": "a", "heartbeat": float("inf")},
        {"image": "a", "connect_seconds": float("nan")},
        {"image": "a", "connect_seconds": 0},
    ],
)
def test_a_container_that_cannot_be_meant_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="`"):
        Container(**given)


def test_a_command_is_a_list_and_names_of_variables_too() -> None:
    with pytest.raises(TypeError, match="list of arguments"):
        Command("kubectl exec pod")
    with pytest.raises(TypeError, match="list of names"):
        SSH("build1", env="TOKEN")
    assert repr(Command(["/bin/env", "TOKEN=secret", "kubectl"])) == "<Command env>"
    assert list(Command(["kubectl", "exec"]).link_argv("PROGRAM")) == ["kubectl", "exec", "sh", "-c", "PROGRAM"]


def test_a_variable_that_no_shell_can_set_is_refused() -> None:
    transport = Command(["sh"]).for_sync()
    with pytest.raises(OptionsError, match="'A-B'"):
        transport.start(launch_plan(Options(env={"A-B": "x"}), find=False))
    transport.stop(turn_open=False)


@shows("remote.paths")
def test_paths_are_mapped_part_by_part_and_back() -> None:
    paths = PathMap({"/home/ada/repo": "/srv/repo", "/home/ada/repo/data": "/data"})
    assert paths.far("/home/ada/repo") == "/srv/repo"
    assert paths.far("/home/ada/repo/../repo/src/a.py") == "/srv/repo/src/a.py"
    assert paths.far("/home/ada/repo/data/x") == "/data/x"
    assert paths.far("/home/ada/repository") == "/home/ada/repository"
    assert paths.far("~/repo") == "~/repo"
    assert paths.near("/srv/repo/src/../a.py") == "/home/ada/repo/a.py"
    assert paths.near("/srv/repo/../secret") == "/srv/repo/../secret"
    assert paths.near("/data/x") == "/home/ada/repo/data/x"
    assert not paths.has("/home/ada")


@shows("remote.workspaces")
def test_a_workspace_needs_a_folder_that_both_sides_have(tmp_path: Any) -> None:
    workspace = Copy(str(tmp_path / "from"), to=str(tmp_path / "work"))
    for transport in (SSH("build1"), Machines(SSH("a", paths={str(tmp_path): "/x"}), SSH("b"))):
        with pytest.raises(OptionsError, match="on this machine, and the CLI runs on another one"):
            Fleet(str(tmp_path / "fleet.db"), workspace=workspace, transport=transport)
    Fleet(str(tmp_path / "fleet.db"), workspace=workspace, transport=SSH("a", paths={str(tmp_path): "/x"}))


@shows("remote.policy")
def test_a_policy_says_whose_paths_it_means() -> None:
    rules = [Rule(tool="Edit", path="{repo}/**", decision="allow")]
    here = Policy(rules, roots={"repo": "."})
    with pytest.raises(OptionsError, match="takes paths for those of this machine") as caught:
        Session(Options(policy=here), transport=SSH("build1"))
    assert caught.value.field == "policy"
    there = Policy(rules, roots={"repo": "~/repo"}, machine=Machine("build1", home="/home/agent"))
    Session(Options(policy=there), transport=SSH("build1"))
    verdict = there.decide("Edit", {"file_path": "/home/agent/repo/a/../b.py"}, cwd="/")
    assert (verdict.decision, "those of build1" in verdict.reason) == ("allow", True)
    for path in ("/home/agent/repo/../.ssh/config", "~/.ssh/config", "~root/repo/x", "repo/x"):
        assert there.decide("Edit", {"file_path": path}, cwd="/tmp").decision == "ask", path
    with pytest.raises(PolicyError, match="absolute path of build1"):
        Policy(rules, roots={"repo": "."}, machine=Machine("build1", home="/home/agent"))


def test_the_home_of_a_command_is_that_of_the_machine() -> None:
    pytest.importorskip("tree_sitter")
    policy = Policy.read_only(machine=Machine("build1", home="/home/agent"))
    for command in ("cat /home/agent/.ssh/id_rsa", "cat ~/.ssh/id_rsa", 'cat "$HOME"/.ssh/id_rsa'):
        verdict = policy.decide("Bash", {"command": command}, cwd="/srv")
        assert (verdict.decision, verdict.rule) == ("ask", "secrets"), command
    assert policy.decide("Bash", {"command": "cat README.md"}, cwd="/srv").decision == "allow"


def test_a_simulation_is_no_other_machine() -> None:
    here = Policy([Rule(tool="Edit", path="/x/**", decision="allow")])
    Session(Options(policy=here), transport=SimulatedCLI(Script().user("hi").says("Hello.")))
