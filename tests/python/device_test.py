"""Chunks in device and pinned memory, by small arrays of our own that speak DLPack or __cuda_array_interface__.

Needs a libcuda.so.1 with a device: the emulated one of tests/drivers, or a real one.
"""
# mypy: disable-error-code="misc"
import ctypes
import errno
import sys
import types

import pytest
import reference
from watch import watched_places

import eccoder
from eccoder import _arrays, _interface

try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    pytest.skip(f"no GPU: {error}", allow_module_level=True)

LENGTH = 5000
DATA = [bytes((i * 7 + j * 13 + i * j) % 256 for j in range(LENGTH)) for i in range(4)]
CHUNKS = reference.encoded("cauchy", DATA, 2)
CODEC = eccoder.Codec(4, 2, "cauchy")
ORDERED = []  # the streams that arrays were told of, by DLPack


def check(result):
    assert result == 0, f"the driver answers {result}"


@pytest.fixture(scope="module", autouse=True)
def context():
    current = ctypes.c_void_p()
    check(driver.cuInit(0))
    check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(current), 0))
    check(driver.cuCtxPushCurrent_v2(current))
    yield
    check(driver.cuCtxPopCurrent_v2(ctypes.byref(current)))
    check(driver.cuDevicePrimaryCtxRelease_v2(0))


class Memory:
    """Of the device, or pinned, with this content."""

    def __init__(self, content, pinned=False):
        pointer = ctypes.c_uint64()
        allocate = driver.cuMemHostAlloc if pinned else driver.cuMemAlloc_v2
        check(allocate(ctypes.byref(pointer), ctypes.c_size_t(len(content) + 16), *[0] * pinned))
        self.address, self.length, self.pinned = pointer.value + 16, len(content), pinned
        check(driver.cuMemcpyHtoD_v2(ctypes.c_uint64(self.address), content, ctypes.c_size_t(len(content))))

    def __del__(self):
        (driver.cuMemFreeHost if self.pinned else driver.cuMemFree_v2)(ctypes.c_uint64(self.address - 16))

    def content(self):
        content = ctypes.create_string_buffer(self.length)
        check(driver.cuMemcpyDtoH_v2(content, ctypes.c_uint64(self.address), ctypes.c_size_t(self.length)))
        return content.raw


class Legacy(Memory):
    """By the DLPack that was before 1.0."""

    device, read_only = 0, False

    def __dlpack_device__(self):
        return (3, 0) if self.pinned else (2, self.device)

    def capsule(self, address, name):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(address, name, None)

    def tensor(self):
        """Sixteen bytes behind what it calls its data."""
        self.shape, self.strides = (ctypes.c_int64 * 2)(self.length // 4, 2), (ctypes.c_int64 * 2)(2, 1)
        kind, device = self.__dlpack_device__()
        return _arrays._Tensor(self.address - 16, kind, device, 2, 4, 16, 1, self.shape, self.strides, 16)

    def __dlpack__(self, stream=None):
        ORDERED.append(stream)
        self.exported = self.tensor()
        return self.capsule(ctypes.addressof(self.exported), b"dltensor")


class Versioned(Legacy):
    def __dlpack__(self, stream=None, max_version=None):
        assert max_version == (1, 0)
        ORDERED.append(stream)

        class Managed(ctypes.Structure):
            _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _arrays._Tensor)]

        self.exported = Managed(1, 0, None, None, int(self.read_only), self.tensor())
        return self.capsule(ctypes.addressof(self.exported), b"dltensor_versioned")


class NotSuch(Versioned):
    """As PyTorch's tensors that require a gradient."""

    def __dlpack__(self, **_):
        raise BufferError("no tensors that require gradients")


class Interface(Memory):
    stream, read_only = None, False

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.length,), "typestr": "|u1", "data": (self.address, self.read_only), "version": 3,
                "stream": self.stream, "strides": None}


ReadOnly = type("ReadOnly", (Versioned,), {"read_only": True})
InterfaceReadOnly = type("InterfaceReadOnly", (Interface,), {"read_only": True})
OnGpu1 = type("OnGpu1", (Versioned,), {"device": 1})
KINDS = [Legacy, Versioned, Interface, lambda content: Legacy(content, pinned=True), bytearray]
# By PyTorch's name, by CuPy's, by that of the protocol, and by number.
STREAMS = [lambda handle: types.SimpleNamespace(cuda_stream=handle), lambda handle: types.SimpleNamespace(ptr=handle),
           lambda handle: types.SimpleNamespace(__cuda_stream__=lambda: (0, handle)), int]


def content(chunk):
    return chunk.content() if isinstance(chunk, Memory) else bytes(chunk)


def contents(chunks):
    return [content(chunk) for chunk in chunks]


@pytest.mark.parametrize("of_targets", KINDS)
@pytest.mark.parametrize("of_sources", KINDS)
def test_encodes_decodes_and_updates(of_sources, of_targets):
    data, coding = [of_sources(chunk) for chunk in DATA], [of_targets(bytes(LENGTH)) for _ in range(2)]
    assert CODEC.encode(data, coding) is coding
    assert contents(coding) == CHUNKS[4:]
    CODEC.update(2, of_sources(bytes(LENGTH)), coding)
    assert contents(coding) == CHUNKS[4:]
    targets = [of_targets(bytes(LENGTH)) for _ in range(2)]
    CODEC.decode({0: data[0], 2: data[2], 4: coding[0], 5: coding[1]}, [3, 1], targets)
    assert contents(targets) == [CHUNKS[3], CHUNKS[1]]


@pytest.mark.parametrize("kind", KINDS[:4])
@pytest.mark.parametrize("stream", STREAMS)
def test_on_a_stream(kind, stream):
    made = ctypes.c_void_p()
    check(driver.cuStreamCreate(ctypes.byref(made), 1))
    data, coding = [kind(chunk) for chunk in DATA], [kind(bytes(LENGTH)) for _ in range(2)]
    ORDERED.clear()
    CODEC.encode_async(data, coding, stream(made.value))
    CODEC.decode_async({1: data[1], 2: data[2], 4: coding[0], 5: coding[1]}, [0], data[:1], stream(made.value))
    check(driver.cuStreamSynchronize(made))
    assert contents(coding) == CHUNKS[4:] and contents(data) == DATA
    assert set(ORDERED) <= {made.value, None} and (made.value in ORDERED) == (kind in (Legacy, Versioned))


@pytest.mark.parametrize("kind", KINDS[:4])
def test_verify(kind):
    chunks, answer = dict(enumerate(map(kind, CHUNKS))), Legacy(bytes(8))
    spoilt = {**chunks, 3: kind(CHUNKS[3][:1234] + bytes([CHUNKS[3][1234] ^ 1]) + CHUNKS[3][1235:])}
    assert CODEC.verify(chunks) == (True, None, None) and CODEC.verify(spoilt) == (False, 1234, 3)
    for every, said in ((spoilt, 1234), (chunks, 2**64 - 1)):
        CODEC.verify_async(every, answer, 0)
        check(driver.cuStreamSynchronize(None))
        assert int.from_bytes(answer.content(), sys.byteorder) == said
    with pytest.raises(eccoder.InvalidArgument, match="difference has 16 bytes; allowed are 8 in GPU memory"):
        CODEC.verify_async(chunks, Legacy(bytes(16)), 0)


def test_waits_for_what_was_enqueued_before():
    """By DLPack on the stream of the call, which the default one is for calls that wait; by hand where that is not spoken."""
    data, coding = [Versioned(chunk) for chunk in DATA], [Legacy(bytes(LENGTH)) for _ in range(2)]
    for call in (lambda: CODEC.encode(data, coding), lambda: CODEC.encode_async(data, coding, 0)):
        ORDERED.clear()
        call()
        assert set(ORDERED) == {1}
    data = [Interface(chunk) for chunk in DATA]
    waited = []

    class Driver:
        @staticmethod
        def cuStreamSynchronize(stream):
            waited.append(stream.value)
            return int(stream.value == 99)

    original, _arrays.ctypes.CDLL = ctypes.CDLL, lambda _: Driver
    try:
        data[0].stream, data[1].stream, data[2].stream = 1, 77, 88
        CODEC.encode(data, coding)
        assert waited == [77, 88]
        data[3].stream = 99
        with pytest.raises(eccoder.InvalidArgument, match=r"data\[3\]: waiting for its stream, the CUDA driver answers 1"):
            CODEC.encode(data, coding)
    finally:
        _arrays.ctypes.CDLL = original


def test_copies_nothing(monkeypatch):
    seen = watched_places(monkeypatch)
    chunks = [kind(bytes(LENGTH)) for kind in (Legacy, Versioned, Interface, KINDS[3], Versioned, Interface)]
    CODEC.encode(chunks[:4], chunks[4:])
    residences = [_interface.DEVICE] * 3 + [_interface.PINNED] + [_interface.DEVICE] * 2
    assert seen == [(chunk.address, residence) for chunk, residence in zip(chunks, residences)]


class PlainTensor(Versioned):
    """What is asked of a tensor of PyTorch's own type."""

    is_cuda, layout, requires_grad, current = True, "strided", False, 0
    shape = (LENGTH // 4, 2)

    is_conj = is_neg = staticmethod(lambda: False)
    element_size, stride = staticmethod(lambda: 2), staticmethod(lambda: (2, 1))

    def data_ptr(self):
        return self.address

    def get_device(self):
        return self.device

    @classmethod
    def current_stream(cls, device):
        assert device == 0
        return types.SimpleNamespace(cuda_stream=cls.current)


def test_plain_tensors_are_asked_by_dlpack_where_one_stream_waits_for_another(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(
        Tensor=PlainTensor, strided="strided", cuda=types.SimpleNamespace(current_stream=PlainTensor.current_stream)))
    data, coding = [PlainTensor(chunk) for chunk in DATA], [PlainTensor(bytes(LENGTH)) for _ in range(2)]

    def asked(call):
        ORDERED.clear()
        call()
        assert contents(coding) == CHUNKS[4:]
        return ORDERED

    assert asked(lambda: CODEC.encode(data, coding)) == []
    monkeypatch.setattr(PlainTensor, "current", 77)
    assert asked(lambda: CODEC.encode(data, coding)) == [1]
    assert asked(lambda: CODEC.encode([Versioned(DATA[0]), *data[1:]], coding)) == [1, 1]
    assert asked(lambda: CODEC.encode_async(data, coding, 0)) == [1]
    monkeypatch.setattr(PlainTensor, "current", 0)
    data[2].requires_grad = data[3].requires_grad = True
    assert asked(lambda: CODEC.encode(data, coding)) == [1, 1]
    data[1].stride = lambda: (4, 1)
    with pytest.raises(eccoder.InvalidArgument, match=r"data\[1\] is not contiguous"):
        CODEC.encode(data, coding)


ON_DEVICE = [Versioned, Versioned, Interface, Legacy]


@pytest.mark.parametrize("data, coding, expected", [
    (ON_DEVICE, [Versioned, ReadOnly], "coding[1] is read-only; it is written to"),
    (ON_DEVICE, [InterfaceReadOnly, Versioned], "coding[0] is read-only; it is written to"),
    (ON_DEVICE, [OnGpu1, Versioned], "coding[0] is on GPU 1 and data[0] on GPU 0; the chunks of a call that are on a GPU must be on "
                                     "the same"),
    ([NotSuch] * 4, [Versioned] * 2, "data[0]: no tensors that require gradients"),
    (ON_DEVICE, None, "coding is not given, and for an array of type Versioned none can be made; allowed are arrays in device "
                      "memory to write to"),
])
def test_refuses(data, coding, expected):
    data = [kind(chunk) for kind, chunk in zip(data, DATA)]
    coding = coding and [kind(bytes(LENGTH)) for kind in coding]
    with pytest.raises(eccoder.InvalidArgument) as raised:
        CODEC.encode(data, coding)
    assert str(raised.value) == expected and raised.value.errno == errno.EINVAL
    assert not coding or contents(coding) == [bytes(LENGTH)] * 2


def test_read_only_sources_are_read():
    coding = [bytearray(LENGTH) for _ in range(2)]
    CODEC.encode([kind(chunk) for kind, chunk in zip((ReadOnly, InterfaceReadOnly, Legacy, bytes), DATA)], coding)
    assert contents(coding) == CHUNKS[4:]
