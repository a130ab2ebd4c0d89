"""Compare a served model with the same engine fed from a file, at 64 clients, and measure 1, 4 and 16 clients.

python benchmarks/serving.py models/en-fr --text val.tsv

The server is a process of its own. Clients send one sentence per request over connections that stay open, and ask
again as soon as they're answered. The same sentences, read as a file, are answered by one more process without HTTP.
Both take turns, after a warm-up. On a busy machine, the ratio of processor seconds per sentence is a fairer measure
than the clock. The clients share the machine, so their processor time is reported, too.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

FEW, PER_CLIENT = (1, 4, 16), 300  # clients, and the most sentences of each
FILE = """
import json, sys, time
import clearhead
app = clearhead.load(sys.argv[1]).override({"decode.engine": sys.argv[2]})
app("a")
for line in sys.stdin:
    started, busy = time.perf_counter(), time.process_time()
    answers = [it.text for it in app.results(json.loads(line))]
    print(json.dumps([time.perf_counter() - started, time.process_time() - busy, answers]), flush=True)
"""


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def ask_all(port: int, texts: list[str], clients: int) -> tuple[list[str], list[float]]:
    """Return the answers to all texts, and how long each took in seconds."""
    places, answers, took = iter(range(len(texts))), [""] * len(texts), [0.0] * len(texts)

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for place in places:
            body = json.dumps({"q": texts[place], "source": "en", "target": "fr"}).encode()
            started = time.perf_counter()
            writer.write(
                b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert head.startswith(b"http/1.1 200"), head
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            answers[place] = json.loads(await reader.readexactly(length))["translatedText"]
            took[place] = time.perf_counter() - started
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return answers, took


def percentiles(seconds: list[float]) -> str:
    """Return the median and the 99th percentile in words."""
    took = sorted(seconds)
    return f"median {1000 * took[len(took) // 2]:.1f} ms, 99th percentile {1000 * took[int(0.99 * len(took))]:.1f} ms"


class Server:
    """`clearhead serve` as a process."""

    def __init__(self, folder: str, engine: str, port: int) -> None:
        command = [sys.executable, "-m", "clearhead", "serve", f"en-fr={folder}", "--port", str(port)]
        log = subprocess.DEVNULL
        self.port, self.process = port, subprocess.Popen([*command, "--engine", engine], stderr=log)
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz")
                return
            except OSError:
                time.sleep(0.1)
                assert self.process.poll() is None, "the server has ended"

    def turn(self, texts: list[str], clients: int) -> tuple[float, float, list[str], list[float], float]:
        """Return seconds, processor seconds, answers, the time of each, and the processor seconds of the clients."""
        started, busy, own = time.perf_counter(), processor_seconds(self.process.pid), time.process_time()
        answers, took = asyncio.run(ask_all(self.port, texts, clients))
        seconds, own = time.perf_counter() - started, time.process_time() - own
        return seconds, processor_seconds(self.process.pid) - busy, answers, took, own


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder")
    options.add_argument("--text", required=True, help="file whose first column is the source")
    options.add_argument("--engine", default="auto")
    options.add_argument("--sentences", type=int, default=1000)
    options.add_argument("--clients", type=int, default=64)
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--port", type=int, default=8771)
    given = options.parse_args()
    lines = Path(given.text).read_text(encoding="utf-8").splitlines()
    texts = [line.split("\t")[0] for line in lines if line.strip()][: given.sentences]
    server = Server(given.folder, given.engine, given.port)
    command = [sys.executable, "-c", FILE, given.folder, given.engine]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdin is not None and reader.stdout is not None
    server.turn(texts[:200], given.clients)
    served, filed = [], []
    for _ in range(given.turns):
        reader.stdin.write(json.dumps(texts) + "\n")
        reader.stdin.flush()
        filed.append(json.loads(reader.stdout.readline()))
        served.append(server.turn(texts, given.clients))
    same = sum(one == other for one, other in zip(filed[0][2], served[0][2])) / len(texts)
    for name, turns in (("file", filed), ("served", served)):
        rate, busy = (statistics.median(len(texts) / it[n] for it in turns) for n in (0, 1))
        print(f"{name:8} {rate:8.1f} sentences a second, {busy:8.1f} per processor second")
    clock, processor = (statistics.median(f[n] / s[n] for f, s in zip(filed, served)) for n in (0, 1))
    print(f"served / file: {clock:.2f} by the clock, {processor:.2f} by processor time; {same:.2%} equal answers")
    print(f"{percentiles(served[-1][3])}; clients {1000 * served[-1][4] / len(texts):.2f} ms of processor time each")
    for clients in FEW:
        turns = [server.turn(texts[: PER_CLIENT * clients], clients) for _ in range(given.turns)]
        rate = statistics.median(len(it[2]) / it[0] for it in turns)
        print(f"{clients:2} keep-alive clients: {rate:6.1f} requests a second, {percentiles(turns[-1][3])}")
    for process in (server.process, reader):
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
