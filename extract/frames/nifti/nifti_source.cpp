// NIfTI volumes as clips: a 3-D volume's slices, or for each time point of a 4-D one its slices.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "common/cli/error.h"
#include "common/files/source_stamp.h"
#include "common/text/text.h"
#include "extract/frames/nifti/slice_reader.h"
#include "extract/frames/source.h"

namespace coldframe::frames {
namespace {

constexpr std::int64_t kMaxFrames = std::int64_t{1} << 20;
constexpr std::string_view kAxisNames = "xyz";

std::string read_header_bytes(VolumeBytes& bytes) {
  std::string head(kNiftiHeaderBytes, '\0');
  head.resize(bytes.read_some(0, std::as_writable_bytes(std::span(head))));
  return head;
}

// Decompresses `head`, the first bytes of a gzip file.
std::string inflated_head(std::string_view head) {
  try {
    VolumeBytes bytes(std::make_shared<MemoryBytes>(std::string(head)));
    return read_header_bytes(bytes);
  } catch (const DataError&) {
    return {};
  }
}

bool calls_itself_nifti(const std::filesystem::path& path) {
  const std::string name = lower(path.filename().string());
  return name.ends_with(".nii") || name.ends_with(".nii.gz");
}

std::filesystem::path voxels_of(const std::filesystem::path& header) {
  std::filesystem::path path = voxel_file(header);
  if (!path.empty()) return path;
  throw DataError(
      "its voxels are in a file of the same name that ends with .img, which is not there");
}

class NiftiSource : public FileSource {
 public:
  NiftiSource(const SourceFile& file, const ReaderOptions& options)
      : FileSource("volume", file), voxels_(file), options_(options) {
    guarded([&] {
      header_ = parse_nifti_header(read_header_bytes(*open()));
      if (header_.is_pair) {
        voxels_ = file.beside(voxels_of(file.path()));
        name_ += concat(" with '", voxels_.path().string(), "'");
      }
      geometry_.emplace(header_, options.axis);
      check_size();
      choose_slices();
      range_ = stated_range();
    });
  }

  std::int64_t frame_count() override { return header_.times * slices(); }
  double time_s(std::int64_t index) const override {
    if (header_.times == 1) return std::numeric_limits<double>::quiet_NaN();
    return static_cast<double>(index / slices()) * header_.interval_s;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    if (header_.may_be_colour())
      notes.emplace_back(
          "the fourth dimension's bytes are read as times; a colour is intent code 2003, or in "
          "dimension 5");
    if (header_.is_sform_singular) notes.emplace_back("its sform is singular, and the qform holds");
    return notes;
  }
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override;

  bool wants_range() const override { return !range_; }
  void survey(ValueSurvey& survey) override;
  void set_range(const ValueRange& range) override { range_ = range; }
  Window range_window(const Window& asked) const override;
  bool finds_range_alone() const override { return true; }
  bool holds_floats() const override { return is_float(header_.type.number); }

 private:
  std::unique_ptr<VolumeBytes> open() const {
    return std::make_unique<VolumeBytes>(voxels_.open());
  }
  void check_size() const;
  bool is_in_file_order() const {
    return geometry_->file_axis == 2 && !geometry_->flipped && header_.components == 1;
  }
  bool is_worth_reading(std::uint64_t limit) const;
  void choose_slices();
  std::optional<ValueRange> stated_range() const;
  void find_range(VolumeBytes& bytes);
  std::int64_t slices() const { return static_cast<std::int64_t>(slices_.size()); }

  SourceFile voxels_;  // beside the header if they are a pair
  ReaderOptions options_;
  NiftiHeader header_;
  std::optional<SliceGeometry> geometry_;
  std::vector<std::int64_t> slices_;  // that are frames, ascending
  std::optional<ValueRange> range_;   // stated, or found in the values of the exam's files
};

// True for a volume that is cut off behind some of its slices, uncompressed. A header that asks for
// far more than is there is damaged itself.
bool NiftiSource::is_worth_reading(std::uint64_t limit) const {
  constexpr std::uint64_t kLeastPart = 64;
  if (open()->compressed() || limit <= header_.offset) return false;
  const auto [nx, ny, nz] = header_.size;
  const std::uint64_t there = limit - header_.offset;
  return there >= static_cast<std::uint64_t>(nx * ny) * header_.type.voxel_bytes() &&
         there >= (header_.data_end() - header_.offset) / kLeastPart;
}

void NiftiSource::check_size() const {
  const std::uint64_t limit = open()->size_limit();
  if (header_.data_end() > limit && !is_worth_reading(limit)) {
    throw DataError(concat("it is truncated: its header asks for ", header_.data_end(),
                           " bytes, and it holds at most ", limit));
  }
  const std::int64_t width = geometry_->width, height = geometry_->height;
  if (width > kMaxSide || height > kMaxSide || width * height > kMaxPixels) {
    throw DataError(concat("its slices have ", width, "×", height, " voxels; at most ", kMaxSide,
                           " a side and ", kMaxPixels, " in all are read"));
  }
}

void NiftiSource::choose_slices() {
  const SliceRange& wanted = options_.slices;
  const std::int64_t available = geometry_->slices;
  const std::int64_t end = wanted.end < 0 ? available : wanted.end;
  if (wanted.begin < 0 || wanted.begin >= end || end > available || wanted.step < 1) {
    throw DataError(concat("it has ", plural(available, "slice"), " along ",
                           kAxisNames[static_cast<std::size_t>(options_.axis)], "; --slices asks ",
                           "for ", wanted.begin, " to ", end, " (they count from 0)"));
  }
  const std::int64_t count = (end - wanted.begin + wanted.step - 1) / wanted.step;
  if (header_.times > kMaxFrames || count > kMaxFrames / header_.times) {
    throw DataError(concat("it has ", header_.times, " time points of ", count, " slices; at most ",
                           kMaxFrames, " frames are read: choose fewer with --slices"));
  }
  for (std::int64_t slice = wanted.begin; slice < end; slice += wanted.step) {
    slices_.push_back(slice);
  }
}

// By --window or the header; nothing where it is to be found in the values.
std::optional<ValueRange> NiftiSource::stated_range() const {
  const Window& window = options_.window;
  if (window.kind == Window::Kind::kFixed)
    return ValueRange{window.center - window.width / 2, window.center + window.width / 2};
  if (window.kind == Window::Kind::kPercentiles) return std::nullopt;
  if (!header_.type.is_colour() && std::isfinite(header_.cal_min) &&
      std::isfinite(header_.cal_max) && header_.cal_min < header_.cal_max)
    return ValueRange{header_.cal_min, header_.cal_max};
  if (header_.holds_levels()) return ValueRange{0, 255};
  return std::nullopt;
}

// Percentiles where the file states nothing either: a few odd voxels are often far from all others.
Window NiftiSource::range_window(const Window& asked) const {
  Window window = asked;
  window.kind = Window::Kind::kPercentiles;
  return window;
}

// Of the whole file, for one that is an exam by itself.
void NiftiSource::find_range(VolumeBytes& bytes) {
  const ValuePass pass = [&](const ValueBlock& visit) { for_each_value(bytes, header_, visit); };
  range_ = percentile_range(pass, header_.type.number, header_.rescale, options_.window);
  if (!range_) throw DataError("none of its values is a finite number");
}

// Values of up to 16 bits are counted in a table, which is ten times faster.
void NiftiSource::survey(ValueSurvey& survey) {
  constexpr int kLeast = -(1 << 15);
  constexpr std::size_t kValues = 3u << 15;  // of signed and unsigned ones
  const bool tabled = header_.type.value_bytes() <= 2;
  std::vector<std::uint64_t> counts(tabled ? kValues : 0);
  ValueSurvey own;
  guarded([&] {
    for_each_value(*open(), header_, [&](std::span<const double> block) {
      for (const double value : block) {
        if (tabled)
          ++counts[static_cast<std::size_t>(static_cast<int>(value) - kLeast)];
        else
          own.add(header_.rescale(value));
      }
    });
  });
  for (std::size_t i = 0; i < counts.size(); ++i)
    own.add(header_.rescale(static_cast<int>(i) + kLeast), counts[i]);
  survey.add(own);
}

void NiftiSource::read(std::span<const std::int64_t> indices,
                       const std::function<void(Frame&&)>& sink) {
  if (indices.empty()) return;
  std::unique_ptr<VolumeBytes> bytes;
  try {
    guarded([&] {
      bytes = open();
      if (!range_) find_range(*bytes);
    });
  } catch (const DataError& error) {
    throw UnreadableFromHere(error.what());
  }
  for (std::size_t begin = 0; begin < indices.size();) {
    const std::int64_t time = indices[begin] / slices();
    std::vector<std::int64_t> wanted;
    std::size_t end = begin;
    for (; end < indices.size() && indices[end] / slices() == time; ++end) {
      wanted.push_back(slices_[static_cast<std::size_t>(indices[end] % slices())]);
    }
    std::size_t at = begin;
    const auto hand_over = [&](Image&& image, double finite) {
      const std::int64_t index = indices[at++];
      sink(Frame{index, time_s(index), std::move(image), geometry_->spacing_mm, std::nullopt,
                 finite});
    };
    const auto read_some = [&](std::span<const std::int64_t> some) {
      read_slices(*bytes, header_, *geometry_, time, some, *range_, hand_over);
    };
    try {
      guarded([&] {
        try {
          read_some(wanted);
        } catch (const DataError&) {  // of slices that are gathered together some may be whole
          if (at == end || bytes->compressed()) throw;
          while (at < end) read_some(std::span(wanted).subspan(at - begin, 1));
        }
      });
    } catch (const DataError& error) {
      if (bytes->compressed() && at > 0) throw CorruptFile(error.what());
      if (bytes->compressed() || is_in_file_order()) throw UnreadableFromHere(error.what());
      throw;
    }
    begin = end;
  }
}

bool detect_nifti(const SourceFile& file) {
  const std::string_view head = file.head();
  if (calls_itself_nifti(file.path()) || is_nifti_header(head)) return true;
  return head.starts_with("\x1f\x8b") && is_nifti_header(inflated_head(head));
}

}  // namespace

extern const SourceKind kNiftiKind;
constinit const SourceKind kNiftiKind{.name = "nifti",
                                      .contents = "NIfTI",
                                      .other_suffixes = ".nii .nii.gz .hdr .hdr.gz .img .img.gz",
                                      .detect = detect_nifti,
                                      .open = open_as<NiftiSource>};

}  // namespace coldframe::frames
