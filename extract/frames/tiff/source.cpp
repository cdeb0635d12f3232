// TIFF images, and TIFF stacks as clips: each page is a frame.
#include <limits>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/image/header.h"
#include "extract/frames/image/orientation.h"
#include "extract/frames/source.h"
#include "extract/frames/tiff/file.h"

namespace coldframe::frames {
namespace {

class TiffSource : public FileSource {
 public:
  TiffSource(const SourceFile& of, const ReaderOptions& options)
      : FileSource("image", of), scale_{options.window} {
    guarded([&] {
      TiffFile file(file_.open());
      pages_ = file.pages(fault_);
      scale_.depth = depth_of_first(file);
    });
  }

  std::int64_t frame_count() override {
    return static_cast<std::int64_t>(pages_.size() + (fault_.empty() ? 0 : 1));
  }
  std::string lost_tail() const override {
    return fault_.empty() ? "" : concat(name_, ": ", fault_);
  }
  double time_s(std::int64_t) const override {
    return pages_.size() == 1 ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  }
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override;

  bool wants_range() const override { return scale_.wants_range(); }
  void survey(ValueSurvey& survey) override;
  void set_range(const ValueRange& range) override { scale_.surveyed = range; }
  bool holds_floats() const override { return scale_.depth == Depth::kWide; }

 private:
  Depth depth_of_first(TiffFile& file) const;
  void decode(TiffFile& file, Frame& frame) const;

  ValueScale scale_;
  std::vector<std::uint64_t> pages_;  // offsets of their directories
  std::string fault_;                 // of what lies behind them
};

// Passes over pages that cannot be opened, unless none can.
Depth TiffSource::depth_of_first(TiffFile& file) const {
  for (std::size_t page = 0; page + 1 < pages_.size(); ++page) {
    try {
      return file.open_page(pages_[page]).depth;
    } catch (const DataError&) {
    }
  }
  return file.open_page(pages_.back()).depth;
}

void TiffSource::decode(TiffFile& file, Frame& frame) const {
  if (frame.index >= static_cast<std::int64_t>(pages_.size())) throw DataError(fault_);
  const TiffPage page = file.open_page(pages_[static_cast<std::size_t>(frame.index)]);
  if (page.depth != scale_.depth) {
    throw DataError(concat("page ", frame.index, " has another depth than the first one"));
  }
  const auto width = static_cast<std::size_t>(page.width);
  Image image{static_cast<int>(page.width), static_cast<int>(page.height),
              std::vector<std::uint8_t>(width * static_cast<std::size_t>(page.height) * 3)};
  const ValueRange range = scale_.range();
  std::uint8_t* to = image.rgb.data();
  FiniteShare finite;
  file.read_rows([&](std::int64_t, std::span<const double> row) {
    for (const double value : row) finite.add(value);
    const std::size_t channels = static_cast<std::size_t>(page.channels);
    for (std::size_t i = 0; i < 3 * width; ++i) {
      *to++ = to_level(row[channels == 3 ? i : i / 3], range);
    }
  });
  frame.pixels = upright(std::move(image), page.orientation);
  frame.finite = finite.share();
}

void TiffSource::read(std::span<const std::int64_t> indices,
                      const std::function<void(Frame&&)>& sink) {
  std::unique_ptr<TiffFile> file;
  for (const std::int64_t index : indices) {
    Frame frame{index, time_s(index), {}};
    guarded([&] {
      if (!file) file = std::make_unique<TiffFile>(file_.open());
      decode(*file, frame);
    });
    sink(std::move(frame));
  }
}

void TiffSource::survey(ValueSurvey& survey) {
  std::unique_ptr<TiffFile> file;
  for (const std::uint64_t page : pages_) {
    ValueSurvey own;
    try {
      if (!file) file = std::make_unique<TiffFile>(file_.open());
      file->open_page(page);
      file->read_rows([&](std::int64_t, std::span<const double> row) {
        for (const double value : row) own.add(value);
      });
      survey.add(own);
    } catch (const DataError&) {  // read() says why
      file.reset();
    }
  }
}

bool detect_stack(const SourceFile& file) {
  if (image_format(file.head()) != ImageFormat::kTiff) return false;
  try {
    return TiffFile(file.open()).has_several_pages();
  } catch (const DataError&) {
    return false;  // an image, whose reader says what is wrong
  }
}

}  // namespace

extern const SourceKind kStackKind;
constinit const SourceKind kStackKind{.name = "stack",
                                      .contents = "TIFF stacks",
                                      .detect = detect_stack,
                                      .open = open_as<TiffSource>};

}  // namespace coldframe::frames
