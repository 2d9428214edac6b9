"""Reed-Solomon erasure coding in host, pinned and GPU memory, by libeccoder.

k data chunks and the m coding chunks made from them form a stripe; any k of the k + m give back the rest.

    codec = eccoder.Codec(8, 3, "cauchy")
    coding = codec.encode(data)                                 # 8 buffers or arrays in, 3 out
    [chunk] = codec.decode({1: .., 2: .., 10: ..}, wanted=[0])  # from any 8 that are left
"""
from ._codec import Accumulator, Codec, Verdict, coding_matrix, identify
from ._interface import Error, InvalidArgument, version

__all__ = ["Accumulator", "Codec", "Error", "InvalidArgument", "Verdict", "coding_matrix", "identify"]
__version__: str = version().decode().replace("~", ".")  # PEP 440 has no tilde
