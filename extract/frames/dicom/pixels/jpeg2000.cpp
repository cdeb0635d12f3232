// JPEG 2000 frames (ISO/IEC 15444-1, -15) through OpenJPEG.
#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/dicom/pixels/frame_data.h"

namespace coldframe::frames::dicom {
namespace {

struct Input {
  std::string_view code;
  std::size_t at = 0;
};

OPJ_SIZE_T read_bytes(void* buffer, OPJ_SIZE_T count, void* user) {
  auto& input = *static_cast<Input*>(user);
  const std::size_t done = std::min<std::size_t>(count, input.code.size() - input.at);
  if (done == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(buffer, input.code.data() + input.at, done);
  input.at += done;
  return done;
}

OPJ_OFF_T skip_bytes(OPJ_OFF_T count, void* user) {
  auto& input = *static_cast<Input*>(user);
  if (count < 0 || static_cast<std::size_t>(count) > input.code.size() - input.at) return -1;
  input.at += static_cast<std::size_t>(count);
  return count;
}

OPJ_BOOL seek_bytes(OPJ_OFF_T position, void* user) {
  auto& input = *static_cast<Input*>(user);
  if (position < 0 || static_cast<std::size_t>(position) > input.code.size()) return OPJ_FALSE;
  input.at = static_cast<std::size_t>(position);
  return OPJ_TRUE;
}

void keep_message(const char* message, void* user) {
  auto& kept = *static_cast<std::string*>(user);
  if (kept.empty()) kept = trim(message);
}
void ignore_message(const char*, void*) {}

class Decoder {
 public:
  explicit Decoder(std::string_view code)
      : input_{code},
        stream_(opj_stream_default_create(OPJ_TRUE)),
        codec_(
            opj_create_decompress(code.starts_with("\xFF\x4F") ? OPJ_CODEC_J2K : OPJ_CODEC_JP2)) {
    if (stream_ == nullptr || codec_ == nullptr) throw DataError("OpenJPEG cannot be started");
    opj_stream_set_user_data(stream_.get(), &input_, nullptr);
    opj_stream_set_user_data_length(stream_.get(), code.size());
    opj_stream_set_read_function(stream_.get(), read_bytes);
    opj_stream_set_skip_function(stream_.get(), skip_bytes);
    opj_stream_set_seek_function(stream_.get(), seek_bytes);
    opj_set_error_handler(codec_.get(), keep_message, &message_);
    opj_set_warning_handler(codec_.get(), ignore_message, nullptr);
    opj_set_info_handler(codec_.get(), ignore_message, nullptr);
    opj_dparameters_t parameters;
    opj_set_default_decoder_parameters(&parameters);
    if (!opj_setup_decoder(codec_.get(), &parameters) ||
        !opj_decoder_set_strict_mode(codec_.get(), OPJ_TRUE)) {
      throw DataError("OpenJPEG cannot be started");
    }
  }

  const opj_image_t& read_header() {
    opj_image_t* image = nullptr;
    const bool good = opj_read_header(stream_.get(), codec_.get(), &image);
    image_.reset(image);
    if (!good || image == nullptr) refuse();
    return *image_;
  }

  void decode() {
    if (!opj_decode(codec_.get(), stream_.get(), image_.get()) ||
        !opj_end_decompress(codec_.get(), stream_.get())) {
      refuse();
    }
  }

 private:
  [[noreturn]] void refuse() const {
    throw DataError(concat("a frame's JPEG 2000 code cannot be decoded",
                           message_.empty() ? "" : ": ", message_));
  }

  template <auto destroy>
  struct Deleter {
    template <typename T>
    void operator()(T* object) const {
      destroy(object);
    }
  };

  Input input_;
  std::unique_ptr<opj_stream_t, Deleter<opj_stream_destroy>> stream_;
  std::unique_ptr<opj_codec_t, Deleter<opj_destroy_codec>> codec_;
  std::unique_ptr<opj_image_t, Deleter<opj_image_destroy>> image_;
  std::string message_;
};

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

}  // namespace

RawFrame decode_jpeg2000(const PixelLayout& layout, std::string_view code) {
  Decoder decoder(code);
  const opj_image_t& image = decoder.read_header();
  require_like(layout, image);
  decoder.decode();
  require_like(layout, image);
  RawFrame raw{layout, {}};
  raw.layout.planar = true;
  raw.layout.bits_allocated = image.comps[0].prec > 16 ? 32 : image.comps[0].prec > 8 ? 16 : 8;
  raw.layout.bits_allocated = std::max(raw.layout.bits_allocated, layout.bits_allocated);
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
