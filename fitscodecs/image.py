# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""TiledImage: an image HDU that is decoded where it is looked at."""

import math

import numpy as np

from .codecs.buffers import receive
from .errors import DecodeError, FitsCodecsError, HeaderError
from .grid import gather, normalize, plan
from .hdu import find, walk
from .header import image_structure, is_compressed
from .pixels import decode_block, decode_points
from .restore import image_header
from .source import coalesce, open_source
from .table import make_table
from .threads import number_of_threads
from .tile import Streams

__all__ = ["TiledImage", "open_all", "open_image"]


LARGE_TABLE_NBYTES = 2**24


def open_image(target, hdu=None, scaled=True, *, storage_options=None):
    """Open an image of a FITS file without reading its pixels.

    Parameters
    ----------
    target : str, path-like, buffer, file object or object with ``read_range(start, stop)``
        A string with ``://`` is a URL, read through fsspec in few ranges. A file that is gzipped
        as a whole is inflated into memory.
    hdu : None, int, str or (str, int)
        The first compressed image; a position, 0 being the primary HDU; an EXTNAME; or an EXTNAME
        and EXTVER. Images that are not compressed can be asked for by these as well.
    scaled : bool
        Whether to apply BSCALE, BZERO and BLANK, as in ``astropy.io.fits``.
    storage_options : dict, optional
        For fsspec.

    Returns
    -------
    TiledImage

    Raises
    ------
    HeaderError
        If this is no FITS file, has no such HDU, or the HDU is no image that can be read.

    Examples
    --------
    >>> import fitscodecs as fc
    >>> img = fc.open("m13.fits.fz")            # doctest: +SKIP
    >>> cutout = img[100:200, 50:80]            # doctest: +SKIP
    """
    source = open_source(target, storage_options)
    return TiledImage(source, find(source, hdu), scaled)


def open_all(target, scaled=True, *, storage_options=None):
    """Every tile-compressed image of a file, in order; see `open`.

    Returns
    -------
    list of TiledImage
    """
    source = open_source(target, storage_options)
    return [TiledImage(source, hdu, scaled) for hdu in walk(source) if is_compressed(hdu.header)]


class TiledImage:
    """An image HDU, compressed or plain, whose tiles are decoded when they are needed.

    Made by `open` and `open_all`. Indexing works as on a numpy array (integers, slices with steps,
    Ellipsis, arrays of integers or booleans) and gives numpy arrays in native byte order. Shapes
    are in C order: the last axis is NAXIS1. May be used by many threads at once.

    Only what is wanted is read: the tiles that an index touches, and those of RICE_1 up to the last
    pixel of them that is wanted. Damage behind it is not noticed; ``fitscodecs verify`` looks
    everywhere.

    Attributes
    ----------
    shape, tile_shape, grid_shape : tuple of int
        Of the image, of its tiles, and the number of tiles along each axis. Tiles at the far edges
        are cut off.
    dtype : numpy.dtype
        Type of the pixels that indexing gives.
    scaled : bool
        Whether BSCALE, BZERO and BLANK are applied.
    structure : ImageStructure
        What the header says.
    """

    def __init__(self, source, hdu, scaled=True):
        self._source = source
        self._hdu = hdu
        self.scaled = bool(scaled)
        with self._named():
            self.structure = image_structure(hdu.header)
            self._check_size()
            self._table = make_table(self.structure)
            self._table.feed(0, hdu.ahead)
        self.shape = self.structure.shape
        self.tile_shape = self.structure.tile_shape
        self.grid_shape = self.structure.grid_shape
        scaling = self.structure.scaling
        self.dtype = scaling.dtype if self.scaled else scaling.stored_dtype

    def _named(self):
        return Named(self._hdu)

    def _check_size(self):
        """A header must not claim a table, or plain pixels, that its file cannot hold.

        Where asking for the size may cost a request, only a large claim is worth it.
        """
        structure = self.structure
        need = structure.row_nbytes * structure.nrows if self.compressed else structure.heap_nbytes
        ask = self._source.whole is not None or need > LARGE_TABLE_NBYTES
        size = self._source.size if ask else None
        if size is not None and self._hdu.data_start + need > size:
            raise HeaderError(
                f"file of {size} bytes, wanted a {'table' if self.compressed else 'plain image'} "
                f"of {need} bytes at "
                f"byte {self._hdu.data_start}"
            )

    # ------------------------------------------------------------------ what it is

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    nbytes = property(lambda self: self.size * self.dtype.itemsize)

    @property
    def compressed(self):
        """Whether the HDU is tile-compressed."""
        return self.structure.codec is not None

    @property
    def codec(self):
        """The codec of the tiles; None for a plain image."""
        return self.structure.codec

    @property
    def quantize(self):
        """How floats were quantized; None if they were not."""
        return self.structure.quantize

    @property
    def hdu(self):
        """The HDU in its file: index, name, position, cards."""
        return self._hdu

    @property
    def header(self):
        """The header of the image, restored from that of the table, as an astropy Header."""
        return image_header(self._hdu.raw)

    @property
    def table(self):
        """The `TileTable`, one row per tile, all rows read."""
        with self._named():
            self._feed(None)
        # Where the file is mapped and becomes shorter, rows left in it would end the process.
        self._table.keep()
        return self._table

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        codec = self.codec.zcmptype[0] if self.compressed else "not compressed"
        return (
            f"<TiledImage {self._source.name} {self._hdu.label}: {self.shape} {self.dtype}, "
            f"{codec}, tiles {self.tile_shape}>"
        )

    # ------------------------------------------------------------------ pixels

    def __getitem__(self, key):
        return self.select(key)

    def select(self, key, threads=None):
        """What indexing gives, with at most so many threads; see `read`."""
        selection = normalize(key, self.shape)
        with self._named():
            if selection.points is not None:
                return self._read_points(selection, threads)
            array = self._read(selection.ranges, None, threads)
        kept = [n for axis, n in enumerate(array.shape) if axis not in selection.dropped]
        array = array.reshape(kept)
        # As numpy does: one pixel is a scalar, or an array without axes if Ellipsis was used.
        as_array = array.ndim or any(k is Ellipsis for k in (key if isinstance(key, tuple) else ()))
        return array if as_array else array[()]

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("pixels have to be decoded: an array cannot be made without a copy")
        array = self.read()
        return array if dtype is None else array.astype(dtype, copy=False)

    @property
    def blocks(self):
        """Tiles by their coordinates in the grid: ``img.blocks[i, j]``."""
        return Blocks(self)

    def read(self, out=None, threads=None):
        """All pixels.

        Parameters
        ----------
        out : ndarray or writable contiguous buffer, optional
            Array of the image's shape and dtype to fill, or memory of its number of bytes.
        threads : int, optional
            Largest number of threads; by default FITSCODECS_THREADS, or the number of CPUs that
            this process may use. Small images stay on one thread.

        Returns
        -------
        ndarray
            `out`, if given.
        """
        array = out
        if out is not None and not (
            isinstance(out, np.ndarray)
            and (out.shape, out.dtype) == (self.shape, self.dtype)
            and out.flags.writeable
        ):
            _, array = receive(out, self.dtype, self.shape, self._hdu.label)
        with self._named():
            pixels = self._read([range(n) for n in self.shape], array, threads)
        return pixels if out is None else out

    def read_rows(self, start, stop, threads=None):
        """The part from `start` to `stop` along the slowest axis; see `read`."""
        with self._named():
            ranges = [range(start, stop), *(range(n) for n in self.shape[1:])]
            return self._read(ranges, None, threads)

    def _read(self, ranges, out=None, threads=None):
        pieces = plan(self.shape, self.tile_shape, ranges)
        entries, streams = self._fetch(pieces.tiles)
        array = self._decode(entries, streams, pieces, out, threads)
        if out is None or array is out:
            return array
        out[...] = array
        return out

    def _decode(self, entries, streams, pieces, out=None, threads=None):
        """Decoded and scaled pixels; in the memory of `out` if that can hold the stored ones."""
        threads = number_of_threads(threads)
        return decode_block(self.structure, self.scaled, entries, streams, pieces, out, threads)

    def _read_points(self, selection, threads=None):
        """Pixels picked by index arrays."""
        todo = gather(self.shape, self.tile_shape, selection)
        entries, streams = self._fetch(todo.tiles)
        threads = number_of_threads(threads)
        return decode_points(self.structure, self.scaled, entries, streams, todo, threads)

    def to_dask(self, chunks="auto"):
        """The image as an array of dask, whose blocks are decoded when they are computed.

        Each block decodes the tiles that it touches, in one batch, and a selection of an array
        those that it touches itself. Blocks that are computed at the same time share the threads
        of the process.

        Parameters
        ----------
        chunks : str, int, tuple or dict
            ``"auto"``: whole tiles, as many as fit into dask's ``array.chunk-size``; so does a
            size such as ``"64MiB"``. ``"tiles"``: each tile is a block. Else what dask takes, where
            single axes may be ``"auto"`` or ``"tiles"`` as well. Blocks that cut tiles are
            allowed, and warned of, since such tiles are decoded several times.

        Returns
        -------
        dask.array.Array
            Its name depends on the file, its size and time of change or ETag, and on the HDU.
            It can be sent to other processes if the image was opened from a path, a URL or
            bytes; there the file is opened again, and an OSError raised if it has changed.

        Examples
        --------
        >>> import fitscodecs as fc
        >>> img = fc.open("m13.fits.fz")                      # doctest: +SKIP
        >>> img.to_dask().max(axis=0).compute()               # doctest: +SKIP
        """
        try:
            from .adapters.dask import dask_array
        except ImportError as error:
            raise ImportError(
                "to_dask needs dask: pip install 'fitscodecs[dask]'", name=error.name
            ) from error
        return dask_array(self, chunks)

    # ------------------------------------------------------------------ bytes

    def _feed(self, tiles):
        """Read the rows of some tiles, or of all, that are not known yet.

        Those of a file that is mapped are all known by where they are.
        """
        self._source.require_open()
        base = self._hdu.data_start
        if self._source.whole is not None and not self._table.is_known:
            structure = self.structure
            stop = base + structure.row_nbytes * structure.nrows
            self._table.feed(0, self._source.whole[base:stop])
        wanted = [] if self._table.is_known else self._table.row_ranges(tiles)
        if not wanted:
            return
        start, stop = (np.array(x, np.int64) + base for x in zip(*wanted, strict=True))
        ranges, _, _ = coalesce(start, stop, self._source.gap)
        for (first, _), data in zip(ranges, self._source.read_ranges(ranges), strict=True):
            self._table.feed(first - base, data)

    def _fetch(self, tiles):
        """Table rows and streams of some tiles."""
        self._feed(tiles)
        entries = self._table.describe(tiles)
        self._table.check(entries)
        start = entries.start + self._hdu.data_start
        stop = start + entries.nbytes
        if self._source.whole is not None:
            buffers = [self._source.whole]
            which, begin = np.zeros(len(tiles), np.int64), start
            available = which + len(buffers[0])
        else:
            ranges, which, begin = coalesce(start, stop, self._source.gap)
            buffers = self._source.read_ranges(ranges)
            available = np.array([len(b) for b in buffers], np.int64)[which]
        short = begin + entries.nbytes > available
        if short.any():
            i = int(short.argmax())
            raise DecodeError(
                f"{self._table.place(entries.tiles[i])}: file ends after "
                f"{max(0, available[i] - begin[i])} of {entries.nbytes[i]} bytes"
            )
        return entries, Streams(buffers, which, begin, entries.nbytes)

    # ------------------------------------------------------------------ life

    def close(self):
        """Close the file, which images of the same `open_all` share; file objects stay open."""
        self._table = make_table(self.structure)
        self._source.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def __reduce__(self):
        return TiledImage, (self._source, self._hdu, self.scaled)


class Blocks:
    """Indexing by tile coordinates."""

    def __init__(self, image):
        self._image = image

    @property
    def shape(self):
        return self._image.grid_shape

    def __getitem__(self, key):
        image = self._image
        selection = normalize(key, image.grid_shape)
        if selection.points is not None or any(r.step != 1 for r in selection.ranges):
            raise IndexError("blocks are indexed by integers and slices of step 1")
        pixels = tuple(
            slice(r.start * t, (r.start + len(r)) * t)
            for r, t in zip(selection.ranges, image.tile_shape, strict=True)
        )
        return image[pixels]


class Named:
    """Put a name, or the label of an HDU or the like, in front of the errors of a block."""

    def __init__(self, thing):
        self.thing = thing

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if error is None:
            return
        name = self.thing if isinstance(self.thing, str) else self.thing.label
        if isinstance(error, FitsCodecsError) and not str(error).startswith(name):
            raise kind(f"{name}: {error}") from error
        if isinstance(error, MemoryError):
            raise DecodeError(f"{name}: no memory for its pixels") from error
