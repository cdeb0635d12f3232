// JPEG 2000 frames.
#include <algorithm>
#include <cstring>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/dicom/pixels/frame_data.h"
#include "extract/frames/image/jpeg2000.h"

namespace coldframe::frames::dicom {
namespace {

void require_like(const PixelLayout& layout, const opj_image_t& image) {
  bool alike = image.numcomps == static_cast<OPJ_UINT32>(layout.samples);
  for (OPJ_UINT32 i = 0; i < image.numcomps; ++i) {
    const opj_image_comp_t& component = image.comps[i];
    alike = alike && component.w == static_cast<OPJ_UINT32>(layout.columns) &&
            component.h == static_cast<OPJ_UINT32>(layout.rows) && component.prec >= 1 &&
            component.prec <= 31;
  }
  if (alike) return;
  throw DataError(concat("a frame's JPEG 2000 code has ", image.numcomps > 0 ? image.comps[0].w : 0,
                         "×", image.numcomps > 0 ? image.comps[0].h : 0, " pixels of ",
                         plural(image.numcomps, "sample"), ", its header states ", layout.columns,
                         "×", layout.rows, " of ", layout.samples));
}

bool needs_more_bits(const opj_image_t& image, int bits) {
  const std::int64_t end = std::int64_t{1} << bits;
  for (OPJ_UINT32 i = 0; i < image.numcomps; ++i) {
    const opj_image_comp_t& component = image.comps[i];
    const std::size_t pixels = std::size_t{component.w} * component.h;
    if (component.data != nullptr &&
        std::any_of(component.data, component.data + pixels,
                    [&](OPJ_INT32 value) { return value >= end || value < -end / 2; }))
      return true;
  }
  return false;
}

}  // namespace

RawFrame decode_jpeg2000(const PixelLayout& layout, std::string_view code) {
  const Jpeg2000Pixels pixels =
      decode_jpeg2000_code(code, [&](const opj_image_t& image) { require_like(layout, image); });
  const opj_image_t& image = *pixels;
  RawFrame raw{layout, {}};
  raw.layout.planar = true;
  raw.layout.bits_allocated = image.comps[0].prec > 16 ? 32 : image.comps[0].prec > 8 ? 16 : 8;
  raw.layout.bits_allocated = std::max(raw.layout.bits_allocated, layout.bits_allocated);
  // The code knows how many bits its values have, the header whether they are signed.
  const int bits = static_cast<int>(image.comps[0].prec);
  if (bits > layout.bits_stored && needs_more_bits(image, layout.bits_stored))
    raw.note = concat("its header states ", layout.bits_stored, " bits, its JPEG 2000 code ", bits);
  else if ((image.comps[0].sgnd != 0) != layout.is_signed)
    raw.note = concat("its header states ", layout.is_signed ? "signed" : "unsigned",
                      " values, its JPEG 2000 code ", layout.is_signed ? "unsigned" : "signed",
                      " ones: as the header says");
  raw.layout.bits_stored = bits;
  raw.layout.high_bit = bits - 1;
  const std::size_t unit = static_cast<std::size_t>(raw.layout.bits_allocated) / 8;
  raw.samples.resize(layout.pixels() * layout.samples * unit);
  char* out = raw.samples.data();
  for (OPJ_UINT32 i = 0; i < image.numcomps; ++i) {
    if (image.comps[i].data == nullptr) throw DataError("a frame's JPEG 2000 code has no pixels");
    for (std::uint64_t pixel = 0; pixel < layout.pixels(); ++pixel, out += unit) {
      const OPJ_INT32 value = image.comps[i].data[pixel];
      std::memcpy(out, &value, unit);  // little endian
    }
  }
  return raw;
}

}  // namespace coldframe::frames::dicom
