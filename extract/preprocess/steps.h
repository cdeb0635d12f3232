// The steps that a frame may go through before it is resized, one function each: mask, crop,
// spacing, tiles. PreparedFrame (prepared_frame.h) takes them in their order.
#pragma once

#include <string>
#include <vector>

#include "extract/preprocess/preprocessing.h"

namespace coldframe::preprocess {

// --mask FILE: white pixels are kept, black ones are not. A pixel counts as white when its
// brightest channel is 128 or more.
Mask make_mask(const frames::Image& image);

// DataError when the mask's size is not the frame's.
void apply_mask(const Mask& mask, frames::Image& frame);

std::string to_text(const frames::Rect& rect);      // "x,y,w,h"
std::string to_text(const frames::CropRule& rule);  // as parse_crop() reads it

// DataError when the rectangle does not lie within the image.
frames::Image crop_image(const frames::Image& image, const frames::Rect& rect);

// Resizes all of the image as Pillow's Image.resize (or torchvision's, as the resampler says).
frames::Image resize_image(const Preprocessing& preprocessing, const frames::Image& image,
                           int width, int height);

// --spacing MM, which brings frames of different scanners and depths to one scale: the frame's
// pixels at `preprocessing.spacing_mm` millimetres per pixel in both directions, each edge times
// its own spacing / spacing_mm, rounded half to even, at least one pixel. DataError for a frame of
// unknown spacing, one that would grow more than 16-fold along an edge, and for a result of more
// than 2^26 pixels.
frames::Image rescale_frame(const Preprocessing& preprocessing, const frames::Frame& frame);

// --tiles: where the sliding window stands. Square tiles of `tiling.size` pixels, row by row, each
// overlapping the one before by the stated fraction; the last of a row or column ends at the
// frame's border. A frame that is smaller than a tile is one tile as it is; one that is smaller
// along one edge only has tiles of that edge's length. Without tiling the whole frame. DataError
// beyond a million tiles.
std::vector<frames::Rect> plan_tiles(const Tiling& tiling, int width, int height);

}  // namespace coldframe::preprocess
