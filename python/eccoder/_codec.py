"""One code, ready to work."""
from __future__ import annotations

import errno
import operator
import weakref
from collections.abc import Iterable, Mapping, Sequence
from ctypes import byref, c_uint, c_void_p
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Type

from . import _interface
from ._arrays import Call, Chunk, Chunks, is_one_array
from ._interface import DEVICE, Error, refuse


class Verdict(NamedTuple):
    """What verify() found; true if the chunks agree. Otherwise `byte` is the first at which they do not, from 0, and `chunk` the
    number of the one that alone is wrong, or None where that cannot be told: one chunk only was left over, or several are wrong.
    As many wrong chunks as are left over, or more, may look like one other."""

    agree: bool
    byte: Optional[int]
    chunk: Optional[int]

    def __bool__(self) -> bool:
        return self.agree


class Accumulator:
    """Chunks that are made while others come one by one: Codec.begin, add each, end. For one thread at a time."""

    def __init__(self, codec: Codec, state: c_void_p, targets: Any, count: int, begun: Call) -> None:
        # The call keeps the targets where they are.
        self._codec, self._state, self._targets, self._count, self._begun = codec, state, targets, count, begun
        self._end = weakref.finalize(self, _interface.end, state)

    def add(self, chunk: int, content: Chunk, stream: Any = None) -> None:
        """Adds chunk `chunk`, in any order, none twice. With a stream the work is only enqueued, by the rules of encode_async; all
        of one accumulator on the same stream."""
        if not self._end.alive:
            raise refuse("this accumulator has ended")
        handle = 0 if stream is None else _stream(stream)
        call = Call(handle)
        call.take("targets", self._targets, self._count, f"len(wanted)={self._count}", written=True)
        source = call.take("chunks", [content], 1, "1")
        number = _number("chunk", chunk)
        if stream is None:
            call.run(_interface.add, self._state, number, source)
        else:
            call.run(_interface.add_async, self._state, number, source, handle)

    def end(self) -> None:
        """Ends it. Error, errno.ENODATA, where not all came that are read: then the targets hold anything."""
        result = self._end()
        if result is None:
            raise refuse("this accumulator has ended")
        if not self._begun.is_for_gpu():  # a GPU may still write
            del self._begun
        _interface.check(result)


class Codec:
    """A Reed-Solomon code of k data chunks and m coding chunks, of which any k give back the rest.

    k >= 2, m >= 1, k + m <= 255. technique: "reed_sol_van", in the shapes where any k chunks suffice, or "cauchy", in
    any. The bytes are those of Ceph's isa plugin. Chunks are numbered 0..k-1 (data) and k..k+m-1 (coding).

    technique may also be the name of another system's code, see coding_matrix. Or matrix says what the coding chunks are: m
    rows of k cells in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d), numbers or bytes. Both allow k = 1. A matrix by which
    not every k chunks suffice (not MDS) is refused unless any_matrix is true; then decode makes what can be made, and says
    what cannot.

    A chunk is any object with the buffer protocol (bytes, bytearray, memoryview, mmap, NumPy's arrays), or an array with
    DLPack or __cuda_array_interface__ (PyTorch, CuPy, JAX), of any shape and type of elements, whose bytes lie side by
    side. Its bytes are read and written where they are; nothing is copied. All chunks of a call have as many bytes. They
    are given as a sequence, or as one array whose first axis counts them, (k, n) or (m, n); its rows may lie apart.

    Host memory is ordinary memory, or pinned where its array says so by DLPack, as PyTorch's do. A call with a chunk in
    GPU memory needs that GPU to be one of EC_CUDA_DEVICES, and runs there; chunks elsewhere may be in the same call. The
    library picks CPU or GPU for the rest.

    Calls return when the chunks are made. What is still to be written to an array on a GPU by work enqueued before is
    waited for, on the stream that its array names to DLPack. encode_async and decode_async only enqueue.

    Immutable: any number of threads may use a codec at a time, and a call runs without the GIL. No other thread may
    write to the chunks of a call, or use its targets, while it runs. May be pickled.

    Raises InvalidArgument, Error (see its errno), and TypeError for what is no array.
    """

    __slots__ = ("_k", "_m", "_technique", "_cells", "_codec")

    def __init__(self, k: int, m: int, technique: str = "reed_sol_van", *, matrix: Optional[Iterable[Iterable[int]]] = None,
                 any_matrix: bool = False) -> None:
        self._k, self._m, self._technique = _number("k", k), _number("m", m), technique
        self._cells: Optional[bytes] = None
        if matrix is None:
            self._codec = _interface.codec(self._k, self._m, technique)
        else:
            self._technique, self._cells = "matrix", _cells(self._k, self._m, matrix)
            self._codec = _interface.matrix_codec(self._k, self._m, self._cells, int(any_matrix))

    @property
    def k(self) -> int:
        return self._k

    @property
    def m(self) -> int:
        return self._m

    @property
    def technique(self) -> str:
        return self._technique

    @property
    def mds(self) -> Optional[bool]:
        """Whether any k chunks give back the rest. None: of so many losses a sample was tried, and all of it could be solved."""
        return (False, None, True)[_interface.codec_mds(self._codec)]

    def __repr__(self) -> str:
        return f"eccoder.Codec({self._k}, {self._m}, {self._technique!r})"

    def __reduce__(self) -> Tuple[Any, ...]:
        state = getattr(self, "__dict__", None)  # of a subclass
        return _unpickled, (type(self), self._k, self._m, self._technique, self._cells), state

    def encode(self, data: Chunks, coding: Optional[Chunks] = None) -> Any:
        """Makes the m coding chunks of the k chunks `data`, in `coding` where that is given, and returns them.

        Otherwise they are made like `data`: one array (m, ..) for one array, else a list; by NumPy, CuPy or PyTorch where
        the data are theirs, as bytearrays for what else lies in host memory. Memory used again is much faster than new.
        """
        call = Call(0)
        sources = call.take("data", data, self._k, f"k={self._k}")
        if coding is None:
            coding = call.make("coding", data, self._m)
        targets = call.take("coding", coding, self._m, f"m={self._m}", written=True)
        call.run(_interface.encode, self._codec, 1, sources, targets, call.bytes)
        return coding

    def encode_async(self, data: Chunks, coding: Chunks, stream: Any) -> None:
        """encode() as work on a CUDA stream: enqueues it and returns.

        stream: a handle (an int; 0 is the default stream), or a stream of PyTorch, CuPy or anything with __cuda_stream__.
        All chunks are pinned or in GPU memory; they and this codec must be kept, and the targets be left alone, until the stream has
        come that far; what goes wrong on the GPU shows there. Work that the arrays wait for by DLPack comes first. May be
        captured into a graph, after a first call of the same kind outside.
        """
        handle = _stream(stream)
        call = Call(handle)
        sources = call.take("data", data, self._k, f"k={self._k}")
        targets = call.take("coding", coding, self._m, f"m={self._m}", written=True)
        call.run(_interface.encode_async, self._codec, 1, sources, targets, call.bytes, handle)

    def verify(self, available: Mapping[int, Chunk]) -> Verdict:
        """Whether the chunks are those of one stripe, as encode() makes them; writes nothing.

        available: as for decode(), more chunks than are needed, k + 1 or up to all: Error, errno.ENODATA, where there is nothing
        to compare. The CPU does it, or the GPU where some chunk is in its memory.
        """
        call = Call(0)
        have, _, sources = self._lost(call, available, ())
        verdict = _interface.VerdictOfC()
        call.run(_interface.verify, self._codec, 1, have, len(have), sources, call.bytes, byref(verdict))
        if verdict.agree:
            return Verdict(True, None, None)
        return Verdict(False, verdict.byte, None if verdict.chunk < 0 else verdict.chunk)

    def verify_async(self, available: Mapping[int, Chunk], difference: Chunk, stream: Any) -> None:
        """verify() as work on a CUDA stream, by the rules of encode_async.

        difference: 8 bytes in GPU memory, aligned to 8. All of their bits become 1 if the chunks agree; else they become the first
        byte at which they do not, as a whole number. Which chunk is wrong verify() says.
        """
        handle = _stream(stream)
        call, answer = Call(handle), Call(handle)
        have, _, sources = self._lost(call, available, ())
        word = answer.take("difference", [difference], 1, "1", written=True)
        if answer.bytes != 8 or word[0].residence != DEVICE:
            raise refuse(f"difference has {answer.bytes} bytes; allowed are 8 in GPU memory")
        call.run(_interface.verify_async, self._codec, 1, have, len(have), sources, call.bytes, word[0].data, handle)

    def decode(self, available: Mapping[int, Chunk], wanted: Iterable[int], targets: Optional[Chunks] = None, *,
               checked: bool = False) -> Any:
        """Makes the chunks `wanted` from the chunks `available`, and returns them in the order of `wanted`.

        available: from numbers of chunks, data or coding, to their contents; k are needed, and no more are read. wanted:
        numbers of chunks that are not available. targets: where to write them, in the order of `wanted`; without, they
        are made as a list, like the first of `available`. Errors call the contents of `available` "sources".
        checked: verify those available first, where they are more than are needed; Error, errno.EBADMSG, where they disagree.
        Fewer than k, or by a matrix that is not MDS too few: Error, errno.ENODATA.
        """
        call = Call(0)
        have, want, sources = self._lost(call, available, wanted)
        if targets is None:
            targets = call.make("targets", list(available.values()), len(want))
        places = call.take("targets", targets, len(want), f"len(wanted)={len(want)}", written=True)
        decode = _interface.checked_decode if checked else _interface.decode
        call.run(decode, self._codec, 1, have, len(have), sources, want, len(want), places, call.bytes)
        return targets

    def decode_async(self, available: Mapping[int, Chunk], wanted: Iterable[int], targets: Chunks, stream: Any) -> None:
        """decode() as work on a CUDA stream, by the rules of encode_async."""
        handle = _stream(stream)
        call = Call(handle)
        have, want, sources = self._lost(call, available, wanted)
        places = call.take("targets", targets, len(want), f"len(wanted)={len(want)}", written=True)
        call.run(_interface.decode_async, self._codec, 1, have, len(have), sources, want, len(want), places, call.bytes, handle)

    def begin(self, available: Iterable[int], wanted: Iterable[int], targets: Chunks) -> Accumulator:
        """Makes the chunks `wanted` in `targets` while those available are added one by one; nothing else may touch the targets
        until the end. available: numbers of the chunks that will be added. Data chunks as `available` and coding chunks as `wanted`
        are encode()."""
        have = [_number(f"available[{i}]", chunk) for i, chunk in enumerate(available)]
        want = [_number(f"wanted[{i}]", chunk) for i, chunk in enumerate(wanted)]
        call = Call(0)
        kept: Any = targets
        if isinstance(kept, Sequence) and not is_one_array(kept):
            kept = tuple(kept)
        places = call.take("targets", kept, len(want), f"len(wanted)={len(want)}", written=True)
        state = c_void_p()
        call.run(_interface.begin, self._codec, 1, (c_uint * len(have))(*have), len(have), (c_uint * len(want))(*want), len(want),
                                   places, call.bytes, byref(state))
        return Accumulator(self, state, kept, len(want), call)

    def update(self, chunk: int, delta: Chunk, coding: Chunks) -> None:
        """Brings the m chunks `coding` up to date, in place, after a change of data chunk `chunk`, without the other data.

        delta: the old content of that chunk XOR its new content.
        """
        call = Call(0)
        source = call.take("delta", [delta], 1, "1")
        targets = call.take("coding", coding, self._m, f"m={self._m}", written=True)
        call.run(_interface.update, self._codec, 1, _number("chunk", chunk), source, targets, call.bytes)

    def _lost(self, call: Call, available: Mapping[int, Chunk], wanted: Iterable[int]) -> Any:
        if not isinstance(available, Mapping):
            raise TypeError(f"available is of type {type(available).__name__}; allowed is a dict from numbers of chunks to contents")
        have = [_number(f"available[{i}]", chunk) for i, chunk in enumerate(available)]
        want = [_number(f"wanted[{i}]", chunk) for i, chunk in enumerate(wanted)]
        if len(have) < self._k and (not have or self.mds is not False):
            needed = "1" if self.mds is False else f"k={self._k}"
            raise Error(errno.ENODATA, f"available has {len(have)} chunks; {needed} are needed")
        sources = call.take("sources", list(available.values()), len(have), "len(available)")
        return (c_uint * len(have))(*have), (c_uint * len(want))(*want), sources


def coding_matrix(dialect: str, k: int, m: int) -> List[List[int]]:
    """The matrix, m rows of k cells, by which another system makes its coding chunks; k, m >= 1, k + m <= 255.

    dialect: "isal_reed_sol_van", "isal_cauchy" (ISA-L; the latter is that of HDFS, Ozone and DAOS), "jerasure_reed_sol_van",
    "jerasure_reed_sol_r6_op" (m = 2), "zfec" (Tahoe-LAFS), "klauspost" (Backblaze, klauspost/reedsolomon) or "klauspost_cauchy".
    """
    cells = _interface.coding_matrix(dialect, _number("k", k), _number("m", m))
    return [list(cells[at:at + k]) for at in range(0, len(cells), k)]


def identify(shards: Sequence[Chunk]) -> Dict[str, Any]:
    """Says which code shards are of, from their bytes alone; writes nothing.

    shards: 2 to 255 in host memory, equally long, of one stripe or many in a row, in any order; one may be damaged, some missing.
    Returns a dict; shards are named by their place in `shards`, from 0:
    "k": data chunks, or 0 where that cannot be told. One that is not given does not show if it is zero everywhere, or follows
    from others as an equal one does.
    "fits": dialects that write these bytes, each a dict: "dialect", a name for Codec; "m", the fewest coding chunks with which an
        order that was tried fits; "order", the chunk number of each shard (-1: outside), in the order given if that fits; "sole",
        whether with k + m chunks no other order does.
    "damaged": the shard that alone explains the columns (the bytes at one place) that break the checks, if one does.
    "outside": shards that nothing connects with the others.
    "columns", "obeying", "first_bad": columns looked at, at most 65,536 spread evenly, zeros left out; those that agree; the byte
        of the first that does not, where they are fewer.
    "checks": rows of a cell a shard; each row times each column that obeys is zero.
    "cannot_tell": sentences: what cannot be told, and why.
    What it says of dialect and order presumes at most 4 missing chunks; of more than some 25 shards only the order given is tried,
    of more than some 45 with up to 3 missing, of more than 90 with up to 2. As many wrong shards as checks, or more, may look like
    one other. Takes up to some seconds.
    """
    call = Call(0)
    found: Dict[str, Any] = _interface.identify(call.take("shards", shards, len(shards), "2 to 255"), call.bytes)
    return found


def _unpickled(kind: Type[Codec], k: int, m: int, technique: str, cells: Optional[bytes]) -> Codec:
    codec = kind.__new__(kind)  # a derived class may have other parameters
    if cells is None:
        Codec.__init__(codec, k, m, technique)
    else:
        Codec.__init__(codec, k, m, matrix=[cells[at:at + k] for at in range(0, len(cells), k)], any_matrix=True)
    return codec


def _cells(k: int, m: int, matrix: Iterable[Iterable[int]]) -> bytes:
    rows = [bytes([_number(f"matrix[{r}][{c}]", cell) for c, cell in enumerate(row)]) for r, row in enumerate(matrix)]
    if len(rows) != m or any(len(row) != k for row in rows):
        raise refuse(f"matrix has rows of {[len(row) for row in rows]} cells; m={m} rows of k={k} are needed")
    return b"".join(rows)


def _number(name: str, value: int) -> int:
    """ctypes would cut a number that is too large."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is of type {type(value).__name__}; allowed are whole numbers") from None
    if not 0 <= number <= 255:
        raise refuse(f"{name}={number}; allowed are whole numbers, 0 to 255")
    return number


def _stream(stream: Any) -> int:
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    handle = getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))  # PyTorch, CuPy
    if not isinstance(handle, int):
        raise TypeError(f"stream is of type {type(stream).__name__}; allowed are a handle (int), a stream of PyTorch or CuPy, "
                        "and what has __cuda_stream__")
    if not 0 <= handle < 2**64:
        raise refuse(f"stream={handle}; allowed are handles, 0 to {2**64 - 1}")
    return handle
