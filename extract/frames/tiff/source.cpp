// TIFF images, and TIFF stacks as clips: each page is a frame.
#include <algorithm>
#include <limits>
#include <optional>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/image/header.h"
#include "extract/frames/image/orientation.h"
#include "extract/frames/source.h"
#include "extract/frames/tiff/axes.h"
#include "extract/frames/tiff/file.h"

namespace coldframe::frames {
namespace {

// More images of a stack than these may not be cut off.
constexpr std::int64_t kMostLostImages = 1 << 16;

class TiffSource : public FileSource {
 public:
  TiffSource(const SourceFile& of, const ReaderOptions& options)
      : FileSource("image", of), scale_{options.window} {
    guarded([&] {
      TiffFile file(file_.open());
      find_frames(file);
      scale_.depth = depth_of_first(file);
    });
  }

  std::int64_t frame_count() override {
    return static_cast<std::int64_t>(frames_.size() + (has_lost_tail() ? 1 : 0));
  }
  std::string lost_tail() const override {
    return has_lost_tail() ? concat(name_, ": ", tail_fault()) : "";
  }
  double time_s(std::int64_t index) const override {
    if (frames_.size() == 1) return 0.0;
    const auto at = static_cast<std::size_t>(index);
    return at < frames_.size() ? frames_[at].time_s : std::numeric_limits<double>::quiet_NaN();
  }
  std::size_t streams() const override { return channels_.size(); }
  std::vector<std::string> notes() const override {
    if (left_out_ == 0) return {};
    return {"pages that its OME-XML does not name are left out"};
  }
  // Of every frame.
  std::vector<ChannelFrame> frame_facts() const {
    std::vector<ChannelFrame> facts;
    for (const StackFrame& frame : frames_)
      facts.push_back({channels_[frame.channel], frame.time_s});
    return facts;
  }
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override;

  bool wants_range() const override { return scale_.wants_range(); }
  void survey(ValueSurvey& survey) override;
  void set_range(const ValueRange& range) override { scale_.surveyed = range; }
  bool holds_floats() const override { return scale_.depth == Depth::kWide; }

 private:
  void find_frames(TiffFile& file);
  void find_pages(TiffFile& file, std::int64_t stated);
  bool has_lost_tail() const { return !fault_.empty() && !is_described_; }
  std::string tail_fault() const {
    return concat(fault_, "; ", plural(frames_.size(), "page"),
                  " before that can be read, how many are lost is not known");
  }
  TiffPage open_page(TiffFile& file, const StackFrame& frame) const;
  Depth depth_of_first(TiffFile& file) const;
  void decode(TiffFile& file, Frame& frame) const;

  ValueScale scale_;
  std::vector<TiffPlace> pages_;
  std::vector<bool> is_frame_;      // of pages_
  std::string fault_;               // of what lies behind them
  std::vector<StackFrame> frames_;  // in pages_, or behind them
  std::vector<std::string> channels_ = {""};
  bool is_described_ = false;  // the first page tells of all frames, also of those that are lost
  std::int64_t left_out_ = 0;  // pages that it tells nothing of
};

// Of an ImageJ stack behind one directory, or one for each directory.
void TiffSource::find_pages(TiffFile& file, std::int64_t stated) {
  const std::int64_t images = file.images_behind(stated);
  for (const TiffDirectory& directory : file.directories(fault_)) {
    pages_.push_back({directory.offset, 0});
    is_frame_.push_back(directory.is_frame);
  }
  for (std::int64_t image = 1; image < images; ++image) {
    pages_.push_back({pages_.front().directory, image});
    is_frame_.push_back(true);
  }
  if (images == 1 || images == stated) return;
  fault_ = concat("it is truncated: its description states ", plural(stated, "image"),
                  ", and it holds ", images, ", the last one in part perhaps");
  if (stated - images > kMostLostImages) throw DataError(fault_);
}

void TiffSource::find_frames(TiffFile& file) {
  const std::string description = file.description();
  const int samples = file.samples();
  find_pages(file, imagej_images(description));
  const auto pages = static_cast<std::int64_t>(pages_.size());
  std::optional<StackAxes> axes;
  if (pages > 1 || !fault_.empty()) axes = read_axes(description, pages, samples, !fault_.empty());
  if (axes) {
    frames_ = std::move(axes->frames);
    channels_ = std::move(axes->channels);
    is_described_ = true;
    for (const StackFrame& frame : frames_)
      if (frame.page < pages) is_frame_[static_cast<std::size_t>(frame.page)] = false;
    left_out_ = std::ranges::count(is_frame_, true);
    return;
  }
  for (std::int64_t page = 0; page < pages; ++page)
    if (is_frame_[static_cast<std::size_t>(page)]) frames_.push_back({page});
  if (frames_.empty()) frames_.push_back({0});  // a thumbnail, and nothing else
}

TiffPage TiffSource::open_page(TiffFile& file, const StackFrame& frame) const {
  if (frame.page < static_cast<std::int64_t>(pages_.size()))
    return file.open_page(pages_[static_cast<std::size_t>(frame.page)]);
  throw DataError(!fault_.empty() ? fault_
                                  : concat("its OME-XML places this frame in page ", frame.page,
                                           ", and it has ", plural(pages_.size(), "page"),
                                           " (they count from 0)"));
}

// Passes over pages that cannot be opened, unless none can.
Depth TiffSource::depth_of_first(TiffFile& file) const {
  for (std::size_t frame = 0; frame + 1 < frames_.size(); ++frame) {
    try {
      return open_page(file, frames_[frame]).depth;
    } catch (const DataError&) {
    }
  }
  return open_page(file, frames_.back()).depth;
}

void TiffSource::decode(TiffFile& file, Frame& frame) const {
  if (frame.index >= static_cast<std::int64_t>(frames_.size())) throw DataError(tail_fault());
  const TiffPage page = open_page(file, frames_[static_cast<std::size_t>(frame.index)]);
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
  for (const StackFrame& frame : frames_) {
    ValueSurvey own;
    try {
      if (!file) file = std::make_unique<TiffFile>(file_.open());
      open_page(*file, frame);
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
    TiffFile tiff(file.open());
    return tiff.images_behind(imagej_images(tiff.description())) > 1 || tiff.has_several_pages();
  } catch (const DataError&) {
    return false;  // an image, whose reader says what is wrong
  }
}

SourceFacts facts_of_stack(const SourceFile& file, const ReaderOptions& options) {
  SourceFacts facts;
  if (!names_channels(TiffFile(file.open()).description())) return facts;
  const TiffSource stack(file, options);
  if (stack.streams() > 1) facts.frames = stack.frame_facts();
  return facts;
}

}  // namespace

extern const SourceKind kStackKind;
constinit const SourceKind kStackKind{.name = "stack",
                                      .contents = "TIFF stacks",
                                      .detect = detect_stack,
                                      .open = open_as<TiffSource>,
                                      .facts = facts_of_stack};

}  // namespace coldframe::frames
