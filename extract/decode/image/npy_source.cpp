// NumPy's .npy arrays as clips: [H, W], [T, H, W] and [T, H, W, 3].
// Source: numpy.lib.format, "NPY format".
#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "common/cli/error.h"
#include "common/files/npy_header.h"
#include "common/text/text.h"
#include "extract/decode/image/still_formats.h"
#include "extract/decode/source.h"

namespace coldframe::frames {
namespace {

constexpr std::int64_t kMaxArrayFrames = std::int64_t{1} << 20;
// A file that is truncated may have this many frames fewer than its header states.
constexpr std::int64_t kMaxLostFrames = 1 << 16;

constexpr std::pair<DType, Depth> kNumberTypes[] = {{DType::kUint8, Depth::k8},
                                                    {DType::kUint16, Depth::k16},
                                                    {DType::kFp32, Depth::kWide},
                                                    {DType::kFp64, Depth::kWide}};

struct NpyFrames {
  DType type = DType::kUint8;
  Depth depth = Depth::k8;
  bool swapped = false;
  std::int64_t frames = 1, height = 0, width = 0, channels = 1;
  std::uint64_t offset = 0;  // of the first frame

  std::uint64_t frame_values() const {
    return static_cast<std::uint64_t>(width * height * channels);
  }
  std::uint64_t frame_bytes() const { return frame_values() * bytes_of(type); }
};

void set_type(const NpyHeader& header, NpyFrames& array) {
  const auto* known = std::ranges::find(kNumberTypes, header.dtype,
                                        [](const auto& each) { return std::optional(each.first); });
  if (known == std::end(kNumberTypes))
    throw DataError(
        concat("its numbers are of type ", header.type.empty() ? "(a record)" : header.type,
               "; uint8, uint16, float32 and float64 are read: convert it with astype()"));
  std::tie(array.type, array.depth) = *known;
  array.swapped = header.swapped;
}

void set_shape(const NpyHeader& header, NpyFrames& array) {
  const std::vector<std::int64_t>& shape = header.shape;
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t length) { return length < 1; }))
    throw DataError(concat("its shape is (", header.shape_text, "), expected lengths from 1"));
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

NpyFrames read_frames_header(const ByteSource& file) {
  const NpyHeader header = read_npy_header(file);
  NpyFrames array;
  array.offset = header.data;
  set_type(header, array);
  if (header.fortran_order)
    throw DataError("it is in Fortran's order; store numpy.ascontiguousarray() of it");
  set_shape(header, array);
  const std::uint64_t there = file.size() - array.offset, frame = array.frame_bytes();
  const auto whole =
      static_cast<std::int64_t>(std::min<std::uint64_t>(there / frame, kMaxArrayFrames));
  if (whole == 0 || array.frames - whole > kMaxLostFrames)
    throw DataError(concat("it is truncated: its header asks for ", plural(array.frames, "frame"),
                           " of ", frame, " bytes, and it holds ", there));
  return array;
}

class NpySource : public FileSource {
 public:
  NpySource(const SourceFile& file, const ReaderOptions& options)
      : FileSource("array", file), scale_{options.window} {
    guarded([&] { header_ = read_frames_header(*file_.open()); });
    scale_.depth = header_.depth;
  }

  std::int64_t frame_count() override { return header_.frames; }
  double time_s(std::int64_t) const override { return header_.frames == 1 ? 0.0 : kNotStated; }
  bool wants_range() const override { return scale_.wants_range(); }
  void set_range(const ValueRange& range) override { scale_.surveyed = range; }
  bool holds_floats() const override { return header_.depth == Depth::kWide; }

  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override {
    for (const std::int64_t index : indices) {
      Frame frame{index, time_s(index), {}};
      try {
        guarded([&] { decode(frame); });
      } catch (const DataError& error) {
        throw UnreadableFromHere(error.what());  // it is truncated
      }
      sink(std::move(frame));
    }
  }

  void survey(ValueSurvey& survey) override {
    try {
      for (std::int64_t index = 0; index < header_.frames; ++index)
        for_each(index, [&](double value) { survey.add(value); });
    } catch (const DataError&) {  // it is truncated, as read() says
    }
  }

 private:
  template <typename Visit>
  void for_each(std::int64_t index, const Visit& visit) const {
    const std::uint64_t size = header_.frame_bytes();
    std::string raw =
        file_.open()->read(header_.offset + static_cast<std::uint64_t>(index) * size, size);
    const std::size_t width = bytes_of(header_.type);
    for (std::size_t at = 0; header_.swapped && at < raw.size(); at += width)
      std::reverse(raw.data() + at, raw.data() + at + width);
    std::vector<double> values(raw.size() / width);
    convert(std::as_bytes(std::span(raw)), header_.type, std::span(values));
    std::ranges::for_each(values, visit);
  }

  void decode(Frame& frame) const {
    Image& image = frame.pixels;
    image = {static_cast<int>(header_.width), static_cast<int>(header_.height), {}};
    image.rgb.reserve(3 * static_cast<std::size_t>(header_.width * header_.height));
    const ValueRange range = scale_.range();
    const std::size_t copies = header_.channels == 3 ? 1 : 3;
    FiniteFraction finite;
    for_each(frame.index, [&](double value) {
      finite.add(value);
      image.rgb.insert(image.rgb.end(), copies, to_level(value, range));
    });
    frame.finite = finite.share();
  }

  ValueScale scale_;
  NpyFrames header_;
};

}  // namespace

extern const SourceKind kNpyKind;
constinit const SourceKind kNpyKind{
    .name = "npy",
    .contents = "NumPy arrays",
    .other_suffixes = ".npy",
    .detect = [](const SourceFile& file) { return file.head().starts_with(kNpySignature); },
    .open = open_as<NpySource>};

}  // namespace coldframe::frames
