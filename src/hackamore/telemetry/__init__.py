"""Telemetry: spans and metrics of OpenTelemetry for queries and sessions. `Options(telemetry=hackamore.Telemetry())` turns it on.

Only this package imports OpenTelemetry, and only its API, when a `Telemetry` is made.
"""

from hackamore.telemetry.telemetry import Telemetry

__all__ = ["Telemetry"]
