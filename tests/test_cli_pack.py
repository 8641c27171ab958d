# Licensed under a 3-clause BSD style license - see LICENSE.rst
"""pack, unpack and repack in the shell: files there and back, refusals, failures, kills."""

import gzip
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import fitscodecs as fc
from fitscodecs.cli import jobs, main, trial
from fitscodecs.pack import PackOptions, pack_file
from fitscodecs.readback import agree, compare_files
from fitscodecs.repack import RepackOptions, repack_file
from tests.conftest import VECTORS, same_bits
from tests.making import plain_hdu, sample

fits = pytest.importorskip("astropy.io.fits", reason="odd headers are made with astropy")

SHAPE = (40, 50)


def run(*args):
    return main([str(arg) for arg in args])


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def write_plain(path, array, **cards):
    path.write_bytes(plain_hdu(array, primary=True, more=list(cards.items())))
    return path


@pytest.fixture
def odd(tmp_path):
    """A file of many kinds of HDUs, with headers that are not simple."""
    header = fits.Header()
    header["HIERARCH ESO DET ID"] = 3
    header["LONGSTR"] = "x" * 200
    header["CRPIX1"] = (5.5, "a comment")
    header.add_comment("first")
    header.append(("", ""), end=True)
    header.add_history("second")
    floats = sample("float32", SHAPE)
    floats[3, 4:9] = [np.nan, np.inf, -np.inf, -0.0, 1e-40]
    floats.view("u4")[5, 5] = 0x7FC12345  # a NaN with a payload
    integers = sample("uint16", SHAPE)
    table = fits.BinTableHDU.from_columns([fits.Column("A", "J", array=np.arange(5))])
    packed = fits.CompImageHDU(sample("int16", SHAPE), name="PACKED")
    path = tmp_path / "odd.fits"
    fits.HDUList([
        fits.PrimaryHDU(floats, header), fits.ImageHDU(integers, name="U"), table,
        fits.ImageHDU(sample("float64", (3, 8, 9)), name="CUBE"), fits.ImageHDU(name="EMPTY"),
        packed, fits.ImageHDU(sample("int64", SHAPE)), fits.ImageHDU(sample("uint8", (300,))),
    ]).writeto(path, checksum=True)  # fmt: skip
    return path


@pytest.fixture
def floats(tmp_path):
    """Noise in floats, in a file of one image."""
    return write_plain(tmp_path / "noise.fits", sample("float32", (64, 80)), OBJECT="M13")


# ---------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("args", [[], ["-g1"], ["-t", "16,16"], ["-w"], ["--algorithm", "gzip2"]])
def test_there_and_back(odd, args, capsys):
    before = odd.read_bytes()
    assert run("pack", *args, odd) == 0
    out = capsys.readouterr().out
    packed = odd.with_name("odd.fits.fz")
    assert f"{odd} -> {packed}: " in out
    assert "5 images compressed" in out
    assert "HDU 5 (PACKED) kept, compressed already" in out
    assert "floats were kept without loss; -q 4 would" in out
    assert "LOSSY" not in out
    assert odd.read_bytes() == before
    odd.rename(odd.with_name("kept.fits"))
    assert run("unpack", packed) == 0
    with fits.open(odd, disable_image_compression=True) as got:
        assert len(got) == 8
    # what was packed before is unpacked as well; all the rest is the same, byte for byte
    compare_files(odd.with_name("kept.fits"), odd)
    start = before.index(b"PACKED")
    assert odd.read_bytes()[: start // 2880 * 2880] == before[: start // 2880 * 2880]


def test_single_image_is_the_same_file(floats):
    before = floats.read_bytes()
    assert run("pack", floats, "-o", floats.parent / "x.fz") == 0
    assert run("unpack", floats.parent / "x.fz", "-o", floats.parent / "y.fits") == 0
    assert (floats.parent / "y.fits").read_bytes() == before
    assert names(floats.parent) == ["noise.fits", "x.fz", "y.fits"]


def test_tables_only(tmp_path, capsys):
    path = tmp_path / "t.fits"
    table = fits.BinTableHDU.from_columns([fits.Column("A", "J", array=np.arange(5))])
    table.header["ZTABLE"] = True  # so that it looks like a compressed table
    fits.HDUList([fits.PrimaryHDU(), table]).writeto(path)
    before = path.read_bytes()
    assert run("pack", "-D", path) == 0
    assert "HDU 1 kept, a compressed table" in capsys.readouterr().out
    assert run("unpack", "-D", tmp_path / "t.fits.fz") == 0
    assert names(tmp_path) == ["t.fits"]
    assert path.read_bytes() == before


def test_gzipped_as_a_whole(floats):
    packed = floats.with_name("noise.fits.gz")
    packed.write_bytes(gzip.compress(floats.read_bytes()))
    before = floats.read_bytes()
    floats.unlink()
    assert run("pack", "-D", packed) == 0
    assert names(floats.parent) == ["noise.fits.fz"]
    assert run("unpack", floats.parent / "noise.fits.fz") == 0
    assert floats.read_bytes() == before


@pytest.mark.parametrize(
    ("args", "method", "step"),
    [
        (["-q", "4"], "SUBTRACTIVE_DITHER_1", None),
        (["-q0", "-0.5"], "NO_DITHER", 0.5),
        (["-qz", "16", "--seed", "77"], "SUBTRACTIVE_DITHER_2", None),
        (["-q", "-0.25", "--hcompress", "--smooth", "-s", "1.5"], "SUBTRACTIVE_DITHER_1", 0.25),
        (["--like-fpack"], "SUBTRACTIVE_DITHER_1", None),
        (["--like-fpack", "--hcompress", "-qz", "4"], "SUBTRACTIVE_DITHER_1", None),
    ],
)
def test_quantized(floats, args, method, step, capsys):
    array = fc.open(floats, hdu=0)[...]
    assert run("pack", "-D", *args, floats) == 0  # -D verifies within the tolerance
    out = capsys.readouterr().out
    assert "LOSSY: HDU 0" in out
    assert method in out.splitlines()[-1]
    with fc.open(floats.with_name("noise.fits.fz")) as image:
        assert image.quantize.method == method
        assert step is None or (image.table.scale == step).all()
        assert abs(image[...] - array).max() < 5
        assert "--seed" not in args or image.quantize.seed == 77


def test_q_0_is_without_loss(floats):
    assert run("pack", "--like-fpack", "-q", "0", "-g1", floats) == 0
    with fc.open(floats.with_name("noise.fits.fz")) as image:
        assert image.quantize is None
        assert type(image.codec) is fc.Gzip1
        assert same_bits(image[...], fc.open(floats, hdu=0)[...])


def test_tiles_count_from_naxis1(tmp_path):
    path = write_plain(tmp_path / "a.fits", sample("int16", (40, 60)))
    assert run("pack", "-t", "30,10", path) == 0
    assert fc.open(tmp_path / "a.fits.fz").tile_shape == (10, 30)


def test_pack_lossy_integers(tmp_path, capsys):
    path = write_plain(tmp_path / "a.fits", sample("int16", (64, 64)))
    assert run("pack", "--hcompress", "-s", "-8", "-D", path) == 0
    assert "LOSSY: HDU 0" in capsys.readouterr().out


# ---------------------------------------------------------------------------- refusals, failures


@pytest.mark.parametrize("args", [
    ["pack"], ["pack", "a", "-r", "-g2"], ["pack", "a", "-t", "3,x"],
    ["pack", "a", "-w", "-t", "3"], ["pack", "a", "-s", "2"], ["pack", "a", "--smooth", "-r"],
    ["pack", "a", "-q", "nan"],
    ["pack", "a", "--seed", "0"], ["pack", "a", "-q", "2", "-qz", "3"], ["pack", "a", "-F", "-D"],
    ["pack", "a", "-F", "-o", "b"], ["pack", "a", "--jobs", "0"], ["pack", "a", "-i2f"],
    ["pack", "a", "-n", "3"], ["unpack"], ["repack", "a", "-r"], ["repack", "a", "-F"],
    ["pack", "a", "--algorithm", "bzip2"],
])  # fmt: skip
def test_wrong_command_lines(args, capsys):
    assert run(*args) == 2
    assert "usage: fitscodecs" in capsys.readouterr().err


def test_what_is_not_supported_says_why(capsys):
    run("pack", "-i2f", "a.fits")
    assert "-i2f is not supported: integers are not turned into floats" in capsys.readouterr().err


def test_no_overwrite(floats, capsys):
    packed = floats.with_name("noise.fits.fz")
    packed.write_bytes(b"mine")
    assert run("pack", floats) == 1
    assert "exists: choose another name, or say --overwrite" in capsys.readouterr().err
    assert packed.read_bytes() == b"mine"
    assert run("pack", "--overwrite", floats) == 0
    before = floats.read_bytes()
    assert run("unpack", packed) == 1
    assert run("unpack", packed, "--overwrite") == 0
    assert floats.read_bytes() == before
    assert run("pack", floats, "-o", floats, "--overwrite") == 1
    assert "is the file itself: say --in-place" in capsys.readouterr().err
    assert floats.read_bytes() == before


def test_failures_are_listed_and_others_done(tmp_path, capsys):
    good = write_plain(tmp_path / "good.fits", sample("int16", SHAPE))
    wide = write_plain(tmp_path / "wide.fits", sample("int64", SHAPE))
    text = tmp_path / "text.fits"
    text.write_text("not a FITS file")
    last = write_plain(tmp_path / "last.fits", sample("uint8", SHAPE))
    absent = tmp_path / "absent.fits"
    assert run("pack", "-r", "--jobs", "1", good, wide, absent, text, last) == 1
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert f"fitscodecs: {wide}: HDU 0: RICE_1 cannot hold int64 pixels" in lines
    assert f"fitscodecs: {absent}: No such file or directory" in lines
    assert any(line.startswith(f"fitscodecs: {text}: file starts with") for line in lines)
    assert lines[-1] == f"fitscodecs: 3 of 5 files failed: {wide}, {absent}, {text}"
    assert len(lines) == 4
    assert "2 files done, " in out
    want = ["good.fits", "good.fits.fz", "last.fits", "last.fits.fz", "text.fits", "wide.fits"]
    assert names(tmp_path) == want


def test_one_file_that_fails(floats, capsys):
    assert run("pack", "--hcompress", "-qz", "4", floats) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"fitscodecs: {floats}: HDU 0: HCOMPRESS_1 does not go with")
    assert err.count("\n") == 1
    assert names(floats.parent) == ["noise.fits"]
    cut = floats.with_name("cut.fits")
    cut.write_bytes(floats.read_bytes()[:-5000])
    assert run("pack", cut) == 1
    assert names(floats.parent) == ["cut.fits", "noise.fits"]


def test_two_files_with_one_target(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_plain(tmp_path / name / "x.fits", sample("int16", SHAPE))
    out = tmp_path / "out"
    out.mkdir()
    assert run("pack", tmp_path / "a", tmp_path / "b" / "x.fits", "-o", out, "-D") == 1
    assert "is what" in capsys.readouterr().err
    assert names(out) == ["x.fits.fz"]
    assert names(tmp_path / "a") == []
    assert names(tmp_path / "b") == ["x.fits"]


def test_folders_are_made(floats, capsys):
    home = floats.parent
    assert run("pack", floats, "-o", f"{home}/packed/") == 0
    assert names(home / "packed") == ["noise.fits.fz"]
    assert run("unpack", home / "packed", "-o", home / "unpacked") == 0
    assert names(home / "unpacked") == ["noise.fits"]
    capsys.readouterr()
    assert run("pack", home, "-o", floats) == 1
    assert "is no folder, which many files need" in capsys.readouterr().err


def test_absent_files(tmp_path, capsys):
    for command in ("pack", "unpack"):
        assert run(command, tmp_path / "nosuch.fits") == 1
        assert "nosuch.fits: No such file or directory\n" in capsys.readouterr().err


def test_nothing_is_quantized(tmp_path, capsys):
    (tmp_path / "a.fits").write_bytes(plain_hdu(sample("int16", (20, 30)), True))
    assert run("pack", "-q", 4, tmp_path / "a.fits") == 0
    assert "nothing was quantized: -q is for floats" in capsys.readouterr().out
    assert run("pack", "--like-fpack", "--overwrite", tmp_path / "a.fits") == 0
    assert "nothing was quantized" not in capsys.readouterr().out


@pytest.mark.parametrize("address", ["foo", "tcp://foo", "foo:x"])
def test_wrong_scheduler(floats, capsys, address):
    assert run("pack", floats, "--scheduler", address) == 2
    assert f"'{address}' is no address such as tcp://host:8786" in capsys.readouterr().err


def test_names(floats, capsys):
    assert run("unpack", floats) == 1
    assert "does not end in .fz" in capsys.readouterr().err
    assert run("pack", floats, "-o", floats.parent / "absent" / "a.fz") == 1
    assert "is no folder to write to" in capsys.readouterr().err
    assert run("pack", floats, floats, "-o", floats.parent / "a.fz") == 1
    assert "is no folder, which many files need" in capsys.readouterr().err
    assert run("pack", "memory://a.fits") == 1
    assert "say -o FILE for a URL" in capsys.readouterr().err
    assert run("pack", floats) == 0
    assert run("pack", "-F", floats.with_name("noise.fits.fz")) == 1
    assert "packed already" in capsys.readouterr().err


# ---------------------------------------------------------------------------- the original goes


def spoil(monkeypatch):
    """Make pack write a pixel that is not the one that was given."""
    from fitscodecs import writer

    def compress_to(file, settings, array, *args, **kwargs):
        array = array.copy()
        array.flat[7] += 10
        writer.compress_to(file, settings, array, *args, **kwargs)

    monkeypatch.setattr("fitscodecs.pack.compress_to", compress_to)


@pytest.mark.parametrize("options", [["-D"], ["-F"], ["-D", "-q", "16"], ["-F", "-g2"]])
def test_original_stays_unless_verified(floats, options, monkeypatch, capsys):
    before = floats.read_bytes()
    spoil(monkeypatch)
    assert run("pack", *options, floats) == 1
    assert "HDU 0 read back: 1 of 5120 pixels differ, first at (0, 7)" in capsys.readouterr().err
    assert floats.read_bytes() == before
    assert names(floats.parent) == ["noise.fits"]
    monkeypatch.undo()
    assert run("pack", *options, floats) == 0
    assert names(floats.parent) == ["noise.fits" if "-F" in options else "noise.fits.fz"]


def test_lost_card_is_noticed(floats, monkeypatch, capsys):
    from fitscodecs.cards import cards_of

    monkeypatch.setattr("fitscodecs.pack.cards_of", lambda raw: [
        line for line in cards_of(raw) if not line.startswith(b"OBJECT")
    ])  # fmt: skip
    assert run("pack", "-D", floats) == 1
    assert "a card of the header is lost: OBJECT" in capsys.readouterr().err
    assert names(floats.parent) == ["noise.fits"]


def test_changed_table_is_noticed(odd, monkeypatch, capsys):
    def copy(source, start, stop, file):
        raw = bytearray(source.read_range(start, stop))
        raw[-2880] ^= b"BINTABLE" in raw[:80]
        file.write(raw)

    monkeypatch.setattr("fitscodecs.pack.copy_bytes", copy)
    assert run("pack", "-D", odd) == 1
    assert "HDU 2 read back: bytes differ" in capsys.readouterr().err
    assert names(odd.parent) == ["odd.fits"]


def test_tolerance():
    a = np.array([1.0, 2.0, np.nan, np.inf, 5.0])
    b = np.array([1.4, 2.6, np.nan, np.inf, np.nan])
    limit = np.full(5, 0.5)
    assert agree(a, b, limit).tolist() == [True, False, True, True, False]
    assert agree(a, b, 0 * limit).tolist() == [False, False, True, True, False]
    assert agree(a, b, None).tolist() == [False, False, True, True, False]


def test_in_place(odd, capsys):
    kept = shutil.copy(odd, odd.with_name("kept.bin"))
    odd.chmod(0o600)
    assert run("pack", "-F", odd) == 0
    assert f"{odd} in place: " in capsys.readouterr().out
    assert odd.stat().st_mode & 0o777 == 0o600
    assert len(fc.open_all(odd)) == 6
    compare_files(kept, odd)
    assert run("unpack", "--in-place", odd) == 0
    assert fc.open_all(odd) == []
    compare_files(kept, odd)
    assert names(odd.parent) == ["kept.bin", "odd.fits"]


def test_unpack_deletes(floats):
    before = floats.read_bytes()
    assert run("pack", "-D", floats) == 0
    assert run("unpack", "-D", floats.with_name("noise.fits.fz")) == 0
    assert names(floats.parent) == ["noise.fits"]
    assert floats.read_bytes() == before


def test_in_place_follows_links(floats):
    link = floats.with_name("link.fits")
    link.symlink_to(floats)
    assert run("pack", "-F", link) == 0
    assert link.is_symlink()
    assert len(fc.open_all(floats)) == 1


# ---------------------------------------------------------------------------- many files


@pytest.fixture
def night(tmp_path):
    folder = tmp_path / "night"
    (folder / "below").mkdir(parents=True)
    for i, name in enumerate(["a.fits", "b.fit", "below/c.fits"]):
        write_plain(folder / name, sample("int16", (100, 80), i))
    fc.write(folder / "packed.fits", sample("int16", SHAPE))
    (folder / "readme.txt").write_text("not to be touched")
    return folder


@pytest.mark.parametrize("njobs", [1, 2])
def test_folders(night, njobs, capsys):
    before = {p: p.read_bytes() for p in night.rglob("*.fit*")}
    assert run("pack", night, "--jobs", njobs) == 0
    out = capsys.readouterr().out
    assert f"{night}/packed.fits: skipped: packed already" in out
    assert [line.split()[0].rstrip(":") for line in out.splitlines()[:3]] == [
        f"{night}/{name}" for name in ("a.fits", "b.fit", "packed.fits")
    ]
    assert "2 files done, 1 skipped, " in out
    assert not (night / "below" / "c.fits.fz").exists()
    assert run("pack", night, "--recursive", "--overwrite", "--jobs", njobs) == 0
    assert (night / "below" / "c.fits.fz").exists()
    for path in before:
        if path.name != "packed.fits":
            path.unlink()
    assert run("unpack", night, "--recursive", "--jobs", njobs, "-D") == 0
    assert {p: p.read_bytes() for p in night.rglob("*.fit*")} == before


def test_empty_folder(tmp_path, capsys):
    assert run("pack", tmp_path) == 1
    assert "holds no files named *.fits, *.fit" in capsys.readouterr().err


def test_failures_in_processes(night, capsys):
    write_plain(night / "c.fits", sample("int64", SHAPE))
    assert run("pack", "-r", night, "--jobs", "2") == 1
    out, err = capsys.readouterr()
    assert "c.fits: HDU 0: RICE_1 cannot hold int64 pixels" in err
    assert "2 files done, 1 skipped" in out
    assert not list(night.glob(".*"))


def test_jobs_can_be_pickled(floats):
    report = pack_file(floats, floats.with_name("a.fz"), PackOptions())
    assert pickle.loads(pickle.dumps(report)) == report
    outcome = jobs.Outcome(report)
    assert pickle.loads(pickle.dumps(outcome)) == outcome


def test_a_bug_in_one_file_leaves_others(night, monkeypatch, capsys):
    def fails(job, source):
        if job.source.endswith("a.fits"):
            raise KeyError("surprise")
        return ""

    monkeypatch.setattr(jobs, "nothing_to_do", fails)
    assert run("pack", night, "--jobs", "1") == 1
    assert "a.fits: KeyError: 'surprise'" in capsys.readouterr().err
    assert (night / "b.fit.fz").exists()


def test_meter():
    told = []
    meter = jobs.Meter(told.append, 100, 400)
    for nbytes in (100, 100, 300):
        meter(nbytes)
    assert told == [25, 25, 50]


def test_a_bar_on_a_terminal(floats, monkeypatch, capsys):
    pytest.importorskip("rich", reason="the bar is drawn with rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert run("pack", floats) == 0
    out, err = capsys.readouterr()
    assert f"{floats} -> " in out
    assert "pack" in err


@pytest.fixture
def at_work(night):
    """A command that packs several large files in two processes, both at work."""
    for i in range(4):
        write_plain(night / f"big{i}.fits", sample("int32", (2000, 1500), i))
    command = [sys.executable, "-m", "fitscodecs.cli", "pack", "-g2", "-D", night, "--jobs", "2"]
    # A shell that starts the tests in the background has them, and their children, ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        wait_for(lambda: len(list(night.glob(".big*.part"))) == 2)
        yield process


def wait_for(condition):
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


def worker_of(part):
    """The number of the process that writes a part of a file."""
    return int(part.name.split(".")[-2].partition("-")[0])


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(os.name != "posix", reason="signals are sent to processes")
@pytest.mark.parametrize("group", [False, True])
def test_interrupt(night, at_work, group):
    """Ctrl-C: nothing is left behind, whole files stay."""
    (os.killpg if group else os.kill)(at_work.pid, signal.SIGINT)
    _, err = at_work.communicate(timeout=60)
    assert (at_work.returncode, err) == (130, b"fitscodecs: interrupted\n")
    assert not list(night.glob(".*"))
    assert len(list(night.glob("big*.fits")) + list(night.glob("big*.fits.fz"))) == 4


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes in /proc")
def test_worker_that_is_killed(night, at_work):
    """Its file, and those that others were at, are done all the same."""
    os.kill(worker_of(next(night.glob(".big*.part"))), signal.SIGKILL)
    out, err = at_work.communicate(timeout=120)
    assert (at_work.returncode, err) == (0, b"")
    assert out.count(b"verified, original deleted") == 6
    assert not list(night.glob(".*"))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes in /proc")
def test_kill_of_the_first_process(night, at_work):
    """Its workers end too; another run removes what they left, and completes."""
    workers = [worker_of(part) for part in night.glob(".big*.part")]
    at_work.kill()
    wait_for(lambda: not any(map(is_running, workers)))
    assert len(list(night.glob("big*.fits")) + list(night.glob("big*.fits.fz"))) >= 4
    assert run("pack", "-g2", "-D", night, "--jobs", "2", "--overwrite") == 0
    assert not list(night.glob(".*"))
    assert len(list(night.glob("big*.fits.fz"))) == 4


def test_dask(night, capsys):
    distributed = pytest.importorskip("distributed", reason="a cluster needs dask[distributed]")
    assert run("pack", night, "--jobs", "1") == 0
    want = {p.name: p.read_bytes() for p in night.glob("*.fz")}
    write_plain(night / "wide.fits", sample("int64", SHAPE))
    with distributed.LocalCluster(
        n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        args = ["pack", "-r", night, "--overwrite", "--scheduler", cluster.scheduler_address]
        assert run(*args) == 1
    assert {p.name: p.read_bytes() for p in night.glob("*.fz")} == want
    out, err = capsys.readouterr()
    assert "wide.fits: HDU 0: RICE_1 cannot hold int64" in err
    assert "2 files done, 1 skipped" in out


def test_dask_is_missing(floats, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert run("pack", floats, "--scheduler", "tcp://127.0.0.1:1") == 1
    err = capsys.readouterr().err
    assert err == "fitscodecs: missing: distributed: pip install 'fitscodecs[dask]'\n"


# ---------------------------------------------------------------------------- kills


def test_kill_at_any_moment(tmp_path):
    """kill -9: the old file or the new one, whole; the next run cleans up and completes."""
    path = write_plain(tmp_path / "a.fits", sample("int32", (1200, 1500)))
    before = path.read_bytes()
    target = tmp_path / "a.fits.fz"
    command = [sys.executable, "-m", "fitscodecs.cli", "pack", "-g2", "--overwrite", path]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    whole = target.read_bytes()
    nkilled = 0
    for i in range(6):
        if i % 2:
            target.unlink(missing_ok=True)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            time.sleep(random.Random(i).uniform(0.2, 1) * seconds)
            process.kill()
        nkilled += process.returncode == -9
        assert path.read_bytes() == before
        assert not target.exists() or target.read_bytes() == whole
    assert nkilled
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert target.read_bytes() == whole
    assert names(tmp_path) == ["a.fits", "a.fits.fz"]


def test_kill_in_place(tmp_path):
    path = write_plain(tmp_path / "a.fits", sample("int32", (1200, 1500)))
    before = path.read_bytes()
    command = [sys.executable, "-m", "fitscodecs.cli", "pack", "-g2", "-F", path]
    for i in range(4):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            time.sleep(random.Random(i).uniform(0.3, 0.9))
            process.kill()
        if path.read_bytes() != before:
            break
    if path.read_bytes() == before:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with fc.open(path) as image:
        assert same_bits(image[...], sample("int32", (1200, 1500)))
    assert [n for n in names(tmp_path) if not n.startswith(".")] == ["a.fits"]


# ---------------------------------------------------------------------------- trial, estimate


def test_trial(odd, floats, capsys):
    assert run("pack", "--trial", odd, floats) == 0
    out = capsys.readouterr().out
    for name in [c.zcmptype[0] for c in fc.CODECS] + ["RICE_1 -q 4", "HCOMPRESS_1 -q 4"]:
        assert f"\n{name} " in out
    assert "HDU 1 (U): 50 x 40 int16" in out
    assert "not possible: HCOMPRESS_1 tiles of shape (300,)" in out
    assert names(odd.parent) == ["noise.fits", "odd.fits"]
    assert run("pack", "--trial", VECTORS / "files" / "cf_gzip2_i16.fits") == 1
    assert "no image to try" in capsys.readouterr().err


def test_estimate_is_near(tmp_path):
    rng = np.random.default_rng(4)
    path = write_plain(tmp_path / "a.fits", rng.normal(100, 5, (200, 500)).astype("f4"))
    options = PackOptions(quantize=fc.Quantize(method="SUBTRACTIVE_DITHER_1"))
    lossless = pack_file(path, tmp_path / "a.fz", PackOptions()).out_nbytes
    lossy = pack_file(path, tmp_path / "b.fz", options).out_nbytes
    assert trial.saving(tmp_path / "a.fz", options) == pytest.approx(lossless / lossy, rel=0.2)
    assert trial.saving(tmp_path / "b.fz", options) is None


# ---------------------------------------------------------------------------- repack


FILES = sorted((VECTORS / "files").glob("*.fits"))
CODECS = [None, *(c.zcmptype[0] for c in fc.CODECS)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_repacked_pixels_are_the_same(tmp_path, path, codec):
    """What other software wrote, in every algorithm that can hold it: no bit of a pixel changes."""
    target = tmp_path / "a.fits"
    try:
        repack_file(path, target, RepackOptions(compression=codec))
    except fc.EncodeError:
        assert codec is not None
        assert list(tmp_path.iterdir()) == []
        return
    for old, new in zip(fc.open_all(path), fc.open_all(target), strict=True):
        assert old.scaled == new.scaled
        assert same_bits(old[...], new[...])
        assert old[...].tobytes() == new[...].tobytes()
        if old.quantize is not None:
            assert new.quantize == old.quantize
            assert same_bits(new.table.scale, old.table.scale)
            assert same_bits(new.table.zero, old.table.zero)
            fallback = "GZIP_COMPRESSED_DATA"
            assert ((new.table.column == fallback) == (old.table.column != "COMPRESSED_DATA")).all()
        assert new.hdu.raw.count(b"HISTORY") == old.hdu.raw.count(b"HISTORY")


def test_repack_there_and_back(odd, capsys):
    assert run("pack", "-q", "4", odd) == 0
    packed = odd.with_name("odd.fits.fz")
    before = [image[...] for image in fc.open_all(packed)]
    other = odd.with_name("other.fz")
    assert run("repack", "-g2", packed, "-o", other) == 0
    assert "6 images compressed (GZIP_2)" in capsys.readouterr().out
    for image, pixels in zip(fc.open_all(other), before, strict=True):
        assert image[...].tobytes() == pixels.tobytes()
        assert type(image.codec) is fc.Gzip2
    compare_files(packed, other)


def test_repack_tiles(tmp_path, capsys):
    integers = write_plain(tmp_path / "i.fits", sample("uint16", SHAPE).astype("i2"), OBJECT="X")
    noise = write_plain(tmp_path / "f.fits", sample("float32", SHAPE))
    assert run("pack", "-q", "4", integers, noise, "--jobs", "1") == 0
    assert run("repack", "-t", "25,20", "-F", tmp_path / "i.fits.fz", tmp_path / "f.fits.fz") == 1
    assert "cannot become (20, 25): each tile has a scale" in capsys.readouterr().err
    with fc.open(tmp_path / "i.fits.fz") as image:
        assert image.tile_shape == (20, 25)
    assert run("unpack", tmp_path / "i.fits.fz", "-o", tmp_path / "j.fits") == 0
    assert (tmp_path / "j.fits").read_bytes() == integers.read_bytes()
    assert run("repack", "-t", "50,1", "-g1", "-F", tmp_path / "f.fits.fz") == 0
    assert run("repack", "--hcompress", "-F", tmp_path / "f.fits.fz") == 1
    assert run("repack", "--hcompress", "-F", tmp_path / "i.fits.fz") == 0
    assert run("repack", "-r", "-F", tmp_path / "i.fits") == 1
    assert "holds no compressed image" in capsys.readouterr().err


def test_repack_lossy_integers(tmp_path):
    path = write_plain(tmp_path / "a.fits", sample("int16", (64, 64)))
    with fits.open(path, mode="update", checksum=True) as hdus:
        hdus[0].add_checksum()
    assert run("pack", "--hcompress", "-s", "3", "--smooth", path) == 0
    pixels = fc.open(tmp_path / "a.fits.fz")[...]
    assert run("repack", "-r", "-F", tmp_path / "a.fits.fz") == 0
    image = fc.open(tmp_path / "a.fits.fz")
    assert same_bits(image[...], pixels)
    assert "ZDATASUM" not in image.hdu.header


def test_repack_many_null_integers(tmp_path):
    """A null integer for each tile, as a column."""
    import ref_build

    array = sample("float32", (3, 40))
    quantize = fc.Quantize(level=16)
    rows, codec = [], fc.Rice1()
    for row, blank in enumerate([-2147483647, 5, 7]):
        context = fc.DecodeContext(row=row, shape=(1, 40))
        integers = np.array(quantize.encode(array[row : row + 1], context=context))
        integers[0, 2] = blank
        rows.append([codec.encode(integers, context=context), context.scale, context.zero, blank])
    columns = [("COMPRESSED_DATA", "PB"), ("ZSCALE", "D"), ("ZZERO", "D"), ("ZBLANK", "J")]
    cards = ref_build.image_cards(
        -32, (40, 3), (40, 1), codec.zcmptype[0], [("BLOCKSIZE", 32), ("BYTEPIX", 4)],
        [("ZQUANTIZ", "NO_DITHER")],
    )  # fmt: skip
    path = tmp_path / "a.fits"
    ref_build.build(path, columns, rows, cards)
    before = fc.open(path)
    assert np.isnan(before[...][:, 2]).all()
    repack_file(path, tmp_path / "b.fits", RepackOptions(compression="GZIP_2"))
    after = fc.open(tmp_path / "b.fits")
    assert same_bits(after[...], before[...])
    assert after.table.blank.tolist() == [-2147483647, 5, 7]


# ---------------------------------------------------------------------------- fpack


@pytest.fixture
def fpack():
    program = shutil.which("fpack")
    if program is None:
        pytest.skip("fpack is not installed")
    return program


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32", "float64"])
@pytest.mark.parametrize("args", [[], ["-t", "20,10"], ["-g1"], ["-g2"], ["-h"]])
def test_like_fpack(tmp_path, fpack, dtype, args):
    """Streams, scales, zero points and seeds of fpack itself."""
    path = write_plain(tmp_path / "a.fits", sample(dtype, (40, 60)))
    theirs = tmp_path / "theirs.fz"
    subprocess.run([fpack, *args, "-qt", "4", "-O", theirs, path], check=True)
    ours = tmp_path / "ours.fz"
    args = ["--hcompress" if arg == "-h" else arg for arg in args]
    assert run("pack", "--like-fpack", *args, path, "-o", ours) == 0
    a, b = fc.open(theirs), fc.open(ours)
    assert (a.codec, a.quantize, a.tile_shape) == (b.codec, b.quantize, b.tile_shape)
    assert same_bits(a.table.scale, b.table.scale)
    assert same_bits(a.table.zero, b.table.zero)
    assert a[...].tobytes() == b[...].tobytes()
    if not a.codec.wrapped:  # deflate libraries may differ
        assert (a.table.nbytes == b.table.nbytes).all()


def test_funpack_reads_ours(odd):
    funpack = shutil.which("funpack")
    if funpack is None:
        pytest.skip("funpack is not installed")
    path = write_plain(odd.parent / "a.fits", sample("int16", SHAPE), OBJECT="M13")
    before = path.read_bytes()
    assert run("pack", "-D", path) == 0
    subprocess.run([funpack, f"{path}.fz"], check=True)
    assert same_bits(fc.open(path, hdu=0)[...], fc.open(before, hdu=0)[...])


def test_a_primary_that_says_something_stays(tmp_path):
    """Cards in front of an image that was a primary one are not lost when it is restored."""
    fits = pytest.importorskip("astropy.io.fits")
    pixels = np.arange(120, dtype="i2").reshape(10, 12)
    plain = tmp_path / "a.fits"
    fits.PrimaryHDU(pixels).writeto(plain)
    assert run("pack", plain) == 0
    packed = tmp_path / "a.fits.fz"
    with fits.open(packed, mode="update", disable_image_compression=True) as hdus:
        hdus[0].header["OBSERVER"] = "somebody"
    assert run("unpack", packed, "-o", tmp_path / "b.fits") == 0
    with fits.open(tmp_path / "b.fits") as hdus:
        assert hdus[0].header["OBSERVER"] == "somebody"
        assert np.array_equal(hdus[1].data, pixels)


def image_lines_of(*cards):
    """A plain extension with these cards, behind an empty primary HDU."""
    from fitscodecs.cards import card, header_block
    from fitscodecs.writer import PRIMARY

    lines = [card(*c) if isinstance(c, tuple) else c for c in cards]
    return PRIMARY + header_block(lines)


IMAGE = [("XTENSION", "IMAGE"), ("BITPIX", 16), ("NAXIS", 2), ("NAXIS1", 4), ("NAXIS2", 3)]


@pytest.mark.parametrize(
    "more",
    [
        [("PCOUNT", 7), ("GCOUNT", 1)],
        [("PCOUNT", 0), ("GCOUNT", 2)],
        [("PCOUNT", 0), ("GCOUNT", 1), ("TTYPE1", "mine")],
        [("PCOUNT", 0), ("GCOUNT", 1), ("ZSCALE", 2.0)],
        [("PCOUNT", 0), ("GCOUNT", 1), ("EXTNAME", "COMPRESSED_IMAGE")],
    ],
)
def test_images_that_a_table_cannot_stand_for(tmp_path, more, capsys):
    """Pixels or cards that could not be restored: the HDU is copied as it is, and that is said."""
    path = tmp_path / "a.fits"
    raw = image_lines_of(*IMAGE, *more) + np.arange(30, dtype=">i2").tobytes()
    path.write_bytes(raw + bytes(-len(raw) % 2880))
    before = path.read_bytes()
    assert run("pack", path, "--algorithm", "rice") == 0
    said = capsys.readouterr().out
    assert "kept" in said or "copied" in said or "skipped" in said
    packed = tmp_path / "a.fits.fz"
    if packed.exists():
        assert packed.read_bytes() == before


@pytest.mark.parametrize("name", ["X_COMPRESSED_IMAGE", "COMPRESSED_IMAGE_2", "SCI"])
def test_names_like_the_default_stay(tmp_path, name):
    path = tmp_path / "a.fits"
    raw = image_lines_of(*IMAGE, ("PCOUNT", 0), ("GCOUNT", 1), ("EXTNAME", name))
    raw += np.arange(12, dtype=">i2").tobytes()
    path.write_bytes(raw + bytes(-len(raw) % 2880))
    before = path.read_bytes()
    assert run("pack", path, "-D") == 0
    assert run("unpack", tmp_path / "a.fits.fz") == 0
    assert path.read_bytes() == before


def test_order_of_cards_of_a_primary(tmp_path):
    """PCOUNT and GCOUNT of a primary image may stand anywhere, and stay there."""
    from fitscodecs.cards import card, header_block

    cards = [("SIMPLE", True), ("BITPIX", 16), ("NAXIS", 1), ("NAXIS1", 12), ("EXTEND", True),
             ("OBJECT", "x"), ("PCOUNT", 0), ("GCOUNT", 1), ("TAIL", 2)]  # fmt: skip
    path = tmp_path / "a.fits"
    raw = header_block([card(*c) for c in cards]) + np.arange(12, dtype=">i2").tobytes()
    path.write_bytes(raw + bytes(-len(raw) % 2880))
    before = path.read_bytes()
    assert run("pack", path, "-D") == 0
    assert run("unpack", tmp_path / "a.fits.fz") == 0
    assert path.read_bytes() == before


def test_comment_of_an_owner_is_no_boilerplate(tmp_path):
    fits = pytest.importorskip("astropy.io.fits")
    packed = tmp_path / "a.fits.fz"
    primary = fits.PrimaryHDU()
    primary.header.add_comment("precious")
    image = fits.CompImageHDU(np.zeros((5, 6), "i2"), header=fits.PrimaryHDU(np.zeros(3)).header)
    fits.HDUList([primary, image]).writeto(packed)
    assert run("unpack", packed) == 0
    with fits.open(tmp_path / "a.fits") as hdus:
        assert list(hdus[0].header["COMMENT"]) == ["precious"]


def test_checksums_after_a_lossy_scale_of_one(tmp_path):
    fits = pytest.importorskip("astropy.io.fits")
    path = tmp_path / "a.fits"
    pixels = np.random.default_rng(1).normal(120, 20, (64, 64)).astype("i2")
    fits.PrimaryHDU(pixels).writeto(path, checksum=True)
    assert run("pack", "--hcompress", "-s", "1", path) == 0
    assert run("unpack", tmp_path / "a.fits.fz", "-o", tmp_path / "b.fits") == 0
    with fits.open(tmp_path / "b.fits", checksum=True) as hdus:  # a wrong one is a warning
        assert abs(hdus[0].data - pixels).max() > 0


def test_a_source_is_no_target(tmp_path):
    """Files of one name from two folders: the second is not destroyed by the first."""
    plain = sample("int16", (20, 30))
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        fc.write(tmp_path / folder / "a.fits.fz", plain + len(folder))
    plain_two = (tmp_path / "two" / "a.fits.fz").read_bytes()
    status = run("repack", "--algorithm", "gzip2", tmp_path / "one" / "a.fits.fz",
                 tmp_path / "two" / "a.fits.fz", "-o", tmp_path / "two", "--overwrite")  # fmt: skip
    assert status == 1
    assert (tmp_path / "two" / "a.fits.fz").read_bytes() == plain_two


def test_threads_that_write_one_file(tmp_path):
    """The file is always a whole one, and nothing is left over."""
    import threading

    path = tmp_path / "a.fits"
    images = [np.full((60, 60), k, "i2") for k in range(4)]
    threads = [threading.Thread(target=fc.write, args=(path, image), kwargs={"overwrite": True})
               for image in images for _ in range(5)]  # fmt: skip
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            assert len(np.unique(fc.open(path)[...])) == 1
    for thread in threads:
        thread.join()
    assert list(tmp_path.iterdir()) == [path]


def test_like_fpack_writes_the_alias(tmp_path):
    """Readers that do not know SUBTRACTIVE_DITHER_2 must not take the algorithm for granted."""
    path = tmp_path / "a.fits"
    pixels = sample("float32", (20, 100))
    path.write_bytes(plain_hdu(pixels, primary=True))
    for options, name in ((["--like-fpack", "-qz", "4"], "RICE_ONE"), (["-qz", "4"], "RICE_1")):
        assert run("pack", path, *options, "--overwrite") == 0
        with fc.open(tmp_path / "a.fits.fz") as image:
            assert image.hdu.header["ZCMPTYPE"] == name
            assert abs(image[...] - pixels).max() < 3
