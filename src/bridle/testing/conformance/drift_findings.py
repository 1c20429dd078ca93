"""Where a CLI drifts from what Bridle knows: what `check_cli` looks at last, after everything was seen that the other checks brought."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from bridle.hooks import HOOK_EVENTS
from bridle.testing.conformance import drift_baseline
from bridle.testing.conformance.bench import Bench, Drifted, cli_check
from bridle.testing.conformance.drift import flags_of_help, our_flags, without_row
from bridle.testing.conformance.report import Skipped, expect, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["EXPECTED_HOOKS"]

# Hooks that a turn with tools makes fire in 2.1.328, and that users build on.
EXPECTED_HOOKS = frozenset(
    {"UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "Stop"}
)


@cli_check("drift", "every line on stdout is a frame")
def only_frames(bench: Bench) -> None:
    """Look at the lines that were none."""
    expect(not bench.drift.bad_lines, one_line(bench.drift.bad_lines, 3))


@cli_check("drift", "known fields have the shape that is modelled")
def shapes(bench: Bench) -> None:
    """Look at the fields that had to be left out."""
    expect(not bench.drift.dropped, one_line(bench.drift.dropped, 6))


def _drifted(found: Counter[str], known: Iterable[str] = ()) -> None:
    new = {name: number for name, number in sorted(found.items()) if name not in set(known)}
    if new:
        raise Drifted(
            one_line((f"{name} ({number} times)" if number > 1 else name for name, number in new.items()), 40)
        )


def _looked(bench: Bench) -> None:
    if not bench.drift.frames:
        raise Skipped("no frames were seen: the checks before did not run")


@cli_check("drift", f"every type of frame has a class, or was left out in {drift_baseline.VERSION}", required=False)
def frame_types(bench: Bench) -> str:
    """Look at types without a class."""
    _looked(bench)
    _drifted(bench.drift.unknown_types, drift_baseline.TYPES)
    return f"seen: {one_line(sorted(bench.drift.frames), 60)}"


@cli_check(
    "drift",
    f"every field of a frame has a place in its class, or was left out in {drift_baseline.VERSION}",
    required=False,
)
def fields_modelled(bench: Bench) -> None:
    """Look at fields without a place."""
    _looked(bench)
    _drifted(bench.drift.unknown_fields, drift_baseline.FIELDS)


@cli_check("drift", "every content block has a class", required=False)
def blocks_modelled(bench: Bench) -> None:
    """Look at blocks without a class."""
    _looked(bench)
    _drifted(bench.drift.unknown_blocks)


@cli_check("drift", "the CLI asks nothing that Bridle cannot answer", required=False)
def requests_known(bench: Bench) -> None:
    """Look at requests without a row."""
    _looked(bench)
    _drifted(bench.drift.unknown_requests)


@cli_check(
    "drift",
    f"every field of the answer to `initialize` has a place, or was left out in {drift_baseline.VERSION}",
    required=False,
)
def initialize_fields(bench: Bench) -> None:
    """Compare the answer with its class."""
    from bridle.protocol.results import ServerInfo

    if "initialize" not in bench.facts:
        raise Skipped("`initialize` was not answered")
    new = set(bench.facts["initialize"]) - set(ServerInfo.__struct_encode_fields__)
    _drifted(Counter(new), drift_baseline.INITIALIZE)


@cli_check("drift", "these hooks fire in a turn with tools: " + ", ".join(sorted(EXPECTED_HOOKS)))
def hooks_fire(bench: Bench) -> str:
    """Compare the hooks that fired with those that users build on."""
    if not bench.hooks:
        raise Skipped("no hook fired: the check of callbacks did not get that far")
    missing = EXPECTED_HOOKS - bench.hooks
    expect(not missing, f"these did not: {one_line(sorted(missing))}")
    return f"fired: {one_line(sorted(bench.hooks), 40)}"


@cli_check("drift", "every hook event and every field of its input is known", required=False)
def hook_fields(bench: Bench) -> None:
    """Look at the inputs of the hooks that fired."""
    if not bench.hooks:
        raise Skipped("no hook fired")
    _drifted(Counter(bench.facts.get("hook_fields", {})) + Counter(bench.hooks - set(HOOK_EVENTS)))


@cli_check("drift", "every flag that an option becomes is known to the CLI")
def flags_known(bench: Bench) -> str:
    """Compare with `--help`, and try what it does not list: some flags are hidden."""
    text = bench.run("--help").stdout.decode("utf-8", "replace")
    listed = flags_of_help(text)
    expect(len(listed) > 10, f"`--help` lists {len(listed)} flags; its layout must have changed")
    bench.facts["listed"] = listed

    def is_refused(flag: str) -> bool:
        # With no input and a wrong value it ends soon, whatever it thinks of the value.
        tries = (bench.run("--print", given).stderr.decode("utf-8", "replace") for given in (f"{flag}=1", flag))
        return all(f"unknown option '{flag}" in said for said in tries)

    hidden = sorted(our_flags() - listed)
    with ThreadPoolExecutor(4) as pool:
        refused = [flag for flag, refused in zip(hidden, pool.map(is_refused, hidden), strict=True) if refused]
    expect(not refused, f"unknown to it: {one_line(refused)}")
    return f"{len(our_flags())} flags, {len(hidden)} of which `--help` does not list"


@cli_check("drift", "every flag in `--help` is an option of Bridle, or left out on purpose", required=False)
def flags_modelled(bench: Bench) -> None:
    """Look at flags without an option."""
    if "listed" not in bench.facts:
        raise Skipped("`--help` could not be read")
    new = without_row(bench.facts["listed"])
    if new:
        raise Drifted(one_line(new, 40))
