// --spacing MM: frames of different scanners and depths brought to one scale.
#pragma once

#include "extract/preprocess/preprocessing.h"

namespace coldframe::preprocess {

// Resizes all of the image as Pillow's Image.resize (or torchvision's, as the resampler says).
frames::Image resize_image(const Preprocessing& preprocessing, const frames::Image& image,
                           int width, int height);

// The frame's pixels at `preprocessing.spacing_mm` millimetres per pixel in both directions: each
// edge times its own spacing / spacing_mm, rounded half to even, at least one pixel. DataError for
// a frame of unknown spacing, one that would grow more than 16-fold along an edge, and for a result
// of more than 2^26 pixels.
frames::Image rescale_frame(const Preprocessing& preprocessing, const frames::Frame& frame);

}  // namespace coldframe::preprocess
