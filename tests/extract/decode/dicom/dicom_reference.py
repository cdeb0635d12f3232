"""Reads a DICOM file with pydicom and applies its VOI: 8-bit RGB frames."""

import numpy as np
import pydicom
from pydicom.pixels import apply_color_lut, apply_modality_lut, apply_voi_lut


def to_levels(values, low, high):
    """Values up to `low` are 0, from `high` on 255; rounded half up."""
    low, high = np.float64(low), np.float64(high)
    values = np.asarray(values, np.float64)
    if high <= low:
        return np.where(values > low, 255, 0).astype(np.uint8)
    scaled = np.floor(255.0 * ((values - low) / (high - low)) + 0.5)
    return np.where(values <= low, 0, np.where(values >= high, 255, scaled)).astype(np.uint8)


def voi_source(dataset, frame):
    """The data set, or the frame's own functional group, that holds the window."""
    for groups, index in (("PerFrameFunctionalGroupsSequence", frame),
                          ("SharedFunctionalGroupsSequence", 0)):
        items = dataset.get(groups) or []
        if index < len(items) and "FrameVOILUTSequence" in items[index]:
            return items[index].FrameVOILUTSequence[0]
    return dataset


def rescale(dataset, values, frame):
    for groups, index in (("PerFrameFunctionalGroupsSequence", frame),
                          ("SharedFunctionalGroupsSequence", 0)):
        items = dataset.get(groups) or []
        if index < len(items) and "PixelValueTransformationSequence" in items[index]:
            item = items[index].PixelValueTransformationSequence[0]
            return values * float(item.RescaleSlope) + float(item.RescaleIntercept)
    return apply_modality_lut(values, dataset)


def first(value):
    return float(value[0] if isinstance(value, pydicom.multival.MultiValue) else value)


def window_levels(values, source):
    center, width = first(source.WindowCenter), first(source.WindowWidth)
    function = source.get("VOILUTFunction", "LINEAR")
    if function == "SIGMOID":
        return to_levels(1 / (1 + np.exp(-4 * (values - center) / width)), 0, 1)
    if function == "LINEAR":
        return to_levels(values, center - 0.5 - (width - 1) / 2, center - 0.5 + (width - 1) / 2)
    return to_levels(values, center - width / 2, center + width / 2)


def as_it_is(dataset):
    plain = first(dataset.get("RescaleSlope", 1)) == 1 and not first(
        dataset.get("RescaleIntercept", 0)) and "ModalityLUTSequence" not in dataset
    return dataset.get("BitsStored", 16) <= 8 and not dataset.PixelRepresentation and plain


def padding(dataset, stored):
    """True where a stored value is no part of the image."""
    if "PixelPaddingValue" not in dataset:
        return np.zeros(stored.shape, bool)
    value = dataset.PixelPaddingValue
    limit = dataset.get("PixelPaddingRangeLimit", value)
    return (stored >= min(value, limit)) & (stored <= max(value, limit))


def grey_frames(dataset, stored, value_range):
    values = [rescale(dataset, frame, i) for i, frame in enumerate(stored)]
    padded = padding(dataset, stored)
    image = np.asarray(values)[~padded]
    frames = []
    for i, frame in enumerate(values):
        source = voi_source(dataset, i)
        if value_range is not None:
            levels = to_levels(frame, *value_range)
        elif dataset.get("VOILUTSequence"):
            bits = dataset.VOILUTSequence[0].LUTDescriptor[2]
            levels = to_levels(apply_voi_lut(frame, dataset), 0, 2 ** bits - 1)
        elif "WindowCenter" in source:
            levels = window_levels(frame, source)
        elif as_it_is(dataset):
            levels = to_levels(frame, 0, 2 ** dataset.BitsStored - 1)
        else:
            levels = to_levels(frame, np.min(image), np.max(image))
        inverted = dataset.PhotometricInterpretation == "MONOCHROME1"
        levels = np.where(padded[i], 0, 255 - levels if inverted else levels)
        frames.append(np.repeat(levels[..., None], 3, axis=-1))
    return np.stack(frames)


def reference_frames(path, value_range=None):
    """[frames, rows, columns, 3] uint8. `value_range`: (low, high) in place of the file's VOI."""
    dataset = pydicom.dcmread(path, force=True)
    # Takes that of pydicom's two decoders of baseline JPEG which enlarges chroma as libjpeg does;
    # pylibjpeg's differs from it by up to 13 levels in 0.06 % of the values.
    baseline = dataset.file_meta.TransferSyntaxUID == pydicom.uid.JPEGBaseline8Bit
    stored = pydicom.pixels.pixel_array(dataset, decoding_plugin="pillow" if baseline else "")
    if int(dataset.get("NumberOfFrames", 1)) == 1:
        stored = stored[None]
    if dataset.PhotometricInterpretation == "PALETTE COLOR":
        bits = dataset.RedPaletteColorLookupTableDescriptor[2]
        return (apply_color_lut(stored, dataset) >> (bits - 8)).astype(np.uint8)
    if dataset.SamplesPerPixel == 3:
        if dataset.BitsStored == 8:
            return stored
        return to_levels(stored, 0, 2 ** dataset.BitsStored - 1)
    return grey_frames(dataset, stored, value_range)
