"""The comparison itself: presence, values, links, and fields that a new version adds."""

from __future__ import annotations

from typing import Any

from tests.fidelity.frames import Frame, Recording, Rules, compare
from tests.fidelity.generated import generate

NO_RULES = Rules({}, {})
ONE, TWO, THREE, FOUR = (f"{number}1111111-1111-4111-8111-111111111111" for number in range(1, 5))


def recorded(*frames: Frame, prompts: tuple[str, ...] = ()) -> Recording:
    recording = Recording()
    recording.sent = [{"type": "user", "uuid": uuid} for uuid in prompts]
    recording.received = [*frames]
    return recording


def system(**fields: Any) -> Frame:
    return {"type": "system", "subtype": "status", "status": None, **fields}


def found(real: Recording, simulated: Recording, rules: Rules = NO_RULES) -> list[str]:
    return compare(real, simulated, rules).differences


def test_a_field_that_may_have_another_value_may_not_be_absent() -> None:
    rules = Rules({"*.permissionMode": "is different"}, {})
    real, simulated = recorded(system(permissionMode="plan")), recorded(system())
    assert found(real, recorded(system(permissionMode="default")), rules) == []
    assert found(real, simulated, rules) == ['turns 0, system/status: only the real CLI has .permissionMode: "plan"']
    assert found(simulated, real, rules) == [
        'turns 0, system/status: only the simulated CLI has .permissionMode: "plan"'
    ]


def test_a_field_that_may_have_another_value_has_the_same_form() -> None:
    rules = Rules({"system/status.usage": "is measured"}, {})
    assert found(recorded(system(usage={"n": 1})), recorded(system(usage={"n": 2})), rules) == []
    assert found(recorded(system(usage={"n": 1})), recorded(system(usage={"n": "x"})), rules)
    assert found(recorded(system(usage={"n": 1})), recorded(system(usage={})), rules)


def test_the_beginning_of_a_text_is_not_the_text() -> None:
    text = "a text that is longer than fifteen characters"
    assert found(recorded(system(text=text)), recorded(system(text=text[:20])))


def test_an_id_that_returns_there_returns_here() -> None:
    real = recorded(system(uuid=ONE), system(uuid=TWO, text=f"see {ONE}"))
    assert found(real, recorded(system(uuid=THREE), system(uuid=FOUR, text=f"see {THREE}"))) == []
    [difference] = found(real, recorded(system(uuid=THREE), system(uuid=FOUR, text=f"see {FOUR}")))
    assert "links to another id" in difference
    assert found(recorded(system(uuid=ONE), system(uuid=TWO)), recorded(system(uuid=THREE), system(uuid=THREE)))


def test_a_frame_names_the_prompt_that_it_belongs_to() -> None:
    real = recorded(system(user_message_uuid=TWO), prompts=(ONE, TWO))
    assert found(real, recorded(system(user_message_uuid=FOUR), prompts=(THREE, FOUR))) == []
    assert found(real, recorded(system(user_message_uuid=THREE), prompts=(THREE, FOUR)))


def test_a_field_of_a_new_version_is_reported_by_its_name_and_not_as_a_difference() -> None:
    compared = compare(recorded(system(brand_new=1)), recorded(system()), NO_RULES)
    assert compared.differences == []
    assert compared.new_fields == {"StatusMessage.brand_new"}


def test_another_order_shows_where_it_differs() -> None:
    [difference] = found(recorded(system(), {"type": "keep_alive"}), recorded({"type": "keep_alive"}, system()))
    assert "turns in another order" in difference


def test_a_seed_gives_the_same_script_again() -> None:
    plans = [generate(f"some/{number}") for number in range(50)]
    assert plans == [generate(f"some/{number}") for number in range(50)]
    assert all(smaller != plan for plan in plans for smaller in plan.smaller())
