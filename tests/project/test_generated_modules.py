"""Generated modules are current, an edited one is noticed and restored, and the blocking shell has nothing of an event loop."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import patience

PROJECT = Path(__file__).resolve().parents[2]
OFFICIAL = PROJECT / ".dev" / "official"
GENERATED = {
    path.relative_to(PROJECT): re.findall(r"scripts/(\w+\.py)", path.read_text(encoding="utf-8").partition("\n")[0])[0]
    for path in sorted((PROJECT / "src").rglob("*.py"))
    if path.read_text(encoding="utf-8").startswith("# Generated ")
}


def run(project: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(project / "scripts" / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience(60))


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("project")
    for name in ("scripts", "src"):
        shutil.copytree(PROJECT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", project)
    (project / ".dev").mkdir()
    (project / ".dev" / "official").symlink_to(OFFICIAL)  # `make_compat.py` reads it
    return project


def test_the_shells_are_generated() -> None:
    assert {str(path) for path in GENERATED} >= {
        f"src/hackamore/{path}" for path in ("aio/operations.py", "sync/operations.py", "sync/session.py")
    }


@pytest.mark.parametrize("path", GENERATED, ids=str)
def test_an_edited_module_is_noticed_and_restored(copied: Path, path: Path) -> None:
    if GENERATED[path] == "make_compat.py" and not OFFICIAL.is_dir():
        pytest.skip("needs the official package, which `./dev bench` and `./dev ci` install")
    wanted = (PROJECT / path).read_text(encoding="utf-8")
    edited = copied / path
    changed = wanted.replace("return", "return not", 1) if "return" in wanted else wanted + "EDITED = True\n"
    edited.write_text(changed, encoding="utf-8")
    assert edited.read_text(encoding="utf-8") != wanted
    noticed = run(copied, GENERATED[path], "--check")
    assert (noticed.returncode, noticed.stderr) == (1, f"{path} is not current: run `./dev format`\n")
    assert run(copied, GENERATED[path]).returncode == 0
    assert edited.read_text(encoding="utf-8") == wanted
    assert run(copied, GENERATED[path], "--check").returncode == 0


@pytest.mark.parametrize("path", [path for path in GENERATED if "sync" in path.parts], ids=str)
def test_a_blocking_module_has_nothing_of_an_event_loop(path: Path) -> None:
    text = (PROJECT / path).read_text(encoding="utf-8").partition("\n")[2]
    assert re.findall(r"\b(?:async|await|awaits?|anyio|asyncio|trio|aio|__a(?!ll)\w+__|event loop)\b", text) == []


@pytest.mark.skipif(
    not OFFICIAL.is_dir(), reason="needs the official package, which `./dev bench` and `./dev ci` install"
)
def test_a_release_of_the_official_package_is_reported_by_name_and_field(tmp_path: Path) -> None:
    release = tmp_path / "claude_agent_sdk"
    shutil.copytree(OFFICIAL / "claude_agent_sdk", release, ignore=shutil.ignore_patterns("__pycache__"))
    same = run(PROJECT, "make_compat.py", "--news", str(release))
    assert (same.returncode, same.stdout) == (0, "no public name, field or signature differs\n")
    for path, old, new in (
        (
            "types.py",
            "    max_turns: int | None = None\n",
            "    max_turns: int = 7\n    most_words: int | None = None\n",
        ),
        ("types.py", "    fallback_model: str | None = None\n", ""),
        ("types.py", "class TextBlock:", "class PoemBlock:\n    verses: int\n\n\n@dataclass\nclass TextBlock:"),
        (
            "client.py",
            "async def stop_task(self, task_id: str)",
            "async def stop_task(self, task_id: str, force: bool = False)",
        ),
        ("__init__.py", '    "TextBlock",\n', '    "TextBlock",\n    "PoemBlock",\n'),
    ):
        text = (release / path).read_text(encoding="utf-8")
        assert old in text
        (release / path).write_text(text.replace(old, new, 1), encoding="utf-8")
    news = run(PROJECT, "make_compat.py", "--news", str(release))
    assert news.returncode == 1
    assert sorted(news.stdout.splitlines()) == [
        "changed: ClaudeAgentOptions.max_turns: int | None = None -> int = 7",
        "changed: ClaudeSDKClient.stop_task: (self, task_id: str) -> None -> (self, task_id: str, force: bool=False) -> None",
        "new: ClaudeAgentOptions.most_words: int | None = None",
        "new: PoemBlock.verses: int",
        "new: PoemBlock: class()",
        "removed: ClaudeAgentOptions.fallback_model",
    ]
