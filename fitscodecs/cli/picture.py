# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Pictures of an image and of its tiles: panels side by side, or one above the other."""

import numpy as np

from ..table import COLUMNS
from .report import counted
from .values import CURVED, LIMIT, as_floats, block_mean, mask_values, normalize, read_reduced

__all__ = ["TileMap", "draw_line", "draw_plane"]

# One colour for each column of the table, and for tiles without any.
COLUMN_COLORS = ("#4477aa", "#ee8866", "#228833", "#bbbbbb")
ABSENT_INDEX = len(COLUMNS)
UNDEFINED_COLOR = "#cc3311"


# ---------------------------------------------------------------------------- tiles


class TileMap:
    """Bits per pixel and column of every tile, as arrays of the shape of the grid."""

    def __init__(self, image):
        entries = image.table.describe()
        grid = image.grid_shape
        npixels = np.ones(grid)
        for axis, edges in enumerate(tile_edges(image)):
            shape = [1] * len(grid)
            shape[axis] = -1
            npixels = npixels * np.diff(edges).reshape(shape)
        bits = 8 * entries.nbytes.reshape(grid) / npixels
        column = entries.column.reshape(grid)
        self.bits = np.where((column < 0) | (entries.start.reshape(grid) < 0), np.nan, bits)
        self.column = np.where(column < 0, ABSENT_INDEX, column)
        self.counts = np.bincount(self.column.ravel(), minlength=ABSENT_INDEX + 1)

    def plane(self, index):
        """Both maps, of one plane of tiles."""
        return self.bits[index], self.column[index]


def tile_edges(image):
    """Where tiles begin and end along each axis, in pixels."""
    return [
        np.minimum(np.arange(g + 1) * t, n)
        for g, t, n in zip(image.grid_shape, image.tile_shape, image.shape, strict=True)
    ]


# ---------------------------------------------------------------------------- places

# Inches. Panels stand side by side, each in the middle of a cell; below is its bar or legend.
LONGER_SIDE = 4.6
HIGHEST = 7.0
NARROWEST_CELL = 3.6
LEFT, GAP, RIGHT = 0.8, 0.8, 0.35
TOP, BOTTOM = 1.05, 1.4
TITLE_HEIGHT = 0.6
BAR_DISTANCE, BAR_HEIGHT = 0.75, 0.14


class Layout:
    """A row of equal panels on a figure, and the places below them."""

    def __init__(self, figure, npanels, aspect):
        self.figure = figure
        self.height = LONGER_SIDE * aspect if aspect <= 1 else min(HIGHEST, LONGER_SIDE * aspect)
        self.width = self.height / aspect
        self.cell = max(self.width, NARROWEST_CELL)
        total = LEFT + npanels * self.cell + (npanels - 1) * GAP + RIGHT
        figure.set_size_inches(total, TOP + self.height + BOTTOM)

    def panel(self, i):
        """The axes of a panel."""
        left = LEFT + i * (self.cell + GAP) + (self.cell - self.width) / 2
        return self.axes(left, BOTTOM, self.width, self.height)

    def bar(self, i):
        """Axes for a colour bar below a panel."""
        width = min(self.cell, LONGER_SIDE) * 0.85
        left = LEFT + i * (self.cell + GAP) + (self.cell - width) / 2
        return self.axes(left, BOTTOM - BAR_DISTANCE, width, BAR_HEIGHT)

    def legend(self, i, handles):
        """A legend below a panel, instead of a bar."""
        width, height = self.figure.get_size_inches()
        middle = LEFT + i * (self.cell + GAP) + self.cell / 2
        short = all(len(handle.get_label()) < 12 for handle in handles)
        self.figure.legend(
            handles=handles,
            loc="upper center",
            bbox_to_anchor=(middle / width, (BOTTOM - BAR_DISTANCE + 0.2) / height),
            fontsize=8,
            ncols=4 if short else 1,
            frameon=False,
        )

    def axes(self, left, bottom, width, height):
        w, h = self.figure.get_size_inches()
        return self.figure.add_axes((left / w, bottom / h, width / w, height / h))


# ---------------------------------------------------------------------------- two axes


def middle_plane(image):
    """Indices of the leading axes for the plane that is drawn."""
    return tuple(n // 2 for n in image.shape[:-2])


def shown_aspect(height, width):
    """Height by width on the paper; that of thin strips is stretched."""
    return min(3.0, max(0.33, height / max(width, 1)))


def draw_plane(figure, image, tiles, stretch):
    """The middle plane, and the tiles that hold it."""
    plane = middle_plane(image)
    layout = Layout(figure, 3 if tiles else 1, shown_aspect(*image.shape[-2:]))
    draw_pixels(layout, image, plane, stretch)
    if tiles is None:
        return
    index = tuple(p // t for p, t in zip(plane, image.tile_shape, strict=False))
    bits, column = tiles.plane(index)
    edges = [e + 0.5 for e in tile_edges(image)[-2:]]
    shape_panel(draw_bits(layout, bits, edges), image)
    shape_panel(draw_columns(layout, column, tiles.counts, edges), image)


def shape_panel(panel, image):
    """Axes that end where the image does, labelled as FITS counts."""
    height, width = image.shape[-2:]
    panel.set_xlim(0.5, width + 0.5)
    panel.set_ylim(0.5, height + 0.5)
    panel.set_xlabel("x (NAXIS1)", fontsize=9)
    panel.set_ylabel("y (NAXIS2)", fontsize=9)
    panel.locator_params(nbins=6, integer=True)
    panel.tick_params(labelsize=8)


def draw_pixels(layout, image, plane, stretch):
    panel = layout.panel(0)
    if 0 in image.shape:
        panel.text(0.5, 0.5, "no pixels", ha="center", transform=panel.transAxes)
        return
    pixels, block, reduced = read_reduced(image, plane)
    # The last block may reach over the edge of the image, where the axes cut it.
    extent = (0.5, 0.5 + pixels.shape[1] * block[1], 0.5, 0.5 + pixels.shape[0] * block[0])
    values = mask_values(pixels)
    if values is not None:
        draw_mask(layout, panel, pixels, values, extent)
        how = f"{len(values)} different values"
    else:
        how = draw_grey(layout, panel, pixels, stretch, extent)
    shape_panel(panel, image)
    where = f"middle plane [*,*,{','.join(str(p + 1) for p in reversed(plane))}]" if plane else ""
    notes = ", ".join(filter(None, [where, reduced]))
    panel.set_title("\n".join(filter(None, [notes, how])), fontsize=9)


def draw_grey(layout, panel, pixels, stretch, extent):
    """Grey values, and what was done to get them; NaN and infinities are red."""
    values = as_floats(pixels)
    good = values[np.isfinite(values)]
    if not good.size:
        panel.set_facecolor(UNDEFINED_COLOR)
        return "no finite pixel"
    drawn = panel.imshow(
        values,
        extent=extent,
        origin="lower",
        aspect="auto",
        norm=normalize(good, stretch),
        cmap=grey_map(),
        interpolation="nearest",
    )
    bar = add_bar(layout, 0, drawn)
    if stretch in CURVED:
        space_ticks(bar, drawn.norm)
    how = f"constant {good[0]:g}" if good.min() == good.max() else f"stretch {stretch}"
    undefined = values.size - good.size
    return f"{how}, {undefined} not finite (red)" if undefined else how


def grey_map():
    from matplotlib import colormaps

    return colormaps["gray"].with_extremes(bad=UNDEFINED_COLOR)


def draw_mask(layout, panel, pixels, values, extent):
    """Each value of a mask in its own colour, with a legend."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    colors = ["#000000", *colormaps["Set2"].colors[: len(values) - 1]]
    panel.imshow(
        np.searchsorted(values, pixels),
        extent=extent,
        origin="lower",
        aspect="auto",
        cmap=ListedColormap(colors),
        vmin=-0.5,
        vmax=len(values) - 0.5,
        interpolation="nearest",
    )
    layout.legend(0, [Patch(color=c, label=str(v)) for c, v in zip(colors, values, strict=True)])


def add_bar(layout, i, drawn):
    """A colour bar below a panel."""
    bar = layout.figure.colorbar(drawn, cax=layout.bar(i), orientation="horizontal")
    bar.ax.tick_params(labelsize=8)
    return bar


def space_ticks(bar, norm):
    """Ticks at even distances, where round values would crowd at one end of the bar."""
    ticks = np.asarray(norm.inverse(np.linspace(0, 1, 6)), np.float64)
    bar.set_ticks(ticks, labels=[f"{value:.4g}" for value in ticks])
    bar.minorticks_off()


def draw_bits(layout, bits, edges):
    """The map of costs, with a bar that tells bits per pixel."""
    panel = layout.panel(1)
    good = bits[np.isfinite(bits)]
    low, high = (good.min(), good.max()) if good.size else (0, 1)
    if high - low < 0.01:
        low, high = max(0.0, low - 0.5), high + 0.5
    drawn = panel.pcolormesh(
        edges[1], edges[0], bits, vmin=low, vmax=high, cmap="viridis", rasterized=True
    )
    add_bar(layout, 1, drawn)
    median = f", median {np.median(good):.2f}" if good.size else ""
    panel.set_title(f"bits per pixel of each tile{median}", fontsize=9)
    return panel


def draw_columns(layout, column, counts, edges):
    """The map of columns, with a legend that counts tiles."""
    from matplotlib.colors import ListedColormap

    panel = layout.panel(2)
    panel.pcolormesh(
        edges[1],
        edges[0],
        column,
        cmap=ListedColormap(COLUMN_COLORS),
        vmin=-0.5,
        vmax=ABSENT_INDEX + 0.5,
        rasterized=True,
    )
    panel.set_title("column of each tile", fontsize=9)
    layout.legend(2, column_patches(counts))
    return panel


def column_patches(counts):
    """Legend of the columns that are used, with numbers of tiles."""
    from matplotlib.patches import Patch

    names = [*COLUMNS, "absent"]
    return [
        Patch(color=COLUMN_COLORS[i], label=f"{name}: {counted(counts[i], 'tile')}")
        for i, name in enumerate(names)
        if counts[i]
    ]


# ---------------------------------------------------------------------------- one axis


def draw_line(figure, image, tiles, stretch):
    """A line of pixels, above the bits per pixel of its tiles in the colours of their columns."""
    height = 8 if tiles else 4.5
    figure.set_size_inches(11, height)
    # The title of the figure has a fixed place, which the layout does not know of.
    figure.set_layout_engine("constrained", rect=(0, 0, 1, 1 - TITLE_HEIGHT / height))
    panels = figure.subplots(
        2 if tiles else 1, 1, sharex=True, squeeze=False, height_ratios=[2, 1] if tiles else [1]
    )[:, 0]
    x, y, block = reduced_line(image)
    panels[0].plot(x, y, color="#222222", linewidth=0.7, drawstyle="steps-mid")
    reduced = f" (means of {block} pixels)" if block > 1 else ""
    panels[0].set_title(f"pixels{reduced}", fontsize=9)
    if len(y) and stretch == "log" and np.nanmax(y, initial=0) > 0:
        panels[0].set_yscale("log", nonpositive="mask")
    if tiles:
        draw_bars(panels[1], image, tiles)
    panels[-1].set_xlabel("x (NAXIS1)")


def reduced_line(image):
    block = max(1, -(-image.size // (4 * LIMIT)))
    values = as_floats(image.read())
    if block > 1:
        values = block_mean(values[np.newaxis], (1, block))[0]
    return 0.5 + (np.arange(len(values)) + 0.5) * block, values, block


def draw_bars(panel, image, tiles):
    edges = tile_edges(image)[0] + 0.5
    colors = np.array(COLUMN_COLORS)[tiles.column]
    panel.bar(
        edges[:-1],
        np.nan_to_num(tiles.bits),
        width=np.diff(edges),
        align="edge",
        color=colors,
        edgecolor="white" if len(colors) < 200 else colors,
        linewidth=0.5,
    )
    panel.set_ylabel("bits per pixel")
    panel.set_title("bits per pixel of each tile", fontsize=9)
    panel.margins(y=0.35)
    panel.legend(handles=column_patches(tiles.counts), fontsize=8, loc="upper right", ncols=2)
