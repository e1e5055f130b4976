"""The README's Python runs as printed, in order, in one session."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_python_blocks_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("skops", reason="the README saves a model")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 4
    session: dict = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"README.md, Python block {number}", "exec"), session)
    printed = capsys.readouterr().out
    assert "upper bound" in printed and "interval" in printed
