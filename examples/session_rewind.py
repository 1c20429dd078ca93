"""Take changes of files back, to what they were before a prompt."""

# scripted: Reply(ToolCall("Write", {"file_path": "plan.txt", "content": "one\n"})), Reply("Written."), Reply(ToolCall("Edit",
#   {"file_path": "plan.txt", "old_string": "one", "new_string": "two"})), Reply("Changed."), Reply("It says: one.")

from __future__ import annotations

from pathlib import Path

import hackamore.sync
from hackamore import Options

OPTIONS = Options(enable_file_checkpointing=True, permission_mode="acceptEdits")
PLAN = Path("plan.txt")


def main() -> None:
    with hackamore.sync.Session(OPTIONS) as session:
        writing = session.send("Write a plan.")
        writing.result()
        changing = session.send("Change it.")
        changing.result()
        assert PLAN.read_text(encoding="utf-8") == "two\n"

        # What would happen?
        preview = session.rewind_files(changing.id, dry_run=True)
        print("would change", preview.files_changed, f"+{preview.insertions} -{preview.deletions}")

        # Each prompt is a point to go back to: its files are as they were when it was sent.
        session.rewind_files(changing.id)
        assert PLAN.read_text(encoding="utf-8") == "one\n"

        # The conversation is not rewound: tell the model, or it believes that its change is there.
        result = session.send("I took your change back. What does the plan say?").result()
        print(result.text)

        # And to the very beginning: the file is gone.
        session.rewind_files(writing.id)
        assert not PLAN.exists()


if __name__ == "__main__":
    main()
