# Licensed under a 3-clause BSD style license - see LICENSE.rst
# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""
The one door to the C library: buffers in, status to exception, the GIL released.

There is no policy here.  Callers pass contiguous buffers in native byte order and of the right
item size; lengths are checked all the same, because C is told what this module says.
"""

from cpython.buffer cimport (PyBUF_CONTIG, PyBUF_CONTIG_RO, PyBUF_STRIDED_RO, PyBuffer_Release,
                             PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from libc.stddef cimport ptrdiff_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from .errors import DecodeError, EncodeError, NotQuantizable

cdef extern from "fitscodecs.h" nogil:
    ctypedef bint bool "bool"
    const size_t FITSCODECS_MAX_PARAMETERS
    enum:
        FITSCODECS_MAX_DIMENSIONS
    const unsigned FITSCODECS_CPU_SSE41
    const unsigned FITSCODECS_CPU_AVX2
    const unsigned FITSCODECS_CPU_AVX512
    const unsigned FITSCODECS_CPU_NEON

    enum fitscodecs_status:
        FITSCODECS_OK
        FITSCODECS_NOT_QUANTIZABLE
    enum fitscodecs_dither:
        FITSCODECS_NO_DITHER
    enum fitscodecs_pixel:
        FITSCODECS_U8

    struct fitscodecs_result:
        size_t nbytes
        const char *detail
        int64_t found
        int64_t wanted
    struct fitscodecs_tile:
        size_t nx
        size_t ny
        int64_t parameters[4]
    struct fitscodecs_codec:
        const char *name
        const char *parameters[5]
        fitscodecs_status (*check)(const fitscodecs_tile *, fitscodecs_result *) noexcept nogil
        size_t (*pixel_nbytes)(const fitscodecs_tile *) noexcept nogil
        size_t (*encode_bound)(const fitscodecs_tile *) noexcept nogil
        size_t (*scratch_nbytes)(const fitscodecs_tile *) noexcept nogil
        fitscodecs_status (*encode)(const fitscodecs_tile *, const void *, uint8_t *, size_t,
                                    void *, fitscodecs_result *) noexcept nogil
        fitscodecs_status (*decode)(const fitscodecs_tile *, const uint8_t *, size_t, void *,
                                    void *, fitscodecs_result *) noexcept nogil
        size_t (*most_at_once)() noexcept nogil
    struct fitscodecs_gzip:
        pass
    ctypedef struct fitscodecs_noise_t "struct fitscodecs_noise":
        double noise2
        double noise3
        double noise5
    struct fitscodecs_quantizer:
        double level
        fitscodecs_dither dither
        int64_t seed
    struct fitscodecs_batch:
        const fitscodecs_codec *codec
        int64_t parameters[4]
        fitscodecs_gzip *gzip
        fitscodecs_pixel tile_type
        fitscodecs_pixel image_type
        int64_t offset
        bool clip
        bool flip
        bool quantized
        double level
        bool is_flat
        bool leaves_nan
        bool is_big_endian
        fitscodecs_dither dither
        int64_t seed
        size_t ndim
        const ptrdiff_t *strides
    struct fitscodecs_job:
        const uint8_t *data "in"
        size_t in_nbytes
        int64_t row
        const int64_t *shape
        const int64_t *start
        const int64_t *step
        const int64_t *count
        uint8_t *out
        double scale
        double zero
        bool has_blank
        int64_t blank
        size_t used_nbytes
        bool is_left
    struct fitscodecs_encode_job:
        const uint8_t *data "in"
        const int64_t *shape
        int64_t row
        size_t nbytes
        double scale
        double zero
        bool has_nan
        bool is_left

    const fitscodecs_codec *const fitscodecs_codecs[]
    const fitscodecs_codec *fitscodecs_find_codec(const char *)
    float fitscodecs_dither_table[10000]
    int64_t fitscodecs_dither_last_seed
    void fitscodecs_init(unsigned)
    unsigned fitscodecs_cpu_features()
    size_t fitscodecs_noise_scratch_nbytes(size_t, size_t, bool)
    void measure "fitscodecs_noise"(const void *, bool, size_t, size_t, void *,
                                    fitscodecs_noise_t *)
    fitscodecs_status fitscodecs_quantize(const fitscodecs_quantizer *, const void *, bool, size_t,
                                          size_t, int64_t, int32_t *, double *, double *, void *,
                                          fitscodecs_result *)
    fitscodecs_status fitscodecs_quantize_with(const fitscodecs_quantizer *, const void *, bool,
                                               size_t, int64_t, int32_t *, double, double,
                                               fitscodecs_result *)
    fitscodecs_status fitscodecs_dequantize(fitscodecs_dither, int64_t, int64_t, const void *,
                                            fitscodecs_pixel, size_t, double, double, bool,
                                            int64_t, void *, bool, fitscodecs_result *)
    const size_t FITSCODECS_GZIP_LEAST
    bool fitscodecs_has_gzip()
    fitscodecs_gzip *fitscodecs_gzip_new(int)
    void fitscodecs_gzip_free(fitscodecs_gzip *)
    size_t fitscodecs_gzip_bound(size_t)
    size_t fitscodecs_gzip_deflate(fitscodecs_gzip *, const void *, size_t, uint8_t *, size_t)
    bool fitscodecs_gzip_inflate(fitscodecs_gzip *, const uint8_t *, size_t, uint8_t *, size_t,
                                 size_t *, size_t *)
    size_t fitscodecs_batch_scratch_nbytes(const fitscodecs_batch *, size_t, size_t)
    fitscodecs_status fitscodecs_decode_tiles(const fitscodecs_batch *, fitscodecs_job *, size_t,
                                              void *, size_t, size_t *, fitscodecs_result *)
    size_t fitscodecs_encode_scratch_nbytes(const fitscodecs_batch *, const fitscodecs_tile *)
    size_t fitscodecs_stream_bound(const fitscodecs_batch *, const fitscodecs_tile *)
    fitscodecs_status fitscodecs_encode_tiles(const fitscodecs_batch *, fitscodecs_encode_job *,
                                              size_t, uint8_t *, size_t, void *, size_t, size_t *,
                                              fitscodecs_result *)
    uint32_t fitscodecs_ones_sum(const uint8_t *, size_t, uint32_t)


FEATURES = {
    "sse41": FITSCODECS_CPU_SSE41,
    "avx2": FITSCODECS_CPU_AVX2,
    "avx512": FITSCODECS_CPU_AVX512,
    "neon": FITSCODECS_CPU_NEON,
}
MAX_DIMENSIONS = FITSCODECS_MAX_DIMENSIONS


def cpu_features():
    """Bits of FEATURES that this machine has, and of what it does slowly."""
    return fitscodecs_cpu_features()


def init(unsigned features):
    """Fill the dither table and choose the kernels; called once, by the package."""
    fitscodecs_init(features)


def dither_table():
    """The 10,000 dither values as float32 bytes, and the last seed of their generator."""
    return (PyBytes_FromStringAndSize(<const char *>fitscodecs_dither_table,
                                      sizeof(fitscodecs_dither_table)),
            fitscodecs_dither_last_seed)


def codec_list():
    """The codecs of the C library: ``{ZCMPTYPE: names of the parameters}``."""
    codecs = {}
    cdef size_t i = 0, k
    while fitscodecs_codecs[i] != NULL:
        names = []
        k = 0
        while fitscodecs_codecs[i].parameters[k] != NULL:
            names.append(fitscodecs_codecs[i].parameters[k].decode())
            k += 1
        codecs[fitscodecs_codecs[i].name.decode()] = tuple(names)
        i += 1
    return codecs


def ones_sum(data, uint32_t start):
    """Sum of the big-endian 32-bit words of a buffer in ones' complement, and of ``start``."""
    cdef Buffer source = Buffer(data)
    cdef uint32_t total
    if source.view.len % 4:
        raise ValueError(f"buffer of {source.view.len} bytes, wanted whole words")
    with nogil:
        total = fitscodecs_ones_sum(<const uint8_t *>source.view.buf, source.view.len // 4, start)
    return total


cdef str message(str where, fitscodecs_result *result):
    cdef str detail = "failed" if result.detail == NULL else result.detail.decode()
    return f"{where}: {detail.format(found=result.found, wanted=result.wanted)}"


cdef class Buffer:
    """A contiguous buffer of some object, held for as long as this object lives."""

    cdef Py_buffer view
    cdef bint held

    def __cinit__(self, source, bint writable=False):
        PyObject_GetBuffer(source, &self.view, PyBUF_CONTIG if writable else PyBUF_CONTIG_RO)
        self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef void require(self, Py_ssize_t nbytes) except *:
        if self.view.len != nbytes:
            raise ValueError(f"buffer of {self.view.len} bytes, wanted {nbytes}")


cdef class Memory:
    """Scratch memory; a request that overflowed arrives as the largest size and is refused."""

    cdef void *data

    def __cinit__(self, size_t nbytes):
        if nbytes > <size_t>PY_SSIZE_T_MAX:
            raise MemoryError("scratch memory for a tile is larger than the address space")
        self.data = malloc(nbytes if nbytes else 1)
        if self.data == NULL:
            raise MemoryError(f"{nbytes} bytes of scratch memory for a tile")

    def __dealloc__(self):
        free(self.data)


cdef extern from *:
    const Py_ssize_t PY_SSIZE_T_MAX


cdef const fitscodecs_codec *find(str name) except NULL:
    cdef bytes key = name.encode()
    cdef const fitscodecs_codec *codec = fitscodecs_find_codec(key)
    if codec == NULL:
        raise ValueError(f"the C library has no codec {name!r}")
    return codec


def tiles_at_once(str name):
    """How many tiles this CPU decodes at once; more of them in one call are no faster."""
    cdef const fitscodecs_codec *codec = find(name)
    return 1 if codec.most_at_once == NULL else codec.most_at_once()


cdef fitscodecs_tile make_tile(size_t nx, size_t ny, tuple parameters) except *:
    cdef fitscodecs_tile tile
    cdef size_t i
    if <size_t>len(parameters) > FITSCODECS_MAX_PARAMETERS:
        raise ValueError("too many codec parameters")
    tile.nx = nx
    tile.ny = ny
    for i in range(FITSCODECS_MAX_PARAMETERS):
        tile.parameters[i] = 0
    for i in range(<size_t>len(parameters)):
        tile.parameters[i] = parameters[i]
    return tile


def encode(str name, str where, pixels, size_t nx, size_t ny, tuple parameters):
    """Encode ``ny * nx`` pixels, a contiguous native buffer; gives the stream as bytes."""
    cdef const fitscodecs_codec *codec = find(name)
    cdef fitscodecs_tile tile = make_tile(nx, ny, parameters)
    cdef fitscodecs_result result = fitscodecs_result(0, NULL, 0, 0)
    if codec.check(&tile, &result) != FITSCODECS_OK:
        raise EncodeError(message(where, &result))
    cdef Buffer source = Buffer(pixels)
    source.require(nx * ny * codec.pixel_nbytes(&tile))
    cdef size_t capacity = codec.encode_bound(&tile)
    cdef Memory out = Memory(capacity)
    cdef Memory scratch = Memory(codec.scratch_nbytes(&tile))
    cdef fitscodecs_status status
    with nogil:
        status = codec.encode(&tile, source.view.buf, <uint8_t *>out.data, capacity, scratch.data,
                              &result)
    if status != FITSCODECS_OK:
        raise EncodeError(message(where, &result))
    return PyBytes_FromStringAndSize(<const char *>out.data, result.nbytes)


def decode(str name, str where, stream, size_t nx, size_t ny, tuple parameters, out):
    """Decode a stream into ``out``, room for ``ny * nx`` pixels; gives the bytes it used."""
    cdef const fitscodecs_codec *codec = find(name)
    cdef fitscodecs_tile tile = make_tile(nx, ny, parameters)
    cdef fitscodecs_result result = fitscodecs_result(0, NULL, 0, 0)
    if codec.check(&tile, &result) != FITSCODECS_OK:
        raise DecodeError(message(where, &result))
    cdef Buffer source = Buffer(stream)
    cdef Buffer target = Buffer(out, True)
    target.require(nx * ny * codec.pixel_nbytes(&tile))
    cdef Memory scratch = Memory(codec.scratch_nbytes(&tile))
    cdef fitscodecs_status status
    with nogil:
        status = codec.decode(&tile, <const uint8_t *>source.view.buf, source.view.len,
                              target.view.buf, scratch.data, &result)
    if status != FITSCODECS_OK:
        raise DecodeError(message(where, &result))
    return result.nbytes


def noise(pixels, bint is_f64, size_t nx, size_t ny):
    """Noise of a float tile from differences of order 2, 3 and 5; 0 where it has none."""
    cdef fitscodecs_noise_t found
    cdef Buffer source = Buffer(pixels)
    source.require(nx * ny * (8 if is_f64 else 4))
    cdef Memory scratch = Memory(fitscodecs_noise_scratch_nbytes(nx, ny, is_f64))
    with nogil:
        measure(source.view.buf, is_f64, nx, ny, scratch.data, &found)
    return found.noise2, found.noise3, found.noise5


def quantize(str where, pixels, bint is_f64, size_t nx, size_t ny, double level, int dither,
             int64_t seed, int64_t row, out):
    """Quantize ``ny * nx`` floats into the int32 buffer ``out``; gives scale and zero point."""
    cdef fitscodecs_quantizer quantizer = fitscodecs_quantizer(level, <fitscodecs_dither>dither,
                                                               seed)
    cdef fitscodecs_result result = fitscodecs_result(0, NULL, 0, 0)
    cdef Buffer source = Buffer(pixels)
    cdef Buffer target = Buffer(out, True)
    source.require(nx * ny * (8 if is_f64 else 4))
    target.require(nx * ny * 4)
    cdef Memory scratch = Memory(fitscodecs_noise_scratch_nbytes(nx, ny, is_f64))
    cdef double scale = 0, zero = 0
    cdef fitscodecs_status status
    with nogil:
        status = fitscodecs_quantize(&quantizer, source.view.buf, is_f64, nx, ny, row,
                                     <int32_t *>target.view.buf, &scale, &zero, scratch.data,
                                     &result)
    if status == FITSCODECS_NOT_QUANTIZABLE:
        raise NotQuantizable(message(where, &result))
    if status != FITSCODECS_OK:
        raise EncodeError(message(where, &result))
    return scale, zero


def quantize_with(str where, pixels, bint is_f64, size_t npixels, int dither, int64_t seed,
                  int64_t row, double scale, double zero, out):
    """Quantize floats into the int32 buffer ``out`` with a scale and zero point that are given."""
    cdef fitscodecs_quantizer quantizer = fitscodecs_quantizer(0, <fitscodecs_dither>dither, seed)
    cdef fitscodecs_result result = fitscodecs_result(0, NULL, 0, 0)
    cdef Buffer source = Buffer(pixels)
    cdef Buffer target = Buffer(out, True)
    source.require(npixels * (8 if is_f64 else 4))
    target.require(npixels * 4)
    cdef fitscodecs_status status
    with nogil:
        status = fitscodecs_quantize_with(&quantizer, source.view.buf, is_f64, npixels, row,
                                          <int32_t *>target.view.buf, scale, zero, &result)
    if status != FITSCODECS_OK:
        raise EncodeError(message(where, &result))


def dequantize(str where, integers, int pixel_type, size_t npixels, int dither, int64_t seed,
               int64_t row, double scale, double zero, blank, out, bint is_f64):
    """Integers of ``pixel_type`` to floats in ``out``; ``blank`` is the null integer or None."""
    cdef fitscodecs_result result = fitscodecs_result(0, NULL, 0, 0)
    cdef Buffer source = Buffer(integers)
    cdef Buffer target = Buffer(out, True)
    source.require(npixels << pixel_type)
    target.require(npixels * (8 if is_f64 else 4))
    cdef bint has_blank = blank is not None
    cdef int64_t null_integer = blank if has_blank else 0
    cdef fitscodecs_status status
    with nogil:
        status = fitscodecs_dequantize(<fitscodecs_dither>dither, seed, row, source.view.buf,
                                       <fitscodecs_pixel>pixel_type, npixels, scale, zero,
                                       has_blank, null_integer, target.view.buf, is_f64, &result)
    if status != FITSCODECS_OK:
        raise DecodeError(message(where, &result))


# ---------------------------------------------------------------------------- gzip

HAS_GZIP = fitscodecs_has_gzip()


cdef class GzipEngine:
    """What inflates, or deflates at some level; for the one call that makes it."""

    cdef fitscodecs_gzip *gzip

    def __cinit__(self, int level):
        self.gzip = fitscodecs_gzip_new(level)
        if self.gzip == NULL:
            raise MemoryError("a gzip engine")

    def __dealloc__(self):
        fitscodecs_gzip_free(self.gzip)


GZIP_LEAST = FITSCODECS_GZIP_LEAST


def deflate(data, int level):
    """One gzip member that holds the bytes of a buffer."""
    cdef GzipEngine engine = GzipEngine(level)
    cdef Buffer source = Buffer(data)
    cdef size_t capacity = fitscodecs_gzip_bound(source.view.len), nbytes
    cdef Memory out = Memory(capacity)
    with nogil:
        nbytes = fitscodecs_gzip_deflate(engine.gzip, source.view.buf, source.view.len,
                                         <uint8_t *>out.data, capacity)
    return PyBytes_FromStringAndSize(<const char *>out.data, nbytes)


def inflate(stream, size_t capacity):
    """Contents of gzip members, and bytes that they are; None for what Python has to look at."""
    cdef GzipEngine engine = GzipEngine(0)
    cdef Buffer source = Buffer(stream)
    cdef bytes contents = PyBytes_FromStringAndSize(NULL, capacity)
    cdef uint8_t *out = <uint8_t *>PyBytes_AsString(contents)
    cdef size_t used, found
    cdef bint done
    with nogil:
        done = fitscodecs_gzip_inflate(engine.gzip, <const uint8_t *>source.view.buf,
                                       source.view.len, out, capacity, &used, &found)
    if not done:
        return None
    return contents if found == capacity else contents[:found], used


# ---------------------------------------------------------------------------- many tiles at once

cdef fitscodecs_batch make_batch(batch, size_t ndim, const ptrdiff_t *strides) except *:
    """What decoding and encoding have in common; what only one of them looks at is 0."""
    cdef fitscodecs_batch b
    cdef fitscodecs_tile tile = make_tile(1, 1, batch.parameters)
    if not 1 <= ndim <= FITSCODECS_MAX_DIMENSIONS:
        raise ValueError(f"{ndim} axes, wanted 1 to {FITSCODECS_MAX_DIMENSIONS}")
    memset(&b, 0, sizeof(b))
    b.codec = find(batch.native)
    b.parameters = tile.parameters
    b.tile_type = <fitscodecs_pixel><int>batch.tile_type
    b.image_type = <fitscodecs_pixel><int>batch.image_type
    b.offset = batch.offset
    b.flip = batch.flip
    b.quantized = batch.quantized
    b.dither = <fitscodecs_dither><int>batch.dither
    b.seed = batch.seed
    b.ndim = ndim
    b.strides = strides
    return b


cdef class Numbers:
    """An array of 8-byte numbers of a given length, as a pointer."""

    cdef Buffer buffer
    cdef const int64_t *i
    cdef const double *d

    def __cinit__(self, array, size_t length):
        self.buffer = Buffer(array)
        self.buffer.require(8 * length)
        self.i = <const int64_t *>self.buffer.view.buf
        self.d = <const double *>self.buffer.view.buf


cdef class JobList:
    """The jobs of a call as C wants them, and hold of all memory that they point to."""

    cdef fitscodecs_job *job
    cdef size_t n, ndim
    cdef Buffer target
    cdef list held

    def __cinit__(self, jobs, size_t ndim, out):
        cdef size_t n = len(jobs.row), i
        cdef Numbers row = Numbers(jobs.row, n)
        cdef Numbers shape = Numbers(jobs.shape, n * ndim), start = Numbers(jobs.start, n * ndim)
        cdef Numbers step = Numbers(jobs.step, n * ndim), count = Numbers(jobs.count, n * ndim)
        cdef Numbers offset = Numbers(jobs.offset, n), scale = Numbers(jobs.scale, n)
        cdef Numbers zero = Numbers(jobs.zero, n), blank = Numbers(jobs.blank, n)
        cdef Numbers has_blank = Numbers(jobs.has_blank, n), which = Numbers(jobs.buffer, n)
        cdef Numbers begin = Numbers(jobs.begin, n), nbytes = Numbers(jobs.nbytes, n)
        cdef list streams = [Buffer(data) for data in jobs.buffers]
        cdef Buffer stream

        self.n, self.ndim = n, ndim
        self.target = Buffer(out, True)
        self.held = [shape, start, step, count, streams]
        self.job = <fitscodecs_job *>malloc((n if n else 1) * sizeof(fitscodecs_job))
        if self.job == NULL:
            raise MemoryError("a list of tiles")
        for i in range(n):
            if not 0 <= which.i[i] < len(streams):
                raise ValueError("a tile names a buffer that is not there")
            stream = streams[which.i[i]]
            if not (0 <= begin.i[i] <= stream.view.len
                    and 0 <= nbytes.i[i] <= stream.view.len - begin.i[i]):
                raise ValueError("a tile leaves its buffer")
            if not 0 <= offset.i[i] <= self.target.view.len:
                raise ValueError("a tile starts outside the image")
            self.job[i].data = <const uint8_t *>stream.view.buf + begin.i[i]
            self.job[i].in_nbytes = nbytes.i[i]
            self.job[i].row = row.i[i]
            self.job[i].shape = shape.i + i * ndim
            self.job[i].start = start.i + i * ndim
            self.job[i].step = step.i + i * ndim
            self.job[i].count = count.i + i * ndim
            self.job[i].out = <uint8_t *>self.target.view.buf + offset.i[i]
            self.job[i].scale = scale.d[i]
            self.job[i].zero = zero.d[i]
            self.job[i].has_blank = has_blank.i[i] != 0
            self.job[i].blank = blank.i[i]
            self.job[i].used_nbytes = 0
            self.job[i].is_left = False

    def __dealloc__(self):
        free(self.job)

    cdef size_t scratch_nbytes(self, const fitscodecs_batch *batch):
        """Scratch for the largest tile; a tile that its codec refuses needs none."""
        cdef fitscodecs_tile tile
        cdef fitscodecs_result result
        cdef size_t i, nx, ny, largest = 0
        tile.parameters = batch.parameters
        tile.nx = tile.ny = 0
        for i in range(self.n):
            nx, ny = squeezed(self.job[i].shape, self.ndim)
            if nx == tile.nx and ny == tile.ny:  # most tiles are like the one before
                continue
            tile.nx, tile.ny = nx, ny
            if batch.codec.check(&tile, &result) == FITSCODECS_OK:
                largest = max(largest, fitscodecs_batch_scratch_nbytes(
                    batch, tile.nx * tile.ny, batch.codec.scratch_nbytes(&tile)))
        return largest

    cdef void require_inside(self, const fitscodecs_batch *batch, Py_ssize_t itemsize) except *:
        """Nothing that a job reads or writes may be outside its tile or the image."""
        cdef size_t i
        cdef const char *fault
        cdef const uint8_t *image = <const uint8_t *>self.target.view.buf
        for i in range(self.n):
            fault = misfit(batch, &self.job[i], self.job[i].out - image, self.target.view.len,
                           itemsize)
            if fault != NULL:
                raise ValueError(fault.decode())


cdef (size_t, size_t) squeezed(const int64_t *shape, size_t ndim) noexcept:
    """nx, the last axis longer than 1, and ny, the product of the axes before it."""
    cdef size_t nx = 1, ny = 1, k = ndim
    while k > 0 and nx == 1:
        k -= 1
        nx = shape[k]
    while k > 0:
        k -= 1
        ny *= shape[k]
    return nx, ny


cdef const char *misfit(const fitscodecs_batch *batch, const fitscodecs_job *job, int64_t offset,
                        int64_t out_nbytes, int64_t itemsize) noexcept nogil:
    """What is wrong with the geometry of a job, or NULL."""
    cdef size_t k
    cdef int64_t last, low = offset, high = offset + itemsize
    for k in range(batch.ndim):
        if job.shape[k] < 1 or job.count[k] < 1:
            return "a tile or a part of it is empty"
        last = job.start[k] + job.step[k] * (job.count[k] - 1)
        if not (0 <= job.start[k] < job.shape[k] and 0 <= last < job.shape[k]):
            return "the part that is wanted leaves the tile"
        if batch.strides[k] < 0:
            low += batch.strides[k] * (job.count[k] - 1)
        else:
            high += batch.strides[k] * (job.count[k] - 1)
    if low < 0 or high > out_nbytes:
        return "the part that is wanted leaves the image"
    return NULL


def decode_tiles(batch, jobs, out, used):
    """Decode tiles into an image.

    Parameters
    ----------
    batch : fitscodecs.tile.Batch
        What is the same for all tiles.
    jobs : fitscodecs.tile.Jobs
        Arrays with one entry per tile.
    out : writable contiguous buffer
        The memory of the image; ``batch.strides`` and ``jobs.offset`` are bytes in it.
    used : int64 array
        Set to the number of bytes that each stream used; -1 for a tile that is left to the caller,
        who has to inflate it.
    """
    cdef size_t ndim = batch.ndim, i, ndone = 0
    cdef ptrdiff_t c_strides[FITSCODECS_MAX_DIMENSIONS]
    cdef fitscodecs_batch b = make_batch(batch, ndim, c_strides)
    cdef JobList todo = JobList(jobs, ndim, out)
    cdef Numbers strides = Numbers(batch.strides, ndim)
    cdef Buffer used_nbytes = Buffer(used, True)
    cdef fitscodecs_result result = fitscodecs_result(0, NULL, 0, 0)
    cdef fitscodecs_status status

    used_nbytes.require(8 * todo.n)
    for i in range(ndim):
        c_strides[i] = strides.i[i]
    b.clip = batch.clip
    cdef GzipEngine engine
    if batch.gzip:
        engine = GzipEngine(0)
        b.gzip = engine.gzip
    todo.require_inside(&b, batch.itemsize)

    cdef size_t scratch_nbytes = todo.scratch_nbytes(&b)
    cdef Memory scratch = Memory(scratch_nbytes)
    with nogil:
        status = fitscodecs_decode_tiles(&b, todo.job, todo.n, scratch.data, scratch_nbytes,
                                         &ndone, &result)
    if status != FITSCODECS_OK:
        raise DecodeError(message(f"{batch.label} tile {todo.job[ndone].row}", &result))
    for i in range(todo.n):
        (<int64_t *>used_nbytes.view.buf)[i] = (
            -1 if todo.job[i].is_left else <int64_t>todo.job[i].used_nbytes)


# ---------------------------------------------------------------------------- encoding many tiles

cdef class Image:
    """An array of any strides, held for as long as this object lives."""

    cdef Py_buffer view
    cdef bint held

    def __cinit__(self, array):
        PyObject_GetBuffer(array, &self.view, PyBUF_STRIDED_RO)
        self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef const uint8_t *tile(self, const int64_t *corner, const int64_t *shape) except NULL:
        """The first pixel of a tile, all of which is inside."""
        cdef const uint8_t *first = <const uint8_t *>self.view.buf
        cdef int k
        for k in range(self.view.ndim):
            if not (0 <= corner[k] < self.view.shape[k]
                    and 1 <= shape[k] <= self.view.shape[k] - corner[k]):
                raise ValueError("a tile leaves the image")
            first += corner[k] * self.view.strides[k]
        return first


cdef class EncodeJobs:
    """The tiles of a call as C wants them."""

    cdef fitscodecs_encode_job *job
    cdef size_t n
    cdef list held

    def __cinit__(self, Image image, row, corner, shape):
        cdef size_t i, ndim = image.view.ndim
        self.n = len(row)
        cdef Numbers rows = Numbers(row, self.n)
        cdef Numbers corners = Numbers(corner, self.n * ndim)
        cdef Numbers shapes = Numbers(shape, self.n * ndim)
        self.held = [image, shapes]
        self.job = <fitscodecs_encode_job *>calloc(self.n if self.n else 1,
                                                   sizeof(fitscodecs_encode_job))
        if self.job == NULL:
            raise MemoryError("a list of tiles")
        for i in range(self.n):
            self.job[i].data = image.tile(corners.i + i * ndim, shapes.i + i * ndim)
            self.job[i].shape = shapes.i + i * ndim
            self.job[i].row = rows.i[i]

    def __dealloc__(self):
        free(self.job)

    cdef (size_t, size_t) sizes(self, const fitscodecs_batch *batch):
        """The most that one tile needs: of output, and of scratch memory."""
        cdef fitscodecs_tile tile
        cdef fitscodecs_result result
        cdef size_t i, bound = 0, scratch = 0
        tile.parameters = batch.parameters
        for i in range(self.n):
            tile.nx, tile.ny = squeezed(self.job[i].shape, batch.ndim)
            if batch.codec.check(&tile, &result) == FITSCODECS_OK:
                bound = max(bound, fitscodecs_stream_bound(batch, &tile))
                scratch = max(scratch, fitscodecs_encode_scratch_nbytes(batch, &tile))
        return bound, scratch


cdef class Workspace:
    """Memory for the calls of one thread, kept from one to the next.

    The system takes memory back that is free for a moment, and gives it page by page.
    """

    cdef Memory out, scratch
    cdef size_t out_nbytes, scratch_nbytes

    cdef void require(self, size_t out_nbytes, size_t scratch_nbytes) except *:
        if self.out is None or self.out_nbytes < out_nbytes:
            self.out, self.out_nbytes = None, out_nbytes
            self.out = Memory(out_nbytes)
        if self.scratch is None or self.scratch_nbytes < scratch_nbytes:
            self.scratch, self.scratch_nbytes = None, scratch_nbytes
            self.scratch = Memory(scratch_nbytes)


def encode_tiles(batch, array, row, corner, shape, size_t room, Workspace workspace not None,
                 nbytes, scale, zero, has_nan):
    """Encode tiles of an image.

    Parameters
    ----------
    batch : fitscodecs.encode.EncodeBatch
        What is the same for all tiles.
    array : ndarray
        The image, of any strides.
    row, corner, shape : int64 arrays
        For each tile its table row, its first pixel and its shape, slow axis first.
    room : int
        Bytes to have for streams, if the bound of a single tile is not more.
    workspace : Workspace
        Of no other thread.
    nbytes : int64 array
        Set to the length of the stream of each tile, in order; -1 for a tile that is left to the
        caller.
    scale, zero : float64 arrays
        Set.
    has_nan : int64 array
        Set to 0 or 1.

    Returns
    -------
    streams : list of bytes
        The streams, one after the other, those of many tiles in each element.
    """
    cdef Image image = Image(array)
    cdef EncodeJobs todo = EncodeJobs(image, row, corner, shape)
    cdef fitscodecs_batch b = make_batch(batch, image.view.ndim,
                                         <const ptrdiff_t *>image.view.strides)
    cdef fitscodecs_result result = fitscodecs_result(0, NULL, 0, 0)
    cdef fitscodecs_status status
    cdef size_t i, done = 0, ndone = 0, bound, scratch_nbytes
    cdef list streams = []
    cdef Buffer found_nbytes = Buffer(nbytes, True), found_nan = Buffer(has_nan, True)
    cdef Buffer found_scale = Buffer(scale, True), found_zero = Buffer(zero, True)

    for found in (found_nbytes, found_nan, found_scale, found_zero):
        (<Buffer>found).require(8 * todo.n)

    if image.view.itemsize != batch.itemsize:
        raise ValueError(f"pixels of {image.view.itemsize} bytes, wanted {batch.itemsize}")
    b.level = batch.level
    b.is_flat = batch.is_flat
    b.leaves_nan = batch.leaves_nan
    b.is_big_endian = batch.is_big_endian
    cdef GzipEngine engine
    if batch.gzip_level:
        engine = GzipEngine(batch.gzip_level)
        b.gzip = engine.gzip
    bound, scratch_nbytes = todo.sizes(&b)
    room = max(room, bound)
    workspace.require(room, scratch_nbytes)
    cdef uint8_t *out = <uint8_t *>workspace.out.data
    cdef void *scratch = workspace.scratch.data
    while done < todo.n:
        with nogil:
            status = fitscodecs_encode_tiles(&b, todo.job + done, todo.n - done, out, room,
                                             scratch, scratch_nbytes, &ndone, &result)
        done += ndone
        if status != FITSCODECS_OK:
            raise EncodeError(message(f"{batch.label} tile {todo.job[done].row}", &result))
        streams.append(PyBytes_FromStringAndSize(<const char *>out, result.nbytes))
    for i in range(todo.n):
        (<int64_t *>found_nbytes.view.buf)[i] = -1 if todo.job[i].is_left else todo.job[i].nbytes
        (<double *>found_scale.view.buf)[i] = todo.job[i].scale
        (<double *>found_zero.view.buf)[i] = todo.job[i].zero
        (<int64_t *>found_nan.view.buf)[i] = todo.job[i].has_nan
    return streams
