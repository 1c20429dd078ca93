"""The flags of `hackamore sessions ...`, and the completion of sessions."""

from __future__ import annotations

from pathlib import Path

from hackamore.cli.flags import OUTPUT_PANEL, Flags, argument, complete_sessions, flag

_FILTERS = "Filters"
_WHERE = "Place"
_ID = "The id, its beginning, or the title."
_ROLES = ("user", "assistant", "tool")
_KEYS = ("day", "project", "model", "session")
_FORMATS = ("markdown", "json", "jsonl")
_AGE = "30d"

_SESSION: Flags = {"session": argument("SESSION", _ID, required=True, complete=complete_sessions)}
_PROJECT: Flags = {
    "project": flag(Path, "--project", help="Use the project of this folder (default: here).", panel=_WHERE),
}
_PLACE: Flags = {
    **_PROJECT,
    "all_projects": flag(bool, "--all-projects", "-a", help="Use the conversations of all projects.", panel=_WHERE),
}
_JSON: Flags = {"as_json": flag(bool, "--json", help="Write one JSON object a line.", panel=OUTPUT_PANEL)}
_TIMES: Flags = {
    "since": flag(str, "--since", metavar="TIME", help="Start at a date, or an age such as 7d.", panel=_FILTERS),
    "until": flag(str, "--until", metavar="TIME", help="End before a date, or an age such as 7d.", panel=_FILTERS),
}
_LIMIT: Flags = {"limit": flag(int, "--limit", "-n", help="Show at most N.", panel=_FILTERS)}

LIST: Flags = {
    **_PLACE,
    **_TIMES,
    "tag": flag(str, "--tag", metavar="TAG", help="Show only conversations with this tag.", panel=_FILTERS),
    "archived": flag(bool, "--archived", help="Show archived conversations as well.", panel=_FILTERS),
    **_LIMIT,
    **_JSON,
}
SHOW: Flags = {
    **_SESSION,
    "leaf": flag(str, "--leaf", metavar="UUID", help="End with this message, of another branch.", panel=_FILTERS),
    "ids": flag(bool, "--ids", help="Show the id of each message, for `fork --at`.", panel=OUTPUT_PANEL),
    "as_json": flag(bool, "--json", help="Write the messages as the CLI stored them.", panel=OUTPUT_PANEL),
}
SEARCH: Flags = {
    "text": argument("TEXT", 'Words, in any order; "..." for words in a row.', required=True),
    **_PLACE,
    "role": flag(
        str, "--role", metavar="ROLE", help=f"Search texts of {', '.join(_ROLES)}.", panel=_FILTERS, choices=_ROLES
    ),
    "tool": flag(str, "--tool", metavar="TOOL", help="Search calls and results of this tool.", panel=_FILTERS),
    **_TIMES,
    **_LIMIT,
    **_JSON,
}
USAGE: Flags = {
    "by": flag(str, "--by", metavar="KEY", help=f"Add up by {', '.join(_KEYS)}.", panel=OUTPUT_PANEL, choices=_KEYS),
    **_PLACE,
    **_TIMES,
    **_JSON,
}
RENAME: Flags = {**_SESSION, "title": argument("TITLE", "The title.", required=True)}
TAG: Flags = {
    **_SESSION,
    "tag": argument("TAG", "The tag."),
    "remove": flag(bool, "--remove", help="Remove the tag."),
}
ARCHIVE: Flags = {**_SESSION, "undo": flag(bool, "--undo", help="Take the mark away.")}
FORK: Flags = {
    **_SESSION,
    "at": flag(str, "--at", metavar="UUID", help="End the copy with this message."),
    "title": flag(str, "--title", metavar="TEXT", help="Set the title of the copy."),
}
DELETE: Flags = {
    "sessions": argument("SESSION...", _ID, required=True, complete=complete_sessions, many=True),
    "force": flag(bool, "--force", help="Delete even if a process works on it."),
}
PRUNE: Flags = {
    "older_than": flag(str, "--older-than", metavar="AGE", help=f"Choose by the last change: {_AGE}, 12h, 8w."),
    **_PLACE,
    "tagged": flag(bool, "--include-tagged", help="Choose conversations with a tag as well."),
    "yes": flag(bool, "--yes", help="Delete them; without it, they are only listed."),
    **_JSON,
}
EXPORT: Flags = {
    **_SESSION,
    "format": flag(
        str,
        "--format",
        "-f",
        metavar="FORMAT",
        help=f"Write {', '.join(_FORMATS)} (default: by PATH).",
        panel=OUTPUT_PANEL,
        choices=_FORMATS,
    ),
    "output": flag(Path, "--output", "-o", help="Write to this new file.", panel=OUTPUT_PANEL),
}
IMPORT: Flags = {
    "file": argument("FILE", "A JSONL export, or a session's file.", required=True),
    **_PROJECT,
    "new_id": flag(bool, "--new-id", help="Give the session a new id."),
}
