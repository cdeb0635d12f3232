#include "extract/frames/input/header_times.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/input/exam_names.h"
#include "extract/frames/source.h"

namespace coldframe::frames {
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

}  // namespace coldframe::frames
