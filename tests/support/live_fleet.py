"""A fleet of real processes: starts them, kills them, waits until they rest, and compares what each side knows."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from support.live import causes_first
from support.live_app import POINTS, transactional
from support.live_oracle import Oracle
from support.live_proxy import Proxies
from support.processes import free_ports
from support.recorded import read_events
from thence import audit
from thence.core.model.events import Event
from thence.core.model.order import judge
from thence.core.model.plain import Row
from thence.errors import MisuseError
from thence.live.admin import ask
from thence.live.config import load
from thence.live.init import initialise
from thence.tables.files.source import Quarantined

APP = Path(__file__).with_name("live_app.py")
SOURCE = Path(__file__).parents[2] / "src"


class Fleet:
    """Processes of one configuration set."""

    def __init__(
        self,
        folder: Path,
        names: list[str],
        sends: int,
        seed: int,
        *,
        protocol: str = "ks",
        options: dict[str, int | str | bool] | None = None,
        proxied: bool = False,
        run: str = "run",
        nats: str | None = None,
    ) -> None:
        self.folder, self.names, self.sends, self.seed = folder, names, sends, seed
        self.chance = Random(seed)
        ports = free_ports(len(names))
        made = initialise(folder, names, protocol=protocol, options=options, run=run, ports=ports, nats=nats)
        self.files = dict(zip(names, made, strict=True))
        self.stops = self.cuts = self.delays = self.holes = 0
        self.proxies = self._proxies() if proxied else None
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.kills = self.reached = 0
        self.armed: set[str] = set()
        """who has a point ahead at which it will kill itself"""

    def start(self, name: str, point: str = "") -> None:
        self.armed = self.armed | {name} if point else self.armed - {name}
        command = [sys.executable, str(APP), str(self.files[name]), str(self.folder / f"{name}.witness")]
        with (self.folder / f"{name}.stderr").open("ab") as errors:
            self.running[name] = subprocess.Popen(
                [*command, str(self.sends), str(self.seed), *([point] if point else [])],
                env={**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{APP.parents[1]}"},
                stderr=errors,
            )

    def _proxies(self) -> Proxies:
        """Let everybody find the others behind a proxy."""
        ports = {name: load(file).addresses[name].port for name, file in self.files.items()}
        outside = dict(zip(self.names, free_ports(len(self.names)), strict=True))
        for name, file in self.files.items():
            text = file.read_text()
            for other in self.names:
                if other != name:
                    text = text.replace(f'127.0.0.1:{ports[other]}"', f'127.0.0.1:{outside[other]}"')
            file.write_text(text)
        return Proxies({outside[name]: ports[name] for name in self.names})

    def pause(self, name: str) -> None:
        """Let a process stand still for a while: SIGSTOP, SIGCONT."""
        if self.running[name].poll() is None:
            self.running[name].send_signal(signal.SIGSTOP)
            time.sleep(self.chance.random() * 0.3)
            self.running[name].send_signal(signal.SIGCONT)
            self.stops += 1

    def cut(self) -> None:
        """Cut a link, half of the time one way first."""
        assert self.proxies is not None
        self.proxies.cut(self.chance, self.cuts % 2 == 1)
        self.cuts += 1

    def delay(self) -> None:
        """Let a link be slow from now on."""
        assert self.proxies is not None
        self.proxies.delay(self.chance, 0.4 * self.chance.random())
        self.delays += 1

    def swallow(self) -> None:
        """Let a third of the links take everything and give nothing; now and then all of them."""
        assert self.proxies is not None
        self.proxies.swallow(self.chance, 1.0 if self.holes % 4 == 3 else 0.3)
        self.holes += 1

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running[name].wait()
        self.kills += 1

    def mischief(
        self, kills: int, seconds: float, between: Callable[[], None] = lambda: None, patience: float = 0.0
    ) -> None:
        """Kill processes, half of them at named points that they reach by themselves; start each again.

        After the last kill, `patience` is how long to wait for those who have their point still ahead.
        """
        self.wait_for_life()
        number = 0
        while self.kills + len(self.armed) < kills:
            point = POINTS[number % len(POINTS)]
            rare = "snapshot" in point or "checkpoint" in point
            name = self.chance.choice([name for name in self.names if name not in self.armed] or self.names)
            self.kill(name)
            socket = self._socket(name)
            self.start(name, f"{point}:{1 if rare else self.chance.randrange(1, 12)}")
            number += 1
            while self._socket(name) == socket and self.running[name].poll() is None:
                time.sleep(0.02)
            time.sleep(self.chance.random() * seconds)
            between()
            self.revive()
        end = time.monotonic() + patience
        while self.armed and time.monotonic() < end and not self.all_sent():
            time.sleep(0.1)
            self.revive()
        for name in sorted(self.armed):
            self.kill(name)
            self.start(name)

    def _socket(self, name: str) -> float:
        """Return when a process last opened its admin socket, which is when it runs; 0 for never."""
        path = load(self.files[name]).admin
        assert path is not None
        try:
            return path.stat().st_ctime
        except FileNotFoundError:
            return 0.0

    def wait_for_life(self) -> None:
        """Wait until everybody has begun to write."""
        end = time.monotonic() + 240
        while not all((self.folder / f"{name}.witness.sent").exists() for name in self.names):
            assert time.monotonic() < end, "\n".join(map(self.condition, self.names))
            time.sleep(0.05)

    def revive(self) -> None:
        """Start again whoever has ended, and complain of whoever did not end by a kill."""
        for name, process in self.running.items():
            code = process.poll()
            if code is None:
                continue
            assert code == -signal.SIGKILL, f"{name} ended with {code}: {self.errors(name)}"
            self.kills += 1
            self.reached += name in self.armed
            self.start(name)

    def errors(self, name: str) -> str:
        return (self.folder / f"{name}.stderr").read_text()[-2000:]

    def condition(self, name: str) -> str:
        """Say what a process is doing, for whoever reads why a test failed."""
        progress = self.folder / f"{name}.witness.sent"
        sent = len(progress.read_bytes()) if progress.exists() else 0
        admin = load(self.files[name]).admin
        assert admin is not None
        try:
            answer = str(ask(admin, {"ask": "why"}))
        except MisuseError as error:
            answer = str(error)
        return f"{name}: {sent} sent, {answer} {self.errors(name)}"

    def all_sent(self) -> bool:
        """Return whether everybody has sent all."""
        files = [self.folder / f"{name}.witness.sent" for name in self.running]
        return all(file.exists() and len(file.read_bytes()) >= self.sends for file in files)

    def answers(self) -> list[Row] | None:
        """Ask everybody why; None if somebody does not answer."""
        found = []
        for name in self.running:
            admin = load(self.files[name]).admin
            assert admin is not None
            try:
                found.append(ask(admin, {"ask": "why"}))
            except MisuseError:
                return None
        return found

    def delivered(self) -> bool:
        """Return whether everybody has sent all, and nothing is on its way or held anywhere."""
        answers = self.answers() if self.all_sent() else None
        if answers is None or any(answer["held"] for answer in answers):
            return False
        sent = {(answer["process"], link["process"]): link["sent"] for answer in answers for link in answer["links"]}
        came = {
            (link["process"], answer["process"]): link["received"] for answer in answers for link in answer["links"]
        }
        return all(came[pair] == number for pair, number in sent.items() if set(pair) <= set(self.running))

    def done(self) -> bool:
        """Return whether the applications have dealt with everything, too."""
        answers = self.answers() if self.delivered() else None
        return answers is not None and not any(answer["inbox"] for answer in answers)

    def _wait(self, true: Callable[[], bool], seconds: float, what: str) -> float:
        begun = time.monotonic()
        while not true():
            self.revive()
            took = time.monotonic() - begun
            assert took < seconds, f"{what} after {took:.0f} s:\n" + "\n".join(map(self.condition, self.names))
            time.sleep(0.1)
        return time.monotonic() - begun

    def rest(self, seconds: float = 120.0, within: float = 30.0) -> float:
        """Wait until everybody has sent all, then, at most `within` seconds, until all is delivered; say how long.

        Nobody is killed or cut any more, so this is what the healing takes. After that, wait until the applications
        have dealt with everything: replies, too, are delivered by then.
        """
        self._wait(self.all_sent, seconds, "not all is sent")
        took = self._wait(self.delivered, within, "not all is delivered")
        self._wait(self.done, seconds, "not all is done")
        self._wait(self.done, seconds, "not all is done")
        return took

    def stop(self) -> None:
        """Stop everybody cleanly."""
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self.running.items():
            assert process.wait(300) == 0, f"{name} stopped with {process.returncode}: {self.errors(name)}"

    def end(self) -> None:
        """Leave nothing behind."""
        if self.proxies is not None:
            self.proxies.close()
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    # -- what became of it -------------------------------------------------------------------------------------------

    def events(self) -> list[Event]:
        quarantine: list[Quarantined] = []
        found: list[Event] = []
        for name in self.names:
            found += read_events(self.folder / f"{name}.jsonl", quarantine)
        assert not quarantine, quarantine
        return sorted(found, key=lambda event: event.order or 0)

    def check(self, *, define: bool = True) -> dict[str, int]:
        """Audit the files, compare trace, witnesses and the application's rows; `define`: judge by definition too."""
        events = self.events()
        assert causes_first(events)
        (run,) = audit([self.folder / f"{name}.jsonl" for name in self.names]).runs
        assert run["verdict"] == "causal", run
        assert not any(run[what] for what in ("undelivered", "duplicates", "misdelivered", "quarantined")), run
        if define:
            judged = judge(events)
            assert judged.verdict == "causal", judged.violations[:3]
            bad = [*judged.quarantine, *judged.undelivered, *judged.duplicates, *judged.misdelivered]
            assert not bad, bad[:5]
        again = sum(self._witness(name, events) for name in self.names)
        found = Oracle({name: self.notes(name) for name in self.names}, self.effects()).judge()
        assert not found.wrong, found.wrong[:10]
        return {
            "multicasts": sum(event.kind == "send" for event in events),
            "deliveries": sum(event.kind == "deliver" for event in events),
            "crash rows": sum(event.kind == "crash" for event in events),
            "kills": self.kills,
            "at named points": self.reached,
            "stops": self.stops,
            "cuts": self.cuts,
            "redelivered": again,
            "causal pairs by the applications' notes": found.pairs,
        }

    def check_survivors(self) -> dict[str, int]:
        """The same where some are dead for good: causal, and whoever lives has what anybody who lives has."""
        events, alive = self.events(), set(self.running)
        assert causes_first(events)
        judged = judge(events)
        assert judged.verdict == "causal", judged
        assert not judged.duplicates
        assert not judged.misdelivered
        sender = {event.message: event.process for event in events if event.kind == "send"}
        delivered = {event.message for event in events if event.kind == "deliver" and event.process in alive}
        for lack in judged.undelivered:
            if lack.destination in alive:
                assert sender[lack.message] not in alive, f"{lack} of a process that lives"
                assert lack.message not in delivered, f"{lack}, though others have it"
        again = sum(self._witness(name, events) for name in alive)
        return {
            "multicasts": len(sender),
            "deliveries": sum(event.kind == "deliver" for event in events),
            "killed for good": self.kills,
            "redelivered": again,
        }

    def notes(self, name: str) -> list[str]:
        return (self.folder / f"{name}.witness.notes").read_text().splitlines()

    def effects(self) -> dict[str, Counter[str]]:
        """Return the rows that each application has left in its journal's database, by transaction."""
        found = {}
        for name in self.names:
            with sqlite3.connect(self.folder / f"{name}.journal") as database:
                found[name] = Counter(row[0] for row in database.execute("SELECT transaction_key FROM effects"))
            database.close()
        return found

    def _witness(self, name: str, events: list[Event]) -> int:
        delivered = [event.message for event in events if event.process == name and event.kind == "deliver"]
        lines = [line.split() for line in (self.folder / f"{name}.witness").read_text().splitlines()]
        seen: dict[str, None] = {}
        for message, again in lines:
            assert message not in seen or again == "1", f"{name} was handed {message} twice without a word"
            seen[message] = None
        assert list(seen) == delivered, f"{name}: the witness differs from the trace"
        with sqlite3.connect(self.folder / f"{name}.journal") as database:
            rows = Counter(row[0] for row in database.execute("SELECT message FROM effects"))
        database.close()
        assert rows == Counter(m for m in delivered if m and transactional(m)), f"{name}: effects are not exactly once"
        return len(lines) - len(seen)
