"""The two tiers of the suite: `--quick` runs a part of it and says at its end what it left out.

Without the flag everything runs, but tests that have no business with shells do not run on all three. A test of the real CLI runs on one,
chosen by its name: the stand-ins show the same on all of them, in a tenth of the time. A test with a stand-in runs on asyncio and one
other, chosen by its name and the seed of the run: the shells are made of one source. Of a test that `--quick` leaves out and that has many
cases, a run takes half of the cases, chosen by the seed: another half each time in CI. Of tests that start two programs for each case, it
takes a third. Each test has a case in each run, so each promise is shown. `HACKAMORE_TEST_THOROUGH=1` runs all of them on each shell.

These rules count for a run of the whole suite only: a test that is named on the command line always runs.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import pytest

from tests.support.seeds import SEED

if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST_SHELL, OTHER_SHELLS = "asyncio", ("trio", "threads")
# These run first: they start no process, and fail within seconds when the core is broken.
CORE = (
    "protocol", "messages", "options", "launch", "hooks", "permissions", "tools", "session/test_deadlines", "runtime",
)  # fmt: skip
# Then these: each has one test of minutes, and at the end the other processors would wait for it.
LONG = (
    "compat/test_official_suite", "compat/test_generated", "compat/test_migrated_programs", "compat/test_examples",
    "endurance/test_short", "fleet/test_story",
)  # fmt: skip
# These run on every shell: they are about the shells.
ON_EVERY_SHELL = ("contract", "queries/test_one_shot", "queries/test_hard_cases")
# Of the tests that need the real CLI, these run.
MAIN_PATHS = (
    "real_cli/test_one_shot", "real_cli/test_sessions.py", "real_cli/test_steered", "cli/test_real_cli", "messages", "tools",
    "protocol", "testing/script",
)  # fmt: skip
# With the real CLI, these run on every shell.
REAL_ON_EVERY_SHELL = ("real_cli/test_sessions.py", "real_cli/test_steered")
# Each of these takes half a minute and more.
AT_RANDOM = (
    "session/test_random_stops",
    "real_cli/test_abandonment",
    "testing/faults/test_random",
    "endurance/test_short",
    "pool/test_random",
    "pool/test_isolation",
    "fleet/test_lost",
    "fleet/test_workspace_kills",
    "storage/test_storms",
)
# These need npm packages, which `./dev test --thorough` and `./dev ci` install.
NODE = (
    "tools/test_conformance",
    "cli/test_other_sdks",
    "serving/acp/test_node_clients",
    "serving/agui/test_official_client",
)
SLOW = (
    "compat/test_official_suite", "compat/test_beside_the_official", "compat/test_examples", "compat/test_generated",
    "compat/test_migrated_programs",
    "cli/test_untrusted_text", "testing/plugin", "session/test_many", "project/test_imports", "traces/test_browser",
    "project/test_generated_modules", "project/test_typing", "fleet/test_dask", "protocol/test_real_cli_sessions",
    "real_cli/test_one_shot.py::test_awkward_prompts_arrive_as_they_are", "cli/test_real_cli.py::test_demo_interrupted",
    "contract/test_behaviours.py::test_ci_insists_that_they_ran", "project/test_growth.py::test_a_cost_that_grows_fails",
    "serving/acp/test_acplint", "serving/acp/test_wire.py::test_memory", "serving/acp/test_wire.py::test_random",
    "fleet/test_story", "transports/recording/test_linear", "transcripts/stores/test_kills", "cli/test_trace_page",
    "cli/test_fleet_command", "cli/test_help.py::test_no_page_cuts", "cli/test_simulate", "cli/test_sessions_command", "cli/test_trace.py",
    "cli/test_install", "cli/test_log", "storage/test_same_file.py::test_random_interleavings",
    "fleet/test_executors", "fleet/test_storm", "fleet/test_journal_stores", "pool/test_holding", "testing/simulation/test_sessions",
    "approvals/test_kills", "approvals/test_command", "approvals/test_page_browser", "approvals/test_page_mounted",
    "approvals/test_recipes", "approvals/test_waiting.py::test_a_thousand", "approvals/test_waiting.py::test_a_stopped",
    "approvals/test_notify", "cli/test_approvals_serve",
    "transports/remote/test_conformance", "transports/remote/test_cut_links", "transports/remote/test_fleet",
    "transports/remote/test_volume",
    "transcripts/stores/test_model", "session/test_life.py::test_a_cli_that_closes", "queries/test_one_shot.py::test_a_process_that_closes",
)  # fmt: skip


# These are half of the time of CI.
COSTLY = ("compat", "cli")


class Described(NamedTuple):
    """What the rules ask about a test: its path below `tests/`, its name, the shell it runs on, if it needs the real CLI."""

    path: str
    shell: str | None
    real_cli: bool
    name: str = ""

    def among(self, paths: tuple[str, ...]) -> bool:
        """True if it is one of these, in one of these files, or in one of these folders."""
        return f"{self.path}::{self.name}".startswith(paths)


def left_out(test: Described) -> str | None:
    """Return why the quick tier leaves a test out, None if it runs it. The first reason counts."""
    if test.among(("fidelity",)):
        return "comparisons of the simulated CLI with the real one"
    if test.among(("testing/conformance",)):
        return "conformance checks"
    if test.among(AT_RANDOM):
        return "stops and faults at random moments"
    if test.among(NODE):
        return "tests of npm packages"
    if test.among(SLOW):
        return "slow tests: most commands, plugins, imports, type checkers, hundreds of sessions, browsers, Dask, untrusted text"
    if test.real_cli and not test.among(MAIN_PATHS):
        return "tests of the real CLI beyond its main paths"
    if test.shell in OTHER_SHELLS and not test.among(ON_EVERY_SHELL):
        return "tests on trio and threads that passed on asyncio"
    return None


def drawn(test: Described, numbers: int) -> int:
    """Return a number below `numbers`: the same one in every process of a run, another one with another seed."""
    return crc32(f"{SEED}{test.path}::{test.name}".encode()) % numbers


def on_another_shell(test: Described) -> bool:
    """Return True if a test has other shells to run on: the same ones in every process of a run."""
    if test.shell is None or test.among(REAL_ON_EVERY_SHELL if test.real_cli else ON_EVERY_SHELL):
        return False
    if test.real_cli:
        shells = (FIRST_SHELL, *OTHER_SHELLS)
        return test.shell != shells[crc32(f"{test.path}::{test.name}".encode()) % len(shells)]
    return test.shell not in (FIRST_SHELL, OTHER_SHELLS[drawn(test, len(OTHER_SHELLS))])


def place(test: Described) -> int:
    """Return the part of the run that a test belongs to: the core, what takes minutes, the rest."""
    return 0 if test.among(CORE) and not test.real_cli else 1 if test.among(LONG) else 2


def described(item: pytest.Item) -> Described:
    """Return what the rules ask about an item."""
    path = item.path.relative_to(item.config.rootpath / "tests").as_posix()
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    shell = next((value for value in parameters.values() if value in (FIRST_SHELL, *OTHER_SHELLS)), None)
    name = item.name.replace(shell, "", 1) if shell else item.name
    return Described(path, shell, item.get_closest_marker("real_cli") is not None, name)


def whole_suite(config: pytest.Config) -> bool:
    """True if nothing on the command line chooses among the tests."""
    options = config.option
    chosen = options.keyword or options.markexpr or options.deselect or options.shell
    return not chosen and config.args_source is pytest.Config.ArgsSource.TESTPATHS


def reason(test: Described, *, quick: bool) -> str | None:
    """Return why a run of the whole suite leaves a test out, None if it runs it."""
    if quick and (why := left_out(test)):
        return why
    if quick or os.environ.get("HACKAMORE_TEST_THOROUGH") == "1":
        return None
    if on_another_shell(test):
        return f"tests {'of the real CLI on a second and third' if test.real_cli else 'on a third'} shell"
    return None


def of_other_seeds(tests: Iterable[Described]) -> list[Described]:
    """Return the cases of each test of the thorough tier that a run with this seed leaves out, of those that it could run."""
    if os.environ.get("HACKAMORE_TEST_THOROUGH") == "1":
        return []
    families = defaultdict(list)
    for test in tests:
        if left_out(test):
            families[test.path, test.name.partition("[")[0]].append(test)
    return [
        case
        for cases in families.values()
        for case in sorted(cases, key=lambda case: drawn(case, 2**32))[
            : len(cases) * 2 // 3 if cases[0].among(COSTLY) else len(cases) // 2
        ]
    ]


class Tiers:
    """A pytest plugin: sorts and selects, counts what it leaves out, and says so at the end."""

    def __init__(self) -> None:
        self._left_out: Counter[str] = Counter()

    @pytest.hookimpl(trylast=True)  # after the marker `real_cli` was set
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Put the core first, and take out what the tier does not run."""
        tests = {item: described(item) for item in items}
        items.sort(key=lambda item: place(tests[item]))
        if whole_suite(config):
            reasons = {item: reason(test, quick=config.option.quick) for item, test in tests.items()}
            others = {id(test) for test in of_other_seeds(tests[item] for item, why in reasons.items() if not why)}
            reasons |= {item: "cases that another seed runs" for item, test in tests.items() if id(test) in others}
            config.hook.pytest_deselected(items=[item for item in items if reasons[item]])
            items[:] = [item for item in items if not reasons[item]]
            self._left_out = Counter(why for why in reasons.values() if why)
        if only := config.option.shell:
            elsewhere = [item for item in items if tests[item].shell not in {None, only}]
            config.hook.pytest_deselected(items=elsewhere)
            items[:] = [item for item in items if item not in elsewhere]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand what a worker of xdist counted to the process that started it."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["left_out"] = dict(self._left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker counted; all of them counted the same."""
        self._left_out = Counter(getattr(node, "workeroutput", {}).get("left_out", {})) or self._left_out

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what was left out."""
        if self._left_out:
            terminalreporter.section("left out")
            for why, count in self._left_out.most_common():
                terminalreporter.line(f"{count:5} {why}")
            terminalreporter.line(
                "`./dev test --thorough` runs all that `./dev test` leaves out, HACKAMORE_TEST_THOROUGH=1 all that it leaves out itself; "
                "`./dev test PATH` runs all of a file or folder."
            )
