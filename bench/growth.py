"""How the cost of each part grows with its work: `./dev bench --growth`, or `python bench/growth.py`.

Each row is measured at n, 2n, 4n and 8n, in interleaved rounds, by the processor time of this process. The exponent is that of the total
time: 1 means that a unit costs the same beside many as beside few. It is the slope of the least squares through the logarithms.
It ends with 1 if an exponent is above 1.2; a row that is above is measured again, twice. `--short` takes small sizes, once each; a row
that is above gets eight more rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import growth_rows
import pool_growth

MOST = 1.2
"""The largest exponent where 1 is promised: n log n stays below, and so does the noise of a busy machine."""
ROUNDS = 3


class Row(NamedTuple):
    """What is measured.

    Attributes:
        group: the picture in which it stands.
        unit: what a unit is, and beside what it is counted.
        first: the first of the sizes; each of the other three is twice the one before.
        short: the same, for the short form.
        whole: True if the function returns the time of all units together, and not of one.
        most: the largest exponent.
    """

    group: str
    unit: str
    first: int
    short: int
    whole: bool = False
    most: float = MOST


FAR = 1.4
"""The largest exponent of a walk over objects all over the memory: beyond the caches of the processor a step takes twice as long."""
ROWS = {
    "decisions": Row("pool", "decisions of a pool for a caller, beside other callers", 250, 50),
    "check_outs": Row("pool", "check-out and return, beside live conversations", 50, 25),
    "registered": Row("pool", "lease of a conversation, beside others in the registry", 2_000, 250),
    "turns": Row("sessions", "turn of a session, simulated CLI", 250, 50, whole=True),
    "unread_turns": Row("sessions", "message beyond half of the buffer, beside unread turns", 1_000, 250),
    "open_calls": Row("sessions", "find a call of an MCP server, beside open ones", 1_000, 250),
    "simulated_sessions": Row("sessions", "session of a simulated CLI in memory, beside others", 1_000, 250),
    "open_steps": Row("sessions", "step of a script that did not happen", 1_000, 250, whole=True),
    "secret_variables": Row("sessions", "message in a trace, beside secret variables", 250, 50),
    "redaction": Row("sessions", "byte of a tool result in a trace", 500_000, 100_000, whole=True),
    "reserve": Row("budgets", "model call, beside open turns", 1_000, 250),
    "accounts": Row("budgets", "account, beside others", 1_000, 250, whole=True),
    "lease": Row("fleets", "lease and end of a task, beside foreign tasks", 10_000, 500),
    "progress": Row("fleets", "`progress()`, beside tasks", 10_000, 500),
    "branches": Row("transcripts", "branch of a conversation with dead ends", 1_000, 250, whole=True, most=FAR),
    "way_of_a_message": Row("transcripts", "turn on the way of a fork", 1_000, 250, whole=True, most=FAR),
    "leaves": Row("transcripts", "note in a row of notes", 1_000, 250, whole=True, most=FAR),
    "parallel_calls": Row("transcripts", "reply with two calls", 500, 125, whole=True, most=FAR),
    "usage_by_session": Row("transcripts", "conversation in the usage by session", 250, 50, whole=True),
    "stored": Row("transcripts", "append to SQLite, beside entries", 1_000, 100),
    "traced_subagents": Row("pages", "subagent in a trace", 250, 50, whole=True),
    "page": Row("pages", "tool call on a trace page", 250, 50, whole=True),
}
FUNCTIONS = {**growth_rows.ROWS, "decisions": pool_growth.decisions, "check_outs": pool_growth.check_outs}


class Curve(NamedTuple):
    """The seconds of all units at each size, with the line through them: `constant * n ** exponent`."""

    sizes: list[int]
    seconds: list[float]
    exponent: float
    constant: float


def fit(sizes: list[int], seconds: list[float]) -> Curve:
    """Return the line of least squares through the logarithms."""
    across, up = ([math.log(value) for value in values] for values in (sizes, seconds))
    middle, height = sum(across) / len(across), sum(up) / len(up)
    slope = sum((x - middle) * (y - height) for x, y in zip(across, up, strict=True)) / sum(
        (x - middle) ** 2 for x in across
    )
    return Curve(sizes, seconds, slope, math.exp(height - slope * middle))


HEAD = f"{'row':17} {'n':>9} {'us at n':>10} {'2n':>10} {'4n':>10} {'8n':>10} {'exponent':>9} {'constant':>10}"


def measure(name: str, *, short: bool, rounds: int) -> Curve:
    """Measure a row: the best of some rounds at each size."""
    row = ROWS[name]
    sizes = [(row.short if short else row.first) * 2**number for number in range(4)]
    best = dict.fromkeys(sizes, math.inf)
    for _ in range(rounds):
        for size in sizes:
            gc.collect()
            took = FUNCTIONS[name](size)
            best[size] = min(best[size], took if row.whole else took * size)
    return fit(sizes, list(best.values()))


def line(name: str, curve: Curve) -> str:
    """Return the row of the table."""
    each = [took / size * 1e6 for size, took in zip(curve.sizes, curve.seconds, strict=True)]
    figures = " ".join(f"{us:10.3f}" for us in each)
    mark = "" if curve.exponent <= ROWS[name].most else "  ABOVE"
    return f"{name:17} {curve.sizes[0]:>9,} {figures} {curve.exponent:9.2f} {curve.constant * 1e6:10.3f}{mark}"


def plots(curves: dict[str, Curve], folder: Path) -> None:
    """Write a picture for each group: the cost of a unit at n, 2n, 4n and 8n, beside that at n."""
    import pygal
    from pygal.style import LightStyle

    for group in dict.fromkeys(row.group for row in ROWS.values()):
        chart = pygal.Line(
            style=LightStyle(font_family="sans-serif"), js=[], no_prefix=True, width=720, height=320, range=(0, 2.5),
            x_title="units", y_title="cost of a unit, that of n = 1", title=group, legend_at_bottom=True,
            legend_at_bottom_columns=2, disable_xml_declaration=True, pretty_print=False, truncate_legend=-1,
        )  # fmt: skip
        chart.x_labels = ["n", "2n", "4n", "8n"]
        for name, curve in curves.items():
            if ROWS[name].group == group:
                each = [took / size for size, took in zip(curve.sizes, curve.seconds, strict=True)]
                chart.add(name, [round(cost / each[0], 2) for cost in each])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"growth-{group}.svg").write_text(chart.render() + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev bench --growth", description=__doc__)
    parser.add_argument("--short", action="store_true", help="small sizes, for CI")
    parser.add_argument("--rows", nargs="+", choices=sorted(ROWS), default=list(ROWS), metavar="ROW")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the curves to FILE")
    parser.add_argument(
        "--plots", type=Path, metavar="FOLDER", help="also write a picture for each group (needs pygal)"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="also put the table into a page")
    given = parser.parse_args()
    curves = {}
    print(HEAD)
    for number, name in enumerate(given.rows, 1):
        if sys.stderr.isatty():
            print(f"{number}/{len(given.rows)} {name}", end="\r", file=sys.stderr, flush=True)
        curves[name] = measure(name, short=given.short, rounds=1 if given.short else ROUNDS)
        # Noise makes one size slow, not all: more rounds straighten the line, where a cost that grows stays bent.
        for rounds in (ROUNDS, ROUNDS + 2):
            if curves[name].exponent > ROWS[name].most:
                again = measure(name, short=given.short, rounds=rounds)
                curves[name] = min(curves[name], again, key=lambda curve: curve.exponent)
        print(line(name, curves[name]), flush=True)
    if given.json:
        given.json.write_text(json.dumps({name: curve._asdict() for name, curve in curves.items()}, indent=2) + "\n")
    if given.page:
        table = "\n".join([HEAD, *(line(name, curve) for name, curve in curves.items())])
        before, start, rest = given.page.read_text().partition("<!-- growth: start -->\n")
        end = "<!-- growth: end -->"
        given.page.write_text(f"{before}{start}```text\n{table}\n```\n{end}{rest.partition(end)[2]}")
    if given.plots:
        plots(curves, given.plots)
    bent = [name for name, curve in curves.items() if curve.exponent > ROWS[name].most]
    if bent:
        print(f"The cost of a unit grows: {', '.join(bent)}.", file=sys.stderr)
    return bool(bent)


if __name__ == "__main__":
    raise SystemExit(main())
