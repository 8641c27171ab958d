# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The C library alone: its own tests in tests/c, strict warnings, and what it exports."""

import os
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

TESTS = Path(__file__).parent / "c"
LIBRARY = TESTS.parent.parent / "cextern" / "fitscodecs"
SOURCES = sorted(LIBRARY.glob("*.c"))
PROGRAMS = (
    "roundtrip",
    "checkkernels",
    "damage",
    "decode_tiles",
    "encode_tiles",
    "quantize",
    "gzip",
)
CC = os.environ.get("CC", "cc")
JOBS = min(os.cpu_count() or 1, 4)

# The one that builds everything, and the others that are no other name of it.
COMPILERS = [
    CC,
    *(
        name
        for name in ("gcc", "clang")
        if os.path.realpath(shutil.which(name) or name) != os.path.realpath(shutil.which(CC) or CC)
    ),
]

# Flags that have to work for a flavor of the Makefile to be built at all.
FLAVORS = {"check": ["-fsanitize=address,undefined"], "guard": []}


def run(*command, cwd=None):
    """Run a command, which has to succeed, and return what it prints."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=600,
    )
    assert done.returncode == 0, f"{shlex.join(map(str, command))}\n{done.stdout}"
    return done.stdout


def require_command(name):
    """Skip if there is no such command."""
    if shutil.which(name) is None:
        pytest.skip(f"no command {name}")


def require_compiler(compiler, folder, flags=()):
    """Skip if the compiler is missing, or cannot build and run a program with the flags."""
    require_command(shlex.split(compiler)[0])
    source, program = folder / "probe.c", folder / "probe"
    source.write_text(
        "int LLVMFuzzerTestOneInput(const unsigned char *p, unsigned long n);\n"
        "int LLVMFuzzerTestOneInput(const unsigned char *p, unsigned long n)\n"
        "{ return p == 0 && n == 1; }\n"
        "#ifndef FUZZER\nint main(void) { return 0; }\n#endif\n"
    )
    for command in (
        [*shlex.split(compiler), *flags, str(source), "-o", str(program)],
        [str(program), *(["-runs=1"] if "-DFUZZER" in flags else [])],
    ):
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            pytest.skip(f"{compiler} {' '.join(flags)}: no working programs\n{done.stderr}")


def make(build, *arguments):
    """Run make in tests/c."""
    return run(
        "make",
        "-f",
        TESTS / "Makefile",
        f"-j{JOBS}",
        f"BUILD={build}",
        f"CC={CC}",
        *arguments,
        cwd=build,
    )


@pytest.fixture(scope="module", params=FLAVORS)
def programs(request, tmp_path_factory):
    """Folder of the programs, built in one flavor."""
    build = tmp_path_factory.mktemp("tests_c")
    require_command("make")
    require_compiler(CC, build, FLAVORS[request.param])
    make(build, f"FLAVOR={request.param}", "programs")
    return build / request.param


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(programs, name):
    assert run(programs / name).startswith(f"{name}: ")


def test_all_programs_are_run():
    assert {path.stem for path in TESTS.glob("*.c")} == {*PROGRAMS, "fuzz"}


def test_corpus(programs):
    files = list((TESTS / "corpus").iterdir())
    assert len(files) > 50
    assert run(programs / "fuzz", TESTS / "corpus") == f"fuzz: {len(files)} cases\n"


def test_fuzz(tmp_path):
    require_command("make")
    require_compiler("clang", tmp_path, ["-DFUZZER", "-fsanitize=fuzzer,address,undefined"])
    assert "DONE" in make(tmp_path, "CLANG=clang", "RUNS=20000", "SECONDS=0", "fuzz")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_library_alone(compiler, tmp_path):
    """It compiles without a warning, and all names that it exports are its own."""
    require_compiler(compiler, tmp_path)
    require_command("nm")
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-c"]
    command = [*shlex.split(compiler), *flags]
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(lambda source: run(*command, source, cwd=tmp_path), SOURCES))
    listing = run("nm", "-g", *sorted(tmp_path.glob("*.o"))).splitlines()
    names = {line.split()[2].lstrip("_") for line in listing if len(line.split()) == 3}
    assert {"fitscodecs_codecs", "fitscodecs_init"} <= names
    assert [name for name in names if not name.startswith("fitscodecs_")] == []
