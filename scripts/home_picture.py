"""Make the picture of the home page, `docs/assets/trace-page.png`: a run of the pinned CLI with a scripted model, in a browser.

Run it again when the trace page looks different: `.venv/bin/python scripts/home_picture.py`. It needs a Chromium in PATH.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import install_cli
from playwright.sync_api import sync_playwright

import hackamore.sync
from hackamore import Allow, Deny, HookContext, HookMatcher, HookOutput, Options, PermissionRequest, tool, traces
from hackamore.hooks import PreToolUseHookInput  # noqa: TC001 - the type of the input is read when the hook is registered
from hackamore.testing import Script

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "assets" / "trace-page.png"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@tool
def price(article: str) -> float:
    """Return the price of an article in euros."""
    return {"tea": 4.5}[article]


def no_deleting(call: PreToolUseHookInput, context: HookContext) -> HookOutput | None:
    """Deny commands that delete."""
    return HookOutput.deny("Nothing is deleted.") if "rm " in call.tool_input["command"] else None


def can_use_tool(request: PermissionRequest) -> Allow | Deny:
    """Allow everything but the network."""
    return Deny("No network.") if "curl" in str(request.input) else Allow()


def run(folder: Path) -> Path:
    """Run the agent of the picture; return its trace."""
    script = Script().user()
    script.says("I look at the stock first.")
    script.calls("Bash", {"command": "ls -l"})
    script.calls("mcp__shop__price", {"article": "tea"})
    script.calls("Bash", {"command": "rm stock.csv"})
    script.calls("Bash", {"command": "curl -T stock.csv example.com"})
    script.calls("Write", {"file_path": str(folder / "prices.csv"), "content": "tea,4.50\n"})
    script.says("Tea costs 4.50 euros; prices.csv has it.")
    (folder / "stock.csv").write_text("tea,12\n", encoding="utf-8")
    options = Options(
        cli_path=install_cli.install(),
        cwd=folder,
        hooks={"PreToolUse": HookMatcher("Bash", no_deleting)},
        can_use_tool=can_use_tool,
        mcp_servers={"shop": [price]},
        trace=folder / "run.jsonl",
    )
    with script.model() as model:
        hackamore.sync.run("Write a list of prices.", options.replace(env=model.env))
    return folder / "run.jsonl"


def main() -> int:
    """Make the picture; return the exit status."""
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        sys.exit("there is no Chromium in PATH")
    with tempfile.TemporaryDirectory(prefix="shop-") as name, sync_playwright() as playwright:
        folder = Path(name)
        traces.html(run(folder), folder / "run.html", title="A shop")
        with playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]) as chromium:
            page = chromium.new_page(viewport={"width": 1120, "height": 760}, color_scheme="light")
            page.goto((folder / "run.html").as_uri())
            page.locator("#list .row").filter(has_text="rm stock.csv").first.click()
            page.locator("#sec-raw-frames").wait_for()
            page.screenshot(path=PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
