"""The page of approvals in a browser: the exact request, the answers, keys, size, accessibility, hostile contents, other processes."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

from hackamore import Allow, Approvals, Deny, ElicitationResult
from hackamore.permissions import decision_wire
from tests.approvals.pages import SUGGESTED, Asking, Served, elicitation, serving
from tests.contract import shows
from tests.support.patience import patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import APIResponse, Page, Route

    from hackamore.approvals import ApprovalRequest
    from tests.traces.conftest import Opened, OpenPage

    Enter: TypeAlias = Callable[..., Opened]

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def served(approvals: Approvals) -> Iterator[Served]:
    with serving(approvals) as served:
        yield served


@pytest.fixture
def enter(served: Served, open_page: OpenPage) -> Enter:
    """Return a function that opens the page in a browser by its address, which can be used once."""

    def enters(**given: Any) -> Opened:
        opened = open_page(served.server.url, allowed=f"http://127.0.0.1:{served.server.port}/", **given)
        assert opened.page.url == f"{served.origin}/"
        return opened

    return enters


def another_tab(opened: Opened, served: Served) -> Page:
    page = opened.page.context.new_page()
    page.goto(f"{served.origin}/")
    page.wait_for_selector("html[data-ready=true]")
    return page


def choose(page: Page, request: ApprovalRequest) -> None:
    page.locator(f'#list button[data-id="{request.id}"]').click()
    page.locator("#panel h2").wait_for()


def state(page: Page, text: str) -> str:
    """Return the text of the banner, once the request has a state."""
    page.locator("#panel h2 .status", has_text=text).wait_for()
    return page.locator("#panel .banner").first.inner_text()


def answered(asking: Asking) -> list[Any]:
    for thread in asking.threads:
        thread.join(patience(20))
    return asking.answers


QUESTION = {
    "questions": [
        {
            "question": "Tea or coffee?",
            "header": "Drink",
            "options": [{"label": "Tea", "description": "green"}, {"label": "Coffee"}],
            "multiSelect": False,
        },
        {
            "question": "With what?",
            "header": "With",
            "options": [{"label": "Milk"}, {"label": "Sugar"}],
            "multiSelect": True,
        },
    ]
}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "description": "as on the bill"},
        "age": {"type": "integer"},
        "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
        "gift": {"type": "boolean"},
        "extras": {"type": "array", "items": {"enum": ["box", "card"]}},
        "note": {"type": "string"},
    },
    "required": ["name"],
}


@shows("approvals.page.shown")
def test_the_page_shows_the_exact_request(enter: Enter, asking: Asking) -> None:
    edit = {
        "file_path": "/srv/app.py",
        "old_string": "one\ntwo\nthree",
        "new_string": "one\n2\nthree",
        "replace_all": True,
    }
    reason = "Policy, rule 'edits': a person looks at edits of the service"
    request = asking.permit("Edit", edit, decision_reason=reason, title="Edit app.py?", agent_id="agent-7")
    write = asking.permit("Write", {"file_path": "/srv/new.txt", "content": "first\nsecond"})
    command = asking.permit("Bash", {"command": "rm -rf build\nmake", "timeout": 5}, "c2")
    opened = enter()
    page = opened.page
    assert page.title() == "(3) Approvals"
    assert page.locator("#person").inner_text() == "You answer as ada"
    assert [row.split("\n")[:2] for row in opened.texts("#list button")] == [
        ["Edit · tool", "/srv/app.py"],
        ["Write · tool", "/srv/new.txt"],
        ["Bash · tool", "rm -rf build make"],
    ]
    choose(page, request)
    assert opened.texts(".diff .del code") == ["two"]
    assert opened.texts(".diff .add code") == ["2"]
    assert reason in opened.section("Reason")
    assert "replace_all\ntrue" in opened.section("Input")
    assert "agent-7" in opened.section("Request")
    page.locator("summary", has_text="Exact input").click()
    assert '"old_string": "one\\ntwo\\nthree"' in page.locator("#panel details").last.inner_text()
    choose(page, write)
    assert opened.texts(".diff .add code") == ["first", "second"]
    assert page.locator(".diff .del").count() == 0
    choose(page, command)
    assert "rm -rf build\nmake" in opened.section("command")
    assert "timeout\n5" in opened.section("Input")
    assert (opened.requests, opened.errors) == ([], [])


def test_fields_that_a_comparison_leaves_out_are_shown(enter: Enter, asking: Asking) -> None:
    hidden = {
        "file_path": "a",
        "old_string": "x",
        "new_string": "y",
        "edits": [{"old_string": "", "new_string": "fake"}],
    }
    odd = {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y", "then": "rm"}]}
    one, two = asking.permit("Edit", hidden), asking.permit("MultiEdit", odd)
    opened = enter()
    choose(opened.page, one)
    assert opened.texts(".diff .add code") == ["y"]
    assert "fake" in opened.section("edits")
    choose(opened.page, two)
    assert opened.page.locator(".diff").count() == 0
    assert '"then": "rm"' in opened.section("edits")


@shows("approvals.page.difference")
def test_the_difference_to_the_request_before(enter: Enter, approvals: Approvals, tmp_path: Path) -> None:
    target = tmp_path / "notes.txt"
    target.write_text("as the person saw it")
    with closing(Approvals(tmp_path / "approvals.db", hold=0.01)) as cold, closing(Asking(cold)) as asking:
        first = asking.permit("Bash", {"command": "make test"})
        answered(asking)
        second = asking.permit("Bash", {"command": "make deploy"})
        answered(asking)
        changed = asking.permit("Bash", {"command": f"sh {target}"}, "c2")
        answered(asking)
        target.write_text("as it is now")
        again = asking.permit("Bash", {"command": f"sh {target}"}, "c2")
        answered(asking)
        assert (second.follows, again.follows) == (first.id, changed.id)
        opened = enter()
        choose(opened.page, second)
        assert "Difference to the earlier request" in opened.page.locator("#panel").inner_text()
        assert opened.texts(".diff .del code") == ['  "command": "make test"']
        assert opened.texts(".diff .add code") == ['  "command": "make deploy"']
        choose(opened.page, again)
        assert "a file that it names has changed" in opened.section("Asked again")


def test_allow_edit_always_and_deny(enter: Enter, asking: Asking) -> None:
    opened = enter()
    page = opened.page
    allowed = asking.permit("Bash", {"command": "ls"})
    choose(page, allowed)
    page.get_by_role("button", name="Allow", exact=True).click()
    assert re.match(r"Allowed by ada, .+\.", state(page, "answered"))
    edited = asking.permit("Bash", {"command": "rm -rf /", "account": 12345678901234567891})
    choose(page, edited)
    page.locator("summary", has_text="Edit the input").click()
    text = page.locator("#edited").input_value()
    page.locator("#edited").fill(text.replace("rm -rf /", "rm -rf build")[:-1])
    page.get_by_role("button", name="Allow with this input").click()
    assert "not valid JSON" in page.locator("#problem").inner_text()
    assert asking.approvals.get(edited.id).state == "waiting"
    page.locator("#edited").fill(text.replace("rm -rf /", "rm -rf build"))
    page.get_by_role("button", name="Allow with this input").click()
    state(page, "answered")
    always = asking.permit("Bash", {"command": "make"}, permission_suggestions=SUGGESTED)
    choose(page, always)
    assert "Bash(make:*)" in page.locator("form").inner_text()
    page.locator("#place").select_option("localSettings")
    page.get_by_role("button", name="Always allow").click()
    state(page, "answered")
    denied = asking.permit("Bash", {"command": "curl"})
    choose(page, denied)
    assert page.get_by_role("button", name="Always allow").count() == 0
    page.locator("#message").fill("Use the mirror.")
    page.locator("#ends").check()
    page.get_by_role("button", name="Deny").click()
    assert state(page, "answered").startswith("Denied by ada")
    answers = [asking.approvals.get(each.id).answer for each in (allowed, edited, always, denied)]
    assert answers[0] == Allow()
    assert answers[1] == Allow({"command": "rm -rf build", "account": 12345678901234567891})
    assert decision_wire(answers[2]) == decision_wire(always.always("localSettings"))  # type: ignore[arg-type]
    assert answers[3] == Deny("Use the mirror.", interrupt=True)
    page.locator("#tab-history").click()
    page.locator("#list button", has_text="curl").wait_for()
    assert [row.split("\n")[1] for row in opened.texts("#list button")] == ["curl", "make", "rm -rf /", "ls"]
    choose(page, denied)
    assert "Use the mirror." in opened.section("Answer")
    assert (opened.requests, opened.errors) == ([], [])


def test_questions_plans_and_forms(enter: Enter, asking: Asking) -> None:
    opened = enter()
    page = opened.page
    question = asking.permit("AskUserQuestion", QUESTION, requires_user_interaction=True)
    choose(page, question)
    page.get_by_role("radio", name="Coffee").check()
    page.get_by_role("button", name="Send the answers").click()
    assert "With what?" in page.locator("#problem").inner_text()
    page.get_by_role("checkbox", name="Milk").check()
    page.get_by_role("checkbox", name="Sugar").check()
    page.get_by_label("Another answer to: With what?").fill("A biscuit")
    page.get_by_role("button", name="Send the answers").click()
    state(page, "answered")
    plan = asking.permit("ExitPlanMode", {"plan": "1. Boil water.\n2. Wait."})
    choose(page, plan)
    assert "2. Wait." in opened.section("plan")
    page.get_by_role("button", name="Allow", exact=True).click()
    state(page, "answered")
    form = asking.ask(elicitation("Where to?", SCHEMA))
    choose(page, form)
    assert "Where to?" in opened.section("Message")
    page.get_by_role("button", name="Accept").click()
    assert "name" in page.locator("#problem").inner_text()
    page.get_by_label("Your name").fill("Ann")
    page.get_by_role("spinbutton", name="age").fill("41")
    page.get_by_label("size").select_option(label="Medium")
    page.get_by_role("checkbox", name="card").check()
    page.get_by_role("button", name="Accept").click()
    assert state(page, "answered").startswith("Accepted by ada")
    given = {**QUESTION, "answers": {"Tea or coffee?": "Coffee", "With what?": "Milk, Sugar, A biscuit"}}
    content = {"name": "Ann", "age": 41, "size": "m", "gift": False, "extras": ["card"]}
    found = [asking.approvals.get(each.id).answer for each in (question, plan, form)]
    assert found == [Allow(given), Allow(), ElicitationResult.accept(content)]
    assert opened.errors == []


@shows("approvals.page.keys")
def test_keys(enter: Enter, asking: Asking) -> None:
    one, two, three = (asking.permit("Bash", {"command": f"echo {each}"}) for each in ("one", "two", "three"))
    opened = enter()
    page = opened.page
    opened.press("j", "j", "k")
    opened.section("command")
    assert page.locator("#list [aria-current=true] .what").inner_text() == "echo one"
    opened.press("a")
    state(page, "answered")
    page.locator("#count", has_text="2").wait_for()
    opened.press("a")  # nothing else is allowed by it
    assert page.locator("#panel h2 .status").inner_text() in ("answered", "used")
    opened.press("j", "j")
    page.locator(".sec .textbox", has_text="echo three").wait_for()
    opened.press("d")
    page.keyboard.type("ja, no")
    opened.press("Enter")
    assert state(page, "answered").startswith("Denied by ada")
    assert asking.approvals.get(three.id).answer == Deny("ja, no")
    assert asking.approvals.get(one.id).answer == Allow()
    assert asking.approvals.get(two.id).answer is None
    opened.press("k")
    page.locator(".sec .textbox", has_text="echo two").wait_for()
    opened.press("e")
    assert page.evaluate("document.activeElement.id") == "edited"
    opened.press("Escape", "h")
    page.locator("#list button", has_text="echo three").wait_for()
    opened.press("w", "?")
    assert "deny" in page.locator("#keys").inner_text()
    opened.press("a", "Escape")
    assert not page.evaluate("document.getElementById('keys').open")
    assert asking.approvals.get(two.id).answer is None
    assert opened.errors == []


@shows("approvals.page.keys")
def test_what_the_page_read_before_an_answer_is_not_shown_after_it(enter: Enter, asking: Asking) -> None:
    for each in ("one", "two"):
        asking.permit("Bash", {"command": f"echo {each}"})
    opened = enter()
    page = opened.page
    held: list[Route] = []
    late: list[APIResponse] = []

    def hold_the_first(route: Route) -> None:
        if held or route.request.method != "GET":
            route.continue_()
        else:
            held.append(route)  # before `fetch`: the next request can come while it waits
            late.append(route.fetch())

    page.route("**/request/*", hold_the_first)
    opened.press("j", "j", "k")
    opened.section("command")
    opened.press("a")
    state(page, "answered")
    while not late:
        page.wait_for_timeout(10)
    route, before = held[0], late[0]
    with page.expect_event("requestfinished", lambda request: request == route.request):
        route.fulfill(response=before)
    page.evaluate("fetch('requests').then((answer) => answer.text())")
    assert page.locator("#panel h2 .status").inner_text() in ("answered", "used")
    assert opened.errors == []


ANSWER = """
import sys
from hackamore import Allow, Approvals
Approvals(sys.argv[1]).answer(sys.argv[2], Allow(), by="bob")
"""


@shows("approvals.page.live")
def test_the_page_follows_what_other_processes_do(enter: Enter, asking: Asking, tmp_path: Path) -> None:
    opened = enter()
    page = opened.page
    assert "No request waits" in page.locator("#empty").inner_text()
    request = asking.permit("Bash", {"command": "ls"})
    page.locator("#list button", has_text="ls").wait_for()
    choose(page, request)
    page.locator("#message").fill("half an ans")
    subprocess.run(
        [sys.executable, "-c", ANSWER, str(tmp_path / "approvals.db"), request.id], check=True, timeout=patience(60)
    )
    page.locator("#panel .banner", has_text="Allowed by bob").wait_for()
    assert page.locator("form").count() == 0
    page.locator("#empty", has_text="No request waits").wait_for()
    assert page.title() == "Approvals"
    assert opened.errors == []


def test_two_tabs_answer(enter: Enter, served: Served, asking: Asking) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    opened = enter()
    one, two = opened.page, another_tab(opened, served)
    choose(one, request)
    choose(two, request)
    two.route("**/requests", lambda route: route.abort())  # it does not hear of the other tab
    one.locator("#message").fill("No.")
    one.get_by_role("button", name="Deny").click()
    state(one, "answered")
    two.get_by_role("button", name="Allow", exact=True).click()
    late = two.locator("#panel .banner.is-bad")
    late.wait_for()
    assert "was answered by 'ada' before" in late.inner_text()
    assert "Denied by ada" in two.locator("#panel").inner_text()
    assert answered(asking) == [Deny("No.")]


def test_a_link_to_a_request_and_one_to_none(enter: Enter, served: Served, asking: Asking) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    opened = enter()
    for name, text in ((request.id, "Bash"), ("no-such-request", "no such request"), ("%E0%A4%A", "Choose a request")):
        page = opened.page.context.new_page()
        page.goto(f"{served.origin}/#{name}")
        page.wait_for_selector("html[data-ready=true]")
        page.locator("#panel", has_text=text).wait_for()


def test_a_page_without_its_server_says_so(enter: Enter, served: Served, asking: Asking) -> None:
    request = asking.permit("Bash", {"command": "ls"})
    opened = enter()
    page = opened.page
    choose(page, request)
    page.locator("form").wait_for()
    page.context.set_offline(True)
    page.locator("#live", has_text="Not connected").wait_for()
    page.get_by_role("button", name="Allow", exact=True).click()
    assert "not delivered" in page.locator("#problem").inner_text()
    page.context.set_offline(False)
    page.locator("#live", has_text="Live").wait_for()
    page.get_by_role("button", name="Allow", exact=True).click()
    state(page, "answered")
    served.server.cookie = "another"  # as after a restart on the same port
    page.locator("#live", has_text="not signed in").wait_for()


HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><style>*{display:none}</style>"
    "\x1b[2J\x1b]0;owned\x07\u202ecod.exe\u2066\u2069\u200b\u2028$nonce ${title} {{7*7}} javascript:alert(1)"
)


@shows("approvals.page.hostile")
def test_hostile_contents_do_nothing(enter: Enter, asking: Asking) -> None:
    given = {
        HOSTILE: HOSTILE,
        "__proto__": HOSTILE,
        "constructor": {"x": HOSTILE},
        "command": HOSTILE,
        "short": HOSTILE[:20],
    }
    tool = asking.permit(HOSTILE, given, HOSTILE, decision_reason=HOSTILE, title=HOSTILE, blocked_path=HOSTILE)
    edit = asking.permit("Edit", {"file_path": HOSTILE, "old_string": HOSTILE, "new_string": HOSTILE + "x"}, "c2")
    each = {"question": HOSTILE, "header": HOSTILE, "options": [{"label": HOSTILE, "description": HOSTILE}]}
    question = asking.permit(
        "AskUserQuestion", {"questions": [each, HOSTILE, None, {"question": {}, "options": [None, 7]}]}, "c3"
    )
    schema = {
        "properties": {
            HOSTILE: {"title": HOSTILE, "enum": [HOSTILE], "type": "string"},
            "a": None,
            "b": {"oneOf": [None, {"const": 1}]},
            "c": 7,
        },
        "required": HOSTILE,
    }
    form = asking.ask(elicitation(HOSTILE, schema, mode="url", url="javascript:alert(1)"))
    large = asking.permit("Write", {"file_path": "big.txt", "content": "<b>\u202e" * 200_000}, "c4")
    opened = enter()
    page = opened.page
    page.on("dialog", lambda dialog: opened.errors.append(dialog.message))
    for request in (tool, edit, question, form, large):
        choose(page, request)
        page.locator("#panel form").wait_for()
        for summary in page.locator("#panel summary").all():
            summary.click()
        assert page.locator("a, img, iframe, object, embed, svg, script:not([src]), style, #panel [style]").count() == 0
        shown = page.locator("body").inner_text() + "".join(
            each.input_value() for each in page.locator("textarea").all()
        )
        assert not set("\u202e\u2066\u200b\x1b\x07\u2028") & set(shown)
        assert page.title() == "(5) Approvals"
    choose(page, large)
    assert "too long to be edited" in page.locator("form").inner_text()
    choose(page, tool)
    page.locator("summary", has_text="Edit the input").click()
    page.get_by_role("button", name="Allow with this input").click()
    state(page, "answered")
    assert asking.approvals.get(tool.id).answer == Allow(given)
    assert (opened.requests, opened.errors) == ([], [])


@shows("approvals.page.access")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("wide", [True, False], ids=["1440", "390"])
def test_nothing_hinders_access(enter: Enter, asking: Asking, scheme: str, wide: bool) -> None:
    requests = [
        asking.permit(
            "Edit", {"file_path": "/srv/" + "a" * 200, "old_string": "x" * 300, "new_string": "y"}, "c1" * 90
        ),
        asking.permit("Bash", {"command": "make " * 90}, permission_suggestions=SUGGESTED, decision_reason="r" * 300),
        asking.permit("AskUserQuestion", QUESTION),
        asking.ask(elicitation("Where to?", SCHEMA)),
    ]
    opened = enter(wide=wide, color_scheme=scheme, bypass_csp=True)
    page = opened.page
    shade = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", shade)[:3])) < 200) == (scheme == "dark")
    found = Axe().run(page).response["violations"]
    for request in requests:
        choose(page, request)
        page.locator("form").wait_for()
        for summary in page.locator("#panel summary").all():
            summary.click()
        found += Axe().run(page).response["violations"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if not wide:
            assert not page.locator("#left").is_visible()
            assert all(box.bounding_box()["height"] >= 40 for box in page.locator("form button:visible").all())  # type: ignore[index]
            page.locator("#back").click()
            assert page.locator("#left").is_visible()
    opened.press("?")
    found += Axe().run(page).response["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in found] == []
