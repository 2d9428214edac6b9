"""PyTorch, CuPy, JAX and Numba on a GPU. Not part of the build's tests: run it by hand on a machine with one,

    EC_LIBRARY=.. PYTHONPATH=python python3 -m pytest -rs -s tests/python/gpu_test.py

What needs no such system is in device_test.py: where chunks lie, and what is refused. speed.py says how fast calls are.
"""
import os
import pathlib
import subprocess
import sys

import numpy
import pytest
import reference

import eccoder

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

LENGTH = 1 << 20
CODEC = eccoder.Codec(4, 2, "cauchy")


@pytest.fixture
def chunks():
    draw = numpy.random.default_rng(1)
    return reference.encoded("cauchy", [draw.bytes(LENGTH) for _ in range(4)], 2)


def of_torch(content, dtype=torch.float32):
    return torch.frombuffer(bytearray(content), dtype=torch.uint8).cuda().view(dtype)


def content(array):
    if isinstance(array, torch.Tensor):
        return array.contiguous().view(torch.uint8).cpu().numpy().tobytes()
    return array.get().tobytes() if hasattr(array, "get") else bytes(array)


DTYPES = [torch.uint8, torch.bool, torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int64, torch.complex64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_torch(chunks, dtype):
    data = [of_torch(chunk, dtype) for chunk in chunks[:4]]
    coding = CODEC.encode(data)
    assert [content(chunk) for chunk in coding] == chunks[4:]
    assert all(chunk.is_cuda and chunk.dtype == dtype for chunk in coding)
    made = CODEC.decode({0: data[0], 2: data[2], 4: coding[0], 5: coding[1]}, [3, 1])
    assert [content(chunk) for chunk in made] == [chunks[3], chunks[1]]
    CODEC.update(0, torch.zeros_like(data[0]), coding)
    assert [content(chunk) for chunk in coding] == chunks[4:]


def test_one_tensor_of_all_chunks(chunks):
    stripe = torch.zeros((6, LENGTH // 4 + 8), device="cuda")[:, :-8]
    for row, chunk in zip(stripe[:4], chunks):
        row.copy_(of_torch(chunk))
    assert CODEC.encode(stripe[:4], stripe[4:]) is not None
    made = CODEC.encode(stripe[:4])
    assert made.shape == (2, LENGTH // 4) and made.is_cuda
    assert [content(row) for row in stripe] == chunks and [content(row) for row in made] == chunks[4:]


def test_memory_of_many_kinds(chunks):
    """Pinned, pageable and of the GPU in one call."""
    pinned = torch.frombuffer(bytearray(chunks[1]), dtype=torch.uint8).pin_memory()
    data = [of_torch(chunks[0]), pinned, chunks[2], torch.frombuffer(bytearray(chunks[3]), dtype=torch.int16)]
    coding = [torch.empty(LENGTH, dtype=torch.uint8).pin_memory(), bytearray(LENGTH)]
    CODEC.encode(data, coding)
    assert [content(chunk) for chunk in coding] == chunks[4:]
    on_stream = [chunk.pin_memory() for chunk in map(torch.empty_like, coding[:1] * 2)]
    stream = torch.cuda.Stream()
    CODEC.encode_async([of_torch(chunks[0]), pinned, of_torch(chunks[2]), of_torch(chunks[3])], on_stream, stream)
    stream.synchronize()
    assert [content(chunk) for chunk in on_stream] == chunks[4:]


# Some hundredths of a second.
CYCLES = 100_000_000


def test_what_streams_have_to_write_comes_first(chunks):
    """A call that does not wait codes zeros."""
    stream, other = torch.cuda.Stream(), torch.cuda.Stream()
    content_of = [of_torch(chunk) for chunk in chunks]
    for encode in (lambda data, coding: CODEC.encode(data, coding),
                   lambda data, coding: CODEC.encode_async(data, coding, stream),
                   lambda data, coding: CODEC.encode_async(data, coding, other),
                   lambda data, coding: CODEC.encode_async(data, coding, other.cuda_stream),
                   lambda data, coding: CODEC.encode_async(data, coding, 0)):
        data, coding = [torch.zeros_like(chunk) for chunk in content_of[:4]], [torch.zeros_like(chunk) for chunk in content_of[4:]]
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES)
            for to, chunk in zip(data, content_of):
                to.copy_(chunk)
            encode(data, coding)
        torch.cuda.synchronize()
        assert [content(chunk) for chunk in coding] == chunks[4:]


def test_in_a_graph(chunks):
    """In which nothing waits: that would end the capture."""
    data = [torch.zeros(LENGTH, dtype=torch.uint8, device="cuda") for _ in range(4)]
    coding = [torch.zeros_like(data[0]) for _ in range(2)]
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    CODEC.encode_async(data, coding, stream)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        CODEC.encode_async(data, coding, stream)
    for to, chunk in zip(data, chunks):
        to.copy_(of_torch(chunk, torch.uint8))
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    assert [content(chunk) for chunk in coding] == chunks[4:]


def test_refuses(chunks):
    data = [of_torch(chunk) for chunk in chunks[:4]]
    with pytest.raises(eccoder.InvalidArgument, match=r"data\[0\]: .*grad"):
        CODEC.encode([chunk.requires_grad_() for chunk in data])
    data = [chunk.detach() for chunk in data]
    conjugate = of_torch(chunks[0], torch.complex64).conj()
    for bit, lazy in (("conjugate", conjugate), ("negative", conjugate.imag)):
        for coding in (None, data[:2]):
            with pytest.raises(eccoder.InvalidArgument, match=rf"data\[0\]: a tensor with the {bit} bit set"):
                CODEC.encode([lazy] * 4, coding)
        with pytest.raises(eccoder.InvalidArgument, match=rf"coding\[0\]: a tensor with the {bit} bit set"):
            CODEC.encode(data, [lazy] * 2)
        with pytest.raises(eccoder.InvalidArgument, match=rf"data\[0\]: a tensor with the {bit} bit set"):
            CODEC.encode_async([lazy] * 4, data[:2], torch.cuda.current_stream())


def test_cupy(chunks):
    cupy = pytest.importorskip("cupy")
    data = [cupy.asarray(numpy.frombuffer(chunk, "f4")) for chunk in chunks[:4]]
    coding = CODEC.encode(data)
    assert [type(chunk) for chunk in coding] == [cupy.ndarray] * 2
    assert [content(chunk) for chunk in coding] == chunks[4:]
    made = CODEC.encode(cupy.stack(data))
    assert made.shape == (2, LENGTH // 4) and content(made) == b"".join(chunks[4:])
    stream = cupy.cuda.Stream(non_blocking=True)
    late = [cupy.zeros_like(chunk) for chunk in data]
    cupy.cuda.Device().synchronize()
    for call in (lambda: CODEC.encode(late, coding), lambda: CODEC.encode_async(late, coding, stream)):
        coding[0][:] = 0
        cupy.cuda.Device().synchronize()
        with stream:
            with torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
                torch.cuda._sleep(CYCLES)
            for to, chunk in zip(late, data):
                to[:] = chunk
            call()
        stream.synchronize()
        assert [content(chunk) for chunk in coding] == chunks[4:]


def test_jax(chunks):
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    jax = pytest.importorskip("jax")
    data = [jax.device_put(numpy.frombuffer(chunk, "f4")) for chunk in chunks[:4]]
    if data[0].__dlpack_device__()[0] != 2:
        pytest.skip("JAX sees no GPU here")
    coding = [torch.empty(LENGTH, dtype=torch.uint8, device="cuda") for _ in range(2)]
    CODEC.encode(data, coding)
    assert [content(chunk) for chunk in coding] == chunks[4:]
    with pytest.raises(eccoder.InvalidArgument, match="coding is not given, and for an array of type ArrayImpl none can be made"):
        CODEC.encode(data)
    try:
        CODEC.encode(data, [jax.numpy.zeros_like(data[0]) for _ in range(2)])
        print("\nJAX does not say that its arrays are read-only")
    except eccoder.InvalidArgument as error:
        print(f"\nJAX: {error}")


def test_numba(chunks):
    """Speaks __cuda_array_interface__ alone."""
    cuda = pytest.importorskip("numba.cuda")
    stream = cuda.stream()
    data = [cuda.to_device(numpy.frombuffer(chunk, "f4"), stream=stream) for chunk in chunks[:4]]
    assert not hasattr(data[0], "__dlpack__")
    coding = [cuda.device_array(LENGTH, "u1") for _ in range(2)]
    CODEC.encode(data, coding)
    assert [chunk.copy_to_host().tobytes() for chunk in coding] == chunks[4:]


def test_training_state(capsys):
    example = pathlib.Path(__file__).parents[2] / "docs" / "examples" / "training_state.py"
    done = subprocess.run([sys.executable, example, "--gib", "16"], capture_output=True, text=True)
    with capsys.disabled():
        print("\n" + done.stdout)
    assert done.returncode == 0, done.stderr
    assert "host memory" not in done.stdout
