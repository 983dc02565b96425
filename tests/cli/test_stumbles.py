

def test_join_and_leave_say_what_they_need(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    assert thence_("endpoint", "--init", str(folder), "--processes", "a,b", "--plain").returncode == 0
    added = thence_("endpoint", "--init", str(folder), "--add", "c")
    assert added.returncode == 0
    assert "thence endpoint join" in added.stdout
    for words, sentence in [
        (("join", f"{folder}/c.toml"), "need --through PEER"),
        (("join",), "join CONFIG or leave CONFIG is expected"),
        (("join", f"{folder}/c.toml", "--through", "x"), "one of the other processes is expected: a, b"),
        (("--init", str(folder), "--add", "c"), "c is in"),
    ]:
        done = thence_("endpoint", *words)
        assert done.returncode == 2
        assert sentence in done.stderr
