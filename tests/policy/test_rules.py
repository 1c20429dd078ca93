"""Rules: which calls they decide, how they are checked, and the errors of wrong ones."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from hackamore import Options, PolicyError
from hackamore.policy import Policy, Rule


def decision(policy: Policy, tool: str, given: dict[str, Any], **more: Any) -> str:
    return policy.decide(tool, given, **more).decision


def bash(policy: Policy, command: str, cwd: str = "/project") -> str:
    return policy.decide("Bash", {"command": command}, cwd=cwd).decision


def test_the_strictest_matching_rule_wins_in_any_order() -> None:
    rules = [
        Rule(tool="Edit", decision="allow"),
        Rule(name="no", tool="*", path="/etc/**", decision="deny", reason="Not there."),
    ]
    for policy in (Policy(rules), Policy(rules[::-1])):
        assert decision(policy, "Edit", {"file_path": "/srv/a"}) == "allow"
        verdict = policy.decide("Edit", {"file_path": "/etc/hosts"})
        assert (verdict.decision, verdict.rule, verdict.reason) == ("deny", "no", "Not there.")


def test_without_a_rule_a_person_is_asked_and_without_a_person_the_call_is_denied() -> None:
    policy = Policy([Rule(tool="WebSearch", decision="ask")])
    for tool in ("WebSearch", "Task"):
        assert decision(policy, tool, {}) == "ask"
        assert decision(policy, tool, {}, person=False) == "deny"


def test_paths_are_resolved_with_their_links(tmp_path: Path) -> None:
    root, other = tmp_path / "repo", tmp_path / "repo2"
    for folder in (root / ".git", root / "src", other):
        folder.mkdir(parents=True)
    (root / "out").symlink_to(other)
    (root / "config").symlink_to(root / ".git" / "config")
    (other / "in").symlink_to(root / "src")
    policy = Policy(
        [Rule(tool=["Edit", "Write"], path="{repo}/**", not_path="{repo}/.git/**", decision="allow")],
        roots={"repo": root},
    )
    for path in ("src/a", "./src/../b", "src/new/c", str(root / "a")):
        assert decision(policy, "Edit", {"file_path": path}, cwd=root) == "allow"
    for path in (
        "out/a",
        "config",
        ".git/config",
        ".GIT/config",
        "../repo2/a",
        "src/../../x",
        "~root/a",
        str(other / "in" / "a") + "/../../../x",
    ):
        assert decision(policy, "Edit", {"file_path": path}, cwd=root) != "allow", path
    assert decision(policy, "Edit", {}) == "ask"
    odd: tuple[Any, ...] = (3, "", "a\0b", "\ud800", "a/" * 5000, "a" * 5000, "*" * 300)
    for value in odd:
        assert decision(policy, "Edit", {"file_path": value}, cwd=root) == "ask"


def test_a_folder_that_git_changes_to_counts_for_its_paths() -> None:
    policy = Policy([Rule(program="git", decision="allow"), Rule(tool="Read", path="/etc/shadow", decision="deny")])
    assert bash(policy, "git -C /etc log") == "allow"
    assert bash(policy, "git -C / diff --no-index a etc/shadow") == "deny"
    inside = Policy([Rule(program="git", verb="commit", path="/project/**", decision="allow")])
    assert [
        bash(inside, f"{command}commit -m x") for command in ("git ", "git -C sub ", "git -C .. ", "cd /tmp && git ")
    ] == [
        "allow",
        "allow",
        "ask",
        "ask",
    ]


def test_a_search_below_a_protected_folder_is_asked_about() -> None:
    policy = Policy(
        [
            Rule(program=["grep", "rg"], decision="allow"),
            Rule(tool="Read", path=["/home/a/.ssh/**", "**/.env"], decision="deny"),
        ]
    )
    for command in ("grep x a", "grep -rn x src", "rg x src", "grep x /home/a"):
        assert bash(policy, command) == "allow", command
    for command in ("grep -r x /home", "rg x /home/a", "rg x /", "grep --recursive x ~/../../home"):
        assert bash(policy, command) == "ask", command
    for command in ("grep -r x /home/a/.ssh", "grep x .env", "rg x src/.env"):
        assert bash(policy, command) == "deny", command


def test_the_resolver_can_be_replaced() -> None:
    policy = Policy(
        [Rule(tool="Read", path="/real/**", decision="allow")], resolve=lambda path: path.replace("/link", "/real")
    )
    assert decision(policy, "Read", {"file_path": "/link/a"}) == "allow"
    assert decision(policy, "Read", {"file_path": "/else/a"}) == "ask"


def test_domains_servers_annotations_agents_tags_and_cost_are_conditions() -> None:
    web = Policy([Rule(tool="WebFetch", domain="*.example.com", decision="allow")])
    assert decision(web, "WebFetch", {"url": "https://api.example.com/x"}) == "allow"
    for url in (
        "https://example.com",
        "https://example.com.evil.net",
        "https://a.example.com@evil.net",
        "https://evil.net\\a.example.com",
        "file:///x",
        7,
    ):
        assert decision(web, "WebFetch", {"url": url}) == "ask", url
    server = Policy([Rule(server="github", annotation="read_only", decision="allow")])
    assert decision(server, "mcp__github__get", {}, annotations={"readOnlyHint": True}) == "allow"
    assert decision(server, "mcp__github__get", {}) == "ask"
    assert decision(server, "mcp__github__x__get", {}, annotations={"readOnlyHint": True}) == "ask"
    assert decision(server, "mcp__gitlab__get", {}, annotations={"readOnlyHint": True}) == "ask"
    destructive = Policy([Rule(tool="mcp__*", decision="allow"), Rule(annotation="destructive", decision="deny")])
    assert decision(destructive, "mcp__a__b", {}) == "deny"
    assert decision(destructive, "mcp__a__b", {}, annotations={"readOnlyHint": True}) == "allow"
    limits = Policy(
        [
            Rule(tool="Task", agent=["main", "review*"], tags={"tenant": "acme"}, decision="allow"),
            Rule(tool="Task", spent_over=5, decision="ask"),
        ]
    )
    assert decision(limits, "Task", {}, tags={"tenant": "acme"}) == "allow"
    assert decision(limits, "Task", {}, tags={"tenant": "acme"}, agent="reviewer") == "allow"
    assert decision(limits, "Task", {}, tags={"tenant": "acme"}, agent="coder") == "ask"
    assert decision(limits, "Task", {}, tags={"tenant": "other"}) == "ask"
    assert decision(limits, "Task", {}, tags={"tenant": "acme"}, spent=5.01) == "ask"


def test_programs_are_allowed_with_arguments_that_the_table_knows() -> None:
    policy = Policy(
        [Rule(program="git", verb=["log", "status"], decision="allow"), Rule(program="tool", decision="allow")]
    )
    for command in ("git log -5", "/usr/bin/git -C a status", "tool"):
        assert bash(policy, command) == "allow", command
    for command in (
        "git push",
        "git -c core.pager=x log",
        "git log --unknown",
        "./git log",
        "/tmp/git log",
        "tool x",
        "gi* log",
    ):
        assert bash(policy, command) == "ask", command
    anything = Policy([Rule(program="tool", effect="any", decision="allow")])
    assert bash(anything, "tool --do 'a b' $x") == "allow"
    assert bash(anything, "tool $(rm x)") == "ask"


def test_flags_narrow_a_rule_that_allows_and_widen_one_that_denies() -> None:
    policy = Policy(
        [
            Rule(name="short", program="ls", flags=["-l", "-a"], decision="allow"),
            Rule(name="log", program="git", verb="log", not_flags="--all", decision="allow"),
            Rule(name="force", program="git", verb="push", flags=["-f", "--force*"], decision="deny"),
        ]
    )
    assert [bash(policy, command) for command in ("ls -la", "ls -lR", "git log -p", "git log --all")] == [
        "allow",
        "ask",
    ] * 2
    assert [bash(policy, command) for command in ("git push", "git push -uf", "git push --force-with-lease=x")] == [
        "ask",
        "deny",
        "deny",
    ]


def test_shell_paths_are_decided_like_those_of_the_file_tools(tmp_path: Path) -> None:
    policy = Policy(
        [
            Rule(program=["cat", "touch", "rm", "cp", "cd", "command", "time", "find"], decision="allow"),
            Rule(tool="Write", path="{root}/**", decision="allow"),
            Rule(name="keys", tool="Read", path="**/*.key", decision="deny"),
        ],
        roots={"root": tmp_path},
    )
    (tmp_path / "link").symlink_to("/etc")
    cwd = str(tmp_path)
    for command in (
        "cat a > b",
        "touch a/b",
        "cd a && touch ../b",
        "cat a 2>&1 >/dev/null",
        "rm -f a",
        "rm -r a",
        "cat '*.key'x",
    ):
        assert bash(policy, command, cwd) == "allow", command
    for command in (
        "cat a > /etc/b",
        "touch ../b",
        "touch link/b",
        "cd .. && touch b",
        "cd /etc; touch b",
        "cd a || touch b",
        "touch /proc/self/cwd/b",
        "touch {a,/etc/b}",
        "touch $x",
        "command cd /etc && touch b",
        "! cd a && touch ../b",
        "{ cd /etc; } && touch b",
        "(cd a) && touch ../b",
        "cd a & touch b",
        "time cd .. && touch b",
        "find / -execdir touch b \\;",
        "cd link/.. && touch b",
        "touch x'y'~/b",
        "touch " + "a/" * 2000,
        "touch " + "a" * 300,
        "touch 'a'$x",
        "touch *",
        "cat a >> link/x",
        "cd /etc && cat a > b",
        "cp a link",
        "cp a /etc/x",
    ):
        assert bash(policy, command, cwd) == "ask", command
    for command in ("cat x.key", "cat *.k?y", "cat < x.key", "cp x.key a", "cat X.KEY"):
        assert bash(policy, command, cwd) == "deny", command


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ('programm = "x"\ndecision = "allow"', "programm", "Did you mean `program`?"),
        ('decision = "alow"', "decision", "Did you mean `allow`?"),
        ('tool = "Edit"', "decision", "needs `decision`"),
        ('tool = "Edit"\npath = "src/**"\ndecision = "allow"', "path", "relative"),
        ('tool = "Edit"\npath = "{other}/**"\ndecision = "allow"', "path", "not in `roots`"),
        ('tool = "Bash"\ndecision = "allow"', "tool", "Name the programs"),
        ('program = "git*"\ndecision = "allow"', "program", "wildcard"),
        ('verb = "log"\ndecision = "deny"', "verb", "needs `program`"),
        ('tool = "Edit"\nprogram = "git"\ndecision = "deny"', "program", "`Bash`"),
        ('tool = []\ndecision = "deny"', "tool", "must not be empty"),
        ('tool = 3\ndecision = "deny"', "tool", "a list"),
        ('tool = "*"\nspent_over = -1\ndecision = "deny"', "spent_over", "at least 0"),
        ('program = "git"\nverb = "log"\ndecision = "allow"\nmatch = ["git push"]', "match", "does not decide"),
        ('program = "git"\ndecision = "allow"\nnot_match = ["git log"]', "not_match", "must not"),
    ],
)
def test_errors_name_the_file_the_rule_the_field_and_the_fix(text: str, field: str, words: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.parse(f'[[rule]]\nname = "mine"\n{text}', roots={"repo": "."}, file="policy.toml")
    error = caught.value
    assert (error.file, error.rule, error.field) == ("policy.toml", "mine", field)
    assert "`policy.toml`, rule 'mine': " in str(error)
    assert words in str(error)


def test_errors_of_whole_files() -> None:
    for text, words in (("x = 1", "Unknown table"), ("[[rule", "not valid TOML"), ("rule = 3", "list of tables")):
        with pytest.raises(PolicyError, match=words):
            Policy.parse(text)
    with pytest.raises(PolicyError, match="cannot be read"):
        Policy.load("/nowhere/policy.toml")
    with pytest.raises(PolicyError, match="Two rules have the name"):
        Policy([Rule(name="a", decision="ask"), Rule(name="a", decision="deny")])


def test_a_file_is_loaded_with_its_examples(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(
        '[[rule]]\nname = "edits"\ntool = ["Edit", "Write"]\npath = "{repo}/**"\nnot_path = "**/.git/**"\ndecision = "allow"\n'
        'match = ["{repo}/a"]\nnot_match = ["/etc/a", "{repo}/.git/config"]\n'
        '[[rule]]\nname = "costly"\ntool = "mcp__*"\nannotation = "destructive"\ndecision = "ask"\nspent_over = 5.0\n'
        'match = [{ tool = "mcp__a__b", spent = 6.0 }]\nnot_match = [{ tool = "mcp__a__b", spent = 4.0 }]\n',
        encoding="utf-8",
    )
    policy = Policy.load(file, roots={"repo": tmp_path})
    assert [rule.name for rule in policy.rules] == ["edits", "costly"]
    assert policy.file == str(file)
    assert policy.roots == {"repo": os.path.realpath(tmp_path)}
    with pytest.raises(AttributeError):
        policy.rules[0].name = "x"  # type: ignore[misc]


def test_cases_of_a_file_are_run(tmp_path: Path) -> None:
    cases = tmp_path / "cases.toml"
    cases.write_text(
        '[[case]]\ncommand = "git log"\ndecision = "allow"\n[[case]]\nname = "edit"\ntool = "Edit"\ninput = { file_path = "/etc/a" }\n'
        'person = false\ndecision = "allow"\n',
        encoding="utf-8",
    )
    policy = Policy.read_only()
    first, second = policy.test(cases)
    assert (first.name, first.passed, second.name, second.passed, second.verdict.decision) == (
        "git log",
        True,
        "edit",
        False,
        "deny",
    )
    cases.write_text('[[case]]\ncommand = "x"\ndecison = "ask"\n', encoding="utf-8")
    with pytest.raises(PolicyError, match="Did you mean `decision`"):
        policy.test(cases)


def test_an_explanation_names_the_part_the_rule_and_the_change() -> None:
    policy = Policy(
        [
            Rule(name="read", program="cat", decision="allow"),
            Rule(name="keys", tool="Read", path="**/*.key", decision="deny"),
        ]
    )
    text = policy.explain("Bash", {"command": "cat a | tool x > b"}, cwd="/project")
    assert "allow  program   cat a  ('read'" in text
    assert "ask    redirect  b" in text
    assert 'program = "tool"' in text
    assert "narrow the rule 'keys'" in policy.explain("Read", {"file_path": "/a.key"})
    assert "not understood" in policy.explain("Bash", {"command": "cat ("})


def test_the_library_loads_without_the_room_of_policies() -> None:
    import subprocess
    import sys

    code = "import sys, hackamore; print([name for name in sys.modules if 'policy' in name or 'tree_sitter' in name])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
    assert Options is not None
