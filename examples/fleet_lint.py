"""Fix thirty lint findings with thirty agents, in worktrees; survive a kill and a rate limit; merge what passed the checks.

Needs git and an installed CLI. The model is a script on 127.0.0.1: no account, no network. The agents are real: they read and edit files
with the tools of the CLI. Your part is `drive` and `report`; the rest makes a repository, plays the model, and gets in the way.
"""

from __future__ import annotations

import math
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hackamore import Budget, Options
from hackamore.fleet import ConcurrencyChanged, Fleet, FleetRow, Task, TaskFinished, Worktree
from hackamore.testing import HTTPFailure, Repeat, Reply, ScriptedModel, ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hackamore.testing import ModelRequest

OPTIONS = Options(tools=["Read", "Edit"], permission_mode="acceptEdits", setting_sources=[])


def drive(project: Path, journal: Path) -> None:
    """Run one task for each finding. The same call goes on after a kill."""
    findings = runpy.run_path(str(project / "lint.py"))["findings"](project)
    tasks = [
        Task(
            name,
            f"Fix this finding of lint.py in {path}, function `{name}`: {rule}. Change nothing else.",
            verify=[sys.executable, "check.py", name],
            tags={"rule": rule},
        )
        for path, name, rule in findings
    ]
    fleet = Fleet(journal, OPTIONS, concurrency=4, budget=Budget(usd=5), workspace=Worktree(project))
    with fleet.run(tasks) as run:
        for event in run:
            match event:
                case TaskFinished(row=row):
                    print(f"  {row.task}: {row.state}, attempt {row.attempt}", flush=True)
                case ConcurrencyChanged(limit=limit, cause=cause):
                    print(f"  {limit} agents at once{f' ({cause})' if cause else ''}", flush=True)


def report(project: Path, journal: Path) -> list[FleetRow]:
    """Print a table of the results, and merge the branches of tasks that succeeded."""
    fleet = Fleet(journal)
    rows = list(fleet.results())
    print(f"{'rule':24} {'tasks':>5} {'succeeded':>9} {'resumed':>7} {'refused':>7} {'cost':>8} {'branches':>8}")
    for rule in sorted({row.tags["rule"] for row in rows}):
        group = [row for row in rows if row.tags["rule"] == rule]
        attempts = [each for row in group for each in fleet.attempts(row.task)]
        succeeded = sum(row.state == "succeeded" for row in group)
        resumed = sum(each.resumed for each in attempts)
        refused = sum(each.cause == "verify" for each in attempts)
        cost = f"${sum(row.cost for row in group):.4f}"
        branches = sum(row.branch is not None for row in group)
        print(f"{rule:24} {len(group):5} {succeeded:9} {resumed:7} {refused:7} {cost:>8} {branches:8}")
    for row in rows:
        if row.state == "succeeded" and row.branch is not None:
            git(project, "merge", "--quiet", "--no-edit", row.branch)
    fleet.close()
    return rows


# -- a repository with thirty findings ---------------------------------------------------------------------------------

LINT = '''
"""Three rules: `python lint.py` prints the findings of the package."""

import ast
import sys
from pathlib import Path


def rule_of(node):
    match node:
        case ast.arguments() if any(isinstance(each, ast.List) for each in node.defaults):
            return "mutable default"
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=None)]):
            return "comparison with None"
        case ast.Compare(left=ast.Call(func=ast.Name(id="type")), ops=[ast.Eq()]):
            return "comparison of types"


def findings(folder):
    found = []
    for path in sorted(Path(folder).glob("shop/*.py")):
        for function in ast.parse(path.read_text()).body:
            for rule in filter(None, map(rule_of, ast.walk(function))):
                found.append((f"shop/{path.name}", function.name, rule))
    return found


if __name__ == "__main__":
    for finding in findings("."):
        print(*finding)
    sys.exit(bool(findings(".")))
'''
CHECK = '''
"""Check the work on one function: `python check.py NAME` runs the tests of the package, then the linter."""

import subprocess
import sys

import lint

left = [rule for _, name, rule in lint.findings(".") if name == sys.argv[1]]
failed = subprocess.call([sys.executable, "-m", "unittest", "-q"])
sys.exit(f"{sys.argv[1]}: {left[0]}" if left else failed)
'''


class Line(NamedTuple):
    """A line with a finding: how it is, how it should be, how a careless model writes it, the function around it, and a test."""

    bad: str
    good: str
    careless: str
    function: str
    test: str


def lines() -> dict[str, Line]:
    """Return the lines with findings, by the names of their functions."""
    found: dict[str, Line] = {}
    for n in range(1, 11):
        found[f"basket_{n}"] = Line(
            f"def basket_{n}(item, items=[]):",
            f"def basket_{n}(item, items=()):",
            f"def basket_{n}(item, items=None):",
            "{line}\n    return [*items, item]",
            f"basket_{n}('tea'), ['tea']",
        )
        found[f"label_{n}"] = Line(
            f'    return "article {n}" if name == None else name',
            f'    return "article {n}" if name is None else name',
            f'    return "article {n}" if name is not None else name',
            f"def label_{n}(name):\n{{line}}",
            f"label_{n}(None), 'article {n}'",
        )
        found[f"count_{n}"] = Line(
            f"    return {n} * value if type(value) == int else 0",
            f"    return {n} * value if isinstance(value, int) else 0",
            f"    return {n} * value if value is int else 0",
            f"def count_{n}(value):\n{{line}}",
            f"count_{n}(2), {2 * n}",
        )
    return found


LINES = lines()


def git(folder: Path, *arguments: str) -> str:
    """Run git; return its output."""
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout


def make_repository(project: Path) -> None:
    """Make a small package with tests, a linter, and a commit."""
    (project / "shop").mkdir(parents=True)
    names = sorted(LINES)
    tests = ["import unittest", "", "", "class Tests(unittest.TestCase):"]
    for number in range(5):
        module = names[number::5]
        functions = (LINES[name].function.format(line=LINES[name].bad) for name in module)
        (project / "shop" / f"part_{number}.py").write_text("\n\n\n".join(functions) + "\n")
        tests.insert(1, f"from shop.part_{number} import {', '.join(module)}")
        tests += [f"    def test_{name}(self):\n        self.assertEqual({LINES[name].test})" for name in module]
    (project / "shop" / "__init__.py").touch()
    (project / "test_shop.py").write_text("\n".join(tests) + "\n")
    (project / "lint.py").write_text(LINT.lstrip())
    (project / "check.py").write_text(CHECK.lstrip())
    (project / ".gitignore").write_text("__pycache__/\n")  # else the files that checks make are committed
    git(project, "init", "--quiet")
    git(project, "config", "user.name", "Ada")
    git(project, "config", "user.email", "ada@example.org")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "--message", "Open the shop")


# -- the model, and what goes wrong ------------------------------------------------------------------------------------

USAGE = {"input_tokens": 2_000, "output_tokens": 100}


class Model:
    """Works on any number of tasks at once: looks, edits, answers. It goes by what the last tool returned.

    Attributes:
        tokens: the tokens of all replies, as an API would bill them.
        limited: the requests that met the rate limit.
        kills: how often it killed the driver.
        driver: the process that it kills.
    """

    KILL_AT = 28
    LIMIT_AT = 55
    LIMIT_SECONDS = 3

    def __init__(self) -> None:
        self.tokens = 0
        self.limited = 0
        self.kills = 0
        self.driver: subprocess.Popen[bytes] | None = None
        self._replies = 0
        self._limit_until = 0.0
        self._lock = threading.Lock()

    def __call__(self, request: ModelRequest) -> Reply | HTTPFailure:
        """Return the answer to a request of an agent."""
        with self._lock:
            if self._replies >= self.LIMIT_AT and not self._limit_until:
                self._limit_until = math.ceil(time.time()) + self.LIMIT_SECONDS
            if time.time() < self._limit_until:
                self.limited += 1
                return HTTPFailure(429, headers=used_up(self._limit_until))
            self._replies += 1
            self.tokens += sum(USAGE.values())
            if self._replies >= self.KILL_AT and request.tool_results and not self.kills and self.driver is not None:
                self.driver.send_signal(signal.SIGKILL)
                self.kills += 1
        return self.reply(request)

    def reply(self, request: ModelRequest) -> Reply:
        """Return the next step of a task."""
        found = re.search(r"in (\S+), function `(\w+)`", request.first_prompt)
        assert found is not None
        path, name = found.groups()
        line = LINES[name]
        if not request.tool_results:  # a prompt: the task, the reason of a refusal, or the request to go on
            return Reply("I look.", ToolCall("Read", {"file_path": path}), usage=USAGE)
        [result] = request.tool_results
        for now, then in ((line.bad, line.careless if name == "label_3" else line.good), (line.careless, line.good)):
            if now in result.text and then not in result.text:
                edit = {"file_path": path, "old_string": now, "new_string": then}
                return Reply("I edit.", ToolCall("Edit", edit), usage=USAGE)
        return Reply("It is fixed.", usage=USAGE)


def used_up(until: float) -> Mapping[str, str]:
    """Return the headers of the API for the limit of a plan."""
    names = {"status": "rejected", "reset": f"{until:.0f}", "representative-claim": "five_hour"}
    names |= {"5h-status": "rejected", "5h-reset": f"{until:.0f}", "5h-utilization": "1.0"}
    return {f"anthropic-ratelimit-unified-{name}": value for name, value in names.items()}


def story(folder: Path, cli: str, model: Model) -> int:
    """Run the driver until it ends by itself; return how many runs that took."""
    make_repository(folder / "project")
    with ScriptedModel(Repeat(model)) as server:
        # A home folder of its own. The limit of a plan is that of a login: there is no API key.
        changes = {**server.isolated_env(folder), "ANTHROPIC_API_KEY": None, "CLAUDE_CODE_OAUTH_TOKEN": "of-a-test"}
        changes["HACKAMORE_CLI_PATH"] = cli
        environment = {name: value for name, value in {**os.environ, **changes}.items() if value is not None}
        command = [sys.executable, __file__, "drive", str(folder / "project"), str(folder / "fleet.db")]
        runs, code = 0, -signal.SIGKILL
        while code == -signal.SIGKILL:
            runs += 1
            print(f"Run {runs}", flush=True)
            model.driver = subprocess.Popen(command, env=environment)
            code = model.driver.wait()
    if code:
        sys.exit(f"The driver failed with exit code {code}")
    return runs


def main() -> None:
    cli = os.environ.get("HACKAMORE_CLI_PATH") or shutil.which("claude")
    if cli is None:
        sys.exit("This example needs the Claude Code CLI: hackamore install-cli")
    model = Model()
    with tempfile.TemporaryDirectory(prefix="hackamore-fleet-") as name:
        folder = Path(name)
        runs = story(folder, cli, model)
        rows = report(folder / "project", folder / "fleet.db")
        findings = subprocess.call([sys.executable, "lint.py"], cwd=folder / "project")
        failures = subprocess.call([sys.executable, "-m", "unittest", "-q"], cwd=folder / "project")
    counted, unknown = sum(row.tokens for row in rows), sum(row.unknown_calls for row in rows)
    print(f"{runs} runs, {model.limited} requests met the rate limit")
    print(f"The journal counts {counted} tokens and {unknown} unknown calls, the model {model.tokens} tokens")
    assert (findings, failures) == (0, 0)
    assert counted <= model.tokens <= counted + unknown * sum(USAGE.values())


if __name__ == "__main__":
    if sys.argv[1:2] == ["drive"]:
        drive(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main()
