#!/usr/bin/env python3
"""How much slower a call by eccoder is than the same call of the C interface, 8+2, in GPU memory where PyTorch has a GPU.

The C call is ec_encode or ec_decode with arguments that were made beforehand (ctypes itself adds less than 2 us to it). Both
work on the same memory and take turns, first one and then the other going first; the figure is the median of their ratios. In
host memory what counts is the calling thread's CPU time, which is where the CPU codes: others may be at work on the machine.

usage: speed.py [--mib N[,N..]] [--rounds N] [--host]
Exit status: 0, whatever was measured.
"""
import argparse
import statistics
import time
import types

import eccoder
from eccoder import _arrays, _interface

CODEC = eccoder.Codec(8, 2, "cauchy")


def host():
    import numpy

    return types.SimpleNamespace(name="NumPy, host memory", ones=lambda *shape: numpy.ones(shape, numpy.uint8), finish=lambda: None,
                                 clock=time.thread_time, stream=None)


def gpu():
    """Nothing where there is none."""
    try:
        import torch
    except ImportError:
        return None
    return torch.cuda.is_available() and types.SimpleNamespace(
        name="PyTorch, GPU memory", ones=lambda *shape: torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda"),
        finish=torch.cuda.synchronize, clock=time.perf_counter, stream=torch.cuda.Stream())


def measured(place, rounds, repeats, calls):
    """The median of seconds a call of each, and that of their ratio, first to second. repeats: calls between two looks at
    the clock."""
    seconds = [[], []]
    for i in range(rounds + 2):
        for which in (i % 2, 1 - i % 2):
            place.finish()
            begin = place.clock()
            for _ in range(repeats):
                calls[which]()
            place.finish()
            seconds[which].append((place.clock() - begin) / repeats)
    first, second = seconds[0][2:], seconds[1][2:]
    return statistics.median(first), statistics.median(second), statistics.median(a / b for a, b in zip(first, second))


def pairs_of(codec, place, length):
    """What is measured: its name, the repeats, the call by eccoder and the call in C."""
    k, m = codec.k, codec.m
    one, one_coding = place.ones(k, length), place.ones(m, length)
    many, coding = list(one), list(one_coding)
    call = _arrays.Call(0)
    sources, targets = call.take("data", one, k, ""), call.take("coding", one_coding, m, "", written=True)
    encode = (codec._codec, 1, sources, targets, length)
    shards = dict(enumerate([*many, *coding]))
    del shards[1]
    have = list(shards)
    decode = (codec._codec, 1, (_arrays.ctypes.c_uint * len(have))(*have), len(have),
              (_interface.Place * len(have))(*[[*sources, *targets][c] for c in have]), (_arrays.ctypes.c_uint * 1)(1), 1,
              (_interface.Place * 1)(sources[1]), length)
    yield "encode, one array", 1, lambda: codec.encode(one, one_coding), lambda: _interface.encode(*encode)
    yield "encode, a list", 1, lambda: codec.encode(many, coding), lambda: _interface.encode(*encode)
    yield "decode one, a list", 1, lambda: codec.decode(shards, [1], [many[1]]), lambda: _interface.decode(*decode)
    if place.stream:
        stream, handle = place.stream, place.stream.cuda_stream
        place.finish()
        yield ("encode_async x 20, one array", 20, lambda: codec.encode_async(one, one_coding, stream),
               lambda: _interface.encode_async(*encode, handle))
        yield ("encode_async x 20, a list", 20, lambda: codec.encode_async(many, coding, stream),
               lambda: _interface.encode_async(*encode, handle))
        yield ("decode_async x 20, a list", 20, lambda: codec.decode_async(shards, [1], [many[1]], stream),
               lambda: _interface.decode_async(*decode, handle))
    else:
        yield "encode, new arrays", 1, lambda: codec.encode(one), lambda: _interface.encode(*encode)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--mib", default="64", help="of a chunk")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--host", action="store_true")
    options = parser.parse_args()
    place = not options.host and gpu() or host()
    for mib in options.mib.split(","):
        length = int(float(mib) * 2**20)
        for name, repeats, python, c in pairs_of(CODEC, place, length):
            ours, theirs, ratio = measured(place, options.rounds, repeats, (python, c))
            print(f"{place.name}  8+2  {length:>11} bytes  {name:<28} {ours * 1e6:>11.1f} us in C {theirs * 1e6:>11.1f} us  "
                  f"ratio {ratio:.3f}  {CODEC.k * length / ours / 1e9:.1f} GB/s", flush=True)


if __name__ == "__main__":
    main()
