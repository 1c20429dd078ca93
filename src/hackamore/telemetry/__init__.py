"""Telemetry: spans and metrics of OpenTelemetry for queries and sessions. `Options(telemetry=bridle.Telemetry())` turns it on.

Only this package imports OpenTelemetry, and only its API, when a `Telemetry` is made.
"""

from bridle.telemetry.telemetry import Telemetry

__all__ = ["Telemetry"]
