"""What it costs to deliver messages that were held: CPU a message from the arrival of the cause to the hand-over.

    python benchmarks/live/held.py [--messages 4000] [--against SOURCE] [--rounds 3]

c lacks a1; whatever b says after it is held there. Then a1 comes, everything is delivered, and the payloads (100 bytes
each) are taken out of the inbox. A process with its journal on disk, no sockets. `--against` runs the same on another
source tree in turns, each in a process of its own. Writes results/held.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
RESULT = HERE / "results" / "held.json"


def measure(messages: int) -> dict:
    from thence.live.core import Core
    from thence.live.database import StandardDatabase
    from thence.live.group import QueuedInput
    from thence.live.inbox import Inbox
    from thence.live.inputs import Receive, Send
    from thence.live.journal import Journal
    from thence.live.process import LiveProcess
    from thence.live.recovery import recover

    names = ["a", "b", "c"]
    a, b = (Core.fresh("ks", names, name, record=False) for name in "ab")
    first = {peer: entry for peer, entry, _ in a.apply(Send(0b110, b"question"), 0.0).sent}
    b.apply(Receive(0, 1, first[1].head + b"question"), 0.0)
    with tempfile.TemporaryDirectory() as folder:
        database = StandardDatabase(Path(folder) / "c.journal", synchronous="normal")
        journal = Journal(database)
        process, inbox = LiveProcess(recover(journal, "ks", names, "c", record=False).core, journal), Inbox(journal)

        def work() -> None:
            while not process.idle:
                process.prepare(1.0)
                process.commit()
                released = process.release()
                for delivery in released.delivered:
                    inbox.put(delivery, released.bodies.get(delivery.ref))

        for number in range(1, messages + 1):
            entry = b.apply(Send(0b100, b"x" * 100), 0.0).sent[0][1]
            b.outboxes[2].acknowledge(entry.number)
            process.queue.append(QueuedInput(Receive(1, number, entry.head + b"x" * 100)))
        work()
        began = time.process_time()
        process.queue.append(QueuedInput(Receive(0, 1, first[2].head + b"question")))
        work()
        assert len([inbox.take() for _ in range(len(inbox))]) == messages + 1
        spent = time.process_time() - began
        database.close()
    return {"cpu us a message": round(1e6 * spent / messages, 1)}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--messages", type=int, default=4000)
    arguments.add_argument("--against")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--one", action="store_true", help="measure here and print it")
    asked = arguments.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.messages)))
        return
    trees = {"now": str(HERE.parents[1] / "src")} | ({"before": asked.against} if asked.against else {})
    rows = []
    for number in range(asked.rounds):
        for name, tree in trees.items():
            command = [sys.executable, __file__, "--one", "--messages", str(asked.messages)]
            environment = {**os.environ, "PYTHONPATH": tree}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stderr
            rows.append({"source": name, "round": number + 1, **json.loads(done.stdout)})
            print(rows[-1], flush=True)
    RESULT.write_text(json.dumps({"messages": asked.messages, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
