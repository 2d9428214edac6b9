"""The bytes that eccoder makes, beside the slow reference; threads."""
import concurrent.futures
import ctypes
import errno
import itertools
import pickle
import random
import weakref

import pytest
import reference

import eccoder
from eccoder import _interface

TECHNIQUES = ("reed_sol_van", "cauchy")


def random_chunks(count, length, seed=1):
    draw = random.Random(seed)
    return [draw.randbytes(length) for _ in range(count)]


@pytest.mark.parametrize("technique", TECHNIQUES)
@pytest.mark.parametrize("k, m, length", [(2, 1, 0), (3, 2, 1), (4, 3, 63), (6, 3, 1000)])
def test_encode_and_decode_every_loss(technique, k, m, length):
    chunks = reference.encoded(technique, random_chunks(k, length), m)
    codec = eccoder.Codec(k, m, technique)
    assert codec.encode(chunks[:k]) == chunks[k:]
    draw = random.Random(2)
    for lost in itertools.chain.from_iterable(itertools.combinations(range(k + m), n) for n in range(m + 1)):
        wanted = draw.sample(lost, len(lost))
        available = {c: chunks[c] for c in draw.sample(range(k + m), k + m) if c not in lost}
        made = codec.decode(available, wanted)
        assert [bytes(chunk) for chunk in made] == [chunks[c] for c in wanted], (lost, list(available))


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_update(technique):
    data = random_chunks(5, 333)
    codec = eccoder.Codec(5, 2, technique)
    coding = codec.encode(data)
    changed = random_chunks(1, 333, seed=3)[0]
    codec.update(3, bytes(a ^ b for a, b in zip(data[3], changed)), coding)
    data[3] = changed
    assert [bytes(chunk) for chunk in coding] == reference.encoded(technique, data, 2)[5:]


class NamedCodec(eccoder.Codec):
    def __init__(self, name, *shape, **how):
        super().__init__(*shape, **how)
        self.name = name


def test_a_pickle_keeps_the_kind_and_the_attributes():
    for codec in NamedCodec("a name", 4, 2), NamedCodec("a name", 2, 1, matrix=[[1, 1]]):
        copy = pickle.loads(pickle.dumps(codec))
        assert (type(copy), copy.name, repr(copy)) == (NamedCodec, codec.name, repr(codec))


def test_the_codec_says_what_it_is():
    codec = eccoder.Codec(8, 3, "cauchy")
    assert (codec.k, codec.m, codec.technique) == (8, 3, "cauchy")
    assert repr(codec) == "eccoder.Codec(8, 3, 'cauchy')"
    assert eccoder.Codec(8, 3).technique == "reed_sol_van"
    assert repr(pickle.loads(pickle.dumps(codec))) == repr(codec)
    assert [n.isdigit() for n in eccoder.__version__.removesuffix(".dev").split(".")] == [True] * 3
    error = pickle.loads(pickle.dumps(eccoder.InvalidArgument(22, "no")))
    assert (type(error), error.errno, str(error)) == (eccoder.InvalidArgument, 22, "no")


def test_threads_share_a_codec():
    """And each has its own errors."""
    codec = eccoder.Codec(6, 3, "cauchy")

    def work(seed):
        chunks = reference.encoded("cauchy", random_chunks(6, 4096 + seed, seed), 3)
        for lost in itertools.combinations(range(9), 3):
            available = {c: chunks[c] for c in range(9) if c not in lost}
            assert codec.encode(chunks[:6]) == chunks[6:] and codec.decode(available, lost) == [chunks[c] for c in lost]
            with pytest.raises(eccoder.InvalidArgument, match=rf"^wanted\[0\]={seed + 100}; chunks are numbered 0 to 8$"):
                codec.decode(available, [seed + 100])

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))


def test_a_call_releases_the_gil():
    """As ctypes does at each call of a CDLL; a PyDLL, which is one as well, keeps the lock."""
    assert type(_interface._library) is ctypes.CDLL


@pytest.mark.parametrize("dialect", ["isal_cauchy", "jerasure_reed_sol_van", "zfec", "klauspost"])
@pytest.mark.parametrize("k, m", [(1, 1), (4, 2), (10, 4)])
def test_a_matrix_makes_what_it_says(dialect, k, m):
    rows = eccoder.coding_matrix(dialect, k, m)
    data = random_chunks(k, 99)
    expected = [reference.combined(row, data) for row in rows]
    for codec in (eccoder.Codec(k, m, dialect), eccoder.Codec(k, m, matrix=rows), eccoder.Codec(k, m, matrix=map(bytes, rows)),
                  pickle.loads(pickle.dumps(eccoder.Codec(k, m, matrix=rows)))):
        assert codec.encode(data) == expected and codec.mds is True
        assert codec.technique in (dialect, "matrix")


def test_a_matrix_that_is_not_mds():
    rows = [[1, 1, 0, 0], [0, 0, 1, 1], [1, 2, 4, 8]]
    with pytest.raises(eccoder.InvalidArgument, match="not MDS: with chunks 0, 1, 4 lost"):
        eccoder.Codec(4, 3, matrix=rows)
    codec = eccoder.Codec(4, 3, matrix=rows, any_matrix=True)
    assert codec.mds is False and pickle.loads(pickle.dumps(codec)).mds is False
    data = random_chunks(4, 10)
    coding = codec.encode(data)
    assert codec.decode({1: data[1], 4: coding[0]}, [0]) == [data[0]]  # of its group alone
    with pytest.raises(eccoder.Error, match="available does not give chunks 0, 1, by") as caught:
        codec.decode({2: data[2], 3: data[3], 5: coding[1], 6: coding[2]}, [0, 1])
    assert caught.value.errno == errno.ENODATA


@pytest.mark.parametrize("matrix, text", [([[1, 2]], "matrix has rows of [2] cells; m=2 rows of k=2 are needed"),
                                          ([[1], [2, 3]], "matrix has rows of [1, 2] cells; m=2 rows of k=2 are needed"),
                                          ([[1, 2], [3, 256]], "matrix[1][1]=256; allowed are whole numbers, 0 to 255")])
def test_refuses_what_is_no_matrix(matrix, text):
    with pytest.raises(eccoder.InvalidArgument) as caught:
        eccoder.Codec(2, 2, matrix=matrix)
    assert str(caught.value) == text


def test_needs_a_chunk_to_decode_from():
    for matrix, words in (([[1, 1], [0, 0]], "available has 0 chunks; 1 are needed"), ([[1, 1], [1, 2]], "available has 0 chunks; k=2 are needed")):
        with pytest.raises(eccoder.Error, match=words) as caught:
            eccoder.Codec(2, 2, matrix=matrix, any_matrix=True).decode({}, [0])
        assert caught.value.errno == errno.ENODATA


@pytest.mark.parametrize("dialect", ["\xe9" * 300, "\ud800", None, b"zfec", "zfec\0x"])
def test_refuses_what_is_no_dialect(dialect):
    with pytest.raises(eccoder.InvalidArgument, match="allowed are isal_reed_sol_van, isal_cauchy, jerasure_reed_sol_van"):
        eccoder.coding_matrix(dialect, 4, 2)


def test_names_all_chunks_that_have_not_come():
    accumulator = eccoder.Codec(200, 4, "cauchy").begin(range(200), [200], [bytearray(8)])
    with pytest.raises(eccoder.Error) as caught:
        accumulator.end()
    assert all(str(chunk) in str(caught.value) for chunk in range(200)), caught.value


def test_codecs_of_matrices_end():
    first = weakref.ref(eccoder.Codec(2, 1, matrix=[[1, 255]])._codec)
    codecs = [eccoder.Codec(2, 1, matrix=[[1 + i % 16, 1 + i // 16]]) for i in range(256)]
    assert first() is None
    chunks = [b"ab", b"cd"]
    assert codecs[0].encode(chunks) == [bytes(x ^ y for x, y in zip(*chunks))]


def test_chunks_as_they_come():
    codec = eccoder.Codec(5, 3, "cauchy")
    data = [bytes([c * 7 + i % 251 for i in range(100)]) for c in range(5)]
    every = data + codec.encode(data)
    targets = [bytearray(100) for _ in range(2)]
    given = list(targets)
    sums = codec.begin([1, 2, 4, 5, 7], [3, 0], given)
    given[0] = None
    with pytest.raises(BufferError):
        targets[0].extend(bytes(1 << 20))
    for chunk in (7, 1, 5, 4, 2):
        sums.add(chunk, every[chunk])
    with pytest.raises(eccoder.InvalidArgument, match="chunk=2 was added before"):
        sums.add(2, every[2])
    sums.end()
    assert targets == [every[3], every[0]]
    targets[0].append(0)  # BufferError while anyone holds it
    with pytest.raises(eccoder.InvalidArgument, match="this accumulator has ended"):
        sums.add(2, every[2])
    targets[0].pop()
    sums = codec.begin(range(5), [6], targets[:1])
    sums.add(0, data[0])
    with pytest.raises(eccoder.InvalidArgument, match="chunks"):
        sums.add(1, data[1][:99])
    with pytest.raises(eccoder.Error, match="chunks 1, 2, 3, 4 were not added"):
        sums.end()
    targets[0].append(0)


def test_verify():
    codec = eccoder.Codec(5, 3, "cauchy")
    chunks = [bytearray(c) for c in reference.encoded("cauchy", random_chunks(5, 2000), 3)]
    every = dict(enumerate(chunks))
    assert codec.verify(every) == (True, None, None) and codec.verify(every)
    chunks[6][1234] ^= 1
    assert codec.verify(every) == (False, 1234, 6) and not codec.verify(every)
    assert codec.verify({c: chunks[c] for c in (0, 1, 2, 3, 4, 6)}) == (False, 1234, None)
    assert codec.verify({c: chunks[c] for c in range(8) if c != 6})
    with pytest.raises(eccoder.Error, match="nothing to compare") as caught:
        codec.verify(dict(enumerate(chunks[:5])))
    assert caught.value.errno == errno.ENODATA
    del every[0]
    assert codec.decode(every, [0]) == [chunks[0]]
    with pytest.raises(eccoder.Error, match="sources disagree, first in stripe 0 at byte 1234; chunk 6 alone is wrong") as caught:
        codec.decode(every, [0], checked=True)
    assert caught.value.errno == errno.EBADMSG
