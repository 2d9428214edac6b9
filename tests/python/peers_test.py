"""Every dialect beside the system that it comes from: its bytes as recorded, and what the system makes where it is installed."""
import importlib.util
import io
import json
import math
import os
import random
import subprocess
import sys
import types

import peers
import pytest

import eccoder

DIGESTS = json.loads(peers.VECTORS.read_text())["digests"]


@pytest.mark.parametrize("dialect", DIGESTS)
def test_encodes_as_recorded(dialect):
    recorded = [DIGESTS[dialect][at:at + 8] for at in range(0, len(DIGESTS[dialect]), 8)]
    assert len(recorded) == peers.CASES
    for (k, m, data), expected in zip(peers.cases(dialect), recorded):
        assert peers.digest(eccoder.Codec(k, m, dialect).encode(data)) == expected, (k, m)


@pytest.mark.parametrize("kind", peers.PEERS)
def test_they_encode_as_recorded(kind):
    try:
        peer = kind()
    except peers.Missing as error:
        pytest.skip(f"no {kind.__name__} here: {error}")
    for dialect in kind.DIALECTS:
        assert peers.recorded(peer, dialect) == DIGESTS[dialect], dialect


@pytest.mark.parametrize("dialect", DIGESTS)
def test_identifies_what_they_make(dialect):
    draw = random.Random(dialect)
    for k, m in ((2, 2), (3, 2), (5, 2), (8, 2)):
        codec = eccoder.Codec(k, m, dialect)
        data = [draw.randbytes(800) for _ in range(k)]
        chunks = dict(enumerate(data + codec.encode(data)))
        given = draw.sample(sorted(chunks), k + m)
        found = eccoder.identify([chunks[c] for c in given])
        assert found["k"] == k and found["obeying"] == found["columns"], k
        [fit] = [fit for fit in found["fits"] if fit["dialect"] == dialect.replace("klauspost_cauchy", "isal_cauchy")]
        assert fit["m"] == m and (fit["order"] == given or not fit["sole"]), k
        # By the order named the shards agree, and those that are left out come back.
        named = {c: chunks[there] for c, there in zip(fit["order"], given)}
        assert codec.verify(named) and codec.decode({c: named[c] for c in sorted(named)[2:]}, [0, 1]) == [named[0], named[1]]


def test_ec_identifies_files_of_zfec(tmp_path, monkeypatch):
    """With headers, by the function behind zfec's command."""
    if importlib.util.find_spec("pyutil") is None:  # which it has these from
        mathutil = types.SimpleNamespace(pad_size=lambda n, k: -n % k, log_ceil=lambda n, b: math.ceil(math.log(n, b) - 1e-9))
        monkeypatch.setitem(sys.modules, "pyutil", types.SimpleNamespace(fileutil=None, mathutil=mathutil))
        monkeypatch.setitem(sys.modules, "pyutil.mathutil", mathutil)
    filefec = pytest.importorskip("zfec.filefec")
    for k, n, length in ((2, 4, 5000), (3, 5, 100001), (7, 12, 700000)):
        folder = tmp_path / f"{k}of{n}"
        folder.mkdir()
        filefec.encode_to_files(io.BytesIO(random.Random(k).randbytes(length)), length, str(folder), "file", k, n)
        files = sorted(folder.iterdir())[1:]
        done = subprocess.run([os.environ["EC_BUILD"] + "/bin/ec", "identify", "--json", *files], capture_output=True, text=True)
        found = json.loads(done.stdout)
        assert (done.returncode, found["k"]) == (0, k) and found["skip"] in (2, 3, 4), (done.stderr, found)
        [fit] = [fit for fit in found["fits"] if fit["dialect"] == "zfec"]
        assert found["obeying"] == found["columns"] and (fit["m"] < n - k or not fit["sole"] or fit["order"] == list(range(1, n))), (k, fit)


def test_every_dialect_is_recorded():
    assert sorted(DIGESTS) == sorted(eccoder._interface.DIALECTS) and {d for p in peers.PEERS for d in p.DIALECTS} == set(DIGESTS)
