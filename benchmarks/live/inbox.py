"""What a message costs an endpoint whose inbox is large: CPU a message, and the longest group.

    python benchmarks/live/inbox.py [--waiting 0,1000,20000,40000] [--messages 8000] [--against SOURCE] [--rounds 2]

A process with its journal on disk (`normal`), no sockets: so many messages wait for the application; then each group
receives 50 more and is done with 50, the oldest. `--against` runs the same on another source tree (`src` of another
clone) in turns, each in a process of its own. Writes results/inbox.json.
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
RESULT = HERE / "results" / "inbox.json"
GROUP = 50


def measure(waiting: int, messages: int) -> dict:
    """Return CPU a message and the longest group, with so many waiting."""
    from thence.live.core import Core
    from thence.live.database import StandardDatabase
    from thence.live.group import QueuedInput
    from thence.live.inputs import Receive, Send
    from thence.live.journal import Journal
    from thence.live.process import LiveProcess
    from thence.live.recovery import recover

    sender, number = Core.fresh("ks", ["a", "b"], "a", record=False), 0
    with tempfile.TemporaryDirectory() as folder:
        database = StandardDatabase(Path(folder) / "b.journal", synchronous="normal")
        journal = Journal(database)
        process = LiveProcess(recover(journal, "ks", ["a", "b"], "b", record=False).core, journal)

        def group(count: int, done: int) -> float:
            nonlocal number
            for _ in range(count):
                number += 1
                entry = sender.apply(Send(2, b"x" * 100), 0.0).sent[0][1]
                process.queue.append(QueuedInput(Receive(0, number, entry.head + b"x" * 100)))
                sender.outboxes[1].acknowledge(entry.number)
            for each in list(process.core.inbox)[:done]:
                process.finish(each)
            began = time.process_time()
            process.prepare(1.0)
            process.commit()
            process.release()
            return time.process_time() - began

        while len(process.core.inbox) < waiting:
            group(500, 0)
        spent = [group(GROUP, GROUP) for _ in range(messages // GROUP)]
        database.close()
    return {"cpu us a message": round(1e6 * sum(spent) / messages), "longest group ms": round(1e3 * max(spent), 1)}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--waiting", default="0,1000,20000,40000")
    arguments.add_argument("--messages", type=int, default=8000)
    arguments.add_argument("--against")
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--one", type=int, help="measure one size here and print it")
    asked = arguments.parse_args()
    if asked.one is not None:
        print(json.dumps(measure(asked.one, asked.messages)))
        return
    trees = {"now": str(HERE.parents[1] / "src")} | ({"before": asked.against} if asked.against else {})
    rows: list[dict] = []
    for waiting in map(int, asked.waiting.split(",")):
        for number in range(asked.rounds):
            for name, tree in trees.items():
                command = [sys.executable, __file__, "--one", str(waiting), "--messages", str(asked.messages)]
                done = subprocess.run(
                    command, env={**os.environ, "PYTHONPATH": tree}, capture_output=True, text=True, timeout=900
                )
                assert done.returncode == 0, done.stderr
                rows.append({"waiting": waiting, "source": name, "round": number + 1, **json.loads(done.stdout)})
                print(rows[-1], flush=True)
    RESULT.write_text(json.dumps({"messages": asked.messages, "group": GROUP, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
