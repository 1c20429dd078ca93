"""Rules on tool calls of an agent: each call is allowed, asked about or denied, and the verdict names the rule.

::

    from hackamore.policy import Policy

    policy = Policy.load("policy.toml", roots={"repo": "."})
    policy.decide("Bash", {"command": "git -C x push"}).decision      # "allow", "ask" or "deny"

Shell commands are parsed, which needs `hackamore[policy]`. Everything else needs no other package.
"""

from __future__ import annotations

from hackamore.errors import PolicyError
from hackamore.policy.compiling import Compiled, Finding
from hackamore.policy.paths import Machine
from hackamore.policy.policy import CaseResult, Policy
from hackamore.policy.replaying import Replayed
from hackamore.policy.rules import Rule
from hackamore.policy.verdict import Decision, Part, Verdict

__all__ = [
    "CaseResult",
    "Compiled",
    "Decision",
    "Finding",
    "Machine",
    "Part",
    "Policy",
    "PolicyError",
    "Replayed",
    "Rule",
    "Verdict",
]
