"""The licence of the weights, as the hub reads it from their card, goes from `extract` into caches."""
import json

import pytest
from huggingface_hub import ModelCard
from PIL import Image

import loaded_program
import timm_models
import vit_features

NAME, ARGUMENTS = "vit_tiny_patch16_224", {"depth": 1}
CARDS = {"word": "license: cc-by-nc-4.0  # the weights", "quoted": 'license: "mit"', "list": "license:\n- mit\n- apache-2.0",
         "brackets": "license: [mit, apache-2.0]", "name": "license: other\nlicense_name: rail-m\nlicense_link: LICENSE",
         "link": "license: other\nlicense_link: LICENSE", "none": "tags: [echo]", "empty": "license:"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    timm_models.save_folder(timm_models.build(NAME, **ARGUMENTS), folder, NAME, **ARGUMENTS)
    Image.fromarray(vit_features.pictures()[0]).save(folder / "a.png")
    return folder


def extracted(folder, out, *words):
    done = loaded_program.coldframe("extract", "--input", folder / "a.png", "--weights", folder, "--mean", 0.5, "--std", 0.5, "--pool", "cls",
                                    "--device", "cpu", "--out", out, "--json", *words)
    assert done.returncode == 0, done.stderr
    info = loaded_program.coldframe("cache", "info", out, "--json").stdout
    return json.loads(done.stdout)["weights_license"], json.loads(info)["notes"].get("weights_license", "")


@pytest.mark.parametrize("kind", CARDS)
def test_a_card_states_it(kind, folder, tmp_path):
    (folder / "README.md").write_text(f"---\n{CARDS[kind]}\nlibrary_name: timm\n---\n\n# A ViT\n\nlicense: gpl\n")
    data = ModelCard.load(folder / "README.md").data
    stated = data.get("license_name") or data.get("license_link") if data.license == "other" else data.license
    expected = ", ".join(stated) if isinstance(stated, list) else stated or ""
    told, noted = extracted(folder, tmp_path / "x.h5")
    assert told == noted == expected


def test_the_option_goes_before_the_card(folder, tmp_path):
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    told, noted = extracted(folder, tmp_path / "x.h5", "--license", "cc-by-nc-nd-4.0")
    assert told == noted == "cc-by-nc-nd-4.0"
    assert ", licence cc-by-nc-nd-4.0" in loaded_program.coldframe("cache", "info", tmp_path / "x.h5").stdout


def test_a_licence_is_a_name_or_a_link(folder, tmp_path):
    (folder / "README.md").write_text("---\nlicense: <script>alert(1)</script>\n---\n")
    assert extracted(folder, tmp_path / "x.h5") == ("", "")
    for text in ("<script>", "a\nb", "x" * 201):
        done = loaded_program.coldframe("extract", "--input", folder / "a.png", "--weights", folder, "--mean", 0.5, "--std", 0.5, "--pool", "cls",
                                        "--device", "cpu", "--out", tmp_path / "y.h5", "--license", text)
        assert done.returncode == 2 and "expected a name or a link of at most 200" in done.stderr
    assert not (tmp_path / "y.h5").exists()


def test_a_cache_keeps_the_licence_that_it_began_with(folder, tmp_path):
    (folder / "README.md").write_text("no card")
    extracted(folder, tmp_path / "x.h5", "--license", "mit")
    assert extracted(folder, tmp_path / "x.h5", "--license", "apache-2.0") == ("mit", "mit")
    assert extracted(folder, tmp_path / "x.h5") == ("mit", "mit")


def test_a_page_that_is_no_card_states_none(folder, tmp_path):
    for content in (b"# A folder of mine\nlicense: mit\n", b"---\nlicense: \xff\xfe\n---\n", b"---\nlicense: mit\n---\n" + b" " * (1 << 20)):
        (folder / "README.md").write_bytes(content)
        assert extracted(folder, tmp_path / f"{len(content)}.h5") == ("", "")
