"""The live examples and the page about them are run."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.live_pair import PATIENCE, folder

from thence import runtime
from thence.cli import main
from thence.live.config import CONFIG_KEYS, Limits

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference/live.md").read_text()
CONFIGURATION = (ROOT / "docs" / "reference/live-configuration.md").read_text()

assert folder is not None


@pytest.mark.parametrize(("name", "printed"), [("chat", "I have."), ("todo", "buy milk")])
def test_examples(name: str, printed: str) -> None:
    file = ROOT / "examples" / "live" / f"{name}.py"
    ran = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    assert printed in ran.stdout


def test_three_processes_talk_over_json_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trio = folder / "trio"
    assert main(["endpoint", "--init", str(trio), "--processes", "a,b,c", "--json", str(folder / "made.json")]) == 0
    files = json.loads((folder / "made.json").read_text())["configurations"]
    command = [sys.executable, "-m", "thence.cli", "endpoint"]
    waiting = [
        subprocess.Popen(
            [*command, file, "--linger", "60", "--log", "json"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=Path(file).with_suffix(".log").open("w"),
            text=True,
        )
        for file in files
    ]
    try:
        a, b, c = waiting
        assert a.stdin is not None
        assert a.stdout is not None
        assert b.stdout is not None
        assert c.stdout is not None
        assert json.loads(b.stdout.readline()) == {"ready": "b"}  # before it is ready, a signal simply ends it
        a.stdin.write('{"send": ["b", "c"], "payload": "hello"}\nnonsense\n')
        a.stdin.flush()
        assert [json.loads(a.stdout.readline()) for _ in range(2)] == [{"ready": "a"}, {"sent": "a1"}]
        assert "not JSON" in json.loads(a.stdout.readline())["error"]
        assert json.loads(c.stdout.readline()) == {"ready": "c"}
        found = json.loads(c.stdout.readline())
        assert (found["delivered"], found["payload"], found["redelivered"]) == ("a1", "hello", False)
        assert main(["why", files[2], "--json", str(folder / "why.json")]) == 0
        assert "holds nothing back" in capsys.readouterr().out
        assert json.loads((folder / "why.json").read_text())["process"] == "c"
    finally:
        for process in waiting:
            process.terminate()
        codes = [process.wait(PATIENCE) for process in waiting]
    assert codes == [0, 0, 0]
    logged = [json.loads(line)["event"] for line in (trio / "a.log").read_text().splitlines()]
    assert (logged[0], logged[-1]) == ("started", "stopped")
    assert main(["why", files[2]]) == 2
    assert "is it running?" in capsys.readouterr().err


def test_the_page_explains_every_key() -> None:
    for key in (*CONFIG_KEYS[""], *CONFIG_KEYS["tls"], *Limits.__dataclass_fields__):
        assert f"`{key}`" in CONFIGURATION, f"docs/reference/live-configuration.md does not explain {key}"


def test_the_page_shows_the_example_of_the_package() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    tree = ast.parse(block)
    called = {n.func.attr for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)}
    assert called == {"Endpoint", "send", "deliveries", "transaction", "execute"}
    known = {*dir(runtime), *dir(runtime.Endpoint), *dir(runtime.Message), *dir(runtime.Transaction)}
    assert called | {"Endpoint"} <= known | {*runtime.__all__}
