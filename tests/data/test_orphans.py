"""A process ends with its parent, however that ended."""

import os
import subprocess
import sys
import time

import pytest

PARENT = """
import os, time
from clearhead.data.orphans import end_with_parent
parent = os.getpid()
if os.fork():
    time.sleep(60)
end_with_parent(parent)
print(os.getpid(), flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_ends_when_its_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        os.kill(child, 0)  # it exists
        parent.kill()
        assert parent.stdout.read() == ""  # the pipe ends with the last process that has it
    with pytest.raises(ProcessLookupError):
        for _ in range(100):  # until whoever adopted it has noticed
            os.kill(child, 0)
            time.sleep(0.1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_whose_parent_has_ended_before_ends_at_once() -> None:
    late = PARENT.replace("time.sleep(60)\nend", "os._exit(0)\ntime.sleep(1)\nend", 1)
    assert late != PARENT
    with subprocess.Popen([sys.executable, "-c", late], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        begun = time.monotonic()
        parent.stdout.read()
    assert time.monotonic() - begun < 30  # the child sleeps for 60 seconds
