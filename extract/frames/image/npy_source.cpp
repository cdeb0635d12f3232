// NumPy's .npy arrays as clips: [H, W], [T, H, W] and [T, H, W, 3].
// Source: numpy.lib.format, "NPY format".
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/files/bytes/byte_cursor.h"
#include "common/files/file.h"
#include "common/text/text.h"
#include "extract/frames/image/value_scale.h"
#include "extract/frames/kinds.h"

namespace coldframe::frames {
namespace {

using std::string_view_literals::operator""sv;

constexpr auto kNpySignature = "\x93NUMPY"sv;
constexpr std::int64_t kMaxArrayFrames = std::int64_t{1} << 20;
// A file that is cut off may have this many frames fewer than its header states.
constexpr std::int64_t kMostLostFrames = 1 << 16;

enum class Number { kU8, kU16, kF32, kF64 };

struct NumberType {
  std::string_view name;  // in the header, behind the order of bytes
  Number number;
  std::size_t bytes;
  Depth depth;
};

constexpr std::array kNumberTypes{NumberType{"u1", Number::kU8, 1, Depth::k8},
                                  NumberType{"u2", Number::kU16, 2, Depth::k16},
                                  NumberType{"f4", Number::kF32, 4, Depth::kWide},
                                  NumberType{"f8", Number::kF64, 8, Depth::kWide}};

struct NpyHeader {
  NumberType type = kNumberTypes[0];
  bool swapped = false;
  std::int64_t frames = 1, height = 0, width = 0, channels = 1;
  std::uint64_t offset = 0;  // of the first frame

  std::uint64_t frame_values() const {
    return static_cast<std::uint64_t>(width * height * channels);
  }
  std::uint64_t frame_bytes() const { return frame_values() * type.bytes; }
};

// What stands behind a key of the header, a Python dictionary of three entries.
std::string_view value_behind(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(concat('\'', key, '\''));
  if (at == std::string_view::npos)
    throw DataError(concat("its header is damaged: it has no '", key, "'"));
  std::string_view value = header.substr(at + key.size() + 2);
  const std::size_t start = value.find_first_not_of(": ");
  return start == std::string_view::npos ? "" : value.substr(start);
}

void read_type(std::string_view header, NpyHeader& array) {
  std::string_view text = value_behind(header, "descr");
  const std::size_t end = text.starts_with('\'') ? text.find('\'', 1) : std::string_view::npos;
  text = end == std::string_view::npos ? "" : text.substr(1, end - 1);
  const auto known = std::find_if(kNumberTypes.begin(), kNumberTypes.end(), [&](const auto& type) {
    return text.size() == 3 && text.substr(1) == type.name;
  });
  if (known == kNumberTypes.end())
    throw DataError(
        concat("its numbers are of type ", text.empty() ? "(a record)"sv : text,
               "; uint8, uint16, float32 and float64 are read: convert it with astype()"));
  array.type = *known;
  array.swapped = text[0] == (std::endian::native == std::endian::little ? '>' : '<');
}

std::vector<std::int64_t> read_shape(std::string_view header) {
  std::string_view text = value_behind(header, "shape");
  const std::size_t end = text.find(')');
  if (!text.starts_with('(') || end == std::string_view::npos)
    throw DataError("its header is damaged: its shape is no list");
  std::vector<std::int64_t> shape;
  for (const std::string& part : split(text.substr(1, end - 1), ',')) {
    if (trim(part).empty()) continue;
    shape.emplace_back();
    if (!parse_int(trim(part), shape.back()) || shape.back() < 1)
      throw DataError(
          concat("its shape is (", text.substr(1, end - 1), "), expected lengths from 1"));
  }
  return shape;
}

void set_shape(const std::vector<std::int64_t>& shape, NpyHeader& array) {
  const bool colour = shape.size() == 4 && shape[3] == 3;
  if (shape.size() != 2 && shape.size() != 3 && !colour) {
    std::vector<std::string> lengths;
    for (const std::int64_t length : shape) lengths.push_back(concat(length));
    throw DataError(concat("its shape is [", join(lengths, ", "),
                           "], expected [H, W], [T, H, W] or [T, H, W, 3]"));
  }
  if (shape.size() == 3 && (shape[2] == 1 || shape[2] == 3 || shape[2] == 4))
    throw DataError(
        concat("its shape is [", shape[0], ", ", shape[1], ", ", shape[2],
               "], which looks like one image with its channels last, where [T, H, W] "
               "is expected; store a colour image as [1, H, W, 3], a grey one as [H, W]"));
  const std::size_t rows = shape.size() == 2 ? 0 : 1;
  array.frames = rows == 0 ? 1 : shape[0];
  array.height = shape[rows];
  array.width = shape[rows + 1];
  array.channels = colour ? 3 : 1;
  if (array.width > kMaxSide || array.height > kMaxSide || array.width * array.height > kMaxPixels)
    throw DataError(concat("its frames have ", array.width, "×", array.height, " pixels; at most ",
                           kMaxSide, " a side and ", kMaxPixels, " in all are read"));
  if (array.frames > kMaxArrayFrames)
    throw DataError(
        concat("it has ", array.frames, " frames; at most ", kMaxArrayFrames, " are read"));
}

NpyHeader read_npy_header(const ByteSource& file) {
  constexpr std::uint64_t kLongestHeader = 1 << 16;
  const std::string start = file.read(0, std::min<std::uint64_t>(12, file.size()));
  const ByteCursor in(start, std::endian::little);
  const bool is_first = in.u8(6) == 1;
  const std::uint64_t at = is_first ? 10 : 12, length = is_first ? in.u16(8) : in.u32(8);
  if (in.u8(6) < 1 || in.u8(6) > 3 || length > kLongestHeader)
    throw DataError(concat("its header is of version ", in.u8(6), " and ", length,
                           " bytes long; versions 1 to 3 of at most ", kLongestHeader,
                           " bytes are read"));
  const std::string header = file.read(at, length);
  NpyHeader array;
  array.offset = at + length;
  read_type(header, array);
  if (value_behind(header, "fortran_order").starts_with("True"))
    throw DataError("it is in Fortran's order; store numpy.ascontiguousarray() of it");
  set_shape(read_shape(header), array);
  const std::uint64_t there = file.size() - array.offset, frame = array.frame_bytes();
  const auto whole =
      static_cast<std::int64_t>(std::min<std::uint64_t>(there / frame, kMaxArrayFrames));
  if (whole == 0 || array.frames - whole > kMostLostFrames)
    throw DataError(concat("it is truncated: its header asks for ", plural(array.frames, "frame"),
                           " of ", frame, " bytes, and it holds ", there));
  return array;
}

template <typename T>
double npy_number(const std::byte* bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

double npy_value(const std::byte* bytes, Number number) {
  switch (number) {
    case Number::kU8:
      return npy_number<std::uint8_t>(bytes);
    case Number::kU16:
      return npy_number<std::uint16_t>(bytes);
    case Number::kF32:
      return npy_number<float>(bytes);
    case Number::kF64:
      break;
  }
  return npy_number<double>(bytes);
}

class NpySource : public Source {
 public:
  NpySource(std::filesystem::path path, const ReaderOptions& options)
      : path_(std::move(path)), scale_{options.window} {
    guarded([&] { header_ = read_npy_header(InputFile(path_, refuse_unnamed)); });
    scale_.depth = header_.type.depth;
  }

  std::int64_t frame_count() override { return header_.frames; }
  double time_s(std::int64_t) const override {
    return header_.frames == 1 ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  }
  bool wants_range() const override { return scale_.wants_range(); }
  void set_range(const ValueRange& range) override { scale_.surveyed = range; }

  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override {
    for (const std::int64_t index : indices) {
      Frame frame{index, time_s(index), {}};
      try {
        guarded([&] { frame.pixels = decode(index); });
      } catch (const DataError& error) {
        throw RestLost(error.what());  // it is cut off
      }
      sink(std::move(frame));
    }
  }

  void survey(ValueSurvey& survey) override {
    try {
      for (std::int64_t index = 0; index < header_.frames; ++index)
        for_each(index, [&](double value) { survey.add(value); });
    } catch (const DataError&) {  // it is cut off, as read() says
    }
  }

 private:
  template <typename Work>
  void guarded(const Work& work) const {
    in_context(concat("array '", path_.string(), "'"), work);
  }

  template <typename Visit>
  void for_each(std::int64_t index, const Visit& visit) const {
    const InputFile file(path_, refuse_unnamed);
    const std::uint64_t size = header_.frame_bytes();
    const std::string raw =
        file.read(header_.offset + static_cast<std::uint64_t>(index) * size, size);
    const std::size_t width = header_.type.bytes;
    std::array<std::byte, 8> value{};
    for (std::size_t at = 0; at < raw.size(); at += width) {
      std::memcpy(value.data(), raw.data() + at, width);
      if (header_.swapped) std::reverse(value.begin(), value.begin() + static_cast<int>(width));
      visit(npy_value(value.data(), header_.type.number));
    }
  }

  Image decode(std::int64_t index) const {
    Image image{static_cast<int>(header_.width), static_cast<int>(header_.height), {}};
    image.rgb.reserve(3 * static_cast<std::size_t>(header_.width * header_.height));
    const ValueRange range = scale_.range();
    const std::size_t copies = header_.channels == 3 ? 1 : 3;
    for_each(index, [&](double value) {
      image.rgb.insert(image.rgb.end(), copies, to_level(value, range));
    });
    return image;
  }

  std::filesystem::path path_;
  ValueScale scale_;
  NpyHeader header_;
};

}  // namespace

bool detect_npy(std::string_view head, const std::filesystem::path&) {
  return head.starts_with(kNpySignature);
}

std::unique_ptr<Source> open_npy(const std::filesystem::path& path, const ReaderOptions& options) {
  return std::make_unique<NpySource>(path, options);
}

}  // namespace coldframe::frames
