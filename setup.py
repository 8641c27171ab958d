# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The one extension module: _native.pyx and every C file of the library."""

import os
import shlex
import subprocess
import sys
import sysconfig
from glob import glob

from setuptools import Extension, setup

# One binary for Python 3.11 and later, where the interpreter has a stable ABI at all.
free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
limited = not free_threaded
macros = [("Py_LIMITED_API", "0x030B0000"), ("CYTHON_LIMITED_API", "1")] if limited else []

# -ffp-contract=off: the arithmetic of the standard is two roundings, never a fused one.
flags = ["/O2", "/std:c11"] if sys.platform == "win32" else ["-O3", "-std=c11", "-ffp-contract=off"]


def pkg_config(*request):
    """What pkg-config says, as a list of words; None if it or the library is not there."""
    command = [*shlex.split(os.environ.get("PKG_CONFIG", "pkg-config")), *request]
    try:
        return shlex.split(subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True))
    except (OSError, subprocess.CalledProcessError):
        return None


# libdeflate inflates and deflates GZIP tiles in C, if it is found. FITSCODECS_NO_LIBDEFLATE=1
# builds without it: then Python does that.
links = []
if not os.environ.get("FITSCODECS_NO_LIBDEFLATE"):
    found = pkg_config("--cflags", "--libs", "libdeflate >= 1.0")
    if found is not None:
        macros.append(("FITSCODECS_LIBDEFLATE", "1"))
        flags += [word for word in found if not word.startswith(("-l", "-L", "-Wl,"))]
        links += [word for word in found if word.startswith(("-l", "-L", "-Wl,"))]
    print("fitscodecs: libdeflate", "found" if found is not None else "not found", file=sys.stderr)

setup(
    ext_modules=[
        Extension(
            "fitscodecs._native",
            sources=["fitscodecs/_native.pyx", *sorted(glob("cextern/fitscodecs/*.c"))],
            depends=sorted(glob("cextern/fitscodecs/*.h")),
            include_dirs=["cextern/fitscodecs"],
            define_macros=macros,
            extra_compile_args=flags,
            extra_link_args=links,
            py_limited_api=limited,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if limited else {},
)
