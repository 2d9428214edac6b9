"""Where the bytes of arrays lie: by the buffer protocol, by DLPack, or by __cuda_array_interface__. Nothing is copied."""
from __future__ import annotations

import ctypes
import errno
import operator
import re
import sys
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_ssize_t, c_uint8, c_uint16, c_uint64, c_void_p, py_object
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Protocol, Set, Tuple, Union

from ._interface import DEVICE, PAGEABLE, PINNED, Place, check, function_of, refuse

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
else:
    ReadableBuffer = Any


class SupportsDLPack(Protocol):
    """And __dlpack__: PyTorch, CuPy, JAX, NumPy."""

    def __dlpack_device__(self) -> Tuple[int, Any]: ...


class SupportsCudaArrayInterface(Protocol):
    @property
    def __cuda_array_interface__(self) -> Any: ...


Chunk = Union[ReadableBuffer, SupportsDLPack, SupportsCudaArrayInterface]
Chunks = Union[Sequence[Chunk], Chunk]

_residence_of = {1: PAGEABLE, 2: DEVICE, 3: PINNED}  # by DLPack's type of device: CPU, CUDA, CUDA's pinned memory
_ON_CPU, _ON_GPU = 1, 2
_LAST_ADDRESS = 2**64 - 1
_ALLOWED = "allowed are objects with the buffer protocol, and arrays with __dlpack__ or __cuda_array_interface__"


class Memory(NamedTuple):
    """The memory of one array."""

    address: int
    shape: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]]  # in bytes; none: the last axis first, without gaps
    item: int  # bytes of an element
    residence: int
    gpu: Optional[int]  # which, where it is known
    readonly: bool
    owner: object  # keeps the memory where it is


class _Buffer(ctypes.Structure):
    """Py_buffer, which is the same in all versions of CPython 3."""

    _fields_ = [("address", c_void_p), ("owner", c_void_p), ("bytes", c_ssize_t), ("item", c_ssize_t), ("readonly", c_int),
                ("axes", c_int), ("format", c_char_p), ("shape", POINTER(c_ssize_t)), ("strides", POINTER(c_ssize_t)),
                ("suboffsets", c_void_p), ("internal", c_void_p)]

    def __del__(self) -> None:
        _release_buffer(ctypes.byref(self))


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("address", c_void_p), ("device_type", c_int32), ("device", c_int32), ("axes", c_int32), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("offset", c_uint64)]


# What stands before the DLTensor of a capsule "dltensor_versioned": version, context, deleter, flags.
_VERSIONED_HEAD, _FLAGS_AT, _READ_ONLY = 32, 24, 1

_python = ctypes.PyDLL(None)  # not pythonapi, whose functions others give other types
_is_buffer = function_of(_python, "PyObject_CheckBuffer", c_int, py_object)
_get_buffer = function_of(_python, "PyObject_GetBuffer", c_int, py_object, c_void_p, c_int)
_STRIDES = 0x18  # PyBUF_STRIDES; it asks for no format, so that NumPy answers with elements of every type
_release_buffer = function_of(_python, "PyBuffer_Release", None, c_void_p)
_is_capsule = function_of(_python, "PyCapsule_IsValid", c_int, py_object, c_char_p)
_capsule_pointer = function_of(_python, "PyCapsule_GetPointer", c_void_p, py_object, c_char_p)


def _of_buffer(array: Any) -> Memory:
    buffer = _Buffer()
    _get_buffer(array, ctypes.byref(buffer), _STRIDES)
    axes = buffer.axes
    strides = tuple(buffer.strides[:axes]) if buffer.strides else None  # those of ctypes have none
    return Memory(buffer.address or 0, tuple(buffer.shape[:axes]), strides, buffer.item, PAGEABLE, None, bool(buffer.readonly),
                  buffer)


def _format_of(array: Any) -> str:
    """Without the names of fields; empty where NumPy has none for its type."""
    try:
        return re.sub(":[^:]*:", "", memoryview(array).format)
    except ValueError:
        return ""


def _of_dlpack(array: Any, device: Tuple[int, int], stream: int) -> Memory:
    kind = int(device[0])
    if kind not in _residence_of:
        raise BufferError(f"memory of DLPack's device type {kind}; allowed are 1 (CPU), 2 (CUDA), 3 (pinned for CUDA)")
    wait = {"stream": stream} if kind == _ON_GPU else {}
    try:
        capsule = array.__dlpack__(max_version=(1, 0), **wait)
    except TypeError:  # of before DLPack 1.0
        capsule = array.__dlpack__(**wait)
    # The capsule is left as it is: it gives its memory back when it goes.
    readonly = False
    if _is_capsule(capsule, b"dltensor_versioned"):
        head = _capsule_pointer(capsule, b"dltensor_versioned")
        readonly = bool(c_uint64.from_address(head + _FLAGS_AT).value & _READ_ONLY)
        tensor = _Tensor.from_address(head + _VERSIONED_HEAD)
    else:
        tensor = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    item, rest = divmod(tensor.bits * tensor.lanes, 8)
    if rest:
        raise BufferError(f"elements of {tensor.bits * tensor.lanes} bits; allowed are whole bytes")
    axes = tensor.axes
    strides = tuple([stride * item for stride in tensor.strides[:axes]]) if tensor.strides else None
    return Memory((tensor.address or 0) + tensor.offset, tuple(tensor.shape[:axes]), strides, item, _residence_of[kind],
                  int(device[1]) if kind == _ON_GPU else None, readonly, capsule)


def _of_cuda_interface(array: Any, interface: Any, stream: int) -> Memory:
    try:
        (address, readonly), strides, producer = interface["data"], interface.get("strides"), interface.get("stream")
        shape = tuple([operator.index(length) for length in interface["shape"]])
        strides = None if strides is None else tuple([operator.index(stride) for stride in strides])
        [item] = re.findall(r"\A[<>|][biufcmMSV]([0-9]+)(?:\[.*\])?\Z", interface["typestr"])
        address = 0 if address is None else operator.index(address)
        producer = None if producer is None else operator.index(producer)
        if not (strides is None or len(strides) == len(shape)) or not 0 <= (producer or 0) <= _LAST_ADDRESS:
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BufferError(f"__cuda_array_interface__ is {interface}; allowed are data (address, read-only), shape and strides (or none) of as "
                          "many whole numbers, a typestr as '<f4', and a stream (or none)") from None
    if interface.get("mask") is not None:
        raise BufferError("an array with a mask, which would be lost; allowed are arrays without one")
    if producer not in (None, stream):
        wait = ctypes.CDLL("libcuda.so.1").cuStreamSynchronize(c_void_p(producer))
        if wait != 0:
            raise RuntimeError(f"waiting for its stream, the CUDA driver answers {wait}")
    return Memory(address, shape, strides, int(item), DEVICE, None, bool(readonly), array)


def _is_plain_tensor(array: Any) -> bool:
    """Of PyTorch's own type, in a GPU's memory, and nothing that its __dlpack__ would refuse or resolve."""
    torch = sys.modules.get("torch")
    return (torch is not None and type(array) is getattr(torch, "Tensor", None) and array.is_cuda
            and array.layout is torch.strided and not (array.requires_grad or array.is_conj() or array.is_neg()))


def _of_plain_tensor(tensor: Any) -> Memory:
    item = tensor.element_size()
    return Memory(tensor.data_ptr(), tuple(tensor.shape), tuple([stride * item for stride in tensor.stride()]), item, DEVICE,
                  tensor.get_device(), False, tensor)


def _current_stream(gpu: int) -> int:
    """PyTorch's, as DLPack numbers them: 1 is the default one."""
    return int(sys.modules["torch"].cuda.current_stream(gpu).cuda_stream) or 1


def _refuse_what_memory_does_not_say(array: Any) -> None:
    """PyTorch negates and conjugates by a bit beside the memory, and NumPy masks by other memory. No protocol tells."""
    for bit, is_set in (("negative", "is_neg"), ("conjugate", "is_conj")):
        if getattr(array, is_set, bool)():
            raise BufferError(f"a tensor with the {bit} bit set, whose memory is not its value; allowed are those that "
                              "resolve_neg() and resolve_conj() give")
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(array, masked.MaskedArray):
        raise BufferError("a masked array, whose mask would be lost; allowed are arrays without one, such as its filled()")


def memory_of(name: str, array: Any, stream: int, complete_tensor: bool = False) -> Memory:
    """What lies on the GPU is complete for work that is enqueued on `stream` (as DLPack numbers them) from now on.

    complete_tensor: it is a plain tensor that is so already.
    """
    try:
        _refuse_what_memory_does_not_say(array)
        if complete_tensor:
            return _of_plain_tensor(array)
        device = array.__dlpack_device__() if hasattr(array, "__dlpack_device__") else None
        # What the CPU can read by both is asked for its buffer, which says whether it is read-only.
        if _is_buffer(array) and (device is None or device[0] == _ON_CPU):
            if getattr(getattr(array, "dtype", None), "hasobject", False) or "O" in _format_of(array):
                raise BufferError("elements that are Python objects; allowed are those that are bytes")
            return _of_buffer(array)
        if device is not None:
            return _of_dlpack(array, device, stream)
        interface = getattr(array, "__cuda_array_interface__", None)
        if interface is not None:
            return _of_cuda_interface(array, interface, stream)
    except (BufferError, RuntimeError, ValueError, OSError) as error:
        raise refuse(f"{name}: {error}") from error
    raise TypeError(f"{name} is of type {type(array).__name__}; {_ALLOWED}")


def _bytes_without_gaps(name: str, memory: Memory, axis: int) -> int:
    """Bytes of the array from this axis on, which must lie side by side."""
    if any(length < 0 for length in memory.shape):
        raise refuse(f"{name} has shape {memory.shape}; allowed are lengths from 0")
    expected = memory.item
    for i in range(len(memory.shape) - 1, axis - 1, -1):
        if memory.strides is not None and memory.shape[i] > 1 and memory.strides[i] != expected:
            raise refuse(f"{name} is not contiguous: shape {memory.shape}, strides {memory.strides} in bytes; "
                         "allowed are arrays whose bytes lie side by side, the last axis first")
        expected *= memory.shape[i]
    if not 0 <= expected <= sys.maxsize:
        raise refuse(f"{name} has {expected} bytes; allowed are 0 to {sys.maxsize}")
    return expected


def _place(name: str, address: int, length: int, residence: int) -> Tuple[int, int]:
    """ctypes would take an address modulo 2^64."""
    if not 0 <= address <= _LAST_ADDRESS - length + 1:
        raise refuse(f"{name} is of {length} bytes at {address}; addresses are 0 to {_LAST_ADDRESS}")
    return address, residence


def is_one_array(chunks: Any) -> bool:
    return not isinstance(chunks, (list, tuple)) and (
        bool(_is_buffer(chunks)) or hasattr(chunks, "__dlpack_device__") or hasattr(chunks, "__cuda_array_interface__"))


_in_use: Set[Call] = set()


class Call:
    """The chunks of one call, which must agree in length and, on GPUs, in which. Keeps their memory while it lives."""

    def __init__(self, stream: int) -> None:
        # What DLPack calls 1 is the default stream, which a synchronous call waits for.
        self._stream = stream or 1
        self._memories: List[Memory] = []
        self._first: Optional[Tuple[str, int]] = None
        self._on_gpu: Optional[Tuple[str, int]] = None
        self._ordered: Optional[int] = None  # the GPU whose plain tensors are complete for our stream

    @property
    def bytes(self) -> int:
        """Of each chunk."""
        return self._first[1] if self._first else 0

    def is_for_gpu(self) -> bool:
        return any(memory.residence != PAGEABLE for memory in self._memories)

    def run(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls the function and raises what it complains of. What a GPU that stopped answering may still write is kept until the
        process ends; so is what a GPU uses when an interrupt hides the answer."""
        if self.is_for_gpu():
            _in_use.add(self)
        result = function(*arguments)
        (_in_use.add if result == -errno.ETIMEDOUT else _in_use.discard)(self)
        check(result)

    def take(self, name: str, chunks: Any, count: int, need: str, written: bool = False) -> Any:
        """`count` chunks, which the caller calls `need`, as an array of Place."""
        if is_one_array(chunks):
            places = self._rows(name, chunks, count, need, written)
        else:
            if not isinstance(chunks, Sequence):
                raise TypeError(f"{name} is of type {type(chunks).__name__}; allowed are a sequence of {need} chunks, and one array")
            if len(chunks) != count:
                raise refuse(f"{name} has {len(chunks)} chunks; {need} are needed")
            places = [self._chunk(f"{name}[{i}]", chunk, written) for i, chunk in enumerate(chunks)]
        array: Any = Place * count
        return array(*places)

    def _chunk(self, name: str, chunk: Any, written: bool) -> Tuple[int, int]:
        memory = self._taken(name, chunk, written)
        length = _bytes_without_gaps(name, memory, 0)
        self._agree(name, length)
        return _place(name, memory.address, length, memory.residence)

    def _rows(self, name: str, array: Any, count: int, need: str, written: bool) -> List[Tuple[int, int]]:
        memory = self._taken(name, array, written)
        if len(memory.shape) < 2 or memory.shape[0] != count:
            raise refuse(f"{name} is one array of shape {memory.shape}; allowed are a sequence of {need} chunks, and an array "
                         "of two or more axes whose first has so many")
        row = _bytes_without_gaps(name, memory, 1)
        self._agree(f"{name}[0]", row)
        step = row if memory.strides is None else memory.strides[0]
        return [_place(f"{name}[{i}]", memory.address + i * step, row, memory.residence) for i in range(count)]

    def _taken(self, name: str, array: Any, written: bool) -> Memory:
        memory = self._memory(name, array)
        if written and memory.readonly:
            raise refuse(f"{name} is read-only; it is written to")
        if memory.gpu is not None:
            self._on_gpu = self._on_gpu or (name, memory.gpu)
            if self._on_gpu[1] != memory.gpu:
                raise refuse(f"{name} is on GPU {memory.gpu} and {self._on_gpu[0]} on GPU {self._on_gpu[1]}; "
                             "the chunks of a call that are on a GPU must be on the same")
        self._memories.append(memory)
        return memory

    def _memory(self, name: str, array: Any) -> Memory:
        """By DLPack PyTorch takes 20 to 40 us a tensor. It is not asked where no stream has to wait, or was told to before."""
        if not _is_plain_tensor(array):
            return memory_of(name, array, self._stream)
        gpu = array.get_device()
        complete = self._ordered == gpu or _current_stream(gpu) == self._stream
        self._ordered = gpu
        return memory_of(name, array, self._stream, complete)

    def _agree(self, name: str, length: int) -> None:
        self._first = self._first or (name, length)
        if self._first[1] != length:
            raise refuse(f"{name} has {length} bytes and {self._first[0]} has {self._first[1]}; "
                         "all chunks of a call must be equally long")

    def make(self, name: str, chunks: Any, count: int) -> Any:
        """Chunks to write to, like those given: of NumPy, CuPy or PyTorch, or bytearrays for other host memory."""
        one = is_one_array(chunks)
        like = chunks if one else chunks[0]
        make = _maker(like)
        if make is not None:
            shape = tuple(like.shape)
            return make((count, *shape[1:])) if one else [make(shape) for _ in range(count)]
        if self._memories[0].residence == DEVICE:
            raise refuse(f"{name} is not given, and for an array of type {type(like).__name__} none can be made; "
                         "allowed are arrays in device memory to write to")
        return [bytearray(self.bytes) for _ in range(count)]


def _maker(like: Any) -> Any:
    """Makes an array from its shape, for an array that has a way to."""
    if hasattr(like, "new_empty"):  # PyTorch
        return like.new_empty
    for base in type(like).__mro__:
        package = sys.modules.get(base.__module__.partition(".")[0])
        if hasattr(package, "empty") and hasattr(like, "dtype"):  # NumPy, CuPy
            return lambda shape: package.empty(shape, like.dtype)  # type: ignore[union-attr]
    return None
