# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""One page for each module of codecs, written when the documentation is built.

What a page says is read from the classes in `fitscodecs.CODECS`, so that a codec has a page by
being in that list.
"""

from pathlib import Path

__all__ = ["page_name", "write_pages"]


def page_name(codec):
    """Name of the page of a codec: that of its module, ``rice`` for `Rice1`."""
    return codec.__module__.rpartition(".")[2]


def heading(text, underline):
    return f"{text}\n{underline * len(text)}\n"


def listing(names):
    """Names as literals, or a dash if there is none."""
    return ", ".join(f"``{name}``" for name in names) or "\N{EM DASH}"


def facts(codec):
    """What is true of an algorithm, as pairs of a question and an answer."""
    name, *aliases = codec.zcmptype
    form = f"1P{codec.heap_letter}"
    return {
        "Name in headers (ZCMPTYPE)": listing([name])
        + (f", also read: {listing(aliases)}" if aliases else ""),
        "Parameters (ZNAMEi)": listing(codec.parameters),
        "numcodecs id": listing([codec.codec_id]),
        "Images, by ZBITPIX": ", ".join(str(bitpix) for bitpix in codec.bitpix)
        + "; floats once they are quantized" * (-32 not in codec.bitpix),
        "Column COMPRESSED_DATA": f"{listing([form])} or {listing([form.replace('P', 'Q')])}",
        "Tiles of a 1000 x 2000 image": " x ".join(
            str(n) for n in codec().default_tile_shape((1000, 2000))
        )
        + ", unless asked otherwise",
    }


def page(codecs):
    """The page of the codecs of one module."""
    names = ", ".join(codec.zcmptype[0] for codec in codecs)
    parts = [heading(names, "="), f".. automodule:: {codecs[0].__module__}\n"]
    for codec in codecs:
        if len(codecs) > 1:
            parts.append(heading(codec.zcmptype[0], "-"))
        parts.append(
            ".. list-table::\n   :widths: 40 60\n\n"
            + "".join(f"   * - {key}\n     - {value}\n" for key, value in facts(codec).items())
        )
        parts.append(f".. autoclass:: fitscodecs.{codec.__name__}\n   :members: encode, decode\n")
    return "\n".join(parts)


def table(codecs):
    """All codecs, a row for each."""
    rows = [
        f"   * - :doc:`{codec.zcmptype[0]} <codecs/{page_name(codec)}>`\n"
        f"     - `fitscodecs.{codec.__name__}`\n"
        f"     - ``{codec.codec_id}``\n"
        f"     - {listing(name.lower() for name in codec.parameters)}\n"
        for codec in codecs
    ]
    return (
        ".. list-table::\n   :header-rows: 1\n\n"
        "   * - ZCMPTYPE\n     - class\n     - numcodecs id\n     - parameters\n" + "".join(rows)
    )


def write_pages(codecs, directory):
    """Write a page for each module that defines codecs, and a table of all codecs.

    Pages that have not changed are left alone, and pages of codecs that are gone are removed.

    Parameters
    ----------
    codecs : iterable of TileCodec classes
    directory : path-like
        Made if it does not exist.

    Returns
    -------
    list of str
        Names of the pages, without the ending ``.rst``.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    modules = {}
    for codec in codecs:
        modules.setdefault(page_name(codec), []).append(codec)
    contents = {f"{name}.rst": page(members) for name, members in modules.items()}
    for old in set(directory.glob("*.rst")) - {directory / name for name in contents}:
        old.unlink()
    contents["table.inc"] = table([codec for members in modules.values() for codec in members])
    for name, text in contents.items():
        path = directory / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return sorted(modules)
