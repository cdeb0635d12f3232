"""Damaged and forged bundles: what they bring in is refused by name, and nothing is lost."""
import hashlib
import json
import shutil

from bundle_support import bundle, coldframe, files_of, flip, made  # noqa: F401 (made is a fixture)


def test_a_flipped_byte_is_refused_by_name(made, tmp_path):
    copy = shutil.copytree(made.bundle, tmp_path / "copy.bundle")
    places = {path: [0, path.stat().st_size // 2, path.stat().st_size - 1] for path in files_of(copy)}
    sums = places.pop(copy / "SHA256SUMS")
    for offset in sums:
        flip(copy / "SHA256SUMS", offset)
        assert "'SHA256SUMS'" in coldframe("bundle", "verify", copy, expect=3).stderr
        flip(copy / "SHA256SUMS", offset)
    for which in range(3):
        for path, offsets in places.items():
            flip(path, offsets[which])
        found = json.loads(coldframe("bundle", "verify", copy, "--json", expect=1).stdout)["findings"]
        assert [line.split("'")[1] for line in found] == [str(path.relative_to(copy)) for path in places]
        assert all("damaged or altered" in line for line in found)
        for path, offsets in places.items():
            flip(path, offsets[which])
    refused = ["predict", "--bundle", copy, "--input", made.exams, "--out", tmp_path / "p.csv"]
    for path in [*places, copy / "SHA256SUMS"]:
        flip(path, path.stat().st_size // 2)
        assert f"'{path.relative_to(copy)}'" in coldframe(*refused, expect=3).stderr
        flip(path, path.stat().st_size // 2)
    assert not (tmp_path / "p.csv").exists()
    coldframe("bundle", "verify", copy)
    (copy / "extract.ini").unlink()
    (copy / "notes.txt").write_text("mine")
    found = json.loads(coldframe("bundle", "verify", copy, "--json", expect=1).stdout)["findings"]
    assert found == ["'extract.ini' is missing", "'notes.txt' is not a file of the bundle; take it out"]


def reseal(folder):
    """SHA256SUMS of the files as they are now, as whoever alters a bundle can make it."""
    names = sorted(str(path.relative_to(folder)) for path in files_of(folder) if path.name != "SHA256SUMS")
    lines = "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
    seal = hashlib.sha256(lines.encode()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{lines}# SHA-256 of the lines above: {seal}\n")


def test_sealed_names_stay_inside(made, tmp_path):
    copy = shutil.copytree(made.bundle, tmp_path / "copy.bundle")
    (tmp_path / "out").write_text("evil")
    given = (copy / "SHA256SUMS").read_text().splitlines()[:-1]
    digest = hashlib.sha256(b"evil").hexdigest()
    for name in ["../out", f"{tmp_path}/out", f"/{tmp_path}/out", "models/../../out", "./out", "models/./out", "..", ".", ".out",
                 "models//out", "models/", "models\\out", "out\x1b"]:
        lines = "".join(f"{line}\n" for line in sorted([*given, f"{digest}  {name}"], key=lambda line: line[66:]))
        seal = hashlib.sha256(lines.encode()).hexdigest()
        (copy / "SHA256SUMS").write_text(f"{lines}# SHA-256 of the lines above: {seal}\n")
        said = coldframe("bundle", "show", copy, expect=3).stderr
        assert "is no checksum of a file in the bundle" in said, name


def test_sealed_recipes_are_held_against_the_options(made, tmp_path):
    copy = shutil.copytree(made.bundle, tmp_path / "copy.bundle")
    given = json.loads((copy / "bundle.json").read_text())
    predict = ["predict", "--bundle", copy, "--input", made.exams, "--device", "cpu"]
    for place, value, said in [("image_size", 7, "8 to 4096"), ("mean", [127.5] * 3, "0…255"), ("std", None, "preprocessing.std"),
                               ("resize", "wide", "resize"), ("sharpen", 1, "preprocessing.sharpen"), ("resize", "squash", "recipe")]:
        facts = json.loads(json.dumps(given))
        facts["recipe"]["features"]["preprocessing"][place] = value
        (copy / "bundle.json").write_text(json.dumps(facts))
        reseal(copy)
        assert said in coldframe(*predict, "--out", tmp_path / "p.csv", expect=3).stderr, place
    assert not (tmp_path / "p.csv").exists()
    (copy / "bundle.json").write_text(json.dumps(given))
    (copy / "extract.ini").write_text("keep-patient-id = true\nimage-size = 32\n")  # is for people
    reseal(copy)
    for bundle_of, out in [(copy, "p.csv"), (made.bundle, "q.csv")]:
        coldframe("predict", "--bundle", bundle_of, "--input", made.exams, "--device", "cpu", "--precision", "fp32", "--out", tmp_path / out)
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "q.csv").read_bytes()


def test_sealed_facts_are_whole(made, tmp_path):
    copy = shutil.copytree(made.bundle, tmp_path / "copy.bundle")
    given = json.loads((copy / "bundle.json").read_text())
    places = ["name", "license", "models", "feature_digest", "targets", "targets/0/name", "targets/0/task", "targets/0/classes",
              "training/model", "backbone/kind", "recipe", "recipe/features/backbone", "format"]
    wrong = ["models", "targets", "targets/0/name", "format"]
    for place, value in [*((place, None) for place in places), *((place, [[]]) for place in wrong)]:
        facts = json.loads(json.dumps(given))
        *above, last = [int(key) if key == "0" else key for key in place.split("/")]
        at = facts
        for key in above:
            at = at[key]
        if value is None:
            del at[last]
        else:
            at[last] = value
        (copy / "bundle.json").write_text(json.dumps(facts))
        reseal(copy)
        said = coldframe("bundle", "show", copy, expect=3).stderr
        assert str(copy) in said and "json.exception" not in said, place


def test_links_to_folders_are_nobody_s(made, tmp_path):
    copy = shutil.copytree(made.bundle, tmp_path / "copy.bundle")
    (copy / "controls/evil").symlink_to(made.bundle / "controls/mean", target_is_directory=True)
    assert "'controls/evil' is not a file of the bundle" in coldframe("bundle", "verify", copy, expect=1).stdout
    assert "'controls/evil'" in coldframe("bundle", "show", copy, expect=3).stderr


def test_links_to_files_are_refused_but_for_the_hub_s(made, tmp_path):
    copy = shutil.copytree(made.bundle, tmp_path / "snapshots/revision")
    for target, accepted in [(tmp_path / "card.md", False), (tmp_path / "blobs/0123", True)]:
        target.parent.mkdir(exist_ok=True)
        shutil.copy(made.bundle / "README.md", target)
        (copy / "README.md").unlink()
        (copy / "README.md").symlink_to(target)
        said = coldframe("bundle", "verify", copy, expect=0 if accepted else 1).stdout
        assert accepted or said == f"'README.md' is a link to '{target}'; expected the file itself\n"
        coldframe("bundle", "show", copy, expect=0 if accepted else 3)


def test_what_replaces_a_bundle(made, tmp_path):
    out = shutil.copytree(made.bundle, tmp_path / "model.bundle")
    words = ["bundle", "make", made.run, "--weights", made.weights, "--out", out, "--overwrite"]
    for stranger in [".git/HEAD", "notes.txt"]:
        (out / stranger).parent.mkdir(exist_ok=True)
        (out / stranger).write_text("mine")
        refused = coldframe(*words, expect=2).stderr
        assert f"'{stranger.split('/')[0]}'" in refused and (out / stranger).read_text() == "mine"
        shutil.rmtree(out / ".git", ignore_errors=True)
    (out / "notes.txt").unlink()
    (out / "README.md").unlink()  # a damaged bundle may be replaced
    coldframe(*words, "--license", "mit")
    assert json.loads((out / "bundle.json").read_text())["license"] == "mit"
    assert (out / "backbone/model.safetensors").stat().st_mode == (out / "bundle.json").stat().st_mode
    assert [path.name for path in tmp_path.iterdir()] == ["model.bundle"]
