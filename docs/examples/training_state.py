#!/usr/bin/env python3
"""Protects a training state that several ranks hold: one rank's shard is lost and made anew from the others.

Each of k ranks keeps its part of the state (weights, and an optimizer's two moments) in one flat tensor, and its tensors
are views into that. m more tensors hold the coding chunks. All lie in the memory of one GPU where PyTorch has one, else in
host memory, by NumPy. Nothing is copied: the library reads and writes the tensors where they are.

usage: training_state.py [--gib GIB] [--k K] [--m M] [--lose RANK] [--rounds N] [--host]
Exit status: 0 made anew, 1 not.
"""
import argparse
import time

import eccoder


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--gib", type=float, default=0.25, help="of the whole state")
    parser.add_argument("--k", type=int, default=8, help="ranks")
    parser.add_argument("--m", type=int, default=2, help="how many may be lost")
    parser.add_argument("--lose", type=int, default=3, help="this one")
    parser.add_argument("--rounds", type=int, default=9, help="of which the median is reported")
    parser.add_argument("--host", action="store_true", help="host memory, though there is a GPU")
    options = parser.parse_args()
    if not 0 <= options.lose < options.k:
        parser.error(f"--lose {options.lose}: ranks are numbered 0 to {options.k - 1}")
    return options


class OnGpu:
    """Tensors of PyTorch."""

    def __init__(self):
        import torch

        if not torch.cuda.is_available():
            raise ImportError("no GPU")
        self.name, self.float32, self.bfloat16 = torch.cuda.get_device_name(), torch.float32, torch.bfloat16
        self.empty = lambda count: torch.empty(count, dtype=torch.uint8, device="cuda")
        self.fill = lambda tensor, seed: tensor.normal_(generator=torch.Generator("cuda").manual_seed(seed))
        self.equal, self.finish = torch.equal, torch.cuda.synchronize

    def copy(self, to, source):
        to.copy_(source)


class OnHost:
    """Arrays of NumPy."""

    def __init__(self):
        import numpy

        self.name, self.float32, self.bfloat16 = "host memory", numpy.float32, numpy.float16
        self.empty = lambda count: numpy.empty(count, numpy.uint8)
        self.equal, self.finish = numpy.array_equal, lambda: None
        self.random = numpy.random.default_rng

    def fill(self, tensor, seed):
        tensor[:] = self.random(seed).standard_normal(len(tensor), "f4")

    def copy(self, to, source):
        to[:] = source


def memory(host):
    if not host:
        try:
            return OnGpu()
        except ImportError:
            pass
    return OnHost()


def state_in(flat, weights, place):
    """A rank's tensors: 2 bytes of each weight in half precision, and 4 each of two moments."""
    return {
        "weights": flat[: 2 * weights].view(place.bfloat16),
        "first moment": flat[2 * weights: 6 * weights].view(place.float32),
        "second moment": flat[6 * weights:].view(place.float32),
    }


def median_time(place, rounds, work):
    times = []
    for _ in range(rounds + 1):  # the first one is thrown away
        place.finish()
        begin = time.perf_counter()
        work()
        place.finish()
        times.append(time.perf_counter() - begin)
    return sorted(times[1:])[rounds // 2]


def main():
    options = parsed()
    place = memory(options.host)
    k, m, lost = options.k, options.m, options.lose
    weights = int(options.gib * 2**30) // (10 * k) // 512 * 512
    ranks = [place.empty(10 * weights) for _ in range(k)]
    for rank, flat in enumerate(ranks):
        for part, tensor in enumerate(state_in(flat, weights, place).values()):
            place.fill(tensor, 3 * rank + part)

    codec = eccoder.Codec(k, m, "cauchy")
    coding = codec.encode(ranks)  # after each checkpoint, or each step
    encode = median_time(place, options.rounds, lambda: codec.encode(ranks, coding))

    expected = place.empty(10 * weights)
    place.copy(expected, ranks[lost])
    place.copy(ranks[lost], coding[0])  # the rank is gone, and its memory is used for something else
    shards = dict(enumerate([*ranks, *coding]))
    del shards[lost]
    decode = median_time(place, options.rounds, lambda: codec.decode(shards, [lost], [ranks[lost]]))
    intact = place.equal(expected, ranks[lost])
    copy = median_time(place, options.rounds, lambda: place.copy(expected, ranks[lost]))

    size = 10 * weights
    print(f"{k}+{m} shards of {size} bytes in {place.name}; GB/s of bytes read and written")
    print(f"  encode all                  {(k + m) * size / encode / 1e9:8.1f}")
    print(f"  make shard {lost} anew          {(k + 1) * size / decode / 1e9:8.1f}")
    print(f"  copy a shard, to compare    {2 * size / copy / 1e9:8.1f}")
    print("the shard is what it was" if intact else "the shard differs")
    return 0 if intact else 1


if __name__ == "__main__":
    raise SystemExit(main())
