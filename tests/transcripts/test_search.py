"""The index finds each word, follows the files, and can be deleted, damaged and shared at any time."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from hackamore import TranscriptError, transcripts
from hackamore.transcripts import index
from tests.contract import shows
from tests.support.patience import patience
from tests.transcripts.disk import Writer, tool_use

if TYPE_CHECKING:
    from pathlib import Path

    from hackamore.transcripts import SearchHit


class Finder:
    def __init__(self, folder: Path) -> None:
        self.config = folder / "config"
        self.cache = folder / "cache"

    def __call__(self, text: str, **more: Any) -> list[SearchHit]:
        return transcripts.search(text, config_dir=self.config, cache_dir=self.cache, **more)

    def contexts(self, text: str, **more: Any) -> list[str]:
        return sorted(hit.context for hit in self(text, **more))

    @property
    def database(self) -> Path:
        (found,) = self.cache.glob("*.db")
        return found


@pytest.fixture
def find(tmp_path: Path) -> Finder:
    return Finder(tmp_path)


def talk(find: Finder) -> Writer:
    writer = Writer()
    writer.user("Please look at the harbour")
    writer.assistant("I look.", tool_use("t1", command="grep -r anchor .", nested={"deep": ["lighthouse"]}))
    writer.result("t1", [{"type": "text", "text": "ship: anchor down"}])
    writer.user("hidden buoy", isMeta=True)
    writer.assistant("The anchor is down.")
    writer.save(find.config)
    return writer


@shows("transcripts.search.words")
def test_texts_of_users_models_and_tools_are_found(find: Finder) -> None:
    writer = talk(find)
    (hit,) = find("HARBOUR look")
    assert (hit.role, hit.tool, hit.agent_id, hit.session_id) == ("user", None, None, writer.session_id)
    assert hit.context[slice(*hit.match)] == "harbour"
    assert hit.timestamp == datetime.fromisoformat("2026-11-01T00:00:01Z")
    assert hit.uuid == next(iter(transcripts.read(writer.session_id, config_dir=find.config).messages)).uuid
    assert find.contexts("anchor") == [
        "Bash\ngrep -r anchor .".replace("\n", " ") + " lighthouse",
        "The anchor is down.",
        "ship: anchor down",
    ]
    assert find.contexts("anchor", role="assistant") == ["The anchor is down."]
    assert len(find("anchor", tool="Bash")) == len(find("anchor", role="tool")) == 2
    assert find("anchor", tool="Read") == []
    assert len(find("lighthouse")) == 1
    assert find("buoy") == []
    assert len(find("anchor", limit=1)) == 1
    assert len({*find("anchor")}) == 3
    assert find("anchor", limit=0) == []
    assert find("anchor", since=datetime(2027, 1, 1, tzinfo=UTC)) == []
    assert hit.timestamp is not None
    assert len(find("harbour", since=hit.timestamp)) == 1
    assert find("harbour", until=hit.timestamp) == []
    assert len(find("anchor", until=datetime(2027, 1, 1, tzinfo=UTC))) == 3
    assert len(find("anchor", project=writer.cwd)) == 3
    assert find("anchor", project="/elsewhere") == []


@shows("transcripts.search.words")
@pytest.mark.parametrize(
    "query",
    [
        '"the anchor',
        "anchor*",
        "anchor -ship",
        "(anchor)",
        "anchor OR harbour",
        "text:anchor",
        "NEAR(a b)",
        "^anchor",
        "a\0b",
        "'; DROP TABLE files; --",
        "\ud800x",
        '""anchor',
    ],
)
def test_a_query_is_never_syntax(find: Finder, query: str) -> None:
    talk(find)
    assert isinstance(find(query), list)
    assert len(find("anchor")) == 3


def test_words_and_phrases(find: Finder) -> None:
    talk(find)
    assert len(find('"anchor is"')) == 1
    assert find('"is anchor"') == find('"is anchor') == []
    (hit,) = find('"anchor, is"')
    assert hit.context[slice(*hit.match)] == "anchor is"
    assert len(find("is anchor")) == 1
    assert find("anchor NOT ship") == []  # a word like others
    for nothing in ("", "  ", '""', "!?", "*"):
        with pytest.raises(ValueError, match="letter or a digit"):
            find(nothing)
    with pytest.raises(ValueError, match="limit"):
        find("x", limit=-1)
    with pytest.raises(ValueError, match="role"):
        find("x", role="system")


def test_the_first_32000_characters_of_a_text_are_found(find: Finder) -> None:
    writer = Writer()
    for place in (32_000, 32_001):
        writer.user("x" * (place - len(" anchor")) + " anchor beyond")
    writer.save(find.config)
    assert len(find("anchor")) == 1
    assert find("beyond") == []


def test_accents_and_scripts_without_spaces(find: Finder) -> None:
    writer = Writer()
    writer.user("Le caf\u00e9 \u00e0 Orl\u00e9ans " + "x" * 500)
    writer.user("\u6771\u4eac\u90fd\u306b\u4f4f\u3080")
    writer.user("some_snake_case(value)")
    writer.save(find.config)
    (hit,) = find("cafe orleans")
    assert hit.context[slice(*hit.match)] == "caf\u00e9"
    assert hit.context.endswith("\u2026")
    (hit,) = find("\u4eac\u90fd")
    assert hit.context[slice(*hit.match)] == "\u4eac\u90fd"
    assert find("\u90fd\u4eac") == []
    assert len(find("snake_case")) == 1


CONTEXTS = [
    ("needle", "a needle b", "a ", "needle", " b"),
    ("needle", "x " * 39 + "x needle y" + " y" * 39, "x " * 39 + "x ", "needle", " y" * 40),
    ("needle", "w" + "x " * 40 + "needle" + " y" * 40 + "z", "\u2026" + "x " * 40, "needle", " y" * 40 + "\u2026"),
    ("needle", "one\ntwo\nNeedle\nthree", "one two ", "Needle", " three"),
    ('"two words"', "two\n_words", "", "two _words", ""),
    ("needle", "needles needle", "needles ", "needle", ""),
    ("other needle", "a needle, the other", "a needle, the ", "other", ""),
    ("n" * 100, "a " + "n" * 100 + " b", "a ", "n" * 80, "n" * 20 + " b"),
]


@pytest.mark.parametrize(("query", "text", "left", "match", "right"), CONTEXTS)
def test_a_match_is_shown_with_80_characters_on_each_side(
    find: Finder, query: str, text: str, left: str, match: str, right: str
) -> None:
    writer = Writer()
    writer.user(text)
    writer.save(find.config)
    (hit,) = find(query)
    assert hit.context == left + match + right
    assert hit.match == (len(left), len(left) + len(match))


def test_a_file_that_became_shorter_is_read_again(find: Finder) -> None:
    writer = talk(find)
    path = next((find.config / "projects").glob("*/*.jsonl"))
    assert len(find("anchor")) == 3
    path.write_text(writer.lines[0] + "\n")
    assert (len(find("harbour")), find("anchor")) == (1, [])
    path.write_text(writer.text.replace("anchor", "rudder"))
    assert (len(find("harbour")), len(find("rudder")), find("anchor")) == (1, 3, [])


@shows("transcripts.search.follows")
def test_the_index_follows_files(find: Finder) -> None:
    writer = talk(find)
    path = next((find.config / "projects").glob("*/*.jsonl"))
    assert find("kraken") == []
    writer.assistant(tool_use("t9", "Read", file_path="/x"))
    half = writer.lines[-1]
    writer.user([{"type": "tool_result", "tool_use_id": "t9", "content": "kraken"}])
    with path.open("a") as file:
        file.write(half + "\n" + writer.lines[-1])  # no line end yet
        file.flush()
        assert find("kraken") == []
        assert find("kraken", refresh=False) == []
        file.write("\n")
        file.flush()
        (hit,) = find("kraken")
        assert hit.tool == "Read"  # the call came in an earlier search
        with closing(sqlite3.connect(find.database)) as database:  # what was read before was not read again
            assert database.execute("SELECT count(*) FROM files").fetchone() == (1,)
    other = Writer(writer.session_id)
    other.user("only a dolphin " + "x" * path.stat().st_size)
    other.save(find.config)
    assert find("kraken") == []
    assert len(find("dolphin")) == 1
    path.unlink()
    assert find("dolphin") == []
    assert sqlite3.connect(find.database).execute("SELECT count(*) FROM files WHERE path IS NOT NULL").fetchone() == (
        0,
    )


@shows("transcripts.search.follows")
def test_results_that_come_later_have_the_tool_of_their_call(find: Finder) -> None:
    """The index follows files that grow."""
    writers = [Writer(), Writer()]
    for writer in writers:
        writer.assistant(tool_use("t1", "Read"), tool_use("t2", "Grep"), tool_use("t3", "Glob"))
        writer.save(find.config)
    assert find("kraken") == []
    for call, tool in (("t1", "Read"), ("t2", "Grep")):
        for writer in writers:
            writer.result(call, f"kraken of {tool}")
            writer.save(find.config)
        assert [hit.tool for hit in find(f"kraken {tool}")] == [tool] * 2


def test_tools_of_the_api_are_found(find: Finder) -> None:
    writer = Writer()
    writer.user("Look it up")
    call = {"type": "server_tool_use", "id": "t1", "name": "web_search", "input": {"query": "anchor"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a buoy"}]}
    writer.assistant(call, found)
    writer.save(find.config)
    assert [(hit.role, hit.tool) for hit in find("anchor")] == [("tool", "web_search")]
    assert [(hit.role, hit.tool) for hit in find("buoy")] == [("tool", "web_search")]


def test_calls_of_two_conversations_may_have_the_same_id(find: Finder) -> None:
    writers = {"Read": Writer(), "Grep": Writer(), "Glob": Writer()}
    for tool, writer in writers.items():
        writer.assistant(tool_use("t1", tool), tool_use("t2", tool))
        writer.save(find.config)
    assert find("kraken") == []
    for call, word in (("t1", "kraken"), ("t2", "octopus")):
        for writer in writers.values():
            writer.result(call, word)
            writer.save(find.config)
        found = {hit.session_id: hit.tool for hit in find(word)}
        assert found == {writer.session_id: tool for tool, writer in writers.items()}


def test_a_file_that_did_not_change_is_not_read_again(find: Finder) -> None:
    writer = talk(find)
    path = next((find.config / "projects").glob("*/*.jsonl"))
    status = path.stat()
    assert len(find("harbour")) == 1
    path.write_text(writer.text.replace("harbour", "windows").replace('"output_tokens":5', '"output_tokens":6'))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert find("windows") == []
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert len(find("windows")) == 1


@shows("transcripts.search.follows")
def test_a_file_that_cannot_be_read_costs_no_other_one(find: Finder) -> None:
    talk(find)
    folder = next((find.config / "projects").iterdir())
    for name in ("00000000-2222-4333-8444-555555555555", "ffffffff-2222-4333-8444-555555555555"):
        (folder / f"{name}.jsonl").symlink_to("/proc/self/mem")  # opens, and raises when it is read
    for _ in range(2):
        assert len(find("anchor")) == 3


def test_a_file_that_is_replaced_costs_no_other_one(find: Finder) -> None:
    talk(find)
    writer = Writer()
    writer.user("only a dolphin")
    path = writer.save(find.config)
    assert (len(find("anchor")), len(find("dolphin"))) == (3, 1)
    path.unlink()
    path.write_text(writer.text.replace("dolphin", "kraken"))
    assert find("dolphin") == []
    assert (len(find("anchor", refresh=False)), len(find("kraken", refresh=False))) == (3, 1)


@shows("transcripts.search.follows")
def test_an_index_is_made_again_once_most_of_it_is_of_files_that_are_gone(find: Finder) -> None:
    def save(count: int) -> Path:
        writer = Writer()
        writer.lines = [
            f'{{"type":"user","uuid":"{writer.session_id}-{number}","message":{{"content":"anchor"}}}}'
            for number in range(count)
        ]
        return writer.save(find.config)

    def texts() -> int:
        with closing(sqlite3.connect(find.database)) as database:
            (rows,) = database.execute("SELECT count(*) FROM texts").fetchone()
        return int(rows)

    more = save(10_008)
    find("anchor")
    less = save(10_002)
    find("anchor")
    assert texts() == 20_010
    less.unlink()
    assert len(find("anchor")) == 20  # the newest texts of the index are gone
    assert texts() == 20_010  # less than a half
    talk(find)
    more.unlink()
    assert len(find("anchor")) == 3
    assert texts() == 5


def test_a_conversation_without_texts_can_vanish(find: Finder) -> None:
    writer = Writer()
    writer.note("custom-title", customTitle="anchor")
    path = writer.save(find.config)
    assert find("anchor") == []
    path.unlink()
    assert find("anchor") == []


def test_a_fork_comes_once_and_a_subagent_is_named(find: Finder) -> None:
    writer = talk(find)
    fork = Writer()
    fork.lines = [each.replace(writer.session_id, fork.session_id) for each in writer.lines]
    path = fork.save(find.config)
    assert len(find("harbour")) == 1
    agent = path.with_suffix("") / "subagents" / "agent-a7.jsonl"
    agent.parent.mkdir(parents=True)
    side = Writer()
    side.user("octopus", isSidechain=True)
    agent.write_text(side.text)
    (hit,) = find("octopus")
    assert (hit.session_id, hit.agent_id, hit.path) == (fork.session_id, "a7", agent)


@shows("transcripts.search.shared")
def test_the_index_can_be_deleted_damaged_and_made_by_others(find: Finder) -> None:
    talk(find)
    assert len(find("anchor")) == 3
    assert stat.S_IMODE(find.database.stat().st_mode) == 0o600
    assert stat.S_IMODE(find.cache.stat().st_mode) == 0o700
    assert b"harbour look" not in find.database.read_bytes()
    for name in ("*.db", "*.db-*"):
        for path in find.cache.glob(name):
            path.unlink()
    assert len(find("anchor")) == 3
    for damage in (b"no database at all" * 100, b""):
        find.database.write_bytes(damage)
        assert len(find("anchor")) == 3
    with sqlite3.connect(find.database) as database:
        database.execute("PRAGMA user_version = 99")
    assert len(find("anchor")) == 3
    with sqlite3.connect(find.database) as database:
        database.execute("DROP TABLE calls")
    talk(find)
    assert len(find("anchor")) == 6
    data = bytearray(find.database.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    find.database.write_bytes(data)
    assert len(find("anchor")) == 6


@shows("transcripts.search.shared")
def test_a_new_index_does_not_take_the_name_of_a_damaged_one_that_is_in_use(find: Finder) -> None:
    talk(find)
    assert len(find("anchor")) == 3
    for _ in range(2):
        damaged = find.database
        with sqlite3.connect(damaged) as database:
            database.execute("DROP TABLE files")
        user = sqlite3.connect(damaged, isolation_level=None)  # has it open, and its log
        user.execute("SELECT count(*) FROM texts").fetchall()
        assert len(find("anchor")) == 3
        assert find.database != damaged
        assert [*find.cache.glob(f"{damaged.name}*")] == []  # its log is gone too
        user.close()
        assert len(find("anchor", refresh=False)) == 3


CUTTING = """
import os
import sys
from hackamore import transcripts
config, cache, index = sys.argv[1:]

def cut(frame, event, called):
    if event == "c_return" and called.__name__ == "execute" and frame.f_code.co_name == "_index_lines":
        sys.setprofile(None)
        os.truncate(index, 0)

sys.setprofile(cut)
print(len(transcripts.search("anchor", config_dir=config, cache_dir=cache, limit=10_000)))
"""


@shows("transcripts.search.shared")
def test_an_index_that_is_cut_off_while_it_is_written_does_not_end_the_program(find: Finder) -> None:
    for _ in range(300):
        talk(find)
    assert len(find("anchor", limit=10_000)) == 900
    talk(find)
    command = [sys.executable, "-c", CUTTING, str(find.config), str(find.cache), str(find.database)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(30), check=False)
    assert (done.returncode, done.stdout) == (0, "903\n"), done


def test_a_folder_that_cannot_be_written_is_an_error_with_a_fix(find: Finder) -> None:
    talk(find)
    find.cache.write_text("a file")
    with pytest.raises(TranscriptError, match="cache_dir"):
        find("anchor")


def test_the_place_of_the_index_is_the_user_s_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert transcripts.search("x", config_dir=tmp_path) == []
    assert list((tmp_path / "xdg" / "hackamore").glob("conversations-*.db"))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # does not count
    monkeypatch.setenv("HOME", str(tmp_path))
    assert transcripts.search("x", config_dir=tmp_path) == []
    assert list((tmp_path / ".cache" / "hackamore").glob("conversations-*.db"))


SEARCHES = """
import sys
from hackamore import transcripts
for number in range(int(sys.argv[3])):
    hits = transcripts.search("anchor", config_dir=sys.argv[1], cache_dir=sys.argv[2], limit=10_000)
print(len(hits))
"""


@shows("transcripts.search.shared")
def test_processes_share_the_work(find: Finder) -> None:
    for _ in range(30):
        talk(find)
    command = [sys.executable, "-c", SEARCHES, str(find.config), str(find.cache), "3"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for _ in range(5):
        talk(find)
    outputs = [process.communicate(timeout=patience(60))[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert all(90 <= int(output) <= 105 for output in outputs)
    assert len(find("anchor", limit=10_000)) == 105
    rows = sqlite3.connect(find.database).execute("SELECT count(*) FROM texts").fetchone()
    assert rows == (35 * 5,)


def test_a_busy_index_is_an_error_that_can_be_retried(find: Finder, monkeypatch: pytest.MonkeyPatch) -> None:
    talk(find)
    find("anchor")
    monkeypatch.setattr(index, "WAIT_SECONDS", 0.05)
    talk(find)
    other = sqlite3.connect(find.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TranscriptError, match="refresh=False") as caught:
        find("anchor")
    assert caught.value.retryable
    assert len(find("anchor", refresh=False)) == 3
    other.close()
    assert len(find("anchor")) == 6


def test_the_best_of_many_texts_comes_first(find: Finder) -> None:
    writer = Writer()
    for number in range(200):
        writer.user(f"anchor {number} " + "and much that is something else " * 3)
    best = writer.user("anchor")
    for number in range(20):
        writer.user(f"anchor {number} " + "and much that is something else " * 3)
    writer.save(find.config)
    for filters in ({}, {"role": "user"}):
        (first, *_), (only,) = find("anchor", limit=300, **filters), find("anchor", limit=1, **filters)
        assert (first.uuid, only.uuid) == (best, best)


def test_common_words_are_ranked_among_the_newest(find: Finder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "RANKED", 10)
    writer = Writer()
    for number in range(50):
        writer.user(f"anchor {number}")
    writer.save(find.config)
    assert {int(hit.context.split()[1]) for hit in find("anchor", limit=10)} == set(range(40, 50))
    assert len(find("anchor", limit=50)) == 10
    assert len(find("anchor", limit=50, role="user")) == 50
