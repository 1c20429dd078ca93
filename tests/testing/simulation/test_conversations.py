"""The simulated CLI sends the frames of the record, in their order. `tests/fidelity` compares frames of these kinds with the real CLI."""

from __future__ import annotations

from difflib import unified_diff

import pytest

from tests.testing.simulation.conversations import CONVERSATIONS, recorded, shown


@pytest.mark.parametrize("name", CONVERSATIONS, ids=lambda name: name.replace(" ", "-"))
def test_a_conversation_has_the_frames_of_before(name: str) -> None:
    changed = [*unified_diff(recorded()[name], shown(name), "recorded", "now", n=0, lineterm="")]
    assert not changed, "\n".join([*changed, f"see {shown.__module__}"])
