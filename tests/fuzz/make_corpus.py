"""Writes the seeds of the fuzzers: small files of every format, syntax and variant, made here, and the
small ones of ../shared where it is. tests/fuzz/run calls it.
    build/test-venv/bin/python tests/fuzz/make_corpus.py FOLDER
"""

import os
import pathlib
import subprocess
import sys
import warnings

import nibabel as nib
import numpy as np
import pydicom
import tifffile
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
sys.path[:0] = [str(ROOT / "tests/extract/decode"), str(ROOT / "tests/extract/decode/dicom")]
import bitmaps  # noqa: E402
import test_dicom  # noqa: E402
import test_dicom_codecs  # noqa: E402

RNG = np.random.default_rng(4)


def picture(*shape, dtype=np.uint8):
    return RNG.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


def copy_shared(folder, pattern, max_bytes=100_000):
    """Leaves out larger files: they are mutated too slowly to be worth it."""
    for path in sorted((SHARED / "data").glob(pattern)):
        if path.is_file() and path.stat().st_size <= max_bytes:
            (folder / f"shared_{path.name}").write_bytes(path.read_bytes())


def make_dicom(folder):
    warnings.filterwarnings("ignore")
    # These are as small as JPEG 2000 takes: most of what is to be tried lies in the headers.
    test_dicom.ROWS, test_dicom.COLUMNS = 33, 35
    timed = {"bits": 8, "allocated": 8, "FrameTimeVector": ["0", "40", "41"], "frames": 3}
    pictures = {**test_dicom.UNCOMPRESSED, **test_dicom_codecs.GREY, **test_dicom_codecs.COLOR}
    for name, options in {**pictures, "time vector": timed}.items():
        dataset, values = test_dicom.make(options)
        plain = folder / f"{name}.dcm"
        test_dicom.store(dataset, plain, values)
    for name, (command, taken, _) in test_dicom_codecs.TOOLS.items():
        for index, picture_name in enumerate(taken):
            coded = folder / f"{name} {index}.dcm"
            subprocess.run([command[0], *command[1:], folder / f"{picture_name}.dcm", coded], check=True)
    for name, (syntax, options, _) in test_dicom_codecs.ENCODED.items():
        for picture_name in ("12 bits", "RGB"):
            dataset = pydicom.dcmread(folder / f"{picture_name}.dcm")
            dataset.compress(syntax, generate_instance_uid=False, **options)
            dataset.save_as(folder / f"{name} {picture_name}.dcm")
    copy_shared(folder, "dicom/*/*", 50_000)


def make_nifti(folder):
    for number in ("u1", "i2", "u2", "i4", "f4", "f8", "i8"):
        data = (RNG.random((5, 4, 3)) * 100).astype(number)
        nib.save(nib.Nifti1Image(data, np.diag([-1, 2, 3, 1]), dtype=number), folder / f"{number}.nii")
    data = RNG.random((4, 3, 2, 3)).astype("f4")
    nib.save(nib.Nifti1Image(data, np.eye(4)), folder / "time.nii")
    nib.save(nib.Nifti1Image(data, np.eye(4)), folder / "time.nii.gz")
    nib.save(nib.Nifti2Image(data, np.eye(4)), folder / "second.nii")
    image = nib.Nifti1Image(data[..., 0], [[0, -2, 0, 1], [1, 0, 0, 0], [0, 0, -3, 0], [0, 0, 0, 1]])
    image.header["cal_max"] = 0.5
    nib.save(image, folder / "turned.nii")
    rgb = np.zeros((4, 3, 2), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    nib.save(nib.Nifti1Image(rgb, np.eye(4)), folder / "rgb.nii")
    swapped = nib.Nifti1Header(endianness=">")
    swapped.set_data_dtype(">i2")
    nib.save(nib.Nifti1Image(np.ones((4, 3, 2), ">i2"), np.eye(4), swapped), folder / "swapped.nii")
    for kind in (nib.Nifti1Pair, nib.Spm2AnalyzeImage):
        stem = folder / kind.__name__
        nib.save(kind(data[..., 0], np.eye(4)), f"{stem}.img")
        # The fuzzer cuts a pair behind its header.
        pair = stem.with_suffix(".hdr").read_bytes()[:348] + stem.with_suffix(".img").read_bytes()
        for suffix in (".hdr", ".img", ".mat"):
            stem.with_suffix(suffix).unlink(missing_ok=True)
        stem.with_suffix(".pair").write_bytes(pair)
    copy_shared(folder, "nifti/**/*.nii*", 10_000)


def make_tiff(folder):
    grey, deep, rgb = picture(9, 11), picture(9, 11, dtype=np.uint16), picture(9, 11, 3)
    for name, values in {"grey": grey, "deep": deep, "rgb": rgb}.items():
        tifffile.imwrite(folder / f"{name}.tif", values, rowsperstrip=4)
        for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
            Image.fromarray(values).save(folder / f"{name}_{compression}.tif", compression=compression,
                                         tiffinfo={317: 2} if compression == "tiff_lzw" else {})
    for name, options in {"tiled": {"tile": (16, 16)}, "big": {"bigtiff": True},
                          "swapped": {"byteorder": ">"},
                          "planes": {"planarconfig": "separate", "photometric": "rgb"},
                          "inverted": {"photometric": "miniswhite"}}.items():
        values = np.moveaxis(rgb, -1, 0) if name == "planes" else grey if name == "inverted" else rgb
        tifffile.imwrite(folder / f"{name}.tif", values, **options)
    tifffile.imwrite(folder / "planes_tiled.tif", np.moveaxis(rgb, -1, 0), photometric="rgb",
                     planarconfig="separate", tile=(16, 16), compression="zlib")
    for kind in ("i1", "i2", "i4", "u4", "f4", "f8"):
        tifffile.imwrite(folder / f"{kind}.tif", (100 * RNG.random((9, 11))).astype(kind))
    tifffile.imwrite(folder / "stack.tif", picture(4, 9, 11), photometric="minisblack")
    tifffile.imwrite(folder / "deep_stack.tif", picture(4, 9, 11, dtype=np.uint16),
                     photometric="minisblack", compression="zlib")
    still = Image.fromarray(rgb)
    still.convert("1").save(folder / "bits.tif", compression="group4")
    still.convert("1").save(folder / "bits_plain.tif")
    still.convert("P").save(folder / "palette.tif")
    still.convert("RGBA").save(folder / "alpha.tif")
    still.convert("LA").save(folder / "grey_alpha.tif")
    still.convert("CMYK").save(folder / "cmyk.tif")
    still.save(folder / "jpeg_ycc.tif", compression="jpeg")
    for orientation in range(2, 9):
        tifffile.imwrite(folder / f"turned{orientation}.tif", grey,
                         extratags=[(274, "H", 1, orientation, True)])


def make_image(folder):
    still = Image.fromarray(picture(17, 19, 3))
    exif = Image.Exif()
    exif[274] = 6
    for name, mode, options in [
            ("rgb.jpg", "RGB", {}), ("grey.jpg", "L", {}), ("cmyk.jpg", "CMYK", {}),
            ("progressive.jpg", "RGB", {"progressive": True, "exif": exif}),
            ("restarts.jpg", "RGB", {"restart_marker_blocks": 1, "subsampling": 0}),
            ("rgb.png", "RGB", {}), ("grey.png", "L", {}), ("palette.png", "P", {}), ("bits.png", "1", {}),
            ("alpha.png", "RGBA", {"exif": exif}), ("grey_alpha.png", "LA", {}), ("deep.png", "I;16", {}),
            ("lossy.webp", "RGB", {}), ("lossless.webp", "RGB", {"lossless": True}),
            ("alpha.webp", "RGBA", {"exif": exif})]:
        image = Image.fromarray(picture(17, 19, dtype=np.uint16)) if mode == "I;16" else still.convert(mode)
        image.save(folder / name, **options)
    for kind, dtype in (("u1", np.uint8), ("u2", ">u2"), ("f4", np.float32)):
        np.save(folder / f"{kind}.npy", picture(2, 9, 11).astype(dtype))
    np.save(folder / "rgb.npy", picture(2, 9, 11, 3))
    for name, mode, options in [("rgb.jp2", "RGB", {}), ("grey.j2k", "L", {}), ("lossy.jp2", "RGBA", {"irreversible": True})]:
        still.convert(mode).save(folder / name, **options)
    Image.fromarray(picture(17, 19, dtype=np.uint16)).save(folder / "deep.jp2")
    still.save(folder / "rgb.ppm")
    still.convert("L").save(folder / "grey.pgm")
    (folder / "text.ppm").write_text("P3 # two\n2 1 9\n1 2 3 4 5 9\n")
    (folder / "deep.pgm").write_bytes(b"P5 3 1 4095\n" + bytes([0, 1, 2, 3, 15, 255]))
    for name, content in bitmaps.variants(still).items():
        (folder / f"{name}.bmp").write_bytes(content)


# Names of clips with what FFmpeg is told of them; each codec in a container that it is common in.
CLIPS = {
    "h264.mp4": ["-c:v", "libx264"], "h264_bframes.mkv": ["-c:v", "libx264", "-bf", "2"],
    "turned.mov": ["-c:v", "mpeg4"], "mpeg4.avi": ["-c:v", "mpeg4"], "mjpeg.avi": ["-c:v", "mjpeg"],
    "raw.avi": ["-c:v", "rawvideo", "-pix_fmt", "bgr24"], "ffv1.mkv": ["-c:v", "ffv1"],
    "huffyuv.avi": ["-c:v", "huffyuv"], "vp8.webm": ["-c:v", "libvpx"], "vp9.webm": ["-c:v", "libvpx-vp9"],
    "mpeg1.mpg": ["-c:v", "mpeg1video"], "mpeg2.ts": ["-c:v", "mpeg2video"], "plain.m2v": ["-c:v", "mpeg2video"],
    "wmv2.wmv": ["-c:v", "wmv2"], "theora.ogv": ["-c:v", "libtheora"], "flv1.flv": ["-c:v", "flv"],
    "prores.mov": ["-c:v", "prores"], "png.mov": ["-c:v", "png"], "qtrle.mov": ["-c:v", "qtrle"],
    "fragments.mp4": ["-c:v", "libx264", "-movflags", "frag_keyframe+empty_moov"],
    "fast.mp4": ["-c:v", "libx264", "-movflags", "faststart"], "hevc.mp4": ["-c:v", "libx265"],
    "moving.gif": [], "msvideo1.avi": ["-c:v", "msvideo1", "-pix_fmt", "rgb555le"],
    "cinepak.avi": ["-c:v", "cinepak"],
    "svq1.mov": ["-c:v", "svq1"], "jpeg2000.mov": ["-c:v", "jpeg2000"], "utvideo.avi": ["-c:v", "utvideo"],
    "zlib.avi": ["-c:v", "zlib"], "ffvhuff.avi": ["-c:v", "ffvhuff"], "h263.mov": ["-c:v", "h263", "-s", "128x96"],
    "msmpeg4.avi": ["-c:v", "msmpeg4v2"], "v210.mov": ["-c:v", "v210"],
}


def make_clip(folder):
    for name, options in CLIPS.items():
        path = folder / name
        done = subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=s=32x24:r=25",
                               "-frames:v", "4", *options, path], capture_output=True, text=True)
        if done.returncode != 0:  # this FFmpeg cannot write it
            print(f"{name}: {done.stderr.splitlines()[-1]}", file=sys.stderr)
            path.unlink(missing_ok=True)
    for angle in (90, 180):
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-display_rotation", str(angle), "-i",
                        folder / "fast.mp4", "-c", "copy", folder / f"turned{angle}.mp4"], check=False,
                       capture_output=True)
    still = Image.fromarray(picture(9, 11, 3))
    for name, options in {"pillow.gif": {"disposal": 2}, "pillow.png": {"disposal": 1, "blend": 1}}.items():
        still.save(folder / name, save_all=True, duration=[30, 70],
                   append_images=[Image.fromarray(picture(9, 11, 3))], **options)
    copy_shared(folder, "pocus/**/*.gif")


MANIFESTS = [
    "exam,path\na,1.png\na,2.png\nb,3.mp4\n",
    "exam,path,frame,time,patient,split,note\na,1.png,0,0,p,train,x\na,1.png,1-3,0.5,p,train,y\n",
    "path,exam,time\n1.png,a,2021-03-04T05:06:07.25+02:00\n,a,2022-01-01\n",
    'exam,path,crop\n"a ""b""\n c",x.png,"1,2,3,4"\nd,y.png,auto\n',
    "\ufeffexam;path\r\na;1.png\r\n", "exam,path,frame\na,x.dcm,9223372036854775807\n", "exam,path\n",
]


def make_manifest(folder):
    for index, text in enumerate(MANIFESTS):
        (folder / f"{index}.csv").write_text(text, newline="")
    copy_shared(folder, "pocus/*.csv")


def make_cache(folder):
    """Caches without their trailers, which the fuzzer writes anew; by the driver of the cache's own tests."""
    driver = pathlib.Path(os.environ.get("COLDFRAME_BUILD", ROOT / "build")) / "tests" / "cache_driver"
    for exams in (1, 2, 4):
        path = folder / f"{exams}.h5"
        path.unlink(missing_ok=True)
        subprocess.run([driver, "write", path, "0", str(exams)], check=True, capture_output=True)
        path.write_bytes(path.read_bytes()[:-16])
    path = folder / "without_thumbnails.h5"
    path.unlink(missing_ok=True)
    subprocess.run([driver, "stamped", path, "exam", __file__], check=True, capture_output=True)
    path.write_bytes(path.read_bytes()[:-16])


MAKERS = {"cache": make_cache, "clip": make_clip, "dicom": make_dicom, "image": make_image,
          "manifest": make_manifest, "nifti": make_nifti, "tiff": make_tiff}


def main(folder):
    for reader, make in MAKERS.items():
        seeds = folder / reader
        seeds.mkdir(parents=True, exist_ok=True)
        make(seeds)
        print(f"{reader}: {len(list(seeds.iterdir()))} seeds")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
