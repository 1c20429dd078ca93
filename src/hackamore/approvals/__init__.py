"""Approvals: requests that a person answers now or tomorrow, from any process. `hackamore.Approvals` is the option `approvals`."""

from hackamore.approvals.app import approvals_app
from hackamore.approvals.approvals import Approvals
from hackamore.approvals.continuing import Answered, Continuation, ConversationApprovals
from hackamore.approvals.links import Links, link_app
from hackamore.approvals.requests import ApprovalRequest
from hackamore.approvals.webhooks import Webhook

__all__ = [
    "Answered",
    "ApprovalRequest",
    "Approvals",
    "Continuation",
    "ConversationApprovals",
    "Links",
    "Webhook",
    "approvals_app",
    "link_app",
]
