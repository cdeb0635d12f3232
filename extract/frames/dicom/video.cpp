#include "extract/frames/dicom/video.h"

#include <algorithm>
#include <cmath>

#include "common/text/text.h"
#include "extract/frames/dicom/pixels/frame_data.h"
#include "extract/frames/dicom/source.h"
#include "extract/frames/dicom/times.h"

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
