"""PyTorch, CuPy, JAX and Numba on a GPU. Not part of the build's tests: run it by hand on a machine with one,

    EC_LIBRARY=.. PYTHONPATH=python python3 -m pytest -rs -s tests/python/gpu_test.py

What needs no such system is in device_test.py: where chunks lie, and what is refused. speed.py says how fast calls are.
"""
import functools
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import device_test
import numpy
import pytest
from device_test import CHUNKS, CODEC, DATA, LENGTH
from reference import encoded

import eccoder

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

context = device_test.context  # a fixture


def of_torch(content, dtype=torch.uint8):
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).cuda().view(dtype)


ON_DEVICE: dict[str, Callable] = {str(dtype): functools.partial(of_torch, dtype=dtype) for dtype in (
    torch.uint8, torch.bool, torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64, torch.complex64)}
try:
    import cupy
    ON_DEVICE["cupy"] = lambda content: cupy.asarray(numpy.frombuffer(content, "f4"))
except ImportError:
    cupy = None
try:
    from numba import cuda  # speaks __cuda_array_interface__ alone
    ON_DEVICE["numba"] = lambda content: cuda.to_device(numpy.frombuffer(content, "f4"))
except ImportError:
    pass
FOR_STREAMS = {**ON_DEVICE, "pinned": lambda content: of_torch(content).cpu().pin_memory()}
KINDS = {**FOR_STREAMS, "pageable": lambda content: of_torch(content, torch.int16).cpu(), "own": device_test.Versioned, "bytearray": bytearray}
STREAMS = [torch.cuda.ExternalStream] + [cupy.cuda.ExternalStream] * bool(cupy)


def content(array):
    if isinstance(array, (bytearray, device_test.Memory)):
        return device_content(array)
    array = array.copy_to_host() if hasattr(array, "copy_to_host") else array
    return torch.as_tensor(array).contiguous().view(torch.uint8).cpu().numpy().tobytes()


device_content, device_test.content = device_test.content, content


@pytest.mark.parametrize("of_targets", KINDS)
@pytest.mark.parametrize("of_sources", KINDS)
def test_encodes_decodes_and_updates(of_sources, of_targets):
    device_test.test_encodes_decodes_and_updates(KINDS[of_sources], KINDS[of_targets])


@pytest.mark.parametrize("kind", FOR_STREAMS)
@pytest.mark.parametrize("stream", STREAMS)
def test_on_a_stream(kind, stream):
    device_test.test_on_a_stream(FOR_STREAMS[kind], stream)


@pytest.mark.parametrize("kind", [kind for kind in ON_DEVICE if kind != "numba"])
def test_makes_chunks_like_the_data(kind):
    data = [ON_DEVICE[kind](chunk) for chunk in DATA]
    stack = cupy.stack if kind == "cupy" else torch.stack
    for made in (CODEC.encode(data), CODEC.encode(stack(data)), CODEC.decode(dict(enumerate(map(ON_DEVICE[kind], CHUNKS[:4]))), [4, 5])):
        assert [(type(chunk), chunk.dtype, chunk.device) for chunk in made] == [(type(data[0]), data[0].dtype, data[0].device)] * 2
        assert [content(chunk) for chunk in made] == CHUNKS[4:]
    stripe = torch.zeros((6, LENGTH + 32), dtype=torch.uint8, device="cuda")[:, :-32]
    for row, chunk in zip(stripe[:4], DATA):
        row.copy_(of_torch(chunk))
    CODEC.encode(stripe[:4], stripe[4:])
    assert [content(row) for row in stripe] == CHUNKS


# Some hundredths of a second.
CYCLES = 100_000_000


def test_what_streams_have_to_write_comes_first():
    """A call that does not wait codes zeros."""
    stream, other = torch.cuda.Stream(), torch.cuda.Stream()
    calls = [CODEC.encode, *(functools.partial(CODEC.encode_async, stream=given) for given in (stream, other, other.cuda_stream, 0))]
    kinds = [of_torch] * len(calls)
    if cupy:
        calls += [CODEC.encode, functools.partial(CODEC.encode_async, stream=cupy.cuda.ExternalStream(stream.cuda_stream))]
        kinds += [ON_DEVICE["cupy"]] * 2
    for call, kind in zip(calls, kinds):
        content_of = [kind(chunk) for chunk in DATA]
        data, coding = [kind(bytes(LENGTH)) for _ in DATA], [kind(bytes(LENGTH)) for _ in range(2)]
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES)
            if kind is of_torch:
                for to, chunk in zip(data, content_of):
                    to.copy_(chunk)
                call(data, coding)
            else:
                with cupy.cuda.ExternalStream(stream.cuda_stream):
                    for to, chunk in zip(data, content_of):
                        to[:] = chunk
                    call(data, coding)
        torch.cuda.synchronize()
        assert [content(chunk) for chunk in coding] == CHUNKS[4:], call


def test_in_a_graph():
    """In which nothing waits: that would end the capture."""
    data, coding = [of_torch(bytes(LENGTH)) for _ in DATA], [of_torch(bytes(LENGTH)) for _ in range(2)]
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    CODEC.encode_async(data, coding, stream)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        CODEC.encode_async(data, coding, stream)
    for to, chunk in zip(data, DATA):
        to.copy_(of_torch(chunk))
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    assert [content(chunk) for chunk in coding] == CHUNKS[4:]


def test_refuses():
    data = [of_torch(chunk, torch.float32) for chunk in DATA]
    with pytest.raises(eccoder.InvalidArgument, match=r"data\[0\]: .*grad"):
        CODEC.encode([chunk.requires_grad_() for chunk in data])
    data = [chunk.detach() for chunk in data]
    conjugate = of_torch(DATA[0], torch.complex64).conj()
    for bit, lazy in (("conjugate", conjugate), ("negative", conjugate.imag)):
        for name, call in (("data", lambda: CODEC.encode([lazy] * 4)), ("data", lambda: CODEC.encode([lazy] * 4, data[:2])),
                           ("coding", lambda: CODEC.encode(data, [lazy] * 2)), ("data", lambda: CODEC.encode_async([lazy] * 4, data[:2], 0))):
            with pytest.raises(eccoder.InvalidArgument, match=rf"{name}\[0\]: a tensor with the {bit} bit set"):
                call()
        value = lazy.resolve_neg().resolve_conj()
        assert [content(chunk) for chunk in CODEC.encode([value] * 4)] == encoded("cauchy", [content(value)] * 4, 2)[4:]


def test_jax():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    jax = pytest.importorskip("jax")
    data = [jax.device_put(numpy.frombuffer(chunk, "f4")) for chunk in DATA]
    if data[0].__dlpack_device__()[0] != 2:
        pytest.skip("JAX sees no GPU here")
    coding = [of_torch(bytes(LENGTH)) for _ in range(2)]
    CODEC.encode(data, coding)
    assert [content(chunk) for chunk in coding] == CHUNKS[4:]
    with pytest.raises(eccoder.InvalidArgument, match="coding is not given, and for an array of type ArrayImpl none can be made"):
        CODEC.encode(data)


def test_training_state(capsys):
    example = pathlib.Path(__file__).parents[2] / "docs" / "examples" / "training_state.py"
    done = subprocess.run([sys.executable, example, "--gib", "16"], capture_output=True, text=True)
    with capsys.disabled():
        print("\n" + done.stdout)
    assert done.returncode == 0, done.stderr
    assert "host memory" not in done.stdout
