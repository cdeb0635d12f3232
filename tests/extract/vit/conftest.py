"""A small timm model, the folder that timm writes of it, and its features."""

import pytest

import timm_models
from hub_folders import ARGUMENTS, NAME


@pytest.fixture(scope="module")
def model():
    return timm_models.build(NAME, **ARGUMENTS)


@pytest.fixture(scope="module")
def images():
    return timm_models.images_of(48)


@pytest.fixture
def expected(model, images):
    return timm_models.expected_features(model, images)["cls"]


@pytest.fixture
def folder(model, tmp_path):
    timm_models.save_folder(model, tmp_path / "hub", NAME, **ARGUMENTS)
    return tmp_path / "hub"
