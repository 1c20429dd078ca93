"""Build the documentation site from `docs/`, the examples and the docstrings: `docs_site.py build`, `serve`.

The links of the pages in `docs/` lead to files, for readers of the repository. `stage` copies the pages and rewrites these links
to pages of the site. An example becomes a page of the cookbook, with its output. A link to any other file becomes text. Zensical
builds the staged pages, in a virtual environment with the packages of `docs/requirements.txt`.
"""

# ruff: noqa: T201 - a script talks by printing

from __future__ import annotations

import argparse
import ast
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import run_examples

import hackamore
import hackamore.testing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROJECT = Path(__file__).resolve().parent.parent
DOCS = PROJECT / "docs"
ENVIRONMENT = PROJECT / ".dev" / "docs"
STAGE = PROJECT / ".dev" / "docs-stage"
SITE = PROJECT / "site"
# Files of the repository that are pages of the site, by the path of the page.
PAGES = {"CONTRIBUTING.md": "contributing/index.md", "CHANGELOG.md": "changelog.md", "README.md": "index.md"}
# The pages of the API: title, summary, modules whose names they describe.
API: dict[str, tuple[str, str, str]] = {
    "queries": (
        "Queries",
        "Functions and streams for one prompt.",
        "hackamore.aio.query hackamore.aio.mapping hackamore._engine.queries.outcomes hackamore._engine.queries.prompts",
    ),
    "sessions": (
        "Sessions",
        "Conversations, turns and events.",
        "hackamore.aio.session hackamore._engine.protocol.states.session hackamore._engine.session.events "
        "hackamore.transports.process.prepare",
    ),
    "pool": ("Session pools", "`SessionPool`, its registries, events and numbers.", "hackamore.aio.pool"),
    "transcripts": ("Transcripts", "Conversations on the disk: lists, reading, usage and search.", ""),
    "budgets": (
        "Budgets",
        "Limits of cost and tokens, accounts and prices.",
        "hackamore.budgets.budget hackamore.activity.prices",
    ),
    "approvals": (
        "Approvals",
        "People who answer, their requests, and conversations that wait.",
        "hackamore.approvals.approvals",
    ),
    "policy": (
        "Policies",
        "Rules on tool calls, verdicts and their parts.",
        "hackamore.policy.policy hackamore.policy.rules hackamore.policy.verdict hackamore.policy.compiling hackamore.policy.replaying",
    ),
    "telemetry": (
        "Telemetry and observers",
        "Spans and metrics of OpenTelemetry, and the methods of observers.",
        "hackamore.telemetry",
    ),
    "fleet": ("Fleets", "Tasks, runs, results, workspaces and executors.", ""),
    "options": (
        "Option classes",
        "Options, timeouts, limits, retries, values of options, and versions of the CLI.",
        "hackamore.options.options hackamore.options.bounds hackamore.options.retry hackamore.options.kinds "
        "hackamore._engine.launch.discovery hackamore._engine.launch.versions",
    ),
    "messages": ("Message classes", "Messages and content blocks.", "hackamore.messages"),
    "hooks": ("Hook classes", "Matchers, inputs and outputs of hooks.", "hackamore.hooks"),
    "permissions": (
        "Permissions and dialogs",
        "Requests of the CLI to the program, and their answers.",
        "hackamore.permissions hackamore.dialogs",
    ),
    "tools": ("Tools", "Python functions as tools of the model.", "hackamore.tools hackamore.serving.stdio"),
    "errors": (
        "Error classes",
        "Exceptions that Hackamore raises, and its warning.",
        "hackamore.errors hackamore.checked.schemas",
    ),
}
_LOADING = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"^( *```.*?^ *```)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^ *<!--(?:(?!-->).)*-->\n", re.MULTILINE | re.DOTALL)


def on_site(path: str) -> str | None:
    """Return the page of the site for a path of the repository, or None if there is none."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/") and path.endswith(".md"):
        return path.removeprefix("docs/")
    if path.startswith("examples/") and path.endswith(".py"):
        return f"cookbook/{Path(path).stem}.md"
    return None


def relinked(text: str, path: str) -> str:
    """Return the text of a page, outside code, with links to pages of the site and without links to other files.

    Args:
        text: the page.
        path: its path in the repository, with `/`.
    """
    here = on_site(path) or path

    def link(found: re.Match[str]) -> str:
        name, hash_sign, anchor = found["target"].partition("#")
        if not name or re.match(r"[a-z]+:", name):
            return found[0]
        file = os.path.normpath(Path(path).parent / name)
        target = on_site(file)
        if target is None:
            return found["text"]
        if file == "README.md":  # the home page has other headings
            hash_sign = anchor = ""
        return f"[{found['text']}]({os.path.relpath(target, Path(here).parent)}{hash_sign}{anchor})"

    parts = _FENCE.split(text)
    return "".join(part if part.lstrip().startswith("```") else _LINK.sub(link, part) for part in parts)


def diagrams_as_tables(text: str) -> str:
    """Return a page with its Mermaid state diagrams as tables, which need no program in the browser."""

    def table(found: re.Match[str]) -> str:
        meanings = dict(re.findall(r"^ +(\w+) : \w+<br/>(.*)$", found[1], re.MULTILINE))
        ways = re.findall(r"^ +(\w+) --> (\w+) : (.*)$", found[1], re.MULTILINE)
        lines = ["| state | meaning | next state | after |", "|---|---|---|---|"]
        for state, meaning in meanings.items():
            own = [(then, what.replace("<br/>", "; ")) for start, then, what in ways if start == state]
            for number, (then, what) in enumerate(own or [("-", "-")]):
                first = (f"`{state}`", meaning) if number == 0 else ("", "")
                lines.append(f"| {first[0]} | {first[1]} | {'-' if then == '-' else f'`{then}`'} | {what} |")
        return "\n".join(lines) + "\n"

    return re.sub(r"^```mermaid\n(.*?)^```\n", table, text, flags=re.MULTILINE | re.DOTALL)


def without_escapes(text: str) -> str:
    """Return a page without the backslashes of `\\|` in code of tables: Python-Markdown would show them."""
    return re.sub(
        r"^\|.*$",
        lambda row: re.sub(r"`[^`\n]*`", lambda code: code[0].replace("\\|", "|"), row[0]),
        text,
        flags=re.MULTILINE,
    )


def page(path: Path) -> str:
    """Return the text of a page as the site shows it."""
    text = without_escapes(diagrams_as_tables(path.read_text(encoding="utf-8")))
    parts = _FENCE.split(relinked(text, path.relative_to(PROJECT).as_posix()))
    return "".join(part if part.lstrip().startswith("```") else _COMMENT.sub("", part) for part in parts)


def public_names() -> dict[str, dict[str, str]]:
    """Return the public names by page of the API: the name that users import, and the module that defines it."""
    pages: dict[str, dict[str, str]] = {}
    for key, (_, _, modules) in API.items():
        names = {name: place for name, place in hackamore.PLACES.items() if place in modules.split()}
        pages[key] = {f"hackamore.{name}": f"{place}.{name}" for name, place in names.items()}
    offered = {name: f"hackamore.{name}" for name in ("messages", "hooks", "pool", "transcripts", "budgets", "fleet")}
    offered["telemetry"] = "hackamore.options.observing"
    for key, module in offered.items():
        pages[key] |= _offered(module, known=pages[key])
    shell = {name: hackamore.PLACES[name].replace(".aio.", ".sync.") for name in hackamore.sync.__all__}
    shell["serve_stdio"] = "hackamore.serving.sync"
    pages["sync"] = {f"hackamore.sync.{name}": f"{place}.{name}" for name, place in shell.items()}
    pages["transports"] = _offered("hackamore.transports.base", known={})
    pages["remote"] = _offered("hackamore.transports.remote", known={})
    pages["testing"] = {
        f"hackamore.testing.{name}": f"{place}.{name}" for name, place in hackamore.testing.PLACES.items()
    }
    return pages


def _offered(module: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return the classes and functions that a module lists in `__all__`, without those that are known by a shorter name."""
    offered = __import__(module, fromlist=["__all__"])
    values = {name: getattr(offered, name) for name in offered.__all__}
    return {
        f"{module}.{name}": f"{value.__module__}.{value.__qualname__}"
        for name, value in values.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and f"hackamore.{name}" not in known
    }


def api_pages() -> dict[str, str]:
    """Return the pages of the API, by path; mkdocstrings fills them from the docstrings."""
    titles = {key: (title, text) for key, (title, text, _) in API.items()} | {
        "sync": ("Blocking API", "`hackamore.sync`: the same names without an event loop."),
        "transports": ("Transports", "`hackamore.transports.base`: protocols for transports."),
        "remote": (
            "Other machines",
            "`hackamore.transports.remote`: the CLI over ssh, in containers, behind commands.",
        ),
        "testing": ("Testing", "`hackamore.testing`: test doubles, cassettes, faults and checks."),
    }
    found = {
        "reference/api/index.md": "# API\n\nSignatures, arguments, errors and examples, generated from the docstrings.\n\n"
    }
    for key, names in public_names().items():
        title, text = titles[key]
        found["reference/api/index.md"] += f"- [{title}]({key}.md): {text}\n"
        parts = [
            f"::: {where}\n    options:\n      heading: {name}\n" for name, where in names.items() if _is_object(where)
        ]
        found[f"reference/api/{key}.md"] = f"# {title}\n\n{text}\n\n" + "\n".join(parts)
    return found


def _is_object(where: str) -> bool:
    """Return True for a class or a function; unions and other aliases have no page."""
    module, _, name = where.rpartition(".")
    value = getattr(__import__(module, fromlist=[name]), name)
    return inspect.isclass(value) or inspect.isfunction(value)


def example_page(path: Path, output: str | None) -> str:
    """Return the page of an example: its docstring, its code, its output."""
    source = path.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    code = source.partition('"""')[2].partition('"""')[2].lstrip("\n") if docstring else source
    code = re.sub(r"^# scripted: .*\n(?:#   .*\n)*\n*", "", code, flags=re.MULTILINE)
    title = path.stem.replace("_", " ").capitalize()
    text = f'# {title}\n\n{docstring}\n\n```python title="examples/{path.name}"\n{code.rstrip()}\n```\n'
    if output is not None:
        shown = output.strip() or "(no output)"
        text += f"\n## Output\n\nWith a scripted model:\n\n```text\n{shown}\n```\n"
    return text


def output(path: Path) -> str:
    """Return what an example prints; it is run unless its output is kept."""
    kept = run_examples.kept(path)
    return kept.read_text(encoding="utf-8") if kept.exists() else run_examples.output_of(path)


def outputs(paths: Sequence[Path]) -> dict[str, str]:
    """Return what each example prints."""
    with ThreadPoolExecutor(run_examples.AT_ONCE) as pool:
        return dict(zip([path.stem for path in paths], pool.map(output, paths), strict=True))


def staged(*, run: bool) -> dict[str, str]:
    """Return every page of the site, by path.

    Args:
        run: run the examples, and show their output.
    """
    pages = {path.relative_to(DOCS).as_posix(): page(path) for path in DOCS.rglob("*.md")}
    pages |= {target: page(PROJECT / name) for name, target in PAGES.items() if name != "README.md"}
    examples = sorted((PROJECT / "examples").glob("[!_]*.py"))
    shown = outputs(examples) if run else {}
    pages |= {f"cookbook/{path.stem}.md": example_page(path, shown.get(path.stem)) for path in examples}
    return pages | api_pages()


def configuration(pages: Mapping[str, str]) -> str:
    """Return the configuration of Zensical: `docs/site.toml` with the generated pages in its navigation."""
    text = (DOCS / "site.toml").read_text(encoding="utf-8")
    for mark, folder in {'"@api"': "reference/api/", '"@cookbook"': "cookbook/"}.items():
        names = sorted(name for name in pages if name.startswith(folder) and not name.endswith("index.md"))
        text = text.replace(mark, ", ".join(f'"{name}"' for name in [f"{folder}index.md", *names]))
    left_out = [name for name in pages if f'"{name}"' not in text]
    if left_out:
        sys.exit(f"not in the navigation of docs/site.toml: {', '.join(sorted(left_out))}")
    return text.replace("@source", (PROJECT / "src").as_posix()).replace("@scripts", (PROJECT / "scripts").as_posix())


def stage(*, run: bool) -> Path:
    """Write what changed into the folder that Zensical reads; return its configuration file."""
    pages = staged(run=run)
    folder = STAGE / "docs"
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in folder.rglob("*.md"):
        if path.relative_to(folder).as_posix() not in pages:
            path.unlink()
    shutil.copytree(DOCS / "assets", folder / "assets", dirs_exist_ok=True)
    target = STAGE / "zensical.toml"
    target.write_text(configuration(pages), encoding="utf-8")
    return target


class _Loads(HTMLParser):
    """Collects the addresses that a page loads by itself; links that a reader follows are not among them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "link" and dict(attrs).get("rel") in {"canonical", "prev", "next"}:
            return
        self.found += [value or "" for name, value in attrs if (tag, name) in _LOADING]


def loads_from_elsewhere(site: Path) -> list[str]:
    """Return what pages and style sheets of a built site load from other hosts."""
    found = []
    for path in sorted(site.rglob("*.html")):
        parser = _Loads()
        parser.feed(path.read_text(encoding="utf-8"))
        found += [
            f"{path.relative_to(site)}: {address}" for address in parser.found if re.match(r"(https?:)?//", address)
        ]
    for path in sorted(site.rglob("*.css")):
        addresses = re.findall(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: {address}" for address in addresses]
    return found


def prepare() -> Path:
    """Return the program that builds the site; its packages are installed when the requirements changed."""
    requirements = DOCS / "requirements.txt"
    program = ENVIRONMENT / "bin" / "zensical"
    stamp = ENVIRONMENT / ".stamp"
    wanted = hashlib.sha256(requirements.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        print("installing the packages of docs/requirements.txt into .dev/docs", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
        pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--requirement", str(requirements)], check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return program


def build(*, run: bool) -> int:
    """Build the site into `site/`; a broken link or something that is loaded from another host is an error."""
    program = prepare()
    config = stage(run=run)
    done = subprocess.run([str(program), "build", "--strict", "--clean", "--config-file", str(config)], check=False)
    if done.returncode:
        return done.returncode
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(STAGE / "site", SITE)
    problems = loads_from_elsewhere(SITE)
    for problem in problems:
        print(f"loaded from another host: {problem}")
    print(f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(PROJECT)}/")
    return 1 if problems else 0


def changed(since: float) -> bool:
    """Return True if a source of the site was changed after a time."""
    folders = ("docs", "examples", "src")
    files: Iterator[Path] = (path for folder in folders for path in (PROJECT / folder).rglob("*.*"))
    return any(path.stat().st_mtime > since for path in files if path.suffix in {".md", ".py", ".toml", ".css"})


def serve(address: str) -> int:
    """Serve the site and build it again after each change, until interrupted. Examples have no output here."""
    program = prepare()
    config = stage(run=False)
    server = subprocess.Popen([str(program), "serve", "--dev-addr", address, "--config-file", str(config)])
    try:
        seen = time.time()
        while server.poll() is None:
            time.sleep(1)
            if changed(seen):
                seen = time.time()
                stage(run=False)
    except KeyboardInterrupt:
        pass
    finally:
        server.terminate()
        server.wait()
    return 0


def main(arguments: list[str]) -> int:
    """Build or serve the site."""
    parser = argparse.ArgumentParser(description="Build or serve the documentation site.")
    commands = parser.add_subparsers(dest="command", required=True)
    building = commands.add_parser("build", help="build the site into site/")
    building.add_argument("--no-run", action="store_true", help="do not run the examples; the cookbook has no outputs")
    serving = commands.add_parser("serve", help="serve the site, and build it again after each change")
    serving.add_argument(
        "--address", default="localhost:8000", metavar="HOST:PORT", help="listen here (default: localhost:8000)"
    )
    chosen = parser.parse_args(arguments)
    return serve(chosen.address) if chosen.command == "serve" else build(run=not chosen.no_run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
