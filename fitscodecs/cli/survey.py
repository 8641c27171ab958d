# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""Many files at once: described by threads or a cluster, compared, and those refused."""

import os
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import FitsCodecsError
from ..naming import storable
from ..references import describe_file, each
from ..virtual import LARGEST_EXACT, VirtualGroup, common, concatenate, difference, stack
from .failures import CommandError, missing, one_line
from .report import progress

__all__ = ["Survey", "as_groups", "as_one", "survey"]

BATCH = 10_000  # files that a cluster has at the same time


@dataclass
class Survey:
    """What is known of many files.

    Attributes
    ----------
    keep : list of str or None
        Keywords whose values are kept for each file. None: all that a file has.
    groups : list of (str, VirtualGroup)
        By file, in their order; a file may stand several times.
    shared : dict
        Attributes that all files of a kind have in common, by `signature`.
    refused : list of (str, str)
        Files and reasons.
    left_out : collections.Counter
        HDUs that are no images, by what they are; and in how many files.
    """

    keep: list | None = None
    groups: list = field(default_factory=list)
    shared: dict = field(default_factory=dict)
    refused: list = field(default_factory=list)
    left_out: Counter = field(default_factory=Counter)

    def add(self, file, contents):
        """Take in a file. Of millions, headers would not fit into memory."""
        group = contents.group
        self.left_out.update(contents.left_out)
        if self.keep is not None:
            kind, attributes = signature(group), all_attributes(group)
            seen = self.shared.get(kind, attributes)
            self.shared[kind] = [common(pair) for pair in zip(seen, attributes, strict=True)]
            kept = {keyword: value_of(keyword, attributes) for keyword in self.keep}
            group = with_attributes(group, [kept, *({} for _ in group.arrays)])
        self.groups.append((file, group))

    def refuse(self, file, reason):
        for name in (os.path.abspath(file), file):
            reason = reason.removeprefix(name).removeprefix(":").lstrip()
        self.refused.append((file, reason))


def all_attributes(group):
    """The attributes of a group, and of each of its arrays."""
    return [group.attributes, *(array.attributes for array in group.arrays.values())]


def with_attributes(group, attributes):
    """A group with other attributes; see `all_attributes`."""
    own, *others = attributes
    arrays = {
        name: replace(array, attributes=other)
        for (name, array), other in zip(group.arrays.items(), others, strict=True)
    }
    return replace(group, attributes=own, arrays=arrays)


def value_of(keyword, attributes):
    """The value of a keyword in the first image that has it, or in the primary header."""
    own, *others = attributes
    return next((found[keyword] for found in (*others, own) if keyword in found), None)


@dataclass(frozen=True)
class Describe:
    """How files are described; all of it can be pickled."""

    extension: object
    scaled: bool
    storage_options: dict

    def __call__(self, file):
        return describe_file(
            file, self.extension, scaled=self.scaled, primary_attr_to_group=True,
            storage_options=self.storage_options,
        )  # fmt: skip


def survey(files, describe, concurrency, scheduler=None, keep=None):
    """Describe files, many at the same time.

    Parameters
    ----------
    files : list of str
    describe : callable
        Gives `FileContents` of a file; see `Describe`.
    concurrency : int
        Number of files that are asked at the same time.
    scheduler : str, optional
        Address of a dask cluster that is to do it.
    keep : list of str, optional
        See `Survey`.

    Returns
    -------
    Survey
    """
    result = Survey(keep)
    results = on_cluster(files, describe, scheduler) if scheduler else each(
        describe, files, concurrency
    )  # fmt: skip
    with progress("references", len(files)) as advance:
        for file, contents in results:
            advance(1)
            if isinstance(contents, ImportError):
                result.refuse(file, missing(contents))
            elif isinstance(contents, Exception):
                result.refuse(file, one_line(contents))
            else:
                result.add(file, contents)
    return result


def on_cluster(files, describe, scheduler):
    """Let a dask cluster describe the files, which its workers see under the same paths."""
    from distributed import Client

    with Client(scheduler, set_as_default=False) as client:
        for start in range(0, len(files), BATCH):
            batch = files[start : start + BATCH]
            there = [file if "://" in file else os.path.abspath(file) for file in batch]
            futures = client.map(describe, there, pure=False, retries=0)
            try:
                for file, future in zip(batch, futures, strict=True):
                    yield file, future.exception() or future.result()
            finally:
                client.cancel(futures)


# ---------------------------------------------------------------------------- together


def as_one(found, new_axis=None, axis=None):
    """All files as one group, along an axis; those that do not fit are refused.

    What most files are like is what all have to be like.

    Parameters
    ----------
    found : Survey
        Further files are refused in it. What it keeps becomes variables along the new axis.
    new_axis, axis : str
        One of the two: name of a further axis, or of one that images have.

    Returns
    -------
    VirtualGroup
    """
    usual = most_common([group for _, group in found.groups])
    described, found.groups = found.groups, []
    for file, group in described:
        if reason := difference(usual, group):
            found.refuse(file, reason)
        else:
            found.groups.append((file, group))
    groups = [group for _, group in found.groups]
    try:
        one = stack(groups, new_axis) if axis is None else concatenate(groups, axis)
    except FitsCodecsError as error:
        raise CommandError(one_line(error)) from error
    kept = {}
    for keyword in found.keep:
        name = storable(keyword)
        if name in one.arrays or name in kept:
            raise CommandError(f"--keep {keyword}: there is an image or a keyword of that name")
        kept[name] = (values_of(keyword, groups), (new_axis,))
    one = with_attributes(one, found.shared[signature(usual)])
    return replace(one, literals=kept)


def most_common(groups):
    """A group like most of them; the first one, if there are several."""
    kinds = [signature(group) for group in groups]
    kind, _ = Counter(kinds).most_common(1)[0]
    return groups[kinds.index(kind)]


def signature(group):
    """What has to be the same in all files."""
    return tuple(
        (
            name,
            a.shape,
            str(a.dtype),
            a.dims,
            a.undefined,
            a.fill_value if a.undefined else 0,
            a.linear,
        )
        for name, a in group.arrays.items()
    )


def values_of(keyword, groups):
    """The values of a keyword in each file: numbers, or strings if any is one.

    So are numbers that no type of numpy holds together without changing one.
    """
    found = [group.attributes[keyword] for group in groups]
    if all(value is None for value in found):
        raise CommandError(f"--keep {keyword}: no file has this keyword")
    if any(isinstance(value, (str, list)) for value in found):
        return np.array(["" if value is None else str(value) for value in found])
    if any(value is None or isinstance(value, float) for value in found):
        if any(isinstance(n, int) and abs(n) > LARGEST_EXACT for n in found):
            return np.array(["" if n is None else str(n) for n in found])
        return np.array([np.nan if value is None else value for value in found], "f8")
    for dtype in ("i8", "u8"):
        if all(n in range(np.iinfo(dtype).min, np.iinfo(dtype).max + 1) for n in found):
            return np.array(found, dtype)
    return np.array([str(n) for n in found])


def as_groups(found):
    """Each file as a group of its own, named as the file is."""
    groups, targets = {}, {}
    for file, group in found.groups:
        name = stem = os.path.basename(file.rstrip("/")).partition(".")[0].lstrip("_") or "file"
        number = 1
        while name in groups:
            number += 1
            name = f"{stem}_{number}"
        groups[name] = replace(group, targets={})
        targets |= group.targets
    return VirtualGroup(groups=groups, targets=targets)
