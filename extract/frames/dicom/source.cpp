#include "extract/frames/dicom/source.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <new>
#include <set>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/text/text.h"
#include "extract/frames/dicom/pixels/color.h"
#include "extract/frames/dicom/pixels/frame_data.h"
#include "extract/frames/dicom/pixels/grey_scale.h"
#include "extract/frames/dicom/pixels/samples.h"
#include "extract/frames/dicom/times.h"
#include "extract/frames/dicom/video.h"

namespace coldframe::frames::dicom {
namespace {

constexpr int kMaxTableBits = 16;

// Describes a file's image without the file itself: frames are read by their place in it.
struct DicomImage {
  DicomImage(const DataSet& data, const ReaderOptions& options)
      : frames(data, read_layout(data)),
        layout(frames.layout()),
        grey(data, layout, options.window),
        times(frame_times(data, layout.frames)),
        start_time(dicom::start_time(data.root())) {
    if (layout.photometric == Photometric::kPalette) palette = read_palettes(data, layout);
    notes.insert(data.notes().begin(), data.notes().end());
    notes.insert(frames.notes().begin(), frames.notes().end());
    if (!times.note.empty()) notes.insert(times.note);
    const FunctionalGroups groups(data.root());
    const bool own = groups.frames() > 0;
    for (std::int64_t frame = 0; frame < (own ? layout.frames : 1); ++frame) {
      geometry.push_back(read_geometry(data, groups, frame));
    }
  }

  const Geometry& geometry_of(std::int64_t frame) const {
    return geometry[geometry.size() == 1 ? 0 : static_cast<std::size_t>(frame)];
  }

  FrameData frames;
  PixelLayout layout;
  GreyScale grey;
  FrameTimes times;
  double start_time = 0;  // as Source::start_time
  Palette palette;
  std::vector<Geometry> geometry;
  std::set<std::string> notes;  // as Source::notes
};

class DicomSource : public FileSource {
 public:
  DicomSource(const SourceFile& file, const DataSet& data, const ReaderOptions& options)
      : FileSource("DICOM", file), window_(options.window) {
    named([&] { image_ = std::make_unique<DicomImage>(data, options); });
  }

  std::int64_t frame_count() override { return image_->layout.frames; }
  double time_s(std::int64_t index) const override {
    return image_->times.seconds.at(static_cast<std::size_t>(index));
  }
  double start_time() const override { return image_->start_time; }
  OrderBasis basis() const override { return image_->times.basis; }
  std::vector<std::string> notes() const override {
    return {image_->notes.begin(), image_->notes.end()};
  }
  bool wants_range() const override {
    return image_->layout.is_grey() && image_->grey.wants_range();
  }
  void set_range(const ValueRange& range) override { image_->grey.set_range(range); }
  bool holds_floats() const override { return image_->layout.kind != PixelElement::Kind::kInteger; }

  void survey(ValueSurvey& survey) override {
    named([&] {
      const auto bytes = data_bytes();
      for (std::int64_t frame = 0; frame < frame_count(); ++frame) {
        try {
          survey_frame(image_->frames.read(*bytes, frame), frame, survey);
        } catch (const DataError&) {  // read() says why
        }
      }
    });
  }

  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override {
    if (wants_range()) {
      ValueSurvey own;
      survey(own);
      set_range(own.range(window_));
    }
    std::shared_ptr<const ByteSource> bytes;
    named([&] { bytes = data_bytes(); });
    for (const std::int64_t index : indices) {
      Frame frame;
      named([&] { frame = read_frame(*bytes, index); });
      sink(std::move(frame));
    }
  }

 private:
  // Whatever goes wrong becomes a DataError that names the file.
  template <typename Action>
  void named(const Action& action) const {
    std::string reason;
    try {
      return action();
    } catch (const DataError& error) {
      reason = error.what();
    } catch (const std::bad_alloc&) {
      reason = "it takes more memory than there is";
    }
    throw DataError(concat(name_, ": ", reason));
  }

  // Deflated files are inflated anew, so that none of many opened files is held in memory.
  std::shared_ptr<const ByteSource> data_bytes() const {
    return image_->frames.deflated() ? DataSet(file_.open()).bytes() : file_.open();
  }

  void survey_frame(const RawFrame& raw, std::int64_t frame, ValueSurvey& survey) const;
  Frame read_frame(const ByteSource& bytes, std::int64_t index);
  void show_grey(const RawFrame& raw, std::int64_t stored, Frame& frame);

  Window window_;
  std::unique_ptr<DicomImage> image_;
  std::vector<std::uint8_t> levels_;  // of every stored value, for frame `levels_frame_`
  std::int64_t levels_frame_ = -1;
};

void DicomSource::survey_frame(const RawFrame& raw, std::int64_t frame, ValueSurvey& survey) const {
  const Samples samples(raw);
  const std::size_t pixels = raw.layout.pixels();
  const auto add = [&](double stored, std::uint64_t count) {
    if (!image_->grey.is_padding(stored) && std::isfinite(stored))
      survey.add(image_->grey.value(frame, stored), count);
  };
  if (raw.layout.kind != PixelElement::Kind::kInteger || raw.layout.bits_stored > kMaxTableBits) {
    for (std::size_t i = 0; i < pixels; ++i) add(samples.value(i), 1);
    return;
  }
  std::vector<std::uint64_t> counts(std::size_t{1} << raw.layout.bits_stored);
  for (std::size_t i = 0; i < pixels; ++i) ++counts[samples.bits(i)];
  for (std::uint32_t bits = 0; bits < counts.size(); ++bits) {
    add(samples.value_of_bits(bits), counts[bits]);
  }
}

void DicomSource::show_grey(const RawFrame& raw, std::int64_t stored, Frame& frame) {
  const Samples samples(raw);
  Image& image = frame.pixels;
  image = {raw.layout.columns, raw.layout.rows, {}};
  image.rgb.resize(raw.layout.pixels() * 3);
  const bool tabled =
      raw.layout.kind == PixelElement::Kind::kInteger && raw.layout.bits_stored <= kMaxTableBits;
  const std::size_t entries = tabled ? std::size_t{1} << raw.layout.bits_stored : 0;
  if (tabled && (levels_.size() != entries || !image_->grey.same(stored, levels_frame_))) {
    levels_.resize(entries);
    for (std::uint32_t bits = 0; bits < entries; ++bits) {
      levels_[bits] = image_->grey.level(stored, samples.value_of_bits(bits));
    }
    levels_frame_ = stored;
  }
  FiniteShare finite;
  for (std::size_t i = 0; i < raw.layout.pixels(); ++i) {
    if (!tabled) finite.add(samples.value(i));
    const std::uint8_t level =
        tabled ? levels_[samples.bits(i)] : image_->grey.level(stored, samples.value(i));
    std::fill_n(&image.rgb[i * 3], 3, level);
  }
  frame.finite = finite.share();
}

Frame DicomSource::read_frame(const ByteSource& bytes, std::int64_t index) {
  const std::int64_t stored = image_->times.stored.at(static_cast<std::size_t>(index));
  const RawFrame raw = image_->frames.read(bytes, stored);
  const Geometry& geometry = image_->geometry_of(stored);
  Frame frame;
  frame.index = index;
  frame.time_s = time_s(index);
  frame.spacing_mm = geometry.spacing_mm;
  frame.region = geometry.region;
  if (!raw.note.empty()) image_->notes.insert(raw.note);
  if (image_->layout.is_grey()) {
    show_grey(raw, stored, frame);
  } else if (raw.layout.photometric == Photometric::kPalette) {
    frame.pixels = palette_image(raw, image_->palette);
  } else {
    frame.pixels = color_image(raw);
  }
  return frame;
}

bool detect_dicom(const SourceFile& file) {
  return looks_like_dicom(file.head());
}

std::unique_ptr<Source> open_dicom(const SourceFile& file, const ReaderOptions& options) {
  const auto data = in_context(concat("DICOM '", file.path().string(), "'"),
                               [&] { return std::make_unique<DataSet>(file.open()); });
  if (data->syntax().coding == Coding::kVideo) return open_video(file, *data, options);
  return std::make_unique<DicomSource>(file, *data, options);
}

SourceFacts dicom_facts(const SourceFile& file, const ReaderOptions& options) {
  return read_facts(DataSet(file.open()), options);
}

}  // namespace
}  // namespace coldframe::frames::dicom

namespace coldframe::frames {

extern const SourceKind kDicomKind;
constinit const SourceKind kDicomKind{.name = "dicom",
                                      .contents = "DICOM",
                                      .other_suffixes = ".dcm .dicom .ima",
                                      .detect = dicom::detect_dicom,
                                      .open = dicom::open_dicom,
                                      .facts = dicom::dicom_facts,
                                      .has_series = true};

}  // namespace coldframe::frames
