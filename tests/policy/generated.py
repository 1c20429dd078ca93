"""Commands at random: of the shapes by which filters of commands were bypassed, and corpus rows that were damaged."""

from __future__ import annotations

from random import Random

_NAMES = [
    "ls",
    "cat",
    "echo",
    "rm",
    "git",
    "find",
    "xargs",
    "sort",
    "sed",
    "awk",
    "env",
    "bash",
    "curl",
    "tar",
    "python",
    "test",
    "[",
    "true",
    "cd",
]
_HIDDEN = [
    "/bin/rm",
    "\\rm",
    "r''m",
    'r"m"',
    "$'rm'",
    "$(echo rm)",
    "`echo rm`",
    "${x:-rm}",
    "r\\\nm",
    "{rm,-rf}",
    "./ls",
    "~/ls",
    "=ls",
    "$RM",
]
_WRAPPERS = [
    "env A=1",
    "command",
    "nice -n 5",
    "timeout 5",
    "xargs -I{}",
    "sudo",
    "nohup",
    "busybox",
    "exec",
    "coproc",
    "time",
    "eval",
    "builtin",
    "!",
    "stdbuf -o0",
]
_WORDS = [
    "a",
    "-l",
    "-rf",
    "/",
    "'b c'",
    '"$x"',
    "$x",
    "$(ls)",
    "`ls`",
    "<(ls)",
    "*.py",
    "{a,b}",
    "~",
    "~root",
    "../x",
    "--output=x",
    "-o",
    "x",
    "-exec",
    "rm",
    "{}",
    "\\;",
    "+",
    "-delete",
    "$IFS",
    "\\",
    "#",
    "-c",
    "'rm x'",
    "core.pager=x",
    "log",
    "diff",
    "-name",
    "${x%%]*}",
    "${!x}",
    "$((1+1))",
    "$'\\x72'",
    '"a\\"b"',
    "a\\ b",
    "=",
    "]",
    "[",
    "<<<x",
]
_REDIRECTS = [
    ">x",
    ">>x",
    "2>&1",
    ">/dev/null",
    "<x",
    "&>x",
    ">&2",
    ">|x",
    "<>x",
    "2>x",
    ">&x",
    "{fd}>x",
    "<<EOF\nhi\nEOF\n",
    "<<'E'\n$(rm)\nE\n",
    "<<-E\n\thi\n\tE\n",
    "<<< hi",
]
_JOINS = [";", "&&", "||", "|", "|&", "&", "\n", " ; ", "\n\n", " &\n", ";;", " # c\n", "\\\n"]
_AROUND = [
    "({})",
    "{{ {}; }}",
    "if {}; then ls; fi",
    "while {}; do ls; done",
    "for i in a b; do {}; done",
    "case x in x) {};; esac",
    "f() {{ {}; }}; f",
    "echo $({})",
    "echo `{}`",
    "cat <({})",
    "[[ -n $({}) ]]",
    "trap '{}' EXIT",
    "bash -c '{}'",
    "eval '{}'",
    "x=$({}) ls",
    "! {}",
    "time {}",
    'echo "$({})"',
    "(( x = $({}) ))",
    "echo ${{x:-$({})}}",
    "coproc {}",
    "find . -exec {} \\;",
    "xargs {}",
    "function g {{ {}; }}; g",
    "select i in a; do {}; done",
    "until {}; do ls; done",
]
_ODD = [
    "\x00",
    "\r",
    "\t",
    "\x0b",
    "\xa0",
    "\u2028",
    "\\",
    "'",
    '"',
    "`",
    "$",
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    "|",
    "&",
    ";",
    "\n",
    "#",
    "!",
    "*",
    "?",
    "[",
    "]",
    "~",
    "=",
    "%",
    "\x7f",
    "\ud800",
]


def simple(random: Random) -> str:
    """Return one command."""
    parts = [random.choice(_WRAPPERS)] if random.random() < 0.2 else []
    parts.append(random.choice(_NAMES if random.random() < 0.8 else _HIDDEN))
    parts += [random.choice(_WORDS) for _ in range(random.randrange(4))]
    if random.random() < 0.3:
        parts.insert(random.randrange(len(parts) + 1), random.choice(_REDIRECTS))
    if random.random() < 0.1:
        parts.insert(
            0, random.choice(["A=1", "LD_PRELOAD=x", "PATH=.", "IFS=x", "GIT_PAGER=x", "x=$(rm)", "a=(1 2)", "i=1"])
        )
    return " ".join(parts)


def command(random: Random, depth: int = 0) -> str:
    """Return a command of several parts."""
    text = simple(random)
    if depth < 3 and random.random() < 0.4:
        text = random.choice(_AROUND).format(command(random, depth + 1))
    while random.random() < 0.3:
        text += random.choice(_JOINS) + simple(random)
    return text


def damaged(random: Random, texts: list[str]) -> str:
    """Return a text with some letters changed, or two texts together."""
    text = random.choice(texts)
    if random.random() < 0.3:
        text = text[: random.randrange(len(text) + 1)] + random.choice(["", *_JOINS]) + random.choice(texts)
    for _ in range(random.randrange(4)):
        at = random.randrange(len(text) + 1)
        text = (
            text[:at]
            + random.choice(["", random.choice(_ODD), random.choice(_WORDS), random.choice(_REDIRECTS)])
            + text[at + random.randrange(2) :]
        )
    return text


def noise(random: Random) -> str:
    """Return any text."""
    if random.random() < 0.5:
        return random.randbytes(random.randrange(60)).decode("latin-1")
    return "".join(random.choice(_ODD + _NAMES + [" ", " "]) for _ in range(random.randrange(20)))


def any_of(random: Random, texts: list[str]) -> str:
    """Return a command of one of the kinds."""
    kind = random.random()
    if kind < 0.2:
        return noise(random)
    if kind < 0.6 and texts:
        return damaged(random, texts)
    return command(random)
