#include "extract/input/exam_list.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "common/cli/error.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"
#include "extract/decode/dicom/data_set.h"
#include "extract/decode/dicom/series.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/source.h"
#include "extract/input/folder.h"
#include "extract/input/path_pattern.h"
#include "extract/input/patients.h"

namespace coldframe::frames {

namespace {

namespace fs = std::filesystem;

ExamList list_single_file(const SourceFile& file, bool series, const ReaderOptions& options) {
  ExamItem item;
  item.path = file.path();
  item.name = utf8_name(item.path.filename().string());
  ExamList list;
  if (series) {
    dicom::SeriesList names(options.grouping);
    std::string reason;  // why it names no exam, which opening it will say again
    names.add(item, file, reason);
    list.exams = names.take_exams().exams;
  }
  if (!list.exams.empty()) return list;
  ExamSpec exam;
  exam.id = utf8_name(name_of_exam(file.path()));
  exam.items.push_back(std::move(item));
  list.exams.push_back(std::move(exam));
  return list;
}

// Takes from a file's header what the input leaves unsaid, and returns its frames where they are of
// several streams. A file that cannot be read fails later, with its exam.
std::vector<ChannelFrame> complete_from_header(ExamSpec& exam, const ReaderOptions& options) {
  const auto first = std::find_if(exam.items.begin(), exam.items.end(),
                                  [](const ExamItem& item) { return !item.path.empty(); });
  if (first == exam.items.end()) return {};
  try {
    const SourceFile file(first->path);
    const auto held = file.hold();
    const SourceKind* kind = detect_kind(file);
    if (kind == nullptr || kind->facts == nullptr) return {};
    SourceFacts facts = kind->facts(file, options);
    if (exam.patient.empty()) exam.patient = std::move(facts.patient);
    if (std::isnan(exam.start_time)) exam.start_time = facts.start_time;
    const OrderBasis& basis = exam.items.size() == 1 ? facts.basis : exam.basis;
    if (basis.unusual) facts.columns.emplace_back(kOrderColumn, basis.order);
    for (auto& [name, value] : facts.columns) {
      const auto same = [&, &name = name](const auto& column) { return column.first == name; };
      if (std::none_of(exam.columns.begin(), exam.columns.end(), same))
        exam.columns.emplace_back(std::move(name), std::move(value));
    }
    return std::move(facts.frames);
  } catch (const DataError&) {
    return {};
  }
}

using List = ExamList(const fs::path&, const ExamListOptions&);

ExamList list_by_path(List& list_all, const fs::path& input, const ExamListOptions& options) {
  if (options.exam_from.empty()) return list_all(input, options);
  const PathPattern pattern(options.exam_from);
  ExamList list = list_all(input, options);
  name_by_pattern(pattern, list);
  return list;
}

ExamList list_any(const fs::path& input, const ExamListOptions& options) {
  std::error_code error;
  const fs::file_status status = status_of(input, error);
  if (!fs::exists(status)) {
    throw DataError(concat("input '", input.string(), "' cannot be found: ",
                           error ? error.message() : "no such file or folder", why_missing(input)));
  }
  const bool folder = fs::is_directory(status);
  const bool manifest = !folder && is_named_as_table(input);
  const std::vector<std::string> of_channels{channel_column(options)};
  if (!manifest && !options.frame_columns.empty() && options.frame_columns != of_channels)
    throw ConfigError(
        "--frame-columns needs a CSV manifest as --input (of other inputs, channels of stacks fill "
        "one column: stream, or what --streams names)");
  if (!manifest && !options.columns.empty())
    throw ConfigError("--columns needs a CSV manifest as --input");
  const bool split = !folder && is_named_as_split(input);
  if (!folder && !split && !options.exam_from.empty())
    throw ConfigError(
        "--exam-from needs a folder or a split as --input; a manifest names exams and patients");
  if (!manifest && !split && !options.root.empty())
    throw ConfigError("--root needs a CSV manifest or a split (.json) as --input");
  if (folder)
    return list_by_path(list_folder, input.has_filename() ? input : input.parent_path(), options);
  if (split) return list_by_path(list_split, input, options);
  if (manifest) return list_manifest(input, options);
  const SourceFile file(input);
  const SourceKind* kind = detect_kind(file);
  if (kind != nullptr && kind->has_series && dicom::is_directory_file(input))
    return list_dicomdir(input, options);
  if (kind != nullptr) return list_single_file(file, kind->has_series, options.reader);
  if (foreign_kind(file) != nullptr) require_kind(file);
  throw DataError(concat("input '", input.string(),
                         "' is neither a folder, an image, a clip, a manifest (a name that ends ",
                         "in .csv) nor a split (.json)"));
}

}  // namespace

std::vector<std::string> shown_warnings(const ExamList& list) {
  constexpr std::size_t kShown = 20;
  if (list.warnings.size() <= kShown) return list.warnings;
  std::vector<std::string> shown(list.warnings.begin(), list.warnings.begin() + kShown);
  shown.push_back(concat("… and ", list.warnings.size() - kShown,
                         " more such warnings (--dry-run --json lists all)"));
  return shown;
}

ExamList list_exams(const fs::path& input, const ExamListOptions& options) {
  ExamList list = list_any(input, options);
  ChannelStreams channels(options);
  for (ExamSpec& exam : list.exams) {
    settle_header_times(exam, options);
    std::vector<ChannelFrame> frames = complete_from_header(exam, options.reader);
    if (!frames.empty()) channels.part(exam, std::move(frames));
  }
  channels.finish(list);
  store_patients(list, options.reader);
  return list;
}

namespace {

// The one of the suffixes, parted by spaces, that the name ends with; "" for none of them.
std::string_view suffix_of(const std::filesystem::path& path, std::string_view suffixes) {
  const std::string name = lower(path.filename().string());
  while (!suffixes.empty()) {
    const std::string_view suffix = suffixes.substr(0, suffixes.find(' '));
    if (name.size() > suffix.size() && name.ends_with(suffix)) return suffix;
    suffixes.remove_prefix(std::min(suffixes.size(), suffix.size() + 1));
  }
  return {};
}

bool promises(const std::filesystem::path& path, bool clip) {
  return std::ranges::any_of(source_kinds(), [&](const SourceKind* kind) {
    return kind->is_clip == clip && !suffix_of(path, kind->suffixes).empty();
  });
}

}  // namespace

bool is_named_as_image(const std::filesystem::path& path) {
  return promises(path, false);
}

bool is_named_as_clip(const std::filesystem::path& path) {
  return promises(path, true);
}

bool is_named_as_table(const std::filesystem::path& path) {
  return !suffix_of(path, ".csv .tsv .xlsx .xls .ods").empty();
}

bool is_named_as_split(const std::filesystem::path& path) {
  return lower(path.extension().string()) == ".json";
}

bool is_pattern(const std::string& name) {
  return name.find_first_of("*?[") != std::string::npos;
}

std::string with_slashes(std::string name) {
  std::ranges::replace(name, '\\', '/');
  return name;
}

std::string why_missing(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(status_of(path, error))) return "";
  const std::string name = path.string();
  if (is_pattern(name)) return "; as a pattern it matches no file";
  if (name.find('\\') == std::string::npos) return "";
  return "; it is a path of Windows: write one of this machine, parted by /";
}

std::string name_of_exam(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  for (const SourceKind* kind : source_kinds())
    for (const char* suffixes : {kind->suffixes, kind->other_suffixes})
      if (const std::string_view suffix = suffix_of(file, suffixes); !suffix.empty())
        return name.substr(0, name.size() - suffix.size());
  return name;
}

namespace {

std::vector<ChannelFrame> frames_of(const ExamItem& item, const ReaderOptions& options) {
  try {
    const SourceFile file(item.path);
    const auto held = file.hold();
    const SourceKind* kind = detect_kind(file);
    return kind == nullptr || kind->facts == nullptr ? std::vector<ChannelFrame>()
                                                     : kind->facts(file, options).frames;
  } catch (const DataError&) {  // opening it with its exam says why
    return {};
  }
}

bool is_whole(const ExamItem& item) {
  return !item.path.empty() && item.first == 0 && item.last < 0;
}

std::string names_of(const std::vector<ChannelFrame>& frames) {
  std::vector<std::string> names;
  for (const ChannelFrame& frame : frames)
    if (std::ranges::find(names, frame.stream) == names.end()) names.push_back(frame.stream);
  return concat("'", join(names, "', '"), "'");
}

}  // namespace

void ChannelStreams::part(ExamSpec& exam, std::vector<ChannelFrame> frames) {
  std::vector<ExamItem> parted;
  bool is_first = true;
  if (exam.items.size() == 1) {  // else the input orders files
    exam.basis.order = kFileOrder;
    if (std::isnan(exam.items.front().time_s)) exam.basis.times = kFileOrder;
  }
  for (ExamItem& item : exam.items) {
    if (!is_whole(item)) {
      parted.push_back(std::move(item));
      continue;
    }
    if (!std::exchange(is_first, false)) frames = frames_of(item, options_.reader);
    if (frames.empty()) {
      parted.push_back(std::move(item));
      continue;
    }
    const std::string found = concat("'", item.name, "' holds the channels ", names_of(frames));
    if (!item.stream.empty())
      throw DataError(concat("exam '", exam.id, "': ", found, ", and its row names one stream, '",
                             item.stream,
                             "'; leave that empty, or say in the column 'frame' which "
                             "frames are of this stream"));
    if (files_++ == 0) first_ = found;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      ExamItem frame = item;
      frame.first = frame.last = static_cast<std::int64_t>(i);
      frame.time_s += frames[i].time_s - frames[0].time_s;
      if (i == 0) frame.time_s = item.time_s;
      frame.stream = frames[i].stream;
      parted.push_back(std::move(frame));
    }
  }
  exam.items = std::move(parted);
}

void ChannelStreams::finish(ExamList& list) const {
  const std::string name = channel_column(options_);
  auto found = std::ranges::find(list.frame_columns, name);
  const bool is_asked =
      std::ranges::find(options_.frame_columns, name) != options_.frame_columns.end();
  if (files_ == 0 && (!is_asked || found != list.frame_columns.end())) return;
  if (found == list.frame_columns.end()) {
    for (ExamSpec& exam : list.exams) {
      for (const auto& column : exam.columns)
        if (column.first == name)
          throw DataError(concat("exam '", exam.id, "' has a column '", name, "', and ", first_,
                                 ", which become streams of that name; name it in "
                                 "--frame-columns, or call it otherwise"));
      for (ExamItem& item : exam.items) item.frame_columns.emplace_back();
    }
    found = list.frame_columns.insert(found, name);
  }
  const auto at = static_cast<std::size_t>(found - list.frame_columns.begin());
  if (files_ == 0) return;
  for (ExamSpec& exam : list.exams) {
    for (ExamItem& item : exam.items) {
      if (!item.stream.empty()) item.frame_columns[at] = item.stream;
      if (options_.streams == kNoStreams) item.stream.clear();
    }
  }
  if (options_.streams != kNoStreams) list.streams = name;
  list.warnings.push_back(concat(first_,
                                 files_ > 1 ? concat(", and so do ", files_ - 1, " more") : "",
                                 "; they are streams, which the frame column '", name,
                                 "' names: train --streams ", name, " reads them side by side"));
}

std::string channel_column(const ExamListOptions& options) {
  return options.streams.empty() || options.streams == kNoStreams ? "stream" : options.streams;
}

namespace {

// Unix seconds of an item's first and last frame, and how many there are.
struct Span {
  double first = 0, last = 0;
  std::int64_t frames = 0;
};

// Opens each file once.
class HeaderReader {
 public:
  explicit HeaderReader(const ReaderOptions& options) : options_(options) {}

  // False when the file does not tell, or cannot be read, which extraction says.
  bool read(const ExamItem& item, Span& span) {
    try {
      Source& source = open(item);
      const std::int64_t count = source.frame_count();
      const std::int64_t last = item.last < 0 ? count - 1 : item.last;
      if (last >= count || item.first > last) return false;
      const auto time = [&](std::int64_t frame) {
        return source.start_time() + (frame == 0 ? 0 : source.time_s(frame));
      };
      span = {time(item.first), time(last), last - item.first + 1};
    } catch (const DataError&) {
      return false;
    }
    return !std::isnan(span.first) && !std::isnan(span.last);
  }

 private:
  Source& open(const ExamItem& item) {
    if (item.path != path_) {
      const SourceFile file(item.path);
      source_ = require_kind(file).open(file, options_);
      path_ = item.path;
    }
    return *source_;
  }

  const ReaderOptions& options_;
  std::filesystem::path path_;
  std::unique_ptr<Source> source_;
};

// Null for missing frames and for files that no kind recognises or that cannot be opened: their
// frames are lost.
const SourceKind* kind_of(const ExamItem& item) {
  try {
    return item.path.empty() ? nullptr : detect_kind(SourceFile(item.path));
  } catch (const DataError&) {
    return nullptr;
  }
}

// Returns the spans of all items; empty when a file that can be read does not tell. A missing or
// lost frame is where the one before it ends, one at the beginning where the next begins.
std::vector<Span> read_spans(const ExamSpec& exam, const ReaderOptions& options) {
  std::vector<Span> spans;
  std::size_t unknown = 0;  // at the beginning
  HeaderReader reader(options);
  for (const ExamItem& item : exam.items) {
    Span span{0, 0, 1};
    if (const SourceKind* const kind = kind_of(item)) {
      if (kind->facts == nullptr || !reader.read(item, span)) return {};
      if (unknown == spans.size())
        std::fill(spans.begin(), spans.end(), Span{span.first, span.first, 1});
    } else if (unknown == spans.size()) {
      ++unknown;
    } else {
      span.first = span.last = spans.back().last;
    }
    spans.push_back(span);
  }
  return unknown == spans.size() ? std::vector<Span>() : spans;
}

// The first item that begins before the one before it ends; the number of items when none does.
std::size_t first_decrease(const std::vector<Span>& spans) {
  std::size_t i = 1;
  while (i < spans.size() && !(spans[i].first < spans[i - 1].last)) ++i;
  return std::min(i, spans.size());
}

void sort(ExamSpec& exam, std::vector<Span>& spans) {
  std::vector<std::size_t> order(spans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return spans[a].first < spans[b].first; });
  std::vector<ExamItem> items;
  std::vector<Span> sorted;
  for (const std::size_t i : order) {
    items.push_back(std::move(exam.items[i]));
    sorted.push_back(spans[i]);
  }
  exam.items = std::move(items);
  exam.basis = {.order = kAcquisitionTime};
  spans = std::move(sorted);
}

[[noreturn]] void refuse(const ExamSpec& exam, const std::vector<Span>& spans, std::size_t item,
                         bool sorted) {
  std::int64_t frame = 0;
  for (std::size_t i = 0; i < item; ++i) frame += spans[i].frames;
  const auto in_words = [&](double time) { return concat(fixed(time - spans[0].first, 1), " s"); };
  throw DataError(concat("exam '", exam.id, "': frame ", frame, " ('", exam.items[item].name,
                         "') has time ", in_words(spans[item].first), " before frame ", frame - 1,
                         " at ", in_words(spans[item - 1].last), ", by their headers; ",
                         sorted ? "their clips overlap, which --sort time cannot mend: state times "
                                  "in the manifest"
                                : "sort the manifest, give --sort time",
                         " or pass --allow-unordered"));
}

// The exam's files as a folder of them alone gives them, where all are files of one series.
std::optional<ExamSpec> as_series(const ExamSpec& exam, const ExamListOptions& options) {
  const auto is_whole = [](const ExamItem& item) {
    return !item.path.empty() && item.first == 0 && item.last < 0;
  };
  if (!std::ranges::all_of(exam.items, is_whole) || !has_series(exam.items.front()))
    return std::nullopt;
  std::vector<std::string> warnings;
  NamedExams named = name_exams(exam.items, options.reader.grouping, warnings);
  if (named.exams.size() != 1) return std::nullopt;
  ExamSpec series = std::move(named.exams.begin()->second);
  if (series.items.size() != exam.items.size()) return std::nullopt;
  return series;
}

// Where nothing but place and number tells files apart, the rows' order holds.
void settle_by_series(ExamSpec& exam, ExamSpec&& series, const ExamListOptions& options) {
  const bool timed = std::ranges::none_of(
      series.items, [](const ExamItem& item) { return std::isnan(item.time_s); });
  if (!timed && !series.basis.unusual) return;
  std::map<std::string, double> moments;  // seconds, else ranks
  for (const ExamItem& item : series.items)
    moments[item.name] = timed ? item.time_s : static_cast<double>(moments.size());
  const auto moment = [&](const ExamItem& item) { return moments.at(item.name); };
  const auto earlier = std::ranges::is_sorted_until(exam.items, {}, moment);
  if (earlier != exam.items.end() && options.sort_by_time) {
    exam.items = std::move(series.items);
    exam.basis = std::move(series.basis);
    exam.times_from_headers = false;
    return;
  }
  if (earlier != exam.items.end() && !options.allow_unordered) {
    const auto frame = earlier - exam.items.begin();
    throw DataError(concat("exam '", exam.id, "': frame ", frame, " ('", earlier->name,
                           "') comes before frame ", frame - 1, " by ", series.basis.order,
                           ", by their headers; sort the manifest, give --sort time or pass "
                           "--allow-unordered"));
  }
  if (!timed) return;
  const double first = moment(exam.items.front());
  for (ExamItem& item : exam.items) item.time_s = moment(item) - first;
  exam.basis.times = std::move(series.basis.times);
  exam.times_from_headers = false;
}

}  // namespace

void settle_header_times(ExamSpec& exam, const ExamListOptions& options) {
  if (!exam.times_from_headers || exam.items.size() < 2) return;
  if (exam.items.front().path.empty()) return;  // nothing says when the exam began
  std::vector<Span> spans = read_spans(exam, options.reader);
  const auto begins_with_first = [&](const Span& span) { return span.first == spans[0].first; };
  if (std::ranges::all_of(spans, begins_with_first))
    if (auto series = as_series(exam, options))
      return settle_by_series(exam, std::move(*series), options);
  if (first_decrease(spans) == spans.size()) return;
  if (options.sort_by_time) sort(exam, spans);
  const std::size_t item = first_decrease(spans);
  if (item == spans.size()) return;
  if (!options.allow_unordered) refuse(exam, spans, item, options.sort_by_time);
  for (std::size_t i = 0; i < spans.size(); ++i)
    if (!exam.items[i].path.empty()) exam.items[i].time_s = spans[i].first - spans.front().first;
  exam.times_from_headers = false;
}

namespace {

constexpr std::int64_t kMaxCropPixels = 1 << 28;

// "120", "50%", "100%-50"; `least`: of a length that has no share.
bool parse_length(std::string_view text, std::int64_t least, CropLength& length) {
  const std::size_t share_end = text.find('%');
  std::int64_t pixels = 0;
  if (share_end != std::string_view::npos) {
    const std::string_view rest = text.substr(share_end + 1);
    if (!parse_double(text.substr(0, share_end), length.percent) ||
        !(length.percent >= 0 && length.percent <= 100))
      return false;
    if (!rest.empty()) {
      const bool is_signed = rest.front() == '+' || rest.front() == '-';
      if (!is_signed || !parse_int(rest.substr(1), pixels) || pixels < 0) return false;
      if (rest.front() == '-') pixels = -pixels;
    }
    least = length.percent > 0 ? -kMaxCropPixels : least;
  } else if (!parse_int(text, pixels)) {
    return false;
  }
  length.pixels = static_cast<int>(pixels);
  return pixels >= least && pixels <= kMaxCropPixels;
}

}  // namespace

std::optional<CropRule> parse_crop(std::string_view text) {
  using Kind = CropRule::Kind;
  if (text == "none") return CropRule{Kind::kNone, {}};
  if (text == "auto") return CropRule{Kind::kAuto, {}};
  const auto parts = split(text, ',');
  CropRule rule{Kind::kFixed, {}};
  if (parts.size() != rule.edges.size()) return std::nullopt;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_corner = i < 2;
    if (!parse_length(trim(parts[i]), is_corner ? 0 : 1, rule.edges[i])) return std::nullopt;
  }
  return rule;
}

}  // namespace coldframe::frames
