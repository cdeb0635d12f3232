#include "extract/decode/dicom/source.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <new>
#include <set>

#include "common/cli/error.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "extract/decode/dicom/data_set.h"
#include "extract/decode/dicom/frame_data.h"
#include "extract/decode/dicom/grey_scale.h"
#include "extract/decode/dicom/times.h"
#include "extract/decode/frame.h"
#include "extract/decode/source.h"

namespace coldframe::frames::dicom {

// DICOM files whose pixel data is the stream of a video (PS3.5 A.4.5 to A.4.9): the reader of clips
// decodes it, the header states patient, start and times.

// Decodes the stream once to count its frames. DataError, which names the file: it is damaged, or
// its stream is none that the reader of clips knows.
std::unique_ptr<Source> open_video(const SourceFile& file, const DataSet& data,
                                   const ReaderOptions& options);

}  // namespace coldframe::frames::dicom

namespace coldframe::frames {

extern const SourceKind kVideoKind;

namespace dicom {
namespace {

// Times in the header are others than the stream's: a part that is asked for by time is not the
// stream's.
ReaderOptions for_stream(ReaderOptions options) {
  const ReaderOptions defaults;
  options.from_s = defaults.from_s;
  options.until_s = defaults.until_s;
  return options;
}

class DicomVideo : public FileSource {
 public:
  DicomVideo(const SourceFile& file, const DataSet& data, const ReaderOptions& options)
      : FileSource("DICOM", file),
        clip_(guarded(
            [&] { return kVideoKind.open(file.within(find_stream(data)), for_stream(options)); })),
        frames_(clip_->frame_count()),
        start_time_(dicom::start_time(data.root())),
        geometry_(read_geometry(data, FunctionalGroups(data.root()), 0)) {
    const std::int64_t stated = stated_frames(data.root());
    if (stated > 0 && stated != frames_ && clip_->lost_tail().empty())
      notes_.push_back(concat("its header states ",
                              plural(static_cast<std::size_t>(stated), "frame"),
                              ", its stream holds ", frames_));
    set_times(data);
  }

  std::int64_t frame_count() override { return frames_; }
  double time_s(std::int64_t index) const override {
    return times_.at(static_cast<std::size_t>(index));
  }
  double start_time() const override { return start_time_; }
  std::string lost_tail() const override { return clip_->lost_tail(); }
  bool wants_range() const override { return clip_->wants_range(); }
  void survey(ValueSurvey& values) override { clip_->survey(values); }
  void set_range(const ValueRange& range) override { clip_->set_range(range); }
  Window range_window(const Window& asked) const override { return clip_->range_window(asked); }
  bool finds_range_alone() const override { return clip_->finds_range_alone(); }
  OrderBasis basis() const override { return {kFileOrder, stated_by_}; }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = clip_->notes();
    notes.insert(notes.end(), notes_.begin(), notes_.end());
    return notes;
  }

  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override {
    clip_->read(indices, [&](Frame&& frame) {
      frame.time_s = time_s(frame.index);
      frame.spacing_mm = geometry_.spacing_mm;
      frame.region = geometry_.region;
      sink(std::move(frame));
    });
  }

 private:
  // The cine module's, else the stream's own, else those of the rate for display.
  void set_times(const DataSet& data) {
    FrameTimes stated = frame_times(data, frames_);
    for (std::int64_t i = 0; i < frames_; ++i) times_.push_back(clip_->time_s(i));
    const bool own = std::ranges::none_of(times_, [](double time) { return std::isnan(time); });
    if (own && cine_steps(data.root(), frames_).empty()) {
      stated_by_ = "the stream's time stamps";
    } else if (!stated.basis.times.empty() || frames_ == 1) {
      times_ = std::move(stated.seconds);
      stated_by_ = std::move(stated.basis.times);
    }
  }

  std::unique_ptr<Source> clip_;
  std::int64_t frames_;
  double start_time_;
  Geometry geometry_;
  std::vector<double> times_;
  std::string stated_by_;
  std::vector<std::string> notes_;
};

}  // namespace

std::unique_ptr<Source> open_video(const SourceFile& file, const DataSet& data,
                                   const ReaderOptions& options) {
  return std::make_unique<DicomVideo>(file, data, options);
}

}  // namespace dicom

}  // namespace coldframe::frames

// Reads what a DICOM header says of the exam, and where and how large its image is.

namespace coldframe::frames::dicom {

namespace {

constexpr double kTwoDimensional = 1;  // region spatial format
constexpr double kCentimetres = 3;     // physical units

using Spacing = std::array<double, 2>;

bool is_known(const Spacing& spacing) {
  return spacing[0] > 0 && spacing[1] > 0;  // not NaN
}

Spacing spacing_of(DcmItem& item, const DcmTagKey& tag) {
  const auto numbers = numbers_of(item, tag);
  if (numbers.size() != 2) return {kNotStated, kNotStated};
  return {numbers[0], numbers[1]};
}

void add_region(DcmItem& item, double columns, double rows, Geometry& geometry) {
  if (number_of(item, DCM_RegionSpatialFormat, 0) != kTwoDimensional) return;
  const double x0 = number_of(item, DCM_RegionLocationMinX0, -1),
               y0 = number_of(item, DCM_RegionLocationMinY0, -1),
               x1 = std::min(number_of(item, DCM_RegionLocationMaxX1, -1), columns - 1),
               y1 = std::min(number_of(item, DCM_RegionLocationMaxY1, -1), rows - 1);
  if (!(x0 >= 0 && y0 >= 0 && x1 >= x0 && y1 >= y0)) return;
  Rect rect{static_cast<int>(x0), static_cast<int>(y0), static_cast<int>(x1 - x0) + 1,
            static_cast<int>(y1 - y0) + 1};
  if (geometry.region) {
    const Rect& other = *geometry.region;
    const int right = std::max(rect.x + rect.width, other.x + other.width);
    const int bottom = std::max(rect.y + rect.height, other.y + other.height);
    rect.x = std::min(rect.x, other.x);
    rect.y = std::min(rect.y, other.y);
    rect.width = right - rect.x;
    rect.height = bottom - rect.y;
  }
  geometry.region = rect;
  const Spacing spacing{10 * std::abs(number_of(item, DCM_PhysicalDeltaY, 0)),
                        10 * std::abs(number_of(item, DCM_PhysicalDeltaX, 0))};
  if (!is_known(geometry.spacing_mm) && is_known(spacing) &&
      number_of(item, DCM_PhysicalUnitsXDirection, 0) == kCentimetres &&
      number_of(item, DCM_PhysicalUnitsYDirection, 0) == kCentimetres) {
    geometry.spacing_mm = spacing;
  }
}

}  // namespace

Geometry read_geometry(const DataSet& data, const FunctionalGroups& groups, std::int64_t frame) {
  DcmItem& root = data.root();
  Geometry geometry;
  if (DcmItem* measures = groups.find(frame, DCM_PixelMeasuresSequence)) {
    geometry.spacing_mm = spacing_of(*measures, DCM_PixelSpacing);
  }
  for (const DcmTagKey& tag : {DCM_PixelSpacing, DCM_ImagerPixelSpacing}) {
    if (!is_known(geometry.spacing_mm)) geometry.spacing_mm = spacing_of(root, tag);
  }
  const double columns = number_of(root, DCM_Columns, 0), rows = number_of(root, DCM_Rows, 0);
  const unsigned long regions = item_count(root, DCM_SequenceOfUltrasoundRegions);
  for (unsigned long i = 0; i < std::min(regions, 64ul); ++i) {
    add_region(*item_of(root, DCM_SequenceOfUltrasoundRegions, i), columns, rows, geometry);
  }
  if (!is_known(geometry.spacing_mm)) geometry.spacing_mm = {kNotStated, kNotStated};
  const auto stated = [&](const DcmTagKey& macro, const DcmTagKey& tag) {
    DcmItem* const own = groups.find(frame, macro);
    return numbers_of(own != nullptr ? *own : root, tag);
  };
  geometry.position = stated(DCM_PlanePositionSequence, DCM_ImagePositionPatient);
  geometry.orientation = stated(DCM_PlaneOrientationSequence, DCM_ImageOrientationPatient);
  return geometry;
}

// PS3.3 C.7.6.2.1.1; NaN where something is not stated.
Plane plane_of(const Geometry& geometry, const PixelLayout& layout) {
  Plane plane;
  plane.width = layout.columns;
  plane.height = layout.rows;
  const bool is_placed = geometry.position.size() == 3 && geometry.orientation.size() == 6;
  for (std::size_t i = 0; i < 3; ++i) {
    const double sign = i < 2 ? -1 : 1;
    plane.origin[i] = is_placed ? sign * geometry.position[i] : kNotStated;
    plane.across[i] = is_placed ? sign * geometry.orientation[i] * geometry.spacing_mm[1] : 0;
    plane.down[i] = is_placed ? sign * geometry.orientation[3 + i] * geometry.spacing_mm[0] : 0;
  }
  return plane;
}

SourceFacts read_facts(const DataSet& data, const ReaderOptions& options) {
  DcmItem& root = data.root();
  SourceFacts facts;
  facts.patient = text_of(root, DCM_PatientID);
  facts.start_time = start_time(root);
  facts.basis = frame_times(data, held_frames(data)).basis;
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty()) facts.columns.emplace_back(name, std::move(value));
  };
  add("study", stored_identity(text_of(root, DCM_StudyInstanceUID), options));
  const std::string view = text_of(root, DCM_ViewPosition);
  const double primary = number_of(root, DCM_PositionerPrimaryAngle, std::nan("")),
               secondary = number_of(root, DCM_PositionerSecondaryAngle, std::nan(""));
  if (!view.empty()) {
    add("view", as_utf8(view));
  } else if (!std::isnan(primary) && !std::isnan(secondary)) {
    // PS3.3 C.8.7.5: positive towards the left and the head of the patient.
    add("view", concat(primary < 0 ? "RAO" : "LAO", fixed(std::abs(primary), 0), "/",
                       secondary < 0 ? "CAU" : "CRA", fixed(std::abs(secondary), 0)));
  }
  add("modality", as_utf8(text_of(root, DCM_Modality)));
  const Geometry geometry = read_geometry(data, FunctionalGroups(root), 0);
  if (is_known(geometry.spacing_mm)) {
    add("pixel_spacing", concat(exact(geometry.spacing_mm[0]), " ", exact(geometry.spacing_mm[1])));
  }
  return facts;
}

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

  std::vector<Plane> planes() const override {
    std::vector<Plane> planes;
    named([&] {
      if (!image_->layout.is_grey())
        throw DataError("it is a colour image, and a volume has one value at each place");
      for (const std::int64_t stored : image_->times.stored)
        planes.push_back(plane_of(image_->geometry_of(stored), image_->layout));
    });
    return planes;
  }

  void read_planes(const std::function<void(std::span<const double>)>& sink) override {
    named([&] {
      const auto bytes = data_bytes();
      std::vector<double> values(image_->layout.pixels());
      for (const std::int64_t stored : image_->times.stored) {
        const RawFrame raw = image_->frames.read(*bytes, stored);
        const Samples samples(raw);
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double sample = samples.value(i);  // padding has no value: it becomes black
          values[i] = image_->grey.is_padding(sample) ? std::numeric_limits<double>::quiet_NaN()
                                                      : image_->grey.value(stored, sample);
        }
        sink(values);
      }
    });
  }

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
  FiniteFraction finite;
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