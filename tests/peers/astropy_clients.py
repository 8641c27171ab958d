# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Packages that read compressed images through astropy, unchanged, with and without our codecs.

    python tests/peers/astropy_clients.py [--here]

sunpy makes maps of compressed files, cuts, resamples, reprojects and saves them; ccdproc combines
them; reproject makes a mosaic; astropy.nddata reads them and cuts out. Everything that comes out,
pixels, metadata and files, must be equal bit by bit, and the adapter must have decoded tiles.

Runs in a virtual environment that is made for it, unless all of the packages are installed. With
--here those that are not are left out.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from astropy import units as u
from astropy.io import fits
from astropy.wcs import WCS

SHAPE = (300, 320)
PACKAGES = {"sunpy": "sunpy[map]", "ccdproc": "ccdproc", "reproject": "reproject>=0.13"}


def solar_header():
    """Where a telescope in orbit around the Earth saw the Sun."""
    return fits.Header({
        "CTYPE1": "HPLN-TAN", "CUNIT1": "arcsec", "CDELT1": 7.2, "CRPIX1": 160.5, "CRVAL1": 0.0,
        "CTYPE2": "HPLT-TAN", "CUNIT2": "arcsec", "CDELT2": 7.2, "CRPIX2": 150.5, "CRVAL2": 0.0,
        "CROTA2": 0.4, "DATE-OBS": "2014-10-30T12:00:00.34", "TELESCOP": "SDO/AIA",
        "INSTRUME": "AIA_3", "WAVELNTH": 171, "WAVEUNIT": "angstrom", "EXPTIME": 2.0,
        "HGLN_OBS": 0.0, "HGLT_OBS": 4.5, "DSUN_OBS": 1.485e11, "RSUN_REF": 6.96e8,
        "BUNIT": "ct", "LVL_NUM": 1.5,
    })  # fmt: skip


def sky_header(crval1=202.0):
    return fits.Header({
        "CTYPE1": "RA---TAN", "CUNIT1": "deg", "CDELT1": -0.001, "CRPIX1": 160, "CRVAL1": crval1,
        "CTYPE2": "DEC--TAN", "CUNIT2": "deg", "CDELT2": 0.001, "CRPIX2": 150, "CRVAL2": 47.0,
        "BUNIT": "adu", "IMAGETYP": "LIGHT",
    })  # fmt: skip


def pixels(dtype, seed=0):
    """A noisy disc with spots; floats have undefined pixels."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    disc = 300 + 900 * (np.hypot(y - 150, x - 160) < 135) + rng.normal(0, 12, SHAPE)
    for cy, cx in rng.integers(40, 260, (15, 2)):
        disc += 2000 * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / 20)
    disc = disc.astype(dtype)
    if disc.dtype.kind == "f":
        disc[20:24, 30:50] = np.nan
    return disc


def write_files(folder):
    """Compressed images as astropy writes them; gives their paths by name."""
    kinds = {
        "int16": ("i2", {}),
        "float32": ("f4", {"quantize_method": 2, "dither_seed": 5}),
        "hcompress": ("i4", {"compression_type": "HCOMPRESS_1", "tile_shape": (50, 64)}),
        "float64": ("f8", {"compression_type": "GZIP_2", "quantize_level": 0}),
    }
    paths = {}
    for i, (name, (dtype, options)) in enumerate(kinds.items()):
        for what, header in (("sun", solar_header()), ("sky", sky_header(202.0 + 0.05 * i))):
            path = paths[f"{what} {name}"] = folder / f"{what}_{name}.fits"
            fits.CompImageHDU(pixels(dtype, i), header, **options).writeto(path)
    return paths


def run_sunpy(paths, folder):
    """Maps of the Sun."""
    import sunpy.map
    from astropy.coordinates import SkyCoord

    for name in ("sun int16", "sun float32", "sun hcompress", "sun float64"):
        made = sunpy.map.Map(paths[name])
        assert type(made).__name__ == "AIAMap"
        yield f"{name} data", made.data
        yield f"{name} meta", dict(made.meta)
        corners = SkyCoord([-400, 400] * u.arcsec, [-300, 500] * u.arcsec,
                           frame=made.coordinate_frame)  # fmt: skip
        cut = made.submap(corners[0], top_right=corners[1])
        yield f"{name} submap", cut.data
        yield f"{name} resampled", made.resample([80, 75] * u.pixel).data
        target = made.resample([160, 150] * u.pixel).wcs
        yield f"{name} reprojected", made.reproject_to(target).data
        path = folder / "saved.fits"
        cut.save(path, hdu_type=fits.CompImageHDU, overwrite=True)
        yield f"{name} saved", path.read_bytes()
        yield f"{name} read again", sunpy.map.Map(path).data


def run_ccdproc(paths, folder):
    """Frames of a camera."""
    import ccdproc

    names = ["sky int16", "sky float32", "sky hcompress"]
    frames = [ccdproc.CCDData.read(paths[name], hdu=1) for name in names]
    for name, frame in zip(names, frames, strict=True):
        yield f"{name} data", frame.data
        yield f"{name} header", frame.header.tostring()
    dark = ccdproc.CCDData(np.full(SHAPE, 3.0), unit="adu")
    less = [ccdproc.subtract_bias(frame, dark) for frame in frames]
    yield "combined", ccdproc.combine(less, method="average", sigma_clip=True).data
    files = ccdproc.ImageFileCollection(folder.parent, glob_include="sky_*.fits", ext=1)
    yield "collection", [hdu.data.tobytes() for hdu in files.hdus(imagetyp="LIGHT")]


def run_reproject(paths, folder):
    """A mosaic of images with different centres."""
    from reproject import reproject_interp
    from reproject.mosaicking import reproject_and_coadd

    names = ["sky int16", "sky float32", "sky hcompress", "sky float64"]
    wcs = WCS(sky_header(202.1))
    for name in names:
        yield name, reproject_interp(str(paths[name]), wcs, shape_out=SHAPE, hdu_in=1)[0]
    mosaic, weight = reproject_and_coadd(
        [str(paths[name]) for name in names], wcs, shape_out=SHAPE, hdu_in=1,
        reproject_function=reproject_interp,
    )  # fmt: skip
    yield "mosaic", mosaic
    yield "weight", weight


def run_nddata(paths, folder):
    """Data with units, and cutouts that read a section only."""
    from astropy.nddata import CCDData, Cutout2D

    for name in ("sky int16", "sky float32", "sky hcompress", "sky float64"):
        data = CCDData.read(paths[name], hdu=1)
        yield f"{name} data", data.data
        path = folder / "nddata.fits"
        data.write(path, overwrite=True)
        yield f"{name} written", path.read_bytes()
        with fits.open(paths[name]) as hdus:
            cut = Cutout2D(hdus[1].section, (150, 140), (61, 40), wcs=WCS(hdus[1].header))
            yield f"{name} cutout", cut.data
            yield f"{name} cutout's WCS", cut.wcs.to_header_string()


# What is needed, and what is run.
CLIENTS = {
    "sunpy": (["sunpy", "reproject"], run_sunpy),
    "ccdproc": (["ccdproc"], run_ccdproc),
    "reproject": (["reproject"], run_reproject),
    "astropy.nddata": ([], run_nddata),
}


def equal(a, b):
    """Whether two results are the same: bits, types and all."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and same_values(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(repr(a[key]) == repr(b[key]) for key in a)
    return a == b


def same_values(a, b):
    nan = np.isnan(a)
    return np.array_equal(nan, np.isnan(b)) and a[~nan].tobytes() == b[~nan].tobytes()


def examine(client, paths, folder):
    """Run a client both ways; gives the number of faults."""
    from fitscodecs.adapters import astropy as fca

    _, function = CLIENTS[client]
    start = time.perf_counter()
    without = list(function(paths, folder))
    before = fca.counts()
    with fca.enabled():
        with_ = list(function(paths, folder))
    decoded, encoded = (b - a for a, b in zip(before, fca.counts(), strict=True))
    faults = [f"no tile was decoded by the adapter ({client})"] if not decoded else []
    if [name for name, _ in without] != [name for name, _ in with_]:
        faults.append("other results")
    for (name, a), (_, b) in zip(without, with_, strict=False):
        if not equal(a, b):
            faults.append(f"{name} differs")
    module = sys.modules[client.partition(".")[0]]
    label = f"{client} {module.__version__}"
    print(f"{label:<24}{len(without):>8}{len(without) - len(faults):>7}{decoded:>9}{encoded:>9}"
          f"{time.perf_counter() - start:>9.1f}", flush=True)  # fmt: skip
    for fault in faults:
        print(f"    FAULT: {fault}")
    return len(faults)


def examine_all():
    """Run all clients that are installed, in this process."""
    warnings.simplefilter("ignore")
    nfaults = 0
    print(f"{'client':<24}{'results':>8}{'equal':>7}{'decoded':>9}{'encoded':>9}{'seconds':>9}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_files(folder)
        scratch = folder / "scratch"
        scratch.mkdir()
        for client, (modules, _) in CLIENTS.items():
            missing = [module for module in modules if not importlib.util.find_spec(module)]
            if missing:
                print(f"{client} is left out: {', '.join(missing)} is not installed")
            else:
                nfaults += examine(client, paths, scratch)
    return nfaults > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--here", action="store_true", help="with what is installed")
    options = parser.parse_args()
    if options.here or all(importlib.util.find_spec(module) for module in PACKAGES):
        return examine_all()
    from venvs import build_wheel, make_venv

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = make_venv(folder / "clients", [*PACKAGES.values(), build_wheel(folder)])
        return subprocess.run([str(python), __file__, "--here"], cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
