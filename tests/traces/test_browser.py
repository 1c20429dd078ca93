"""The page in a browser: lanes, panels, hostile contents, keys, size, accessibility."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

from hackamore.traces.items import LANES
from tests.conftest import RealCLI
from tests.contract import shows
from tests.support.patience import patience
from tests.traces.agent import run_agent
from tests.traces.conftest import Opened, OpenPage
from tests.traces.written import CANARY, HOSTILE, Tape, call, everything, large

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return everything().write(tmp_path / "run.jsonl")


def rows(opened: Opened) -> list[list[str]]:
    opened.settle()
    return [row.split("\n") for row in opened.texts("#list .row")]


def choose(opened: Opened, kind: str, words: str = "") -> None:
    row = opened.page.locator("#list .row").filter(has=opened.page.locator(".kind", has_text=re.compile(f"^{kind}$")))
    row.filter(has_text=words).first.click()
    opened.page.locator(".badge", has_text=kind).wait_for()
    opened.page.locator("#sec-raw-frames").wait_for()


@shows("traces.page")
def test_every_lane_and_panel(open_page: OpenPage, run: Path) -> None:
    opened = open_page(run)
    page = opened.page
    for name in LANES:
        assert page.locator(f"#lane-{name} .bar").count() > 0, name
    assert page.locator("path.use-cache_read").get_attribute("d")
    assert page.locator("path.use-cost").get_attribute("d")
    assert page.locator("#cache-ratio").inner_text() == "cache hits 75 %"
    assert page.locator("#cost").inner_text() == "cost $0.2500"
    assert "3 problems" in page.locator("#chips").inner_text()
    assert "The turn ended normally" in page.locator("#panel").inner_text()
    kinds = [row[1] for row in rows(opened)]
    assert {
        "start",
        "prompt",
        "model",
        "tool",
        "permission",
        "hook",
        "subagent",
        "task",
        "result",
        "exit",
        "stderr",
    } == set(kinds)

    choose(opened, "tool", "echo")
    assert "allowed by the permission callback" in opened.section("Decision")
    assert "Bash(echo:*)" in opened.section("Decision")
    assert "Bash(ls)" in opened.section("Decision")
    assert "echo Look at <b>this</b>." in opened.section("Input: command")
    assert "it said Look at <b>this</b>." in opened.section("Result")
    choose(opened, "tool", "Edit")
    assert [page.locator(".diff .del code").inner_text(), page.locator(".diff .add code").inner_text()] == [
        "two",
        "three",
    ]
    assert "user_reject" in opened.section("Decision")
    choose(opened, "model", "I say")
    assert "I think" in opened.section("Thinking")
    assert "cache read" in opened.section("Usage")
    choose(opened, "permission", "Edit")
    assert "deny: No:" in opened.section("Decision")
    choose(opened, "hook")
    assert "PreToolUse" in page.locator(".head").inner_text()
    choose(opened, "subagent")
    assert "wc" in opened.section("Inside")
    choose(opened, "task")
    choose(opened, "stderr")
    assert "a warning" in page.locator("#sec-stderr").inner_text()
    choose(opened, "result")
    assert "$0.2500" in opened.section("Outcome")
    page.locator("#sec-raw-frames summary").first.click()
    assert '"total_cost_usd": 0.25' in page.locator("#sec-raw-frames pre").inner_text()

    page.locator("#tab-frames").click()
    directions = {row[1].split(" ", 1)[1] for row in rows(opened)}
    assert directions == {"to the CLI", "from the CLI", "note"}
    page.locator("#tab-stderr").click()
    assert len(rows(opened)) == 1
    assert (opened.requests, opened.errors) == ([], [])


def test_why_did_it_stop_jumps(open_page: OpenPage, tmp_path: Path) -> None:
    tape = everything(end=False)
    tape.result("error_max_turns", errors=["Reached maximum number of turns (3)"])
    opened = open_page(tape.write(tmp_path / "run.jsonl"), "#item-4")
    opened.press("w")
    assert "The limit of turns was reached" in opened.page.locator("#panel h2").inner_text()
    opened.page.locator("#sec-jump .link").click()
    assert "Reached maximum number of turns" in opened.page.locator("#panel h2").inner_text()
    assert opened.page.locator('.row[aria-selected="true"] .kind').inner_text() == "result"


@shows("traces.hostile")
def test_hostile_contents_do_nothing(open_page: OpenPage, tmp_path: Path) -> None:
    tape = everything(said=HOSTILE)
    tape.reply(9, call(HOSTILE, "t9", **{HOSTILE: HOSTILE, "__proto__": HOSTILE, "file_path": HOSTILE}))
    tape.into({"type": HOSTILE, "subtype": HOSTILE})
    path = tape.write(tmp_path / "<img src=x onerror=alert(1)>.jsonl")
    opened = open_page(path)
    page = opened.page
    page.on("dialog", lambda dialog: opened.errors.append(dialog.message))
    scripts = page.locator("script").count()
    for number in range(page.locator("#list .row").count()):
        page.locator(f"#row-{number}").click()
        page.locator("#sec-raw-frames summary").first.click()
    opened.press("f")
    for number in range(page.locator("#list .row").count()):
        page.locator(f"#row-{number}").click()
    page.locator("#sec-frame").wait_for()
    assert page.locator("a, img, iframe, object, embed, form, link[href], #panel svg, #list svg").count() == 0
    assert page.locator("script").count() == scripts
    assert page.title() == "<img src=x onerror=alert(1)>.jsonl"
    shown = page.locator("body").inner_text()
    for character in ("\u202e", "\u2066", "\x1b", "\x07", "\u2028"):
        assert character not in shown
    opened.press("i")
    page.locator("#row-1").click()
    assert "\\u202e" in page.locator("#sec-prompt .mark").first.inner_text()
    assert (opened.requests, opened.errors) == ([], [])
    with pytest.raises(Exception, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<b>x</b>'")


def test_a_text_of_ten_megabytes(open_page: OpenPage, tmp_path: Path) -> None:
    tape = everything(end=False)
    tape.reply(9, call("Read", "t9", file_path="/big"))
    tape.result_of("t9", "0123456789" * 1_000_000)
    opened = open_page(tape.write(tmp_path / "run.jsonl"))
    choose(opened, "tool", "Read")
    shown = opened.section("Result")
    assert 20_000 < len(shown) < 25_000
    opened.page.locator(".more", has_text="of 10.0 MB").click()
    assert 210_000 < len(opened.section("Result")) < 230_000
    assert opened.errors == []


@shows("traces.canaries")
def test_secrets_are_not_in_the_page(open_page: OpenPage, tmp_path: Path) -> None:
    opened = open_page(everything(said=CANARY).write(tmp_path / "run.jsonl"))
    assert CANARY.encode() not in (tmp_path / "page.html").read_bytes()
    texts = opened.page.evaluate(
        """async () => {
            const parts = [...document.querySelectorAll("script[type='text/plain']")].map(async (part) => {
                const bytes = Uint8Array.from(atob(part.textContent), (one) => one.charCodeAt(0));
                return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
            });
            return (await Promise.all(parts)).join("");
        }"""
    )
    assert "canary" not in texts + opened.page.content()
    assert "<hackamore-key-1>" in texts


def test_search_filters_and_links(open_page: OpenPage, run: Path) -> None:
    opened = open_page(run)
    page = opened.page
    page.locator("#search").fill("general-purpose")  # only in the input of a call
    page.locator("#list .row .kind", has_text="subagent").wait_for()
    assert {row[1] for row in rows(opened)} <= {"subagent", "model"}
    opened.press("Escape", "Escape")
    assert page.locator("#search").input_value() == ""
    page.locator("#filters button", has_text="Hooks").click()
    assert {row[1] for row in rows(opened)} == {"hook"}
    opened.press("5", "p")
    assert len(rows(opened)) == 3
    page.locator("#list .row").first.click()
    opened.page.locator("#sec-raw-frames").wait_for()
    link = page.url
    assert re.search(r"#item-\d+$", link)
    page.goto("about:blank")
    page.goto(link)
    page.locator("#sec-decision").wait_for()
    assert page.locator('.row[aria-selected="true"]').count() == 1
    page.goto(link.partition("#")[0] + "#line-3")
    page.locator("#sec-frame").wait_for()
    assert page.locator("#tab-frames").get_attribute("aria-selected") == "true"


def test_without_a_mouse(open_page: OpenPage, run: Path) -> None:
    opened = open_page(run)
    page = opened.page
    focused = "document.activeElement.id || document.activeElement.tagName"
    opened.press("?")
    assert page.locator("#keys").is_visible()
    opened.press("Escape")
    assert not page.locator("#keys").is_visible()
    opened.press("/")
    assert page.evaluate(focused) == "search"
    page.keyboard.type("w")  # one letter is not sought in the lines, which add rows later
    opened.press("Enter")
    assert page.evaluate(focused) == "list"
    assert page.locator("#list").get_attribute("aria-activedescendant") == "row-0"
    opened.press("Escape", "Home", "j", "ArrowDown", "k")
    assert page.locator('.row[aria-selected="true"]').get_attribute("aria-posinset") == "2"
    page.locator("#sec-prompt").wait_for()
    opened.press("Enter")
    assert page.evaluate(focused) == "panel"
    opened.press("Escape")
    assert page.evaluate(focused) == "list"
    opened.press("e")
    page.locator(".status", has_text="denied").wait_for()
    before = page.locator("#axis").inner_text()
    opened.press("+", "+")
    opened.settle()
    assert page.locator("#axis").inner_text() != before
    opened.press("=", "t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    opened.press("f", "End")
    page.locator("#sec-frame").wait_for()
    assert opened.errors == []


def test_several_sessions(open_page: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "two.jsonl"
    path.write_text("\n".join([*everything(Tape("a")).lines, *everything(Tape("b"), said="The other.").lines]) + "\n")
    opened = open_page(path)
    assert opened.page.locator("#session option").count() == 2
    opened.press("]")
    assert "The other." in rows(opened)[1][2]


COLOURS = (
    """() => [document.body, document.querySelector("#list")].map((one) => getComputedStyle(one).backgroundColor)"""
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("wide", [True, False], ids=["1440", "390"])
def test_nothing_hinders_access(open_page: OpenPage, run: Path, scheme: str, wide: bool) -> None:
    opened = open_page(run, wide=wide, color_scheme=scheme, bypass_csp=True)
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shade = page.evaluate(COLOURS)[0]
    assert (sum(map(int, re.findall(r"\d+", shade)[:3])) < 200) == (scheme == "dark")
    found = []
    for keys in ((), ("e",), ("f", "Home"), ("?",)):
        if keys and not wide:
            page.evaluate("document.body.classList.remove('detail')")
        opened.press(*keys)
        opened.settle()
        found += Axe().run(page).response["violations"]
    serious = [
        (each["id"], [node["html"] for node in each["nodes"]][:3])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


FRAMES = """async () => {
    const list = document.getElementById("list");
    const took = [];
    let last = await new Promise(requestAnimationFrame);
    for (let frame = 0; frame < 90; frame++) {
        list.scrollTop += 2800;
        const now = await new Promise(requestAnimationFrame);
        took.push(now - last);
        last = now;
    }
    return took.sort((one, other) => one - other);
}"""


@shows("traces.large")
def test_fifty_megabytes(open_page: OpenPage, tmp_path: Path) -> None:
    path = large(tmp_path / "large.jsonl", 50_000_000)
    began = time.process_time()
    opened = open_page(path)
    read = time.process_time() - began
    page = opened.page
    ready = page.evaluate("performance.getEntriesByName('ready')[0].startTime") / 1000
    took = page.evaluate(FRAMES)
    median, late = took[len(took) // 2] / 1000, took[int(0.95 * len(took))] / 1000
    assert page.locator("#list .row").count() < 80
    began = time.monotonic()
    page.locator("#search").fill("needle-in-the-haystack")
    page.wait_for_function("document.querySelector('#found').textContent.startsWith('1 of')")
    searched = time.monotonic() - began
    print(
        f"read {read:.1f} s, open {ready:.2f} s, frame {median * 1000:.0f} ms, 95 % {late * 1000:.0f} ms, search {searched:.1f} s"
    )
    assert ready < patience(3)
    assert median < patience(0.034)
    assert late < patience(0.1)
    assert searched < patience(5)
    assert opened.errors == []


def test_a_run_of_the_real_cli(open_page: OpenPage, real_cli: RealCLI, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as other:  # the browser's event loop runs in this thread
        other.submit(lambda: anyio.run(run_agent, real_cli, tmp_path / "run.jsonl", 24)).result(patience(120))
    opened = open_page(tmp_path / "run.jsonl")
    for name in LANES:
        assert opened.page.locator(f"#lane-{name} .bar").count() > 0, name
    choose(opened, "tool", "Edit")
    assert "return value * 3  # <b>" in opened.section("Changes")
    assert "source: user_temporary" in opened.section("Decision")
    opened.press("w")
    assert "The turn ended normally" in opened.page.locator("#panel").inner_text()
    assert (opened.requests, opened.errors) == ([], [])


def test_the_index_is_all_that_is_decoded_first(open_page: OpenPage, run: Path) -> None:
    opened = open_page(run, "#item-2")
    opened.page.locator("#sec-raw-frames").wait_for()
    assert opened.page.locator("#index").count() == 0
    assert opened.page.locator("#chunk-0").count() == 1
    assert json.loads(opened.page.locator("#config").text_content() or "") == {"live": False}
