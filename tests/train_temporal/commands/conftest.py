"""Exams, a ViT and a cut cache that several files of tests tune."""
import pytest
from tuning_support import cut_cache, made_exams, tiny_vit


@pytest.fixture(scope="module")
def exams(tmp_path_factory):
    return made_exams(tmp_path_factory.mktemp("made") / "exams", 48)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return tiny_vit(tmp_path_factory.mktemp("weights") / "tiny.safetensors")


@pytest.fixture(scope="module")
def cache(exams, weights, tmp_path_factory):
    return cut_cache(exams, weights, tmp_path_factory.mktemp("cut") / "made.cache")
