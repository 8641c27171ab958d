# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""VirtualiZarr: a parser that makes virtual datasets of the images of FITS files."""

import os

import numpy as np
from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
from zarr.core.metadata.v3 import ArrayV3Metadata

from ..references import ALL, describe_source
from ..source import AHEAD_NBYTES, Source, not_longer
from ..virtual import Place, VirtualArray, VirtualGroup
from ..zarr_metadata import CODEC_NAME, metadata_v3, store_items

__all__ = ["FitsParser", "to_kerchunk"]

TARGETS = "fitscodecs_targets"


class FitsParser:
    """Parse a FITS file: ``open_virtual_dataset(url, registry=registry, parser=FitsParser())``.

    Each image, compressed or not, is a virtual array with one chunk, its HDU. Arrays of many files
    can be concatenated and stacked, whatever differs in their headers, as long as the images have
    one shape and type.

    Parameters
    ----------
    extension : None, int, str, (str, int) or list of these
        ``"*"``: all images. None: the first one with pixels. A position, 0 being the primary HDU;
        an EXTNAME; or an EXTNAME and EXTVER.
    scaled : bool
        Whether pixels are scaled by BSCALE, BZERO and BLANK, as `fitscodecs.open` does it. Else
        they are as stored, and the scaling is in CF attributes, of which xarray keeps those of the
        first file when it combines: only for files that are scaled alike.
    hints : bool
        Whether codecs are told how much to read at first, and the shape of tiles. That may save a
        request per image; but it differs from file to file, and VirtualiZarr concatenates only
        arrays whose codecs are equal.
    primary_attributes : bool
        Whether the cards of the primary HDU become attributes of the dataset.
    """

    def __init__(self, extension=ALL, *, scaled=True, hints=False, primary_attributes=True):
        self.extension = extension
        self.scaled = scaled
        self.hints = hints
        self.primary_attributes = primary_attributes

    def __repr__(self):
        settings = ", ".join(f"{key}={value!r}" for key, value in vars(self).items())
        return f"FitsParser({settings})"

    def __call__(self, url, registry):
        """A store with the arrays of a file.

        Parameters
        ----------
        url : str
        registry : obspec_utils.registry.ObjectStoreRegistry
            Knows the object store that has the URL.

        Returns
        -------
        virtualizarr.manifests.ManifestStore

        Raises
        ------
        HeaderError
            If this is no FITS file, has no such image, or one cannot be read.
        """
        store, path = registry.resolve(url)
        source = ObjectStoreSource(store, path, url)
        group = describe_source(
            source, url, self.extension, scaled=self.scaled,
            primary_attr_to_group=self.primary_attributes,
        ).group  # fmt: skip
        arrays = {name: manifest_array(array, self.hints) for name, array in group.arrays.items()}
        manifests = ManifestGroup(arrays, attributes=group.all_attributes)
        return ManifestStore(manifests, registry=registry)


def manifest_array(array, hints):
    """A `VirtualArray` as VirtualiZarr has it."""
    entries = {
        ".".join(map(str, at)): {"path": place.url, "offset": place.start, "length": place.nbytes}
        for at, place in array.places.items()
    }
    grid = tuple(-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True))
    metadata = ArrayV3Metadata.from_dict(metadata_v3(array, hints))
    return ManifestArray(metadata=metadata, chunkmanifest=ChunkManifest(entries, shape=grid))


class ObjectStoreSource(Source):
    """A file in an object store; the first request tells its size as well."""

    gap = 2**16

    def __init__(self, store, path, url):
        self.store, self.path, self.name = store, path, url
        answer = store.get(path, options={"range": (0, AHEAD_NBYTES)})
        self.info = facts(url, answer.meta)
        self._first = bytes(answer.buffer())
        if len(self._first) == self.info["size"]:
            self.whole = memoryview(self._first)

    @property
    def size(self):
        return self.info["size"]

    def read_range(self, start, stop):
        stop = max(start, min(stop, self.size))
        if start == stop:
            return b""
        data = self.store.get_range(self.path, start=start, end=stop)
        return not_longer(memoryview(data).cast("B"), start, stop, self.name)


def facts(url, meta):
    """What an object store tells of a file; of a local one what every other reader sees as well.

    The store makes an ETag of it, which is no one else's, and cuts its time to microseconds, which
    others round.
    """
    info = dict(meta)
    if local(url) == url:
        return info
    try:
        return {"size": info["size"], "mtime": os.stat(local(url)).st_mtime}
    except OSError:
        return {"size": info["size"]}


# ---------------------------------------------------------------------------- back to references


def to_kerchunk(dataset, zarr_format=3):
    """References of a virtual dataset that `FitsParser` made, combined or not.

    VirtualiZarr has ``dataset.vz.to_kerchunk``, which before its version 2.6 knows only the zarr
    format 2, and in that format leaves out the codec of FITS images, so that what is read is wrong.
    This keeps it, in both formats and in every version.

    Parameters
    ----------
    dataset : xarray.Dataset
        Its virtual variables are FITS images; others, such as coordinates, are put into the
        references as they are.
    zarr_format : int
        3 or 2.

    Returns
    -------
    dict
        With the keys ``version`` and ``refs``, as kerchunk has them in JSON.
    """
    arrays, literals = {}, {}
    for name, variable in dataset.variables.items():
        if isinstance(variable.data, ManifestArray):
            arrays[name] = virtual_array(name, variable)
        else:
            literals[name] = (literal(name, variable), variable.dims)
    attributes = dict(dataset.attrs)
    if targets := attributes.pop(TARGETS, None):
        attributes[TARGETS] = {local(url): known for url, known in targets.items()}
    group = VirtualGroup(attributes, arrays, literals=literals)
    return {"version": 1, "refs": dict(store_items(group, zarr_format))}


def virtual_array(name, variable):
    """The `VirtualArray` of a virtual variable."""
    metadata = variable.data.metadata
    codecs = [codec.to_dict() for codec in metadata.codecs]
    if [codec["name"] for codec in codecs] != [CODEC_NAME]:
        found = ", ".join(codec["name"] for codec in codecs)
        raise ValueError(f"variable {name} has the codecs {found}, wanted {CODEC_NAME} alone")
    configuration = codecs[0].get("configuration", {})
    attributes = dict(variable.attrs)
    undefined = "_FillValue" in attributes
    attributes.pop("_FillValue", None)
    tile_shape = attributes.pop("fitscodecs_tile_shape", None)
    return VirtualArray(
        shape=metadata.shape,
        chunks=metadata.chunk_grid.chunk_shape,
        dtype=variable.dtype,
        dims=variable.dims,
        fill_value=np.asarray(metadata.fill_value).item(),
        undefined=undefined,
        scaled=configuration.get("scaled", True),
        tile_shape=tile_shape and tuple(tile_shape),
        attributes=attributes,
        places={
            tuple(map(int, key.split("."))): Place(local(e["path"]), e["offset"], e["length"])
            for key, e in variable.data.manifest.dict().items()
        },
    )


def local(url):
    """A URL, or the path of a local file, as fsspec has it in references."""
    return url.removeprefix("file://") if url.startswith("file:///") else url


def literal(name, variable):
    """A variable in memory, if it is one that references can hold."""
    array = np.asarray(variable.data)
    if array.dtype.kind == "O" and all(isinstance(item, str) for item in array.ravel()):
        array = array.astype("U")
    if array.dtype.kind not in "biufU":
        raise ValueError(f"variable {name} of type {array.dtype}, wanted numbers or strings")
    return array
