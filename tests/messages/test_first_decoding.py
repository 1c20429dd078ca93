"""The first frames of a process, decoded by several threads at the same time: sessions that start together."""

from __future__ import annotations

import subprocess
import sys

from tests.support.patience import patience

# Each try is a fork of a process that has decoded nothing yet. Its threads begin in the middle of what the first one prepares.
PROGRAM = """
import importlib, os, sys, threading, time
sys.setswitchinterval(1e-6)
frames = importlib.import_module("hackamore.messages.decode")
LINES = [
    b'{"type":"assistant","message":{"id":"m","type":"message","role":"assistant","model":"x","content":[{"type":"text","text":"hi"}],'
    b'"usage":{"input_tokens":1,"output_tokens":1}},"session_id":"s","uuid":"u"}',
    b'{"type":"system","subtype":"init","session_id":"s","cwd":"/","tools":["Bash"],"model":"x"}',
]
def decode(seconds, found):
    time.sleep(seconds)
    found += [type(frames.decode(line, found.append)).__name__ for line in LINES]
def play(number):
    found = [[], [], []]
    threads = [threading.Thread(target=decode, args=(at * number / 30_000, each)) for at, each in enumerate(found)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found == [["AssistantMessage", "InitMessage"]] * 3
for number in range(80):
    if not (pid := os.fork()):
        os._exit(0 if play(number) else 3)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, (number, code)
"""


def test_threads_that_decode_first_frames_together() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=patience(50))
    assert (done.returncode, done.stderr) == (0, "")
