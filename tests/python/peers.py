"""Other systems' own coders: ISA-L, jerasure (in Ceph's plugin), zfec, and klauspost/reedsolomon by a program in Go.

Each peer is a class with DIALECTS; encode(dialect, data, m) gives coding chunks.
"""
import base64
import ctypes
import glob
import json
import os
import pathlib
import random
import subprocess
import tempfile
import zlib

CASES = 504  # of each dialect
VECTORS = pathlib.Path(__file__).parents[1] / "vectors" / "peers.json"


class Missing(Exception):
    """The peer is not installed here."""


def shape(dialect, draw):
    """k, m and bytes of a chunk."""
    k = draw.randrange(1, 33) if draw.random() < 0.9 else draw.randrange(33, 200)
    m = draw.randrange(1, 9) if draw.random() < 0.9 else draw.randrange(9, 50)
    if dialect == "jerasure_reed_sol_r6_op":
        m = 2
    if dialect == "isal_reed_sol_van" and m > 3:  # in the others not every loss can be solved
        k, m = min(k, 21), 4
    if dialect.startswith("jerasure"):
        return max(k, 2), m, 16 * draw.randrange(1, 60)  # it takes whole words
    return k, m, draw.randrange(1, 1000)


def cases(dialect):
    """k, m, data; the same everywhere."""
    draw = random.Random(dialect)
    for _ in range(CASES):
        k, m, length = shape(dialect, draw)
        yield k, m, [draw.randbytes(length) for _ in range(k)]


def digest(chunks):
    return f"{zlib.crc32(b''.join(bytes(chunk) for chunk in chunks)):08x}"


def buffers_of(chunks):
    return [ctypes.create_string_buffer(chunk, len(chunk)) for chunk in chunks]


def pointers(buffers):
    """Which the caller keeps."""
    return (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))


class IsaL:
    DIALECTS = ("isal_reed_sol_van", "isal_cauchy")

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libisal.so.2")
        except OSError as error:
            raise Missing(str(error)) from None

    def encode(self, dialect, data, m):
        k, length = len(data), len(data[0])
        cells, tables = ctypes.create_string_buffer(k * (k + m)), ctypes.create_string_buffer(32 * k * m)
        make = self.library.gf_gen_rs_matrix if dialect == "isal_reed_sol_van" else self.library.gf_gen_cauchy1_matrix
        make(cells, k + m, k)
        self.library.ec_init_tables(k, m, cells.raw[k * k:], tables)
        read, made = buffers_of(data), buffers_of([bytes(length)] * m)
        self.library.ec_encode_data(length, k, m, tables, pointers(read), pointers(made))
        return [chunk.raw for chunk in made]


class Jerasure:
    DIALECTS = ("jerasure_reed_sol_van", "jerasure_reed_sol_r6_op")

    def __init__(self):
        try:
            [common] = glob.glob("/usr/lib/*/ceph/libceph-common.so.2")
            [plugin] = glob.glob("/usr/lib/*/ceph/erasure-code/libec_jerasure.so")
            ctypes.CDLL(common, ctypes.RTLD_GLOBAL)
            # What the plugin asks of the daemon that loads it, and no function here uses.
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run(["cc", "-shared", "-x", "c", "-", "-o", folder + "/daemon.so"], check=True, text=True,
                               input="".join(f"char _ZN4ceph25ErasureCodePluginRegistry{name}[1024];" for name in (
                                   "9singletonE", "3addERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPNS_17ErasureCodePluginE")))
                ctypes.CDLL(folder + "/daemon.so", ctypes.RTLD_GLOBAL)
            self.library = ctypes.CDLL(plugin)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            raise Missing(str(error)) from None
        self.library.galois_init_default_field(8)

    def matrix(self, dialect, k, m):
        if dialect == "jerasure_reed_sol_van":
            make, arguments = self.library.reed_sol_vandermonde_coding_matrix, (k, m, 8)
        else:
            make, arguments = self.library.reed_sol_r6_coding_matrix, (k, 8)
        make.restype = ctypes.POINTER(ctypes.c_int)
        return make(*arguments)

    def encode(self, dialect, data, m):
        k, length = len(data), len(data[0])
        read, made = buffers_of(data), buffers_of([bytes(length)] * m)
        self.library.jerasure_matrix_encode(k, m, 8, self.matrix(dialect, k, m), pointers(read), pointers(made), length)
        return [chunk.raw for chunk in made]


class Zfec:
    DIALECTS = ("zfec",)

    def __init__(self):
        try:
            import zfec
        except ImportError as error:
            raise Missing(str(error)) from None
        self.zfec = zfec

    def encode(self, dialect, data, m):
        k = len(data)
        return self.zfec.Encoder(k, k + m).encode(data, range(k, k + m))


GO = """package main

import (
	"encoding/json"
	"os"

	"github.com/klauspost/reedsolomon"
)

// Rebuilds what is empty of the shards of each job, coding shards too.
func main() {
	var job struct {
		Cauchy bool
		K, M   int
		Shards [][]byte
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for in.Decode(&job) == nil {
		var options []reedsolomon.Option
		if job.Cauchy {
			options = append(options, reedsolomon.WithCauchyMatrix())
		}
		coder, err := reedsolomon.New(job.K, job.M, options...)
		if err == nil {
			err = coder.Reconstruct(job.Shards)
		}
		if err != nil {
			panic(err)
		}
		out.Encode(job.Shards)
	}
}
"""


class Klauspost:
    DIALECTS = ("klauspost", "klauspost_cauchy")

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        source = pathlib.Path(self.folder.name) / "peer.go"
        source.write_text(GO)
        environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": self.folder.name + "/cache",
                       "GOFLAGS": ""}
        try:
            built = subprocess.run(["go", "build", "-o", self.folder.name + "/peer", source], env=environment, capture_output=True,
                                   text=True)
        except OSError as error:
            raise Missing(str(error)) from None
        if built.returncode != 0:
            raise Missing(built.stderr)
        self.process = subprocess.Popen([self.folder.name + "/peer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def encode(self, dialect, data, m):
        shards = [base64.b64encode(chunk).decode() for chunk in data] + [""] * m
        job = {"Cauchy": dialect == "klauspost_cauchy", "K": len(data), "M": m, "Shards": shards}
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()
        return [base64.b64decode(shard) for shard in json.loads(self.process.stdout.readline())][len(data):]


PEERS = (IsaL, Jerasure, Zfec, Klauspost)


def recorded(peer, dialect):
    """The digests of all cases, one after the other: what VECTORS holds of each dialect."""
    return "".join(digest(peer.encode(dialect, data, m)) for _, m, data in cases(dialect))
