"""What docs/python.md shows, and the examples, do what they say."""
import pathlib
import re
import subprocess
import sys

import numpy
import pytest

DOCS = pathlib.Path(__file__).parents[2] / "docs"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (DOCS / "python.md").read_text(), re.MULTILINE | re.DOTALL)


def has_gpu():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def test_the_page(capsys):
    names = {}
    assert len(BLOCKS) == 3
    for block in BLOCKS:
        if "import torch" not in block or has_gpu():
            names["data"] = names.get("data")
            exec(block, names)
    assert capsys.readouterr().out.startswith("data is one array of shape (3, 100000); allowed are ")
    assert isinstance(names["coding"], numpy.ndarray) or has_gpu()


def test_the_page_on_rebuilding(capsys):
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```$", (DOCS / "rebuild.md").read_text(), re.MULTILINE | re.DOTALL):
        exec(block, names)
    assert capsys.readouterr().out.startswith("Verdict(agree=True, byte=None, chunk=None)\n4 [{'dialect': 'klauspost', 'm': ")
    assert names["lost"] == b"text" and names["found"]["damaged"] == [] and names["first"] == names["data"][0]


@pytest.mark.parametrize("options", [[], ["--k", "5", "--m", "3", "--lose", "4"]])
def test_training_state(options):
    done = subprocess.run([sys.executable, DOCS / "examples" / "training_state.py", "--gib", "0.01", "--rounds", "1", *options],
                          capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "the shard is what it was" in done.stdout
    wrong = subprocess.run([sys.executable, DOCS / "examples" / "training_state.py", "--lose", "8"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "--lose 8: ranks are numbered 0 to 7" in wrong.stderr
