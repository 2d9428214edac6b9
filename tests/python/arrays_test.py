"""What may hold a chunk in host memory, where its bytes are read and written, and what is refused."""
# mypy: disable-error-code="arg-type, list-item, dict-item"
import array
import copy
import ctypes
import errno
import gc
import mmap
import os
import pathlib
import subprocess
import sys
import weakref

import numpy
import pytest
import reference
from watch import watched_places

import eccoder
from eccoder import _arrays, _interface

LENGTH = 4096
DATA = [bytes((i * 7 + j * 13 + i * j) % 256 for j in range(LENGTH)) for i in range(4)]
CHUNKS = reference.encoded("cauchy", DATA, 2)
CODEC = eccoder.Codec(4, 2, "cauchy")


def mapped(content):
    memory = mmap.mmap(-1, len(content))
    memory[:] = content
    return memory


def inside(content):
    """A view that begins and ends within other memory."""
    around = bytearray(len(content) + 10)
    around[3:-7] = content
    return memoryview(around)[3:-7]


WRITABLE = {
    "bytearray": bytearray,
    "memoryview": lambda content: memoryview(bytearray(content)),
    "memoryview of doubles": lambda content: memoryview(bytearray(content)).cast("d"),
    "memoryview inside": inside,
    "array": lambda content: array.array("H", content),
    "mmap": mapped,
    "ctypes": lambda content: (ctypes.c_char * len(content)).from_buffer_copy(content),
    "numpy view": lambda content: numpy.frombuffer(bytearray(b"123" + content), numpy.uint8)[3:],
}
for dtype in ("u1", "i4", "f2", "f8", "c16", "?", "M8[s]", "S16", [("a", "i4"), ("b", "f4")]):
    WRITABLE[f"numpy {dtype}"] = lambda content, dtype=dtype: numpy.frombuffer(bytearray(content), dtype)
WRITABLE["numpy of three axes"] = lambda content: numpy.frombuffer(bytearray(content), "f4").reshape(2, 1, -1)
READABLE = {**WRITABLE, "bytes": bytes, "numpy read-only": lambda content: numpy.frombuffer(content, "f4")}


def content(chunk):
    return chunk.tobytes() if hasattr(chunk, "tobytes") else bytes(chunk)


@pytest.fixture
def places(monkeypatch):
    """(address, residence) of each chunk that a call of the C interface gets."""
    return watched_places(monkeypatch)


def pageable(addresses):
    return [(address, _interface.PAGEABLE) for address in addresses]


@pytest.mark.parametrize("kind", READABLE)
def test_reads(kind):
    data = [READABLE[kind](chunk) for chunk in DATA]
    assert [content(chunk) for chunk in CODEC.encode(data)] == CHUNKS[4:]
    made = CODEC.decode({0: data[0], 1: data[1], 3: data[3], 4: READABLE[kind](CHUNKS[4])}, [2, 5])
    assert [content(chunk) for chunk in made] == [CHUNKS[2], CHUNKS[5]]


@pytest.mark.parametrize("kind", WRITABLE)
def test_writes_where_the_array_lies(kind):
    coding = [WRITABLE[kind](bytes(LENGTH)) for _ in range(2)]
    assert CODEC.encode(DATA, coding) is coding
    assert [content(chunk) for chunk in coding] == CHUNKS[4:]
    CODEC.update(1, bytes(LENGTH), coding)
    assert [content(chunk) for chunk in coding] == CHUNKS[4:]
    targets = (WRITABLE[kind](bytes(LENGTH)),)
    assert CODEC.decode({c: CHUNKS[c] for c in (0, 1, 2, 5)}, [3], targets) is targets
    assert content(targets[0]) == CHUNKS[3]


def address(chunk):
    return numpy.frombuffer(chunk, numpy.uint8).ctypes.data


def test_copies_nothing(places):
    around, out = bytearray(5 * LENGTH), numpy.zeros((2, 2 * LENGTH), numpy.uint8)
    data = [memoryview(around)[i * LENGTH + 5:][:LENGTH] for i in range(3)] + [DATA[3]]
    CODEC.encode(data, [out[0, 1:LENGTH + 1], out[1, :LENGTH]])
    assert places == pageable([*map(address, data), address(out) + 1, address(out) + 2 * LENGTH])


@pytest.mark.parametrize("padding", [0, 24])
def test_one_array_of_all_chunks(places, padding):
    """Rows may lie apart, or in the other order."""
    memory = numpy.zeros((6, LENGTH // 4 + padding // 4), "f4")
    stripe = memory[::-1, :LENGTH // 4]
    stripe[:4] = numpy.frombuffer(b"".join(DATA), "f4").reshape(4, -1)
    assert CODEC.encode(stripe[:4], stripe[4:]).base is memory
    step = LENGTH + padding
    assert places == pageable(address(memory) + i * step for i in (5, 4, 3, 2, 1, 0))
    assert [content(row) for row in stripe] == CHUNKS


def test_makes_chunks_like_the_data():
    one = numpy.frombuffer(b"".join(DATA), "f4").reshape(4, 2, -1)
    coding = CODEC.encode(one)
    assert (type(coding), coding.shape, coding.dtype) == (numpy.ndarray, (2, 2, LENGTH // 8), one.dtype)
    assert [content(row) for row in coding] == CHUNKS[4:]
    many = CODEC.encode(list(one))
    assert [(chunk.shape, chunk.dtype) for chunk in many] == [((2, LENGTH // 8), one.dtype)] * 2

    class Own(numpy.ndarray):
        pass

    assert type(CODEC.encode([chunk.view(Own) for chunk in one])[0]) is numpy.ndarray
    assert type(CODEC.encode(memoryview(b"".join(DATA)).cast("B", (4, LENGTH)))[1]) is bytearray
    assert CODEC.decode(dict(enumerate(DATA)), []) == []


def test_memory_is_held_during_a_call_and_let_go_after_it(monkeypatch):
    data = [bytearray(chunk) for chunk in DATA]
    encode, held = _interface.encode, []

    def watched(*arguments):
        for chunk in data:
            with pytest.raises(BufferError):
                chunk.append(1)
            held.append(chunk)
        return encode(*arguments)

    monkeypatch.setattr(_interface, "encode", watched)
    CODEC.encode(data)
    assert len(held) == 4
    with pytest.raises(eccoder.InvalidArgument):
        CODEC.encode(data, data[:2])
    for chunk in data:
        chunk.append(1)  # BufferError while anyone holds it


class OtherDevice:
    """An array of DLPack's that lies elsewhere, or has other elements."""

    def __init__(self, device, bits=8):
        self.device, self.bits = device, bits
        self.length = ctypes.c_int64(8)
        self.tensor = _arrays._Tensor(1, device, 0, 1, 1, bits, 1, ctypes.pointer(self.length), None, 0)

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def test_an_error_of_the_library_has_its_code():
    """In a process that has no GPU for the memory of one."""
    use = """
import arrays_test, eccoder
try:
    arrays_test.CODEC.encode([arrays_test.OtherDevice(2)] * 4, [bytearray(8), bytearray(8)])
except eccoder.Error as error:
    print(type(error).__name__, error.errno, error)
"""
    path = os.pathsep.join([str(pathlib.Path(__file__).parent), os.environ["PYTHONPATH"]])
    done = subprocess.run([sys.executable, "-c", use], env={**os.environ, "PYTHONPATH": path, "EC_CUDA_DEVICES": "63"},
                          capture_output=True, text=True)
    assert done.stdout.startswith(f"Error {errno.ENODEV} chunks are in device memory, and no device is up: "), done


class Tensor(OtherDevice):
    """One in host memory whose value is its memory, or not; like those of PyTorch, which no protocol says."""

    def __init__(self, bit=None):
        super().__init__(1)
        self.memory = bytearray(8)
        self.tensor.address = address(self.memory)
        self.bit = bit

    def is_neg(self):
        return self.bit == "negative"

    def is_conj(self):
        return self.bit == "conjugate"


def test_a_tensor_whose_value_is_its_memory():
    assert CODEC.encode([Tensor() for _ in range(4)]) == [bytearray(8)] * 2


class Claims:
    """Memory of a GPU of which nothing is true but its form."""

    def __init__(self, **claims):
        self.__cuda_array_interface__ = {"data": (1 << 20, False), "shape": (8,), "typestr": "|u1", "version": 3, **claims}


SPACE = bytearray(LENGTH)
STRIPE = numpy.zeros((4, LENGTH), numpy.uint8)
ALL = dict(enumerate(CHUNKS[:4]))
NEITHER = "allowed are objects with the buffer protocol, and arrays with __dlpack__ or __cuda_array_interface__"
ONE_ARRAY = "; allowed are a sequence of k=4 chunks, and an array of two or more axes whose first has so many"
EQUALLY_LONG = "; all chunks of a call must be equally long"
SIDE_BY_SIDE = " in bytes; allowed are arrays whose bytes lie side by side, the last axis first"
LAZY = "bit set, whose memory is not its value; allowed are those that resolve_neg() and resolve_conj() give"
ADDRESSES = f"; addresses are 0 to {(1 << 64) - 1}"
REFUSED = [
    (lambda: eccoder.Codec(1, 2), "k=1 must be at least 2"),
    (lambda: eccoder.Codec(-4, 2), "k=-4; allowed are whole numbers, 0 to 255"),
    (lambda: eccoder.Codec(2**32 + 4, 2), "k=4294967300; allowed are whole numbers, 0 to 255"),
    (lambda: eccoder.Codec(4, 2, "liberation"), "technique='liberation'; allowed are reed_sol_van, cauchy, isal_reed_sol_van, isal_cauchy, "
     "jerasure_reed_sol_van, jerasure_reed_sol_r6_op, zfec, klauspost, klauspost_cauchy"),
    (lambda: eccoder.Codec(4.5, 2), TypeError, "k is of type float; allowed are whole numbers"),
    (lambda: CODEC.encode(DATA[:3]), "data has 3 chunks; k=4 are needed"),
    (lambda: CODEC.encode(DATA, [SPACE]), "coding has 1 chunks; m=2 are needed"),
    (lambda: CODEC.encode(DATA[0]), "data is one array of shape (4096,)" + ONE_ARRAY),
    (lambda: CODEC.encode(STRIPE[:3]), "data is one array of shape (3, 4096)" + ONE_ARRAY),
    (lambda: CODEC.encode(DATA, [SPACE, DATA[0]]), "coding[1] is read-only; it is written to"),
    (lambda: CODEC.encode(DATA, [SPACE, bytearray(9)]), "coding[1] has 9 bytes and data[0] has 4096" + EQUALLY_LONG),
    (lambda: CODEC.encode(DATA[:2] + [b"", b"1"]), "data[2] has 0 bytes and data[0] has 4096" + EQUALLY_LONG),
    (lambda: CODEC.encode(STRIPE, numpy.zeros((2, LENGTH), "f4")), "coding[0] has 16384 bytes and data[0] has 4096" + EQUALLY_LONG),
    (lambda: CODEC.encode(STRIPE[:, ::2]), "data is not contiguous: shape (4, 2048), strides (4096, 2)" + SIDE_BY_SIDE),
    (lambda: CODEC.encode([STRIPE.T] * 4), "data[0] is not contiguous: shape (4096, 4), strides (1, 4096)" + SIDE_BY_SIDE),
    (lambda: CODEC.encode(STRIPE, STRIPE[2:]), "coding[0] overlaps data[2]; a target must overlap no other chunk of its stripe"),
    (lambda: CODEC.encode(7), TypeError, "data is of type int; allowed are a sequence of k=4 chunks, and one array"),
    (lambda: CODEC.encode([DATA[0], "text", *DATA[2:]]), TypeError, "data[1] is of type str; " + NEITHER),
    (lambda: CODEC.encode([numpy.array([None])] * 4), "data[0]: elements that are Python objects; allowed are those that are bytes"),
    (lambda: CODEC.encode([memoryview(numpy.array([None]))] * 4),
     "data[0]: elements that are Python objects; allowed are those that are bytes"),
    (lambda: CODEC.encode([(ctypes.py_object * 2)()] * 4), "data[0]: elements that are Python objects; allowed are those that are bytes"),
    (lambda: CODEC.encode([Claims(mask=Claims())] * 4),
     "data[0]: an array with a mask, which would be lost; allowed are arrays without one"),
    (lambda: CODEC.encode([OtherDevice(10)] * 4),
     "data[0]: memory of DLPack's device type 10; allowed are 1 (CPU), 2 (CUDA), 3 (pinned for CUDA)"),
    (lambda: CODEC.encode([OtherDevice(1, bits=4)] * 4), "data[0]: elements of 4 bits; allowed are whole bytes"),
    (lambda: CODEC.encode([Tensor("negative")] * 4), "data[0]: a tensor with the negative " + LAZY),
    (lambda: CODEC.encode(DATA, [SPACE, Tensor("conjugate")]), "coding[1]: a tensor with the conjugate " + LAZY),
    (lambda: CODEC.encode(numpy.ma.masked_equal(STRIPE, 1)),
     "data: a masked array, whose mask would be lost; allowed are arrays without one, such as its filled()"),
    (lambda: CODEC.encode([Claims(shape=(1 << 60, 16))] * 4, [Claims()] * 2), f"data[0] has {1 << 64} bytes; allowed are 0 to {sys.maxsize}"),
    (lambda: CODEC.encode([Claims(typestr=f"|V{(1 << 64) + 1}")] * 4), f"data[0] has {(1 << 67) + 8} bytes; allowed are 0 to {sys.maxsize}"),
    (lambda: CODEC.encode([Claims(shape=(-1,))] * 4), "data[0] has shape (-1,); allowed are lengths from 0"),
    (lambda: CODEC.encode([Claims(shape=(-4, -2))] * 4), "data[0] has shape (-4, -2); allowed are lengths from 0"),
    (lambda: CODEC.encode([Claims(data=((1 << 64) + 4096, False))] * 4), f"data[0] is of 8 bytes at {(1 << 64) + 4096}" + ADDRESSES),
    (lambda: CODEC.encode(Claims(shape=(4, 8), strides=(1 << 63, 1))), f"data[2] is of 8 bytes at {(1 << 64) + (1 << 20)}" + ADDRESSES),
    (lambda: CODEC.encode(Claims(shape=(4, 8), strides=(-(1 << 20), 1))), f"data[2] is of 8 bytes at {-(1 << 20)}" + ADDRESSES),
    (lambda: CODEC.encode_async(STRIPE, STRIPE[:2], 1 << 64), f"stream={1 << 64}; allowed are handles, 0 to {(1 << 64) - 1}"),
    (lambda: CODEC.decode({c: DATA[c] for c in (1, 2, 3)}, [0]), errno.ENODATA, "available has 3 chunks; k=4 are needed"),
    (lambda: CODEC.decode(DATA, [4]), TypeError, "available is of type list; allowed is a dict from numbers of chunks to contents"),
    (lambda: CODEC.decode({**ALL, -1: DATA[0]}, [4]), "available[4]=-1; allowed are whole numbers, 0 to 255"),
    (lambda: CODEC.decode({**ALL, "5": DATA[0]}, [4]), TypeError, "available[4] is of type str; allowed are whole numbers"),
    (lambda: CODEC.decode(ALL, [2.0]), TypeError, "wanted[0] is of type float; allowed are whole numbers"),
    (lambda: CODEC.decode(ALL, [4], [SPACE, SPACE]), "targets has 2 chunks; len(wanted)=1 are needed"),
    (lambda: CODEC.decode({**ALL, 3: b"short"}, [4]), "sources[3] has 5 bytes and sources[0] has 4096" + EQUALLY_LONG),
    (lambda: CODEC.update(4, DATA[0], [SPACE, bytearray(LENGTH)]), "chunk=4 must be a data chunk, 0 to 3"),
    (lambda: CODEC.update(0, DATA[0], DATA[:2]), "coding[0] is read-only; it is written to"),
    (lambda: CODEC.encode_async(STRIPE, STRIPE[:2], 0), "data[0] is pageable; work on a stream takes pinned and device memory"),
    (lambda: CODEC.encode_async(STRIPE, STRIPE[:2], None), TypeError,
     "stream is of type NoneType; allowed are a handle (int), a stream of PyTorch or CuPy, and what has __cuda_stream__"),
]
for wrong in ({"data": None}, {"data": ("0", False)}, {"shape": (8.0,)}, {"shape": None}, {"strides": ()}, {"strides": (1.0,)}, {"stream": -1},
              {"typestr": "u1"}, {"typestr": "<U4"}, {"typestr": None}, {"data": ("", False)}, {"stream": 0.0}, {"stream": ""}):
    REFUSED.append((lambda wrong=wrong: CODEC.encode([Claims(**wrong)] * 4), f"data[0]: __cuda_array_interface__ is {Claims(**wrong).__cuda_array_interface__}; "
                    "allowed are data (address, read-only), shape and strides (or none) of as many whole numbers, a typestr as '<f4', and a stream (or none)"))


@pytest.mark.parametrize("call, expected", [(row[0], row[1:]) for row in REFUSED])
def test_refuses(call, expected):
    kind = next((part for part in expected if isinstance(part, type)), None)
    code = next((part for part in expected if isinstance(part, int)), errno.EINVAL)
    before = bytes(SPACE)
    with pytest.raises(kind or eccoder.Error) as raised:
        call()
    if isinstance(expected[-1], str):
        assert str(raised.value) == expected[-1]
    if kind is None:
        assert raised.value.errno == code
        assert isinstance(raised.value, ValueError) == (code == errno.EINVAL)
    assert bytes(SPACE) == before and not STRIPE.any()


def interrupted():
    raise KeyboardInterrupt


@pytest.mark.parametrize("function, chunk, kept", [
    (lambda: -errno.ETIMEDOUT, numpy.zeros(64, numpy.uint8), True), (lambda: -errno.EIO, numpy.zeros(64, numpy.uint8), False),
    (interrupted, numpy.zeros(64, numpy.uint8), False), (interrupted, Claims(), True), (lambda: -errno.EIO, Claims(), False)])
def test_what_a_gpu_may_still_write_is_kept(function, chunk, kept):
    chunk = copy.copy(chunk)
    gone = weakref.ref(chunk)
    call = _arrays.Call(0)
    call.take("coding", [chunk], 1, "1", written=True)
    with pytest.raises((eccoder.Error, KeyboardInterrupt)) as raised:
        call.run(function)
    assert function is interrupted or raised.value.errno == -function()
    del call, chunk, raised
    gc.collect()
    assert (gone() is not None) == kept
