# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""The one extension module: _native.pyx and every C file of the library."""

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

setup(
    ext_modules=[
        Extension(
            "fitscodecs._native",
            sources=["fitscodecs/_native.pyx", *sorted(glob("cextern/fitscodecs/*.c"))],
            depends=sorted(glob("cextern/fitscodecs/*.h")),
            include_dirs=["cextern/fitscodecs"],
            define_macros=macros,
            extra_compile_args=flags,
            py_limited_api=limited,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if limited else {},
)
