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


@pytest.mark.parametrize("kind", peers.PEERS)
def test_identifies_what_they_made(kind):
    try:
        peer = kind()
    except peers.Missing as error:
        pytest.skip(f"no {kind.__name__} here: {error}")
    for dialect in kind.DIALECTS:
        draw = random.Random(dialect)
        for k, m in ((2, 2), (3, 2), (5, 2), (8, 2)):
            data = [draw.randbytes(800) for _ in range(k)]
            chunks = dict(enumerate(data + peer.encode(dialect, data, m)))
            given = draw.sample(sorted(chunks), k + m)
            found = eccoder.identify([chunks[c] for c in given])
            assert found["k"] == k and found["obeying"] == found["columns"], (dialect, k)
            [fit] = [fit for fit in found["fits"] if fit["dialect"] == dialect.replace("klauspost_cauchy", "isal_cauchy")]
            assert fit["m"] == m and (fit["order"] == given or not fit["sole"]), (dialect, k)
            # By the order named the shards agree, and those that are left out come back.
            codec = eccoder.Codec(k, m, dialect)
            named = {c: chunks[there] for c, there in zip(fit["order"], given)}
            assert codec.verify(named) and codec.decode({c: named[c] for c in sorted(named)[2:]}, [0, 1]) == [named[0], named[1]]


def test_every_dialect_is_recorded():
    assert sorted(DIGESTS) == sorted(eccoder._interface.DIALECTS) and {d for p in peers.PEERS for d in p.DIALECTS} == set(DIGESTS)
