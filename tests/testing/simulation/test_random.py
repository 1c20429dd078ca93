"""Random conversations on the simulated CLI: they end, as written down, whatever they are made of and however the bytes are cut."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hackamore import Allow, Deny, HookMatcher, Options, sync
from hackamore.testing import Script, SimulatedCLI
from hackamore.testing.script.run import ScriptRun
from hackamore.testing.simulation.launch import Launch, parse_launch
from hackamore.testing.simulation.simulation import Simulation
from tests.support.examples import examples
from tests.support.reaching import changed, damaged, mostly, reached, reaching

texts = st.text(max_size=20)
calls = st.tuples(
    st.sampled_from(["Bash", "Read", "Write", "Nope", "mcp__never__never"]),
    st.dictionaries(st.sampled_from(["command", "file_path", "content"]), texts, max_size=2),
    texts,
    st.booleans(),
    st.booleans(),
)
turns = st.tuples(
    st.lists(st.one_of(texts, calls), max_size=4), texts, st.sampled_from(["", "thinks", "retry", "slow", "frame"])
)
conversations = st.lists(turns, min_size=1, max_size=4)


def written(conversation: list[Any]) -> Script:
    script = Script()
    for number, (steps, last, extra) in enumerate(conversation):
        script.user(f"prompt {number}")
        match extra:
            case "thinks":
                script.thinks("hm")
            case "retry":
                script.overloaded(2)
            case "slow":
                script.slow(100)
            case "frame":
                script.frame({"type": "new"})
            case _:
                pass
        called = False
        for step in steps:
            if isinstance(step, str):
                continue
            tool, arguments, result, failed, together = step
            outcome: dict[str, Any] = {"error": "no"} if failed else {"result": result}
            script.calls(tool, arguments, together=together and called, **outcome)
            called = True
        script.says(last)
    return script


@settings(max_examples=examples(60))
@given(
    conversations,
    st.booleans(),
    st.booleans(),
    st.sampled_from(["default", "acceptEdits", "bypassPermissions", "plan"]),
)
def test_conversations_end_as_they_are_written(conversation: list[Any], partial: bool, allows: bool, mode: Any) -> None:
    seen: list[str] = []
    options = Options(
        include_partial_messages=partial,
        permission_mode=mode,
        can_use_tool=lambda request: Allow() if allows else Deny("no"),
        hooks={  # type: ignore[arg-type]
            event: [HookMatcher(hooks=[lambda i, c: seen.append(i.hook_event_name)])]
            for event in ("PreToolUse", "Stop")
        },
    )
    if mode == "bypassPermissions":
        options = options.replace(can_use_tool=None)
    script = written(conversation)
    with (
        SimulatedCLI(Script.from_json(script.to_json()), time_scale=0) as cli,
        sync.Session(options, transport=cli) as session,
    ):
        for number, (_, last, _) in enumerate(conversation):
            result = session.send(f"prompt {number}").result()
            assert result is not None
            assert (result.result, result.is_error) == (last, False)
    assert seen.count("Stop") == len(conversation)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
USER = {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "go"}}
REQUESTS = [
    {"type": "control_request", "request_id": "r1", "request": {"subtype": subtype, **fields}}
    for subtype, fields in [
        ("initialize", {}),
        ("interrupt", {}),
        ("get_settings", {}),
        ("set_permission_mode", {"mode": "plan"}),
        ("set_model", {"model": "opus"}),
        ("new", {}),
    ]
]
ANSWER = {"type": "control_response", "response": {"subtype": "success", "request_id": "r1", "response": {}}}
LINES = [json.dumps(frame).encode() for frame in [USER, *REQUESTS, ANSWER, {"type": "keep_alive"}, {"type": "new"}]]
# Most are frames of a host, some with fields that are wrong or missing, some with bytes that are.
frames = st.one_of(
    st.sampled_from(LINES),
    st.sampled_from(LINES).flatmap(lambda line: changed(line, values).map(lambda frame: json.dumps(frame).encode())),
    damaged(LINES),
    st.binary(max_size=20),
)


@reaching
@settings(max_examples=examples(60))
@given(st.lists(frames, max_size=8), st.integers(1, 200), st.booleans())
def test_whatever_is_sent_the_simulation_neither_raises_nor_goes_on_for_ever(
    lines: list[bytes], size: int, one_shot: bool
) -> None:
    simulation = Simulation(ScriptRun(Script().user().says("x")), Launch(one_shot=one_shot))
    sent = b"\n".join(lines) + b"\n"
    for start in range(0, len(sent), size):
        simulation.receive_data(sent[start : start + size])
    simulation.receive_eof()
    told = [json.loads(line)["type"] for line in simulation.data_to_send().splitlines()]
    if {"control_response", "result"} & {*told}:
        reached()
    assert told.count("result") <= lines.count(b"") + len(lines)
    assert simulation.exit_code is not None


# Flags that stand for something of the launch, with the value that they set there.
FLAGS: dict[str, tuple[list[str], Any]] = {
    "verbose": (["--verbose"], True),
    "model": (["--model", "opus"], "opus"),
    "max_turns": (["--max-turns", "3"], 3),
    "allowed": (["--allowedTools", "Bash(ls, -l)", "Read"], ["Bash(ls, -l)", "Read"]),
    "disallowed": (["--disallowed-tools=Write"], ["Write"]),
    "forwards_text": (["--forward-subagent-text"], True),
    "permission_mode": (["--permission-mode", "plan"], "plan"),
    "hook_events": (["--include-hook-events"], True),
    "asks_host": (["--permission-prompt-tool", "stdio"], True),
    "continues": (["-c"], True),
    "tools": (["--tools", ""], []),
    "budget": (["--max-budget-usd", "0.5"], 0.5),
}
WRONG = ["--hologram", "--max-turns=no", "--permission-mode=no", "--session-id=5", "--output-format", "mcp", "-\udc80"]
arguments = st.text(max_size=12) | st.sampled_from(WRONG) | st.sampled_from([flags[0] for flags, _ in FLAGS.values()])


@reaching
@settings(max_examples=examples(60))
@given(
    st.lists(st.sampled_from(sorted(FLAGS)), unique=True),
    mostly(st.just([]), st.lists(arguments, max_size=4)),
    st.dictionaries(texts, texts, max_size=3),
)
def test_any_command_line_is_understood_or_refused(
    flags: list[str], more: list[str], environment: dict[str, str]
) -> None:
    launch = parse_launch([part for name in flags for part in FLAGS[name][0]] + more, environment)
    if launch.refusal is not None:
        assert launch.refusal.lower().startswith("error")
    elif flags:
        reached()
        assert more or {name: getattr(launch, name) for name in flags} == {name: FLAGS[name][1] for name in flags}


@settings(max_examples=examples(30))
@given(st.integers(1, 30))
def test_however_the_bytes_are_cut_the_same_comes_out(size: int) -> None:
    def play(step: int) -> bytes:
        simulation = Simulation(
            ScriptRun(Script().user().thinks("a").says("x")), Launch(reports_state=True), clock=lambda: 0.0
        )
        frames: list[Any] = [
            {"type": "control_request", "request_id": "r1", "request": {"subtype": "initialize"}},
            {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "ü"}},
            {"type": "control_request", "request_id": "r2", "request": {"subtype": "get_settings"}},
        ]
        data = b"".join(json.dumps(frame, ensure_ascii=False).encode() + b"\n" for frame in frames)
        out = b""
        for start in range(0, len(data), step):
            simulation.receive_data(data[start : start + step])
            out += simulation.data_to_send()
        return out

    whole = play(10_000)
    assert b'"result":"x"' in whole
    assert play(size) == whole


def test_a_turn_that_nobody_interrupts_ends_with_a_clear_error() -> None:
    now = [0.0]
    run = ScriptRun(Script().user("go").interrupted().user("more").says("x"))
    simulation = Simulation(run, Launch(reports_state=True), clock=lambda: now[0])
    prompt = {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "go"}}
    simulation.receive_data(json.dumps(prompt).encode() + b"\n")
    assert simulation.in_turn
    assert simulation.wait_seconds() == 30
    now[0] = 31
    simulation.tick()
    assert not simulation.in_turn
    assert b"the host did not interrupt for 30 s" in simulation.data_to_send()
    assert run.problems == ["the script has interrupted, and the host did not interrupt for 30 s"]
