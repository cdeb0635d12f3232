#include "extract/decode/image/jpeg2000.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::frames {
namespace {

using std::string_view_literals::operator""sv;

constexpr auto kCodeSignature = "\xFF\x4F\xFF\x51"sv;
constexpr auto kFileSignature = "\0\0\0\x0CjP  \r\n\x87\n"sv;

struct Jpeg2000Input {
  std::string_view code;
  std::size_t at = 0;
};

// OpenJPEG, which is C, calls what follows: it throws nothing.
OPJ_SIZE_T read_code(void* buffer, OPJ_SIZE_T count, void* user) noexcept {
  auto& input = *static_cast<Jpeg2000Input*>(user);
  const std::size_t done = std::min<std::size_t>(count, input.code.size() - input.at);
  if (done == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(buffer, input.code.data() + input.at, done);
  input.at += done;
  return done;
}

OPJ_OFF_T skip_code(OPJ_OFF_T count, void* user) noexcept {
  auto& input = *static_cast<Jpeg2000Input*>(user);
  if (count < 0 || static_cast<std::size_t>(count) > input.code.size() - input.at) return -1;
  input.at += static_cast<std::size_t>(count);
  return count;
}

OPJ_BOOL seek_code(OPJ_OFF_T position, void* user) noexcept {
  auto& input = *static_cast<Jpeg2000Input*>(user);
  if (position < 0 || static_cast<std::size_t>(position) > input.code.size()) return OPJ_FALSE;
  input.at = static_cast<std::size_t>(position);
  return OPJ_TRUE;
}

using Message = std::array<char, 512>;  // as long as OpenJPEG's own

void keep_message(const char* message, void* user) noexcept {
  auto& kept = *static_cast<Message*>(user);
  if (kept.front() == '\0') std::strncpy(kept.data(), message, kept.size() - 1);
}
void ignore_message(const char*, void*) noexcept {}

class Jpeg2000Decoder {
 public:
  explicit Jpeg2000Decoder(std::string_view code)
      : input_{code},
        stream_(opj_stream_default_create(OPJ_TRUE)),
        codec_(
            opj_create_decompress(code.starts_with("\xFF\x4F") ? OPJ_CODEC_J2K : OPJ_CODEC_JP2)) {
    if (stream_ == nullptr || codec_ == nullptr) throw DataError("OpenJPEG cannot be started");
    opj_stream_set_user_data(stream_.get(), &input_, nullptr);
    opj_stream_set_user_data_length(stream_.get(), code.size());
    opj_stream_set_read_function(stream_.get(), read_code);
    opj_stream_set_skip_function(stream_.get(), skip_code);
    opj_stream_set_seek_function(stream_.get(), seek_code);
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

  Jpeg2000Pixels pixels() { return std::move(image_); }

 private:
  [[noreturn]] void refuse() const {
    const std::string message = trim(message_.data());
    throw DataError(
        concat("its JPEG 2000 code cannot be decoded", message.empty() ? "" : ": ", message));
  }

  template <auto destroy>
  struct Deleter {
    template <typename T>
    void operator()(T* object) const {
      destroy(object);
    }
  };

  Jpeg2000Input input_;
  std::unique_ptr<opj_stream_t, Deleter<opj_stream_destroy>> stream_;
  std::unique_ptr<opj_codec_t, Deleter<opj_destroy_codec>> codec_;
  Jpeg2000Pixels image_;
  Message message_{};  // the first error, "" without one
};

// A blank picture may take a few bytes, whatever its size.
void check_image_header(const opj_image_t& image, std::size_t bytes) {
  constexpr std::uint64_t kFreePixels = 1 << 24, kPixelsPerByte = 1024;
  const auto width = image.numcomps > 0 ? image.comps[0].w : 0;
  const auto height = image.numcomps > 0 ? image.comps[0].h : 0;
  bool usual = image.numcomps >= 1 && image.numcomps <= 4 && image.color_space != OPJ_CLRSPC_SYCC &&
               image.color_space != OPJ_CLRSPC_EYCC && image.color_space != OPJ_CLRSPC_CMYK;
  for (OPJ_UINT32 i = 0; i < image.numcomps; ++i) {
    const opj_image_comp_t& component = image.comps[i];
    usual = usual && component.w == width && component.h == height && component.prec >= 1 &&
            component.prec <= 16 && component.dx == image.comps[0].dx &&
            component.dy == image.comps[0].dy;
  }
  if (!usual)
    throw DataError(
        "it is a JPEG 2000 image of other than grey or RGB samples of 1 to 16 bits, or "
        "of samples at different places, which is not read; convert it to PNG");
  if (std::uint64_t{width} * height > kFreePixels + kPixelsPerByte * bytes)
    throw DataError(concat("its header gives a size of ", width, "×", height, " pixels, which ",
                           bytes, " bytes cannot hold"));
}

Jpeg2000Pixels decode_image(std::string_view bytes) {
  return decode_jpeg2000_code(
      bytes, [&](const opj_image_t& image) { check_image_header(image, bytes.size()); });
}

// A value as an unsigned one of `bits`.
unsigned shifted(const opj_image_comp_t& component, std::size_t pixel, unsigned bits) {
  const int offset = component.sgnd ? 1 << (component.prec - 1) : 0;
  const int most = (1 << component.prec) - 1;
  const auto value = static_cast<unsigned>(std::clamp(component.data[pixel] + offset, 0, most));
  return component.prec > bits ? value >> (component.prec - bits)
                               : value << (bits - component.prec);
}

template <typename Level>
std::vector<Level> interleaved(const opj_image_t& image, std::size_t channels, unsigned bits) {
  const std::size_t pixels = std::size_t{image.comps[0].w} * image.comps[0].h;
  std::vector<Level> levels(pixels * channels);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const opj_image_comp_t& component = image.comps[image.numcomps < 3 ? 0 : channel];
    if (component.data == nullptr) throw DataError("its JPEG 2000 code has no pixels");
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      levels[pixel * channels + channel] = static_cast<Level>(shifted(component, pixel, bits));
    }
  }
  return levels;
}

}  // namespace

Jpeg2000Pixels decode_jpeg2000_code(std::string_view code,
                                    const std::function<void(const opj_image_t&)>& check) {
  Jpeg2000Decoder decoder(code);
  const opj_image_t& image = decoder.read_header();
  check(image);
  decoder.decode();
  check(image);
  return decoder.pixels();
}

bool is_jpeg2000(std::string_view head) {
  return head.starts_with(kCodeSignature) || head.starts_with(kFileSignature);
}

bool is_deep_jpeg2000(std::string_view bytes) {
  if (!is_jpeg2000(bytes)) return false;
  try {
    Jpeg2000Decoder decoder(bytes);
    const opj_image_t& image = decoder.read_header();
    return image.numcomps >= 1 && image.numcomps < 3 && image.comps[0].prec > 8;
  } catch (const DataError&) {
    return false;  // whoever reads it says why
  }
}

FrameSize jpeg2000_size(std::string_view bytes) {
  Jpeg2000Decoder decoder(bytes);
  const opj_image_t& image = decoder.read_header();
  check_image_header(image, bytes.size());
  return {image.comps[0].w, image.comps[0].h};
}

Image decode_jpeg2000_image(std::string_view bytes, const FrameSize&) {
  const Jpeg2000Pixels pixels = decode_image(bytes);
  return {static_cast<int>(pixels->comps[0].w), static_cast<int>(pixels->comps[0].h),
          interleaved<std::uint8_t>(*pixels, 3, 8)};
}

Image16 decode_deep_jpeg2000(std::string_view bytes, const FrameSize&) {
  const Jpeg2000Pixels pixels = decode_image(bytes);
  return {static_cast<int>(pixels->comps[0].w), static_cast<int>(pixels->comps[0].h), 1,
          interleaved<std::uint16_t>(*pixels, 1, 16)};
}

}  // namespace coldframe::frames
