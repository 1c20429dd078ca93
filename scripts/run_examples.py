"""Run every program in `examples/` against the pinned CLI and a scripted model; all must succeed.

An example may say in a comment what the model answers, with the names of `hackamore.testing`::

    # scripted: Reply(ToolCall("Bash", {"command": "ls"})), Reply("Two files.")

Without it the model answers every request with `4`. Files whose name starts with an underscore are not run. Arguments
are the examples to run.
"""

# ruff: noqa: T201 - a script talks by printing

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import install_cli

import hackamore.testing
from hackamore.testing import Repeat, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = Path(__file__).resolve().parent.parent
OUTPUTS = PROJECT / ".dev" / "docs-outputs"
TIMEOUT = 300
AT_ONCE = 4
_INSTALLING = threading.Lock()
_SCRIPTED = re.compile(r"^# scripted: (.+(?:\n#   .+)*)", re.MULTILINE)


def pinned_cli(install: Callable[[], Path] = install_cli.install) -> Path:
    """Return the path of the CLI to run against."""
    if named := os.environ.get("HACKAMORE_TEST_CLI"):
        return Path(named)
    # Examples run at once; the first one installs, and the others find what it has installed.
    with _INSTALLING:
        return install()


def steps_in(text: str) -> tuple[Any, ...]:
    """Return the steps that a `scripted:` comment in `text` asks for."""
    found = _SCRIPTED.search(text)
    if found is None:
        return (Repeat("4"),)
    source = re.sub(r"\n#   ", "\n", found[1])
    names = {name: getattr(hackamore.testing, name) for name in hackamore.testing.__all__}
    steps: tuple[Any, ...] = eval(f"({source},)", names)  # noqa: S307 - our own examples, which are about to run anyway
    return steps


class ExampleFailedError(Exception):
    """A program failed; the text is its output."""


def run_python(arguments: list[str], steps: tuple[Any, ...]) -> str:
    """Run a Python program in an environment of its own; return what it prints, or raise `ExampleFailedError`."""
    with tempfile.TemporaryDirectory(prefix="hackamore-example-") as folder, ScriptedModel(*steps) as model:
        work = Path(folder, "work")
        work.mkdir()
        environment = {name: value for name, value in model.isolated_env(folder).items() if value is not None}
        # IS_SANDBOX: as root, as in containers, the CLI would refuse to run tools unasked.
        environment |= {"PATH": os.environ["PATH"], "HACKAMORE_CLI_PATH": str(pinned_cli()), "IS_SANDBOX": "1"}
        try:
            done = subprocess.run(
                [sys.executable, "-W", "error", *arguments],
                capture_output=True,
                text=True,
                env=environment,
                cwd=work,
                stdin=subprocess.DEVNULL,
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            output = b"".join(part for part in (error.stdout, error.stderr) if isinstance(part, bytes))
            raise ExampleFailedError(f"not finished after {TIMEOUT} s\n{output.decode('utf-8', 'replace')}") from None
        if done.returncode:
            raise ExampleFailedError(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout.replace(folder, "/home/user")


@cache
def package() -> bytes:
    """Return the digest of the package: outputs are kept until the example or the package changes."""
    return sha256(b"".join(source.read_bytes() for source in sorted((PROJECT / "src").rglob("*.py")))).digest()


def kept(path: Path) -> Path:
    """Return the file with the output of an example, whether it was run or not. The pages of the site show it."""
    return OUTPUTS / f"{path.stem}-{sha256(package() + path.read_bytes()).hexdigest()[:16]}.txt"


def output_of(path: Path) -> str:
    """Run an example and keep what it prints; raises `ExampleFailedError` or `AssertionError` if it fails."""
    text = run_python([str(path)], steps_in(path.read_text(encoding="utf-8")))
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    for old in OUTPUTS.glob(f"{path.stem}-*.txt"):
        old.unlink(missing_ok=True)
    kept(path).write_text(text, encoding="utf-8")
    return text


def checked(run: Callable[[], str]) -> tuple[str | None, float]:
    """Run a program; return what went wrong, a script that does not fit included, and the seconds that it took."""
    started = time.monotonic()
    problem = None
    try:
        run()
    except (AssertionError, ExampleFailedError) as error:
        problem = str(error)
    return problem, time.monotonic() - started


def main(names: list[str]) -> int:
    """Run the named examples, or all."""
    paths = [Path(name).resolve() for name in names] or sorted((PROJECT / "examples").glob("[!_]*.py"))
    failures = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = [pool.submit(checked, partial(output_of, path)) for path in paths]
        for path, run in zip(paths, runs, strict=True):
            problem, seconds = run.result()
            print(f"{'ok    ' if problem is None else 'FAILED'} {path.name} ({seconds:.1f} s)")
            if problem is not None:
                failures += 1
                print("    " + problem.replace("\n", "\n    "))
    print(f"{len(paths) - failures} of {len(paths)} examples succeeded")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
