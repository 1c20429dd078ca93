"""The child's variables: contract section 7."""

from __future__ import annotations

from hackamore._engine.launch.plan import build_environment
from hackamore.options.environment import CHILD_ID, NOT_INHERITED
from hackamore.options.options import Options
from tests.contract import shows

ALWAYS = {
    "CLAUDE_CODE_ENTRYPOINT": "sdk-py",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE": "1",
    CHILD_ID: "child",
}

# What the Bash tool of CLI 2.1.328 sets for the commands it runs, apart from what every shell has.
SEEN_IN_BASH = {
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_NOTES_DIR",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_EFFORT",
    "CLAUDE_PID",
}


# What the CLI sets besides for sessions that it starts itself, and what an SDK, a Node.js host or an enclosing session sets.
MARKS_OF_OTHERS = {
    "HACKAMORE_CHILD_ID",
    "CLAUDE_AGENT_SDK_DERIVED_CLIENT_APP",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING",
    "CLAUDE_CODE_LAUNCHED_BY_SESSION_IDS",
    "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT",
    "CLAUDE_CODE_SDK_HAS_HOST_AUTH_REFRESH",
    "CLAUDE_CODE_SDK_HAS_OAUTH_REFRESH",
    "CLAUDE_CODE_SDK_HAS_SESSIONS_OAUTH_REFRESH",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "CLAUDE_CODE_SDK_READS_STARTUP_MARKS",
    "CLAUDE_CODE_SESSION_KIND",
    "CLAUDE_CODE_SESSION_NAME",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_TOOL_USE_ID",
    "NODE_OPTIONS",
}


def test_everything_is_inherited_but_the_marks_of_an_enclosing_cli() -> None:
    kept = {
        "PATH": "/bin",
        "HTTPS_PROXY": "p",
        "ANTHROPIC_API_KEY": "k",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "CLAUDE_CONFIG_DIR": "/c",
        "CLAUDE_CODE_OAUTH_TOKEN": "t",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "5",
    }
    marks = dict.fromkeys(SEEN_IN_BASH | MARKS_OF_OTHERS, "inherited")
    assert build_environment(Options(), {**kept, **marks}, "child") == {**kept, **ALWAYS}
    assert marks.keys() == NOT_INHERITED


def test_nothing_is_inherited_on_request() -> None:
    assert build_environment(Options(inherit_env=False), {"PATH": "/bin"}, "child") == ALWAYS


def test_a_list_names_what_is_inherited() -> None:
    base = {"PATH": "/bin", "HOME": "/h", "CLAUDECODE": "1", CHILD_ID: "outer"}
    options = Options(inherit_env=["PATH", "MISSING", "CLAUDECODE", CHILD_ID])
    assert build_environment(options, base, "child") == {"PATH": "/bin", "CLAUDECODE": "1", **ALWAYS}


def test_env_comes_on_top_and_none_unsets() -> None:
    base = {"A": "1", "B": "2", "CLAUDECODE": "1"}
    options = Options(env={"A": None, "B": "3", "C": "4", "CLAUDECODE": "1", "MISSING": None})
    assert build_environment(options, base, "child") == {"B": "3", "C": "4", "CLAUDECODE": "1", **ALWAYS}


@shows("session.idle.reported")
def test_what_the_library_depends_on_cannot_be_overruled() -> None:
    options = Options(
        env={CHILD_ID: "x", "CLAUDE_CODE_SDK_READS_SESSION_STATE": "0", "CLAUDE_CODE_ENTRYPOINT": "mine"},
        enable_file_checkpointing=True,
    )
    assert build_environment(options, {}, "child") == {
        **ALWAYS,
        "CLAUDE_CODE_ENTRYPOINT": "mine",
        "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING": "true",
    }


def test_the_callers_variables_are_not_changed() -> None:
    base = {"A": "1"}
    build_environment(Options(env={"A": None}), base, "child")
    assert base == {"A": "1"}
