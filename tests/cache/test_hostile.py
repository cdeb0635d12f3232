"""Files whose checksum is right but whose content FORMAT.md does not allow: refused with a reason,
never a crash."""
import hashlib
import json
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

from tool_support import ROOT, driver, tool


def new_file(path):
    """A file whose attributes stay in the root group's header, as FORMAT.md wants them."""
    creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    creation.set_attr_phase_change(64, 0)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_V110, h5py.h5f.LIBVER_V110)
    return h5py.File(h5py.h5f.create(bytes(path), h5py.h5f.ACC_TRUNC, creation, access))


def strip_and_edit(source, path, edit):
    """A valid cache, rewritten by h5py through `edit`, with a trailer that matches."""
    with h5py.File(source) as old, new_file(path) as new:
        for name in old:
            old.copy(name, new)
        for name, value in old.attrs.items():
            attribute = old.attrs.get_id(name)
            new.attrs.create(name, value, dtype=attribute.dtype if attribute.dtype.kind != "S"
                             else h5py.string_dtype("utf-8", attribute.dtype.itemsize),
                             shape=attribute.shape)
        edit(new)
    driver("seal", path)


def replace(f, name, **options):
    data = f[name][:]
    del f[name]
    f.create_dataset(name, **{"data": data, "chunks": True, "fletcher32": True, **options})


def edit_values(name, change):
    def edit(f):
        values = f[name][:]
        change(values)
        f[name][...] = values
    return edit


def soft_link(f):
    f["copy"] = f["frames/index"][:]
    del f["frames/index"]
    f["frames/index"] = h5py.SoftLink("/copy")


def external_link(f):
    del f["frames/index"]
    f["frames/index"] = h5py.ExternalLink("/etc/passwd", "/x")


def second_name(f):
    del f["exams/height"]
    f["exams/height"] = f["exams/width"]


def sparse(f):
    del f["frames/time_s"]
    f.create_dataset("frames/time_s", (10**15,), "f8", chunks=(1 << 20,), fletcher32=True)


def sparse_but_small(f):
    n = len(f["frames/time_s"])
    del f["frames/time_s"]
    f.create_dataset("frames/time_s", (n,), "f8", chunks=(n,), fletcher32=True)


def huge_chunks(f):
    del f["frames/time_s"]
    f.create_dataset("frames/time_s", (0,), "f8", maxshape=(None,), chunks=(1 << 27,), fletcher32=True)


def variable_text(f):
    n = len(f["exams/id"])
    del f["exams/id"]
    f.create_dataset("exams/id", data=["x"] * n, dtype=h5py.string_dtype(), chunks=True)


def virtual(f):
    n = len(f["frames/index"])
    layout = h5py.VirtualLayout((n,), "i8")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (n,))
    del f["frames/index"]
    f.create_virtual_dataset("frames/index", layout)


def external_storage(f):
    n = len(f["frames/index"])
    del f["frames/index"]
    f.create_dataset("frames/index", (n,), "i8", external=[("/etc/passwd", 0, 8 * n)])


def fall(values):
    values[1] = values[2]


def last_too_large(values):
    values[-1] += 1


def first_too_large(values):
    values[0] = 1


def huge(values):
    values[-1] = 1 << 62


def renamed(f):
    f.move("thumbnails", "pictures")


def attributes_in_a_heap(f):
    for i in range(80):  # more than new_file lets the header hold
        f.attrs[f"more {i}"] = i


def attribute(name, value):
    def edit(f):
        dtype = h5py.string_dtype("utf-8", len(value)) if isinstance(value, bytes) else None
        f.attrs.create(name, value, dtype=dtype)
    return edit


def recipe_with(cut):
    def edit(f):
        recipe = json.loads(f.attrs["recipe"])
        recipe["storage"].pop("cut")
        if cut:
            recipe["storage"]["cut"] = cut
        text = json.dumps(recipe, sort_keys=True, separators=(",", ":"))
        for name, value in ("recipe", text), ("cache_digest", hashlib.sha256(text.encode()).hexdigest()):
            attribute(name, value.encode())(f)
    return edit


CASES = {
    "untouched": (lambda f: None, None),
    "soft link": (soft_link, "unexpected object 'copy'"),
    "external link": (external_link, "soft or an external link"),
    "second name": (second_name, "several names"),
    "dimensions beyond the file": (sparse, "more rows than fit in the file"),
    "missing chunks": (sparse_but_small, "missing chunks"),
    "may grow": (huge_chunks, "may grow"),
    "variable-length text": (variable_text, "a type that this format does not have"),
    "virtual storage": (virtual, "is not chunked"),
    "external storage": (external_storage, "lies in an external file"),
    "contiguous": (lambda f: replace(f, "frames/index", chunks=None, fletcher32=False),
                   "is not chunked"),
    "gzip": (lambda f: replace(f, "frames/index", compression="gzip"), "filters other than"),
    "no checksum": (lambda f: replace(f, "frames/index", fletcher32=False), "filters other than"),
    "other type": (lambda f: replace(f, "frames/index", dtype=">i4"), "does not have"),
    "other size": (lambda f: replace(f, "frames/index", data=np.arange(3)), "was expected"),
    "dataset missing": (lambda f: f.__delitem__("exams/patient"), "patient is missing"),
    "extra dataset": (lambda f: f.create_dataset("more", data=1), "unexpected object 'more'"),
    "group for a dataset": (lambda f: (f.__delitem__("exams/id"), f.create_group("exams/id")),
                            "is not a dataset"),
    "offsets that fall": (edit_values("exams/offset", fall), "does not rise"),
    "offsets beyond the end": (edit_values("exams/offset", last_too_large), "does not rise"),
    "thumbnails that start late": (edit_values("thumbnails/offset", first_too_large), "does not start at 0, or falls"),
    "thumbnails that fall": (edit_values("thumbnails/offset", lambda v: v.__setitem__(1, v[2] + 1)), "or falls"),
    "thumbnails beyond the end": (edit_values("thumbnails/offset", last_too_large), "thumbnails/data is uint8 ["),
    "thumbnails of exabytes": (edit_values("thumbnails/offset", huge), "[4611686018427387904] was expected"),
    "thumbnails of other frames": (lambda f: replace(f, "thumbnails/offset", data=f["thumbnails/offset"][:-1]),
                                   "was expected"),
    "a thumbnail of a missing frame": (edit_values("thumbnails/offset", lambda v: v.__setitem__(1, 0)), "differ in which"),
    "other thumbnails": (edit_values("thumbnails/data", lambda v: v.fill(1)), "thumbnails do not match"),
    "thumbnails of another type": (lambda f: replace(f, "thumbnails/data", dtype="<i4"), "thumbnails/data is int32"),
    "thumbnails missing": (lambda f: f.__delitem__("thumbnails"), "thumbnails is missing in /"),
    "thumbnails' checksums missing": (lambda f: f.__delitem__("thumbnails/checksum"), "checksum is missing in thumbnails"),
    "thumbnails under another name": (renamed, "unexpected object 'pictures'"),
    "odd mask": (edit_values("frames/present", lambda v: v.fill(7)), "other than 0 and 1"),
    "text that is not UTF-8": (edit_values("exams/id", lambda v: v.fill(b"\xff")), "not UTF-8"),
    "empty id": (edit_values("exams/id", lambda v: v.fill(b"")), "has no id"),
    "other features": (edit_values("features/clean", lambda v: v.fill(1)), "do not match"),
    "other cut": (edit_values("cut/clean", lambda v: v.fill(1)), "the cut rows of view clean do not match"),
    "a cut of other tokens": (lambda f: replace(f, "cut/clean", data=f["cut/clean"][:, :2]),
                              "the cut rows of view clean are float16 ["),
    "a cut of another type": (lambda f: replace(f, "cut/clean", dtype="<f4"), "the cut rows of view clean are float32 ["),
    "a cut of other frames": (lambda f: replace(f, "cut/clean", data=f["cut/clean"][:-1]), "views differ in their frames"),
    "a cut of five dimensions": (lambda f: replace(f, "cut/clean", data=f["cut/clean"][:][:, None, None]), "has 5 dimensions"),
    "a cut of a view alone": (lambda f: f.__delitem__("cut/flip%2F1"), "is missing in cut"),
    "a cut of a further view": (lambda f: f.copy("cut/clean", "cut/more"), "unexpected object 'more' in cut"),
    "cut missing": (lambda f: f.__delitem__("cut"), "cut is missing in /"),
    "cut that is none": (lambda f: (f.__delitem__("cut"), f.create_dataset("cut", data=1)), "cut"),
    "checksums without the cut's": (lambda f: replace(f, "exams/checksum", data=f["exams/checksum"][:, :2]), "was expected"),
    "impossible cut": (recipe_with({"block": 2, "shape": [3, 5, 7]}), "expected a block and the shape of its tokens"),
    "cut of exabytes": (recipe_with({"block": 2, "shape": [1 << 20, 1 << 20]}), "expected a block and the shape"),
    "another cut": (recipe_with({"block": 2, "shape": [5, 3]}), "the cut rows of view clean are float16 ["),
    "pixels that are tokens": (recipe_with({"block": 0, "shape": [1, 5, 3]}), "the cut rows of view clean are float16 ["),
    "no cut in the recipe": (recipe_with(None), "unexpected object 'cut'"),
    "other format": (attribute("format", b"something"), "not a Coldframe cache"),
    "newer version": (attribute("format_version", 2), "format version 2"),
    "recipe that is no JSON": (attribute("recipe", b"{"), "not valid JSON"),
    "recipe of another digest": (attribute("recipe", b'{"features":{},"storage":{}}'), "digests"),
    "impossible dimension": (attribute("dimension", -1), "dimension -1"),
    "attributes in a heap": (attributes_in_a_heap, "in a heap"),
    "attribute missing": (lambda f: f.attrs.__delitem__("views"), "attribute views is missing"),
}


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "valid.h5"
    driver("write", path, 0, 3)
    return path


@pytest.mark.parametrize("case", CASES)
def test_is_refused_with_its_reason(valid, tmp_path, case):
    edit, reason = CASES[case]
    path = tmp_path / "x.h5"
    strip_and_edit(valid, path, edit)
    result = tool("verify", path)
    if reason is None:
        assert result.returncode == 0, result.stdout + result.stderr
        return
    assert result.returncode == 1, (result.returncode, result.stderr)
    assert reason in result.stdout
    # Statistics are about features alone.
    assert tool("stats", path).returncode == (0 if case in ("other thumbnails", "other cut") else 3)


def test_a_plain_hdf5_file_is_called_one(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w", libver=("v110", "v110")) as f:
        f["x"] = 1
    assert "without Coldframe's checksum" in tool("info", tmp_path / "x.h5").stderr
    with h5py.File(tmp_path / "y.h5", "w") as f:
        f["x"] = 1
    assert "not one that Coldframe wrote" in tool("info", tmp_path / "y.h5").stderr
    shutil.copy("/etc/passwd", tmp_path / "z.h5")
    assert "not an HDF5 file" in tool("info", tmp_path / "z.h5").stderr


def test_the_tool_survives_malformed_files():
    done = subprocess.run([sys.executable, ROOT / "tests" / "soak" / "malformed", "10"],
                          capture_output=True, text=True)
    assert done.returncode == 0 and "0 crashes or hangs" in done.stdout, done.stdout + done.stderr
