"""The package as it is installed, its types, and how it finds the library."""
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

SOURCE = pathlib.Path(__file__).parents[2]
USE = textwrap.dedent("""
    import array, pathlib, sys
    import numpy
    import eccoder

    codec: eccoder.Codec = eccoder.Codec(4, 2, "cauchy")
    data = numpy.ones((4, 64), numpy.uint8)
    coding = codec.encode(data)
    codec.encode([b"1", bytearray(b"2"), memoryview(b"3"), array.array("b", [4])], [bytearray(1), bytearray(1)])
    assert (codec.decode({0: data[0], 1: data[1], 4: coding[0], 5: coding[1]}, [2, 3])[1] == 1).all()
    try:
        codec.update(1, b"", [])
    except eccoder.InvalidArgument as error:
        number: int = error.errno
    print(pathlib.Path(eccoder.__file__).parent, eccoder.__version__)
""")


def python(*arguments, **environment):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd="/", env={**os.environ, **environment})


def test_installed(tmp_path):
    for component in ("library", "python"):
        subprocess.run([os.environ["EC_CMAKE"], "--install", os.environ["EC_BUILD"], "--prefix", "/prefix", "--component", component],
                       check=True, capture_output=True, env={**os.environ, "DESTDIR": str(tmp_path)})
    [package] = [path.parent for path in tmp_path.rglob("eccoder/__init__.py")]
    names = sorted(path.name for path in (SOURCE / "python" / "eccoder").iterdir() if path.name != "__pycache__")
    assert sorted(path.name for path in package.iterdir()) == names and "py.typed" in names
    [library] = tmp_path.rglob("libeccoder.so.0")
    # By its name, where the linker looks for it.
    used = python("-c", USE, PYTHONPATH=str(package.parent), EC_LIBRARY="", LD_LIBRARY_PATH=str(library.parent))
    assert (used.returncode, used.stdout.split()[0]) == (0, str(package)), used.stderr


def test_says_that_there_is_no_library():
    used = python("-c", "import eccoder", EC_LIBRARY="/nothing/here.so")
    assert used.returncode == 1
    assert used.stderr.endswith("cannot open /nothing/here.so: /nothing/here.so: cannot open shared object file: No such file or "
                                "directory; install libeccoder, or name its file by EC_LIBRARY\n")
    used = python("-c", "import eccoder", EC_LIBRARY="libc.so.6")
    assert used.stderr.endswith("ImportError: libc.so.6 has no function ec_encode; install the libeccoder of this release, or name its file by "
                                "EC_LIBRARY\n")


def test_types(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(USE)
    (tmp_path / "misuse.py").write_text("import eccoder\neccoder.Codec(4, 2).encode([1, 2, 3, 4])\n")
    check = ("-m", "mypy", "--strict", "--python-version", "3.9", "--cache-dir", str(tmp_path / "cache"))
    strict = python(*check, str(SOURCE / "python" / "eccoder"))
    assert strict.returncode == 0, strict.stdout
    # NumPy's own hints are of newer Pythons.
    use = python(*check[:3], *check[5:], str(tmp_path / "use.py"), MYPYPATH=str(SOURCE / "python"))
    assert use.returncode == 0, use.stdout
    misuse = python(*check, str(tmp_path / "misuse.py"), MYPYPATH=str(SOURCE / "python"))
    assert misuse.returncode == 1 and "incompatible type" in misuse.stdout, misuse.stdout
