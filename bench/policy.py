"""How long a policy takes for a decision, without and with a shell command: `python bench/policy.py`."""

from __future__ import annotations

import timeit

from hackamore.policy import Policy

CALLS = {
    "Read": {"file_path": "/project/src/a.py"},
    "Edit": {"file_path": "/project/src/a.py", "old_string": "a", "new_string": "b"},
    "WebFetch": {"url": "https://example.com/a"},
    "mcp__github__create_issue": {"title": "a"},
}
COMMANDS = {
    "one program": "git log --oneline -5",
    "a pipeline": "cd src && grep -rn TODO . | sort -u | head -20",
    "a script": "for f in a b c; do if [ -f x ]; then cat x; fi; done; find . -name '*.py' -exec grep -l x {} + > /dev/null 2>&1",
    "a document": "cat > notes.md <<'EOF'\n" + "a line of text\n" * 100 + "EOF",
}


def milliseconds(policy: Policy, tool: str, given: dict[str, str]) -> float:
    policy.decide(tool, given, cwd="/project")
    return min(timeit.repeat(lambda: policy.decide(tool, given, cwd="/project"), number=100, repeat=5)) * 10


def main() -> None:
    for name, policy in (("read_only", Policy.read_only()), ("coding", Policy.coding("/project"))):
        for tool, given in CALLS.items():
            print(f"{name:10} {tool:26} {milliseconds(policy, tool, given):7.3f} ms")
        for title, command in COMMANDS.items():
            print(f"{name:10} Bash, {title:20} {milliseconds(policy, 'Bash', {'command': command}):7.3f} ms")


if __name__ == "__main__":
    main()
