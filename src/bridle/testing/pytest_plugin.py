"""The pytest plugin: the fixture `scripted_model`.

pytest loads this file in every run wherever Bridle is installed, so it imports nothing that a run without Bridle's
fixtures would have to pay for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bridle.testing.scripted_model import ScriptedModel


@pytest.fixture
def scripted_model() -> Iterator[Callable[..., ScriptedModel]]:
    """Return a factory of scripted models: `model = scripted_model(Reply("Hello"))`.

    They are started at once, stopped at the end of the test, and checked.
    """
    from contextlib import ExitStack

    from bridle.testing.scripted_model import ScriptedModel

    with ExitStack() as models:

        def factory(*steps: Any, **routes: Any) -> ScriptedModel:
            return models.enter_context(ScriptedModel(*steps, **routes))

        yield factory
