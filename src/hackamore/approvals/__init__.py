"""Approvals: requests that a person answers now or tomorrow, from any process. `hackamore.Approvals` is the option `approvals`."""

from hackamore.approvals.app import approvals_app
from hackamore.approvals.approvals import Approvals, Continuation
from hackamore.approvals.links import Links, link_app
from hackamore.approvals.requests import ApprovalRequest
from hackamore.approvals.webhooks import Webhook

__all__ = ["ApprovalRequest", "Approvals", "Continuation", "Links", "Webhook", "approvals_app", "link_app"]
