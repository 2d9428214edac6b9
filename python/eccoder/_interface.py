"""The C interface of libeccoder, ec/ec.h, by ctypes. A call holds no GIL while it runs."""
from __future__ import annotations

import ctypes
import errno
import functools
import json
import os
import weakref
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any, Union

TECHNIQUES = ("reed_sol_van", "cauchy")
DIALECTS = ("isal_reed_sol_van", "isal_cauchy", "jerasure_reed_sol_van", "jerasure_reed_sol_r6_op", "zfec", "klauspost",
            "klauspost_cauchy")
PAGEABLE, PINNED, DEVICE = range(3)


class Error(Exception):
    """A call failed. str() is a sentence that says why; errno is one of those that ec/ec.h lists, as
    errno.ENODATA for fewer than k chunks and errno.ENODEV for chunks in device memory and no device for them."""

    def __init__(self, errno: int, text: str) -> None:
        super().__init__(errno, text)
        self.errno = errno

    def __str__(self) -> str:
        return str(self.args[1])


class InvalidArgument(Error, ValueError):
    """A wrong argument (errno.EINVAL); the sentence names it, its value and what is allowed. Nothing was written."""


def refuse(text: str) -> InvalidArgument:
    return InvalidArgument(errno.EINVAL, text)


class Place(ctypes.Structure):
    """ec_source or ec_target, which are laid out alike."""

    _fields_ = [("data", c_void_p), ("residence", c_int)]


class VerdictOfC(ctypes.Structure):
    """ec_verdict."""

    _fields_ = [("agree", c_int), ("chunk", c_int), ("stripe", c_size_t), ("byte", c_size_t)]


def _opened() -> ctypes.CDLL:
    name = os.environ.get("EC_LIBRARY") or "libeccoder.so.0"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(f"cannot open {name}: {error}; install libeccoder, or name its file by EC_LIBRARY") from None


_library = _opened()


def function_of(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, name, None)
    if function is None:
        raise ImportError(f"{library._name} has no function {name}; install the libeccoder of this release, or name its file by EC_LIBRARY")
    function.restype, function.argtypes = result, arguments
    return function


_places, _numbers = POINTER(Place), POINTER(c_uint)
_coded = (c_void_p, c_size_t, _places, _places, c_size_t)
_decoded = (c_void_p, c_size_t, _numbers, c_size_t, _places, _numbers, c_size_t, _places, c_size_t)
encode = function_of(_library, "ec_encode", c_int, *_coded)
encode_async = function_of(_library, "ec_encode_async", c_int, *_coded, c_void_p)
decode = function_of(_library, "ec_decode", c_int, *_decoded)
decode_async = function_of(_library, "ec_decode_async", c_int, *_decoded, c_void_p)
checked_decode = function_of(_library, "ec_checked_decode", c_int, *_decoded)
verify = function_of(_library, "ec_verify", c_int, c_void_p, c_size_t, _numbers, c_size_t, _places, c_size_t, POINTER(VerdictOfC))
verify_async = function_of(_library, "ec_verify_async", c_int, c_void_p, c_size_t, _numbers, c_size_t, _places, c_size_t, c_void_p,
                           c_void_p)
begin = function_of(_library, "ec_begin", c_int, c_void_p, c_size_t, _numbers, c_size_t, _numbers, c_size_t, _places, c_size_t,
                    POINTER(c_void_p))
add = function_of(_library, "ec_add", c_int, c_void_p, c_uint, _places)
add_async = function_of(_library, "ec_add_async", c_int, c_void_p, c_uint, _places, c_void_p)
end = function_of(_library, "ec_end", c_int, c_void_p)
update = function_of(_library, "ec_update", c_int, c_void_p, c_size_t, c_uint, _places, _places, c_size_t)
_create = function_of(_library, "ec_codec_create", c_int, c_uint, c_uint, c_int, POINTER(c_void_p))
_create_matrix = function_of(_library, "ec_codec_create_matrix", c_int, c_uint, c_uint, c_char_p, c_uint, POINTER(c_void_p))
_destroy = function_of(_library, "ec_codec_destroy", None, c_void_p)
_coding_matrix = function_of(_library, "ec_coding_matrix", c_int, c_char_p, c_uint, c_uint, c_char_p)
codec_mds = function_of(_library, "ec_codec_mds", c_int, c_void_p)
_identify = function_of(_library, "ec_identify", c_int, _places, c_size_t, c_size_t, POINTER(c_void_p))
_free = function_of(ctypes.CDLL(None), "free", None, c_void_p)
_error_text = function_of(_library, "ec_error_text", c_char_p)
version = function_of(_library, "ec_version", c_char_p)


def check(result: int) -> None:
    """Raises what a call of this thread that answered `result` complains of."""
    if result != 0:
        kind = InvalidArgument if result == -errno.EINVAL else Error
        raise kind(-result, _error_text().decode(errors="replace"))


@functools.lru_cache(maxsize=None)
def codec(k: int, m: int, technique: str) -> Union[int, MatrixCodec]:
    """The ec_codec of this code. It is kept until the process ends: work on a stream may use it when its call is
    long over, and there are not many codes."""
    if technique in DIALECTS:
        return matrix_codec(k, m, coding_matrix(technique, k, m), 0)
    if technique not in TECHNIQUES:
        raise refuse(f"technique={technique!r}; allowed are {', '.join(TECHNIQUES + DIALECTS)}")
    made = c_void_p()
    check(_create(k, m, TECHNIQUES.index(technique), ctypes.byref(made)))
    assert made.value is not None
    return made.value


class MatrixCodec:
    """An ec_codec, destroyed with the last one who has it. There may be many."""

    def __init__(self, made: c_void_p) -> None:
        self._as_parameter_ = made
        # Not at exit: work on a stream may still use it.
        weakref.finalize(self, _destroy, made).atexit = False


@functools.lru_cache(maxsize=256)
def matrix_codec(k: int, m: int, cells: bytes, flags: int) -> MatrixCodec:
    made = c_void_p()
    check(_create_matrix(k, m, cells, flags, ctypes.byref(made)))
    return MatrixCodec(made)


def coding_matrix(dialect: str, k: int, m: int) -> bytes:
    if dialect not in DIALECTS:
        raise refuse(f"dialect={dialect!r}; allowed are {', '.join(DIALECTS)}")
    cells = ctypes.create_string_buffer(max(k * m, 1))
    check(_coding_matrix(dialect.encode(), k, m, cells))
    return cells.raw[:k * m]


def identify(places: Any, length: int) -> Any:
    found = c_void_p()
    check(_identify(places, len(places), length, ctypes.byref(found)))
    assert found.value is not None
    try:
        return json.loads(ctypes.string_at(found.value))
    finally:
        _free(found)
