#include "extract/frames/clip/picture.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/image/orientation.h"

namespace coldframe::frames {
namespace {

int sign(std::int32_t value) {
  return (value > 0) - (value < 0);
}

// swscale's vector code writes whole registers: rows have room behind their end.
std::size_t padded_stride(std::size_t row) {
  constexpr std::size_t kRegister = 64;
  return (row + kRegister - 1) / kRegister * kRegister + kRegister;
}

// Blue first and bicubic: swscale then rounds as in OpenCV's video reader, which is out by two
// levels of green at some odd sizes; models have been trained on those pixels.
SwsPointer make_scaler(const AVFrame& picture) {
  constexpr int kCentred = -513;  // swscale's default, of chroma that the stream does not place
  int across = kCentred, down = kCentred;
  avcodec_enum_to_chroma_pos(&across, &down, picture.chroma_location);
  const AVPixFmtDescriptor* format =
      av_pix_fmt_desc_get(static_cast<AVPixelFormat>(picture.format));
  if (format == nullptr || format->log2_chroma_w == 0) across = kCentred;
  if (format == nullptr || format->log2_chroma_h == 0) down = kCentred;
  const std::pair<const char*, int> options[] = {
      {"srcw", picture.width},    {"srch", picture.height},  {"src_format", picture.format},
      {"dstw", picture.width},    {"dsth", picture.height},  {"dst_format", AV_PIX_FMT_BGR24},
      {"sws_flags", SWS_BICUBIC}, {"src_h_chr_pos", across}, {"src_v_chr_pos", down}};
  SwsPointer scaler(sws_alloc_context());
  if (!scaler) throw std::bad_alloc();
  for (const auto& [name, value] : options) av_opt_set_int(scaler.get(), name, value, 0);
  if (sws_init_context(scaler.get(), nullptr, nullptr) >= 0) return scaler;
  throw DataError(concat("its pixel format, number ", picture.format, ", is not read"));
}

int stated_orientation(const AVStream& stream) {
  std::size_t size = 0;
  const std::uint8_t* bytes = av_stream_get_side_data(&stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
  std::array<std::int32_t, 9> matrix{};
  if (bytes == nullptr || size < sizeof(matrix)) return 1;
  std::memcpy(matrix.data(), bytes, sizeof(matrix));
  return matrix_orientation(matrix);
}

}  // namespace

int matrix_orientation(std::span<const std::int32_t, 9> matrix) {
  const int xx = sign(matrix[0]), yx = sign(matrix[3]), xy = sign(matrix[1]), yy = sign(matrix[4]);
  const bool straight = xx && yy && !yx && !xy, crossed = !xx && !yy && yx && xy;
  if (!xx && !yx && !xy && !yy) return 1;  // some writers leave it empty
  if (!straight && !crossed) throw DataError("its display angle is not a multiple of 90°");
  const bool mirrors_columns = xx + yx < 0, mirrors_rows = xy + yy < 0;
  const int mirrored = mirrors_columns ? (mirrors_rows ? 3 : 2) : (mirrors_rows ? 4 : 1);
  return crossed ? mirrored + 4 : mirrored;
}

ClipConverter::ClipConverter(const AVStream& stream) : orientation_(stated_orientation(stream)) {}

void ClipConverter::prepare(const AVFrame& picture) {
  const Colours colours{picture.width,      picture.height,      picture.format,
                        picture.colorspace, picture.color_range, picture.chroma_location};
  if (scaler_ && colours == colours_) return;
  scaler_ = make_scaler(picture);
  int *from = nullptr, *to = nullptr, from_full = 0, to_full = 0, brightness = 0, contrast = 0,
      saturation = 0;
  sws_getColorspaceDetails(scaler_.get(), &from, &from_full, &to, &to_full, &brightness, &contrast,
                           &saturation);
  if (picture.color_range == AVCOL_RANGE_JPEG) from_full = 1;
  sws_setColorspaceDetails(scaler_.get(), sws_getCoefficients(picture.colorspace), from_full, to,
                           to_full, brightness, contrast, saturation);
  colours_ = colours;
}

Image ClipConverter::to_image(const AVFrame& picture) {
  prepare(picture);
  const int width = picture.width, height = picture.height;
  const std::size_t row = static_cast<std::size_t>(width) * 3;
  const std::size_t stride = padded_stride(row);
  const BytesPointer padded(
      static_cast<std::uint8_t*>(av_malloc(stride * static_cast<std::size_t>(height))));
  if (!padded) throw std::bad_alloc();
  std::uint8_t* const planes[] = {padded.get(), nullptr, nullptr, nullptr};
  const int strides[] = {static_cast<int>(stride), 0, 0, 0};
  if (sws_scale(scaler_.get(), picture.data, picture.linesize, 0, height, planes, strides) < 0)
    throw DataError("its pictures cannot be turned to RGB");

  Image image{width, height, std::vector<std::uint8_t>(row * static_cast<std::size_t>(height))};
  for (int y = 0; y < height; ++y) {
    const std::uint8_t* const blue_first = padded.get() + static_cast<std::size_t>(y) * stride;
    std::uint8_t* const red_first = &image.rgb[static_cast<std::size_t>(y) * row];
    for (std::size_t x = 0; x < row; x += 3) {
      red_first[x] = blue_first[x + 2];
      red_first[x + 1] = blue_first[x + 1];
      red_first[x + 2] = blue_first[x];
    }
  }
  return upright(std::move(image), orientation_);
}

}  // namespace coldframe::frames
