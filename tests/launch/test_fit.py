"""Plans for older CLIs: replaced flags, refused options."""

from __future__ import annotations

from typing import Any

import pytest

from hackamore import CLIVersion, Options, UnsupportedCLIVersionError, version_meets_minimum
from hackamore._engine.launch import FLAGS, LaunchPlan, build_plan, fit
from tests.contract import shows

OLDEST, OLD, PINNED = (1, 0, 33), (2, 0, 0), (2, 1, 330)


def planned(**options: Any) -> LaunchPlan:
    return build_plan(
        Options(**options), prompt="hello", cli_path="claude", session=False, base_environment={}, child_id="test"
    )


@shows("launch.version.older-cli")
@pytest.mark.parametrize("version", [OLDEST, OLD, (2, 0, 20)])
def test_older_versions_have_another_flag_for_bypass_permissions(version: Any) -> None:
    plan = planned(permission_mode="bypassPermissions", model="haiku")
    fitted = fit(plan, version)
    assert "--dangerously-skip-permissions" in fitted.argv
    assert "--allow-dangerously-skip-permissions" not in fitted.argv
    assert len(fitted.argv) == len(plan.argv) == len(fitted.owners)


@shows("launch.version.older-cli")
@pytest.mark.parametrize("version", [(2, 0, 27), PINNED])
def test_newer_versions_get_the_plan_as_it_is(version: Any) -> None:
    plan = planned(permission_mode="bypassPermissions")
    assert fit(plan, version) is plan


@shows("launch.version.option-too-new")
@pytest.mark.parametrize(
    ("option", "value", "version", "needed"),
    [
        ("max_budget_usd", 1, OLDEST, "2.0.30"),
        ("max_budget_usd", 1, OLD, "2.0.30"),
        ("session_id", "11111111-2222-4333-8444-555555555555", OLDEST, "1.0.61"),
        ("allow_dangerously_skip_permissions", True, OLD, "2.0.27"),
        ("effort", "low", (2, 1, 30), "2.1.70"),
    ],
)
def test_an_option_that_the_version_does_not_know_is_refused(
    option: str, value: Any, version: Any, needed: str
) -> None:
    with pytest.raises(UnsupportedCLIVersionError) as caught:
        fit(planned(**{option: value}), version)
    error = caught.value
    assert (error.option, error.minimum, error.detected) == (option, needed, ".".join(map(str, version)))
    assert f"`{option}` needs Claude Code CLI {needed} or newer" in str(error)
    assert f"leave `{option}` out" in str(error)


def test_flags_of_extra_args_are_the_callers_decision() -> None:
    plan = planned(extra_args={"max-budget-usd": "1"})
    assert fit(plan, OLD) is plan


def test_every_flag_was_added_after_it_was_missing() -> None:
    assert all(seen.without < seen.known for seen in FLAGS.values())


@shows("launch.version.compare")
@pytest.mark.parametrize(
    ("version", "minimum", "meets"),
    [
        ("2.1.330 (Claude Code)", "2.0.0", True),
        ("2.0.0", (2, 0, 0), True),
        (CLIVersion(1, 0, 33), "2.0.0", False),
        ("v2.1.9", "2.1.10", False),
    ],
)
def test_a_version_meets_a_minimum(version: Any, minimum: Any, meets: bool) -> None:
    assert version_meets_minimum(version, minimum) is meets


def test_a_text_without_a_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'latest' contains no version"):
        version_meets_minimum("latest", "2.0.0")
