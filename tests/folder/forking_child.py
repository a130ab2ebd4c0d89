"""Runs command lines from stdin, each in a fork of this process, which has imported everything: a crash is only one
line's, and takes no time to recover from. Each line is a JSON list, and so is the answer: [exit code, stdout, stderr].

The arguments are JSON lists of words to run here first, so that engines are compiled and modules are loaded.
"""

import json
import os
import resource
import signal
import sys
import tempfile

from clearhead.cli import main

_SECONDS, _MEMORY = 60, 8 * 2**30


def run(words: list[str]) -> tuple[int, str, str]:
    """Return the exit code, or minus the signal, and what was printed."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        if not (child := os.fork()):
            for file, stream in ((out, sys.stdout), (err, sys.stderr)):
                os.dup2(file.fileno(), stream.fileno())
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            signal.alarm(_SECONDS)
            code = main(words)
            sys.stdout.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed = []
        for file in (out, err):
            file.seek(0)
            printed.append(file.read().decode(errors="replace"))
        return code, printed[0], printed[1]


if __name__ == "__main__":
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for words in sys.argv[1:]:
        main(json.loads(words))
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), file=answers, flush=True)
