"""Check the documentation: links lead somewhere, generated parts are current, Python snippets run and have correct types.

With `--write` the generated parts are brought up to date first. A snippet is a block fenced as `python`. It is run,
with `await` allowed at its top level, against the pinned CLI and a scripted model that answers `4`. HTML comments
before the fence change that: `<!-- scripted: Reply("two"), Reply("three") -->` gives the model's answers, `<!-- not run
-->` only compiles the snippet, for those that need what is not there.
"""

# ruff: noqa: T201 - a script talks by printing

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from public_types import pyright
from run_examples import AT_ONCE, PROJECT, checked, run_python, steps_in

# Programs that make pages: how each is called to compare, and how to write.
GENERATORS = (
    (("scripts/options_page.py", "--check"), ("scripts/options_page.py",)),
    (("scripts/names_stub.py",), ("scripts/names_stub.py", "--write")),
    (("scripts/messages_page.py",), ("scripts/messages_page.py", "--write")),
    (("scripts/errors_page.py",), ("scripts/errors_page.py", "--write")),
    (("scripts/states_page.py",), ("scripts/states_page.py", "--write")),
    (("scripts/compat_page.py",), ("scripts/compat_page.py", "--write")),
    (("scripts/fleet_page.py",), ("scripts/fleet_page.py", "--write")),
    (("scripts/names_page.py",), ("scripts/names_page.py", "--write")),
    (("scripts/control_page.py",), ("scripts/control_page.py", "--write")),
    (("scripts/hooks_page.py",), ("scripts/hooks_page.py", "--write")),
    (("scripts/behaviours_page.py",), ("scripts/behaviours_page.py", "--write")),
    (("scripts/command_page.py",), ("scripts/command_page.py", "--write")),
    (("scripts/simulator_page.py",), ("scripts/simulator_page.py", "--write")),
    (("scripts/clients_page.py",), ("scripts/clients_page.py", "--write")),
    (("scripts/script_files_page.py",), ("scripts/script_files_page.py", "--write")),
)

_FENCE = re.compile(r"^(?P<indent> *)```python\n(?P<code>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_COMMENT_BEFORE = re.compile(r"<!--\s*(?P<text>(?:(?!-->).)*?)\s*-->\s*\Z", re.DOTALL)
_ANY_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_RUNNER = """
import ast, asyncio, inspect, sys
path = sys.argv[1]
source = open(path, encoding="utf-8").read()
code = compile(source, path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
names = {"__name__": "__main__"}
if code.co_flags & inspect.CO_COROUTINE:
    asyncio.run(eval(code, names))
else:
    exec(code, names)
"""


@dataclass(frozen=True)
class Snippet:
    """A block of Python in a page."""

    page: Path
    line: int
    code: str
    comment: str

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"{self.page.relative_to(PROJECT)}:{self.line}"


def pages() -> list[Path]:
    """Return every page that belongs to the documentation."""
    return [*sorted(PROJECT.glob("*.md")), *sorted((PROJECT / "docs").glob("**/*.md"))]


def snippets(page: Path) -> list[Snippet]:
    """Return the Python blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        before = _COMMENT_BEFORE.search(text[: fence.start()])
        line = text.count("\n", 0, fence.start()) + 2
        code = re.sub(f"^{fence['indent']}", "", fence["code"], flags=re.MULTILINE)
        found.append(Snippet(page, line, code, before["text"] if before else ""))
    return found


def slug(heading: str) -> str:
    """Return the anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")


def broken_links(page: Path) -> list[str]:
    """Return the links of a page, to files and headings of this project, that lead nowhere."""
    problems = []
    for link in _LINK.finditer(_ANY_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = link["target"]
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists():
            problems.append(f"{page.relative_to(PROJECT)}: the link to {target} leads nowhere")
        elif anchor and path.suffix == ".md":
            text = _ANY_FENCE.sub("", path.read_text(encoding="utf-8"))
            if anchor not in {slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}:
                problems.append(f"{page.relative_to(PROJECT)}: there is no heading for the link to {target}")
    return problems


def run_snippet(snippet: Snippet) -> str | None:
    """Run a snippet; return what went wrong, or None."""
    try:
        # Empty lines before it, so that errors name the line in the page.
        source = "\n" * (snippet.line - 1) + snippet.code
        compile(source, snippet.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        return f"{snippet.place}: {error}"
    if snippet.comment.startswith("not run"):
        return None
    with tempfile.TemporaryDirectory(prefix="hackamore-snippet-") as folder:
        path = Path(folder, f"{snippet.page.stem}.py")
        path.write_text(source, encoding="utf-8")
        problem, _ = checked(partial(run_python, ["-c", _RUNNER, str(path)], steps_in(f"# {snippet.comment}")))
    return None if problem is None else f"{snippet.place}: {problem}"


def for_types(snippet: Snippet) -> str:
    """Return the source of a snippet for the type checker: on the lines of its page, and in a coroutine if it awaits something."""
    code = compile(snippet.code, snippet.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if not code.co_flags & inspect.CO_COROUTINE:
        return "\n" * (snippet.line - 1) + snippet.code
    return "\n" * (snippet.line - 2) + "async def main() -> None:\n" + textwrap.indent(snippet.code, "    ")


def type_errors(found: list[Snippet]) -> list[str]:
    """Return the errors of mypy and pyright in snippets, with their places in the pages. Snippets that only compile are left out."""
    with tempfile.TemporaryDirectory(prefix="hackamore-types-") as folder:
        places = {}
        for snippet in found:
            if not snippet.comment.startswith("not run"):
                name = f"{snippet.page.stem.replace('-', '_')}_{len(places)}.py"
                places[name] = str(snippet.page.relative_to(PROJECT))
                Path(folder, name).write_text(for_types(snippet), encoding="utf-8")
        configuration = Path(folder, "mypy.ini")
        configuration.write_text(f"[mypy]\nstrict = true\ncache_dir = {PROJECT / '.mypy_cache'}\n", encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            str(configuration),
            "--no-error-summary",
            "--hide-error-context",
            *places,
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        # `for_types` puts variables into a function, where pyright calls them unused.
        settings = {"typeCheckingMode": "strict", "reportUnusedVariable": False}
        Path(folder, "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        seen = pyright("--project", folder, folder=folder)["generalDiagnostics"]
    from_pyright = [
        f"{places[Path(one['file']).name]}:{one['range']['start']['line'] + 1}: {one['message']} [{one.get('rule', 'syntax')}]"
        for one in seen
    ]
    problems = [line.partition(":") for line in done.stdout.splitlines() if ": error:" in line]
    return [f"{places[name]}:{rest}" for name, _, rest in problems] + from_pyright or (
        [done.stderr] if done.returncode > 1 else []
    )


def main(arguments: list[str]) -> int:
    """Check everything, and say what is wrong."""
    write = "--write" in arguments
    problems = [
        f"{' '.join(compare)} failed; `./dev docs` brings generated pages up to date"
        for compare, rewrite in GENERATORS
        if subprocess.run([sys.executable, *(rewrite if write else compare)], cwd=PROJECT, check=False).returncode
    ]
    for page in pages():
        problems += broken_links(page)
    found = [snippet for page in pages() for snippet in snippets(page)]
    problems += type_errors(found)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        problems += [problem for problem in pool.map(run_snippet, found) if problem is not None]
    for problem in problems:
        print(problem)
    print(f"{len(pages())} pages, {len(found)} snippets, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
