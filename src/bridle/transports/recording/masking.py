"""Output of the CLI for errors, which people read and logs keep: without secrets, but with the places and addresses that explain it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.transports.recording.redaction import Redactor, Vault

if TYPE_CHECKING:
    from bridle.launch.plan import LaunchPlan

__all__ = ["without_secrets"]


class _Masks(Vault):
    """One mark for all keys: there is no list of their values, and nothing is put back."""

    def placeholder(self, kind: str, value: str) -> str:
        return "<masked>" if kind == "key" else value


def without_secrets(output: bytes, plan: LaunchPlan) -> bytes:
    """Return what a program printed, with `<masked>` for each secret.

    Args:
        output: the bytes; those that are not UTF-8 stay.
        plan: its launch. Values of `env`, of secret variables and of configurations of servers are secret.
    """
    redactor = Redactor(_Masks())
    redactor.prepare(plan)
    redactor.places.patterns.clear()  # places explain an error
    return redactor.text(output.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
