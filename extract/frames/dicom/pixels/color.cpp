#include "extract/frames/dicom/pixels/color.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "extract/frames/dicom/pixels/samples.h"
#include "extract/frames/window.h"

namespace coldframe::frames::dicom {
namespace {

Image empty_image(const PixelLayout& layout) {
  Image image{layout.columns, layout.rows, {}};
  image.rgb.resize(layout.pixels() * 3);
  return image;
}

// ITU-T T.871 section 7, in single precision and rounded half up, as pydicom does.
void ybr_to_rgb(std::uint8_t* pixel) {
  const float y = pixel[0], cb = static_cast<float>(pixel[1]) - 128.0f,
              cr = static_cast<float>(pixel[2]) - 128.0f;
  constexpr float kGreenCb = static_cast<float>(-0.114 * 1.772 / 0.587);
  constexpr float kGreenCr = static_cast<float>(-0.299 * 1.402 / 0.587);
  const float rgb[3] = {y + 1.402f * cr, y + kGreenCb * cb + kGreenCr * cr, y + 1.772f * cb};
  for (int i = 0; i < 3; ++i) {
    pixel[i] = static_cast<std::uint8_t>(std::clamp(rgb[i] + 0.5f, 0.0f, 255.0f));
  }
}

// ITU-R BT.601: black is 16, white 235, chroma 16 to 240 (PS3.3 C.7.6.3.1.2).
void partial_ybr_to_rgb(std::uint8_t* pixel) {
  const double y = (pixel[0] - 16) * 255.0 / 219, cb = (pixel[1] - 128) * 255.0 / 224,
               cr = (pixel[2] - 128) * 255.0 / 224;
  const double rgb[3] = {y + 1.402 * cr, y - (0.114 * 1.772 * cb + 0.299 * 1.402 * cr) / 0.587,
                         y + 1.772 * cb};
  for (int i = 0; i < 3; ++i)
    pixel[i] = static_cast<std::uint8_t>(std::clamp(rgb[i] + 0.5, 0.0, 255.0));
}

// Two pixels share their chroma: Y1 Y2 Cb Cr.
void copy_422(const RawFrame& raw, Image& image) {
  const auto* in = reinterpret_cast<const std::uint8_t*>(raw.samples.data());
  std::uint8_t* out = image.rgb.data();
  for (std::size_t pair = 0; pair < image.rgb.size() / 6; ++pair, in += 4, out += 6) {
    const std::uint8_t pixels[6] = {in[0], in[2], in[3], in[1], in[2], in[3]};
    std::copy_n(pixels, 6, out);
  }
}

}  // namespace

Palette read_palettes(const DataSet& data, const PixelLayout& layout) {
  DcmItem& root = data.root();
  const bool is_signed = layout.is_signed;
  Palette palette{read_palette(root, DCM_RedPaletteColorLookupTableDescriptor,
                               DCM_RedPaletteColorLookupTableData,
                               DCM_SegmentedRedPaletteColorLookupTableData, is_signed),
                  read_palette(root, DCM_GreenPaletteColorLookupTableDescriptor,
                               DCM_GreenPaletteColorLookupTableData,
                               DCM_SegmentedGreenPaletteColorLookupTableData, is_signed),
                  read_palette(root, DCM_BluePaletteColorLookupTableDescriptor,
                               DCM_BluePaletteColorLookupTableData,
                               DCM_SegmentedBluePaletteColorLookupTableData, is_signed)};
  // Some writers announce 16 bits and write 8.
  const auto is_narrow = [](const LookupTable& table) {
    return *std::max_element(table.entries.begin(), table.entries.end()) <= 255;
  };
  if (std::all_of(palette.begin(), palette.end(), is_narrow)) {
    for (LookupTable& table : palette) table.bits = 8;
  }
  return palette;
}

Image color_image(const RawFrame& raw) {
  const PixelLayout& layout = raw.layout;
  Image image = empty_image(layout);
  if (layout.chroma == Chroma::kPairs) {
    copy_422(raw, image);
  } else if (layout.bits_allocated == 8 && layout.bits_stored == 8 && !layout.planar) {
    std::memcpy(image.rgb.data(), raw.samples.data(), image.rgb.size());
  } else {
    const Samples samples(raw);
    const std::size_t pixels = layout.pixels();
    const std::size_t pixel_step = layout.planar ? 1 : 3, channel_step = layout.planar ? pixels : 1;
    const ValueRange range{0, std::ldexp(1.0, layout.bits_stored) - 1};
    for (std::size_t i = 0; i < pixels * 3; ++i) {
      const std::uint32_t bits = samples.bits(i / 3 * pixel_step + i % 3 * channel_step);
      image.rgb[i] =
          layout.bits_stored == 8 ? static_cast<std::uint8_t>(bits) : to_level(bits, range);
    }
  }
  if (layout.photometric == Photometric::kRgb) return image;
  const auto convert =
      layout.photometric == Photometric::kYbrFull ? ybr_to_rgb : partial_ybr_to_rgb;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) convert(&image.rgb[i]);
  return image;
}

Image palette_image(const RawFrame& raw, const Palette& palette) {
  const Samples samples(raw);
  Image image = empty_image(raw.layout);
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    const LookupTable& table = palette[i % 3];
    const unsigned entry = table.at(samples.value(i / 3));
    image.rgb[i] = static_cast<std::uint8_t>(table.bits > 8 ? entry >> (table.bits - 8) : entry);
  }
  return image;
}

}  // namespace coldframe::frames::dicom
