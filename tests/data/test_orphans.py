"""A process ends with its parent, however that ended."""

import os
import subprocess
import sys
import time

import pytest

PARENT = """
import os, time
from clearhead.data.orphans import end_with_parent
if os.fork():
    time.sleep(60)
end_with_parent()
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
