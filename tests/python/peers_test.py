"""Every dialect beside the system that it comes from: its bytes as recorded, and where it is installed, both ways."""
import json
import random

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
def test_both_ways(kind):
    try:
        peer = kind()
    except peers.Missing as error:
        pytest.skip(f"no {kind.__name__} here: {error}")
    for dialect in kind.DIALECTS:
        draw = random.Random(1)
        for k, m, data in peers.cases(dialect):
            codec = eccoder.Codec(k, m, dialect)
            ours, theirs = [bytes(c) for c in codec.encode(data)], peer.encode(dialect, data, m)
            assert ours == theirs, (dialect, k, m)
            lost = draw.sample(range(k + m), draw.randrange(1, m + 1))
            # They decode what we made, and we what they made.
            assert peer.rebuild(dialect, k, m, [None if c in lost else chunk for c, chunk in enumerate(data + ours)]) == data
            there = {c: chunk for c, chunk in enumerate(data + theirs) if c not in lost}
            assert codec.decode(there, lost) == [(data + theirs)[c] for c in lost], (dialect, k, m, lost)


def test_every_dialect_is_recorded():
    assert sorted(DIGESTS) == sorted(eccoder._interface.DIALECTS) and {d for p in peers.PEERS for d in p.DIALECTS} == set(DIGESTS)
