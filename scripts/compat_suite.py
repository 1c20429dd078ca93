"""Run the test suite of the official package against itself and against the compatible layer, and print a table.

    scripts/compat_suite.py                 # both runs, the table by file and by kind
    scripts/compat_suite.py --layer --failures -- -k parser

The suite comes from the sdist of the pinned version, checked by its hash, and stays in `.dev/official-suite`. Tests of the scripts of its
repository are left out. A case counts if the real package passes it here. The kind of a case follows from the private names it uses.
"""

# ruff: noqa: T201 - a script talks by printing

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree

PROJECT = Path(__file__).resolve().parent.parent
VERSION = "0.2.187"
SHA256 = "40558f133cb57286989521d6b4e89afb1fb9a853268d009716d35d7a9580ae21"
SUITE = PROJECT / ".dev" / "official-suite"
NOT_OURS = ("test_build_wheel", "test_changelog", "test_download_cli", "test_update_cli_version")
"""Files that test the scripts of the official repository."""
SHIM = """\
import sys
import hackamore.compat
del sys.modules["claude_agent_sdk"]
hackamore.compat.install()
"""
DIFFERENCES = PROJECT / "src" / "hackamore" / "compat" / "differences.toml"

KINDS = {
    "A": "public names",
    "C": "parse_message",
    "D": "small helpers",
    "E": "session and store internals",
    "F": "transport",
    "G": "Query",
    "H": "other internals",
}
WANTED = {"A": 1.0, "C": 0.98, "D": 0.90, "E": 0.70, "F": 0.40}
"""The least share of each kind; of public names, all but listed cases."""
MOST_LISTED = 10
LEAST_REAL = 0.95
"""The least share of cases that the real package passes: with fewer, the machine or the suite is at fault."""
_MARKS = (  # the first that is found in the source of a test decides
    ("G", r"\bQuery\(|_internal\.query|\bQuery\b(?!\.)|sdk_mcp_bridge|_query\b"),
    ("F", r"SubprocessCLITransport|open_process|subprocess_cli|_build_command"),
    ("E", r"_internal\.session|session_resume|TranscriptMirrorBatcher|materialize_resume|_sessions\.|_mutations\."),
    ("C", r"parse_message"),
    (
        "D",
        r"_client_app|spawn_detached|_python_type_to_json_schema|_warn_if|_get_can_use_tool|_normalize_result_errors",
    ),
    ("H", r"claude_agent_sdk\._internal|InternalClient|MCP_MAJOR"),
)
_PRIVATE_IMPORTS = {
    "_internal.query": "G",
    "_internal.sdk_mcp_bridge": "G",
    "_internal.transport.subprocess_cli": "F",
    "_internal.message_parser": "C",
    "_internal._client_app": "D",
    "_internal._task_compat": "D",
}


def get_suite() -> Path:
    """Return the folder with the unpacked sdist of the pinned hash, downloading it if needed."""
    stamp = SUITE / ".sha256"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == SHA256:
        return SUITE
    shutil.rmtree(SUITE, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "claude-agent-sdk"]
        subprocess.run([*command, "--dest", folder, f"claude-agent-sdk=={VERSION}"], check=True)
        (archive,) = Path(folder).glob("*.tar.gz")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != SHA256:
            raise SystemExit(f"{archive.name} has the SHA-256 {found}, not {SHA256}")
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        SUITE.parent.mkdir(exist_ok=True)
        (unpacked,) = (path for path in Path(folder).iterdir() if path.is_dir())
        shutil.copytree(unpacked, SUITE)
    stamp.write_text(SHA256, encoding="utf-8")  # last: an interrupted copy is made again
    return SUITE


def kinds_of(file: Path) -> dict[str, str]:
    """Return the kind of each test function of a file, by its name with its class."""
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    private: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("claude_agent_sdk."):
            module = node.module.removeprefix("claude_agent_sdk.")
            for alias in node.names:
                name = alias.asname or alias.name
                if module in _PRIVATE_IMPORTS:
                    private[name] = _PRIVATE_IMPORTS[module]
                elif module.startswith("_internal"):
                    private[name] = "E" if "session" in module or "transcript" in module else "H"
                elif name.startswith("_"):
                    private[name] = "D"
    definitions = {name: ast.get_source_segment(source, node) or "" for node in tree.body for name in names_in(node)}
    found: dict[str, str] = {}

    def kind_of(text: str, methods: dict[str, str]) -> str:
        """Return the kind of a test from its source and that of everything in its file that it uses."""
        known = {**definitions, **methods}
        used: set[str] = set()
        waiting = [text]
        while waiting:
            words = set(re.findall(r"\w+", waiting.pop())) - used
            used |= words
            waiting += [known[word] for word in words & known.keys()]
        text += "".join(known[word] for word in used & known.keys())
        ranks = {private[name] for name in used & private.keys()}
        ranks |= {kind for kind, mark in _MARKS if re.search(mark, text)}
        return next((kind for kind, _ in _MARKS if kind in ranks), "A")

    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            functions = [part for part in node.body if isinstance(part, _FUNCTIONS)]
            texts = {part.name: ast.get_source_segment(source, part) or "" for part in functions}
            methods = {name: text for name, text in texts.items() if not name.startswith("test")}
            found.update(
                {f"{node.name}::{name}": kind_of(text, methods) for name, text in texts.items() if name not in methods}
            )
        elif isinstance(node, _FUNCTIONS) and node.name.startswith("test"):
            found[node.name] = kind_of(definitions[node.name], {})
    return found


def names_in(node: ast.stmt) -> list[str]:
    """Return the names that a statement at the top of a file defines, imports aside."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def run(suite: Path, *, layer: bool, more: list[str], workers: str) -> dict[tuple[str, str], str]:
    """Run the suite; return the outcome of each case by file and name: passed, failed or skipped."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        shim = Path(folder, "shim")  # programs that a test starts get the layer also
        shim.mkdir()
        (shim / "claude_agent_sdk.py").write_text(SHIM, encoding="utf-8")
        source = shim if layer else suite / "src"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "CLAUDE_CONFIG_DIR": str(Path(folder, "config")),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(suite), "-p", "no:asyncio"]
        command += [
            "-p",
            "no:trio",
            "-p",
            "no:cacheprovider",
            "--import-mode=importlib",
            "--timeout=60",
            f"--junitxml={report}",
        ]
        command += [
            "--tb=short" if more else "--tb=no",
            "-n",
            workers,
            *(["-p", "hackamore.compat.pytest_plugin", "--hackamore-compat"] if layer else []),
        ]
        command += [f"--ignore={suite / 'tests' / name}.py" for name in NOT_OURS]
        called = subprocess.run(
            [*command, *more, str(suite / "tests")], cwd=suite, env=environment, check=False, capture_output=not more
        )
        if not report.exists():
            raise SystemExit((called.stderr or b"").decode() or "pytest wrote no report")
        outcomes: dict[tuple[str, str], str] = {}
        for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 - pytest wrote it
            place = case.get("classname", "").removeprefix("tests.").split(".")
            state = next((part.tag for part in case if part.tag in ("failure", "error", "skipped")), "passed")
            outcome = {"failure": "failed", "error": "failed"}.get(state, state)
            name = case.get("name", "")
            if not name.startswith("test_") and not place[0]:  # a file that cannot be imported
                place, name = [name.rpartition(".")[2]], "(collection)"
            key = (place[0], "::".join([*place[1:], name]))
            outcomes[key] = "failed" if outcomes.get(key) == "failed" else outcome
        return outcomes


def exceptions() -> dict[str, str]:
    """Return the reason for each public case that differs, by `file::case`."""
    rows = tomllib.loads(DIFFERENCES.read_text(encoding="utf-8"))["difference"]
    return {case: row["reason"] for row in rows for case in row.get("cases", ())}


def main() -> int:
    """Run what is asked for; return 1 if a share is too small."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", action="store_true", help="run the layer alone and print no shares")
    parser.add_argument("--failures", action="store_true", help="list failed cases that the real package passes")
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="read or write the outcomes of the real package")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes")
    parser.add_argument("--workers", default="2", metavar="N", help="tests that run at the same time")
    parser.add_argument("more", nargs="*", help="arguments for pytest")
    given = parser.parse_args()
    suite = get_suite()
    layer = run(suite, layer=True, more=given.more, workers=given.workers)
    if given.layer:
        print(Counter(layer.values()))
        return 0
    if given.baseline is not None and given.baseline.exists():
        real = {tuple(key.split("|", 1)): value for key, value in json.loads(given.baseline.read_text()).items()}
    else:
        real = run(suite, layer=False, more=given.more, workers=given.workers)
        if given.baseline is not None:
            given.baseline.write_text(json.dumps({"|".join(key): value for key, value in real.items()}))
    kinds = {file.stem: kinds_of(file) for file in (suite / "tests").glob("test_*.py")}
    reasons = exceptions()
    by_file: dict[str, Counter[str]] = defaultdict(Counter)
    by_kind: dict[str, Counter[str]] = defaultdict(Counter)
    missing: list[str] = []
    rows = []
    for (file, name), outcome in sorted(real.items()):
        kind = kinds.get(file, {}).get(name.partition("[")[0], "H")
        here = layer.get((file, name), "failed")
        for counter in (by_file[file], by_kind[kind]):
            counter["cases"] += 1
            counter["real"] += outcome == "passed"
            counter["layer"] += outcome == "passed" and here == "passed"
            counter["listed"] += outcome == "passed" != here and f"{file}::{name}" in reasons
        if outcome == "passed" != here:
            rows.append(f"{kind} {file}::{name}")
            if kind == "A" and f"{file}::{name}" not in reasons:
                missing.append(f"{file}::{name}")
    if given.json is not None:
        given.json.write_text(json.dumps({"files": by_file, "kinds": by_kind, "failed": rows}, indent=1))
    print(f"{'file':44} {'cases':>6} {'real':>6} {'layer':>6} {'listed':>6}")
    for file, counter in sorted(by_file.items()):
        print(f"{file:44} {counter['cases']:>6} {counter['real']:>6} {counter['layer']:>6} {counter['listed']:>6}")
    print()
    short = False
    for kind, counter in sorted(by_kind.items()):
        share = (counter["layer"] + (counter["listed"] if kind == "A" else 0)) / max(counter["real"], 1)
        wanted = WANTED.get(kind)
        verdict = "" if wanted is None else f"  wanted {wanted:.0%}{'' if share >= wanted else ': TOO FEW'}"
        short = short or (wanted is not None and share < wanted)
        label = f"{kind} {KINDS[kind]}"
        print(
            f"{label:44} {counter['cases']:>6} {counter['real']:>6} {counter['layer']:>6} {counter['listed']:>6} {share:>7.1%}{verdict}"
        )
    for case, reason in reasons.items():
        print(f"listed: {case}: {reason}")
    if given.failures:
        print("\n".join(rows))
    for case in missing:
        print(f"not listed: {case}")
    ran = sum(outcome != "skipped" for outcome in real.values())
    passed = sum(outcome == "passed" for outcome in real.values())
    listed = by_kind["A"]["listed"]
    print(
        f"the real package passes {passed} of {ran} cases that were not skipped; {listed} public cases are listed, at most {MOST_LISTED}"
    )
    partial = bool(given.more)  # a part of the suite need not have cases of each kind
    short = short or not (partial or KINDS.keys() & WANTED.keys() <= by_kind.keys())
    return int(short or bool(missing) or listed > MOST_LISTED or passed < LEAST_REAL * ran)


if __name__ == "__main__":
    sys.exit(main())
