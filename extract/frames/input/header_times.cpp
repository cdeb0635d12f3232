#include "extract/frames/input/header_times.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include "common/cli/error.h"
#include "common/text/text.h"
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

}  // namespace

void settle_header_times(ExamSpec& exam, const ExamListOptions& options) {
  if (!exam.times_from_headers || exam.items.size() < 2) return;
  if (exam.items.front().path.empty()) return;  // nothing says when the exam began
  std::vector<Span> spans = read_spans(exam, options.reader);
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
