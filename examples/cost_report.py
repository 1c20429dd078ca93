"""Add up tokens and cost of old conversations: by day, by project, and for the tag of a customer."""

# scripted: "4", "6"

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import hackamore.sync
from hackamore import transcripts


def main() -> None:
    billed = hackamore.sync.run("What is 2 + 2?")
    other = hackamore.sync.run("What is 3 + 3?")
    assert billed.session_id is not None
    assert other.session_id is not None
    transcripts.tag(billed.session_id, "customer-7")

    month = datetime.now(UTC) - timedelta(days=30)
    report = transcripts.usage(by="project", since=month)
    for row in report.rows:
        print(f"{row.key:40}  {row.tokens.total:>9,} tokens  ${row.cost:.4f}")
    for model, tokens in report.unpriced.items():
        print(f"{model} has no known price: {tokens.total:,} tokens")
    assert report.total.tokens.replies == 2

    tagged = {each.session_id for each in transcripts.list(tag="customer-7", since=month)}
    rows = [row for row in transcripts.usage(by="session", since=month).rows if row.key in tagged]
    print("customer-7:", sum(row.tokens.total for row in rows), "tokens")
    assert [row.key for row in rows] == [billed.session_id]


if __name__ == "__main__":
    main()
