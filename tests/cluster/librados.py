"""What our tools need of librados, by ctypes: commands to daemons and whole-object I/O.

Python's own bindings are compiled for one version of Python; this needs librados.so.2 alone. Every call that fails
raises OSError with librados' errno; an operation that was not answered in time raises TimeoutError, and whether it took
place, or will, is then unknown. A handle may be used from many threads; a call blocks its thread only.
"""

import ctypes
import errno
import functools
import json
import os

_size_t, _u64, _void_p, _char_p = ctypes.c_size_t, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p
ORDER_READS_WRITES = 4  # LIBRADOS_OPERATION_ORDER_READS_WRITES


class Library:
    """librados' functions. An integer is passed as 64 bits, which is right for each of their arguments, handles among them."""

    def __init__(self):
        self._library = ctypes.CDLL("librados.so.2")
        self._library.rados_create_read_op.restype = self._library.rados_create_write_op.restype = _u64

    def __getattr__(self, name):
        function = getattr(self._library, name)
        return lambda *arguments: function(*(_u64(each) if isinstance(each, int) else each for each in arguments))


library = functools.lru_cache(Library)  # loaded on first use; raises OSError where it is not installed


def checked(answer, what, reason=""):
    """An OSError has the reason as its strerror, and as its filename what was asked."""
    if answer < 0:
        raise OSError(-answer, reason or os.strerror(-answer), what)
    return answer


class Rados:
    """A client of the cluster that `conf` describes; connected until close()."""

    def __init__(self, conf, **options):
        self._rados = library()
        self._handle = _void_p()
        checked(self._rados.rados_create2(ctypes.byref(self._handle), b"ceph", b"client.admin", 0), "rados_create2")
        checked(self._rados.rados_conf_read_file(self._handle, os.fsencode(conf)), f"{conf}")
        defaults = {"client_mount_timeout": 20, "rados_mon_op_timeout": 30, "rados_osd_op_timeout": 30}
        for name, value in {**defaults, **options}.items():
            checked(self._rados.rados_conf_set(self._handle, name.encode(), str(value).encode()), name)
        try:
            checked(self._rados.rados_connect(self._handle), "connecting to the monitor")
        except OSError:
            self.close()
            raise

    def close(self):
        if self._handle:
            self._rados.rados_shutdown(self._handle)
        self._handle = None

    def _command(self, function, target, prefix, arguments):
        text = json.dumps({"prefix": prefix, **arguments})
        words = (_char_p * 1)(text.encode())
        out, out_size, status, status_size = _void_p(), _size_t(), _void_p(), _size_t()
        answer = function(self._handle, *target, words, 1, None, 0, ctypes.byref(out),
                          ctypes.byref(out_size), ctypes.byref(status), ctypes.byref(status_size))
        reply = ctypes.string_at(out, out_size.value).decode(errors="replace") if out else ""
        reason = ctypes.string_at(status, status_size.value).decode(errors="replace") if status else ""
        for buffer in (out, status):
            if buffer:
                self._rados.rados_buffer_free(buffer)
        checked(answer, text, reason)
        return reply

    def mon(self, prefix, **arguments):
        """Reply of the monitor."""
        return self._command(self._rados.rados_mon_command, [], prefix, arguments)

    def latest_map(self):
        """Learn which OSDs lead now: a command for a PG goes where the map says that we had last."""
        checked(self._rados.rados_wait_for_latest_osdmap(self._handle), "waiting for the latest map of OSDs")

    def pg(self, pgid, prefix, **arguments):
        """Reply of the OSD that leads the PG by the last map that we have."""
        return self._command(self._rados.rados_pg_command, [pgid.encode()], prefix, {"pgid": pgid, **arguments})

    def pool(self, name):
        return Pool(self._rados, self._handle, name)


class Pool:
    """Objects of one pool."""

    def __init__(self, rados, handle, name):
        self.name, self._rados, self._io = name, rados, _void_p()
        checked(rados.rados_ioctx_create(handle, name.encode(), ctypes.byref(self._io)), f"pool {name}")

    def close(self):
        self._rados.rados_ioctx_destroy(self._io)

    def change(self, call, name, *arguments):
        """A call of librados that changes the object `name`: write_full or append DATA, write DATA, OFFSET, trunc SIZE, zero
        OFFSET, LENGTH, remove."""
        if call == "zero":
            operation = self._rados.rados_create_write_op()
            try:
                self._rados.rados_write_op_zero(operation, *arguments)
                checked(self._rados.rados_write_op_operate(operation, self._io, name.encode(), None, 0), f"zero {name}")
            finally:
                self._rados.rados_release_write_op(operation)
            return
        words = [word for a in arguments for word in ((a, len(a)) if isinstance(a, bytes) else (a,))]
        checked(getattr(self._rados, f"rados_{call}")(self._io, name.encode(), *words), f"{call} {name}")

    def read(self, name, length, offset=0, after_writes=False):
        """At most `length` bytes from `offset` on; fewer where the object ends. after_writes: not answered before what
        this connection has sent to the object earlier, be that given up: an ordinary read overtakes a write that waits for
        a shard to be recovered."""
        buffer = bytearray(max(length, 1))
        into = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        got, result = _size_t(), ctypes.c_int()
        operation = self._rados.rados_create_read_op()
        try:
            self._rados.rados_read_op_read(operation, offset, length, into, ctypes.byref(got), ctypes.byref(result))
            flags = ORDER_READS_WRITES if after_writes else 0
            checked(self._rados.rados_read_op_operate(operation, self._io, name.encode(), flags), f"read {name}")
        finally:
            self._rados.rados_release_read_op(operation)
        del into
        checked(result.value, f"read {name}")
        return bytes(buffer[: got.value])

    def names(self):
        """Names of all objects."""
        found, listing, entry = set(), _void_p(), _char_p()
        checked(self._rados.rados_nobjects_list_open(self._io, ctypes.byref(listing)), f"list {self.name}")
        try:
            while (answer := self._rados.rados_nobjects_list_next(listing, ctypes.byref(entry), None, None)) == 0:
                found.add(entry.value.decode())
            if answer != -errno.ENOENT:
                checked(answer, f"list {self.name}")
        finally:
            self._rados.rados_nobjects_list_close(listing)
        return found
