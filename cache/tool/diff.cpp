#include "cache/tool/diff.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

#include "cache/format/contents.h"
#include "cache/store/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/statistics.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache {

namespace {

bool same_times(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

// Columns by name, without those that are empty everywhere.
std::map<std::string, std::vector<std::string>> columns_of(const ExamInfo& exam) {
  std::map<std::string, std::vector<std::string>> columns;
  for (const ExamColumn& column : exam.columns)
    if (!column.value.empty()) columns["column " + column.name] = {column.value};
  for (const FrameColumn& column : exam.frame_columns)
    if (std::any_of(column.values.begin(), column.values.end(),
                    [](const std::string& value) { return !value.empty(); }))
      columns["frame column " + column.name] = column.values;
  return columns;
}

}  // namespace

std::vector<std::string> differences(const ExamInfo& before, const ExamInfo& after) {
  std::vector<std::string> found;
  const auto compare = [&](const std::string& what, const std::string& a, const std::string& b) {
    if (a != b) found.push_back(concat(what, " '", a, "' -> '", b, "'"));
  };
  compare("patient", before.patient, after.patient);
  if (before.frames() != after.frames()) {
    compare("frames", concat(before.frames()), concat(after.frames()));
  } else {
    if (before.present != after.present) found.emplace_back("other frames are missing");
    if (!same_times(before.time_s, after.time_s) ||
        !same_times({before.start_time, before.elapsed_start},
                    {after.start_time, after.elapsed_start}))
      found.emplace_back("times");
    if (before.frame_index != after.frame_index) found.emplace_back("indices of frames");
  }
  auto old_columns = columns_of(before), new_columns = columns_of(after);
  for (const auto& [name, values] : new_columns) old_columns[name];
  for (const auto& [name, values] : old_columns) {
    const std::vector<std::string>& now = new_columns[name];
    if (values.size() <= 1 && now.size() <= 1)
      compare(name, values.empty() ? "" : values[0], now.empty() ? "" : now[0]);
    else if (values != now)
      found.push_back(name);
  }
  return found;
}

}  // namespace coldframe::cache

namespace coldframe::cache::tool {

namespace {

constexpr std::size_t kMaxPrinted = 20;

// Measures how far two exams' features are apart, frame by frame, where both have the frame.
Json compare_features(std::span<const float> a, std::span<const float> b, std::size_t dimension) {
  double lowest = 1, sum = 0, largest = 0;
  std::size_t frames = 0;
  for (std::size_t at = 0; at < a.size(); at += dimension) {
    const auto left = a.subspan(at, dimension), right = b.subspan(at, dimension);
    if (std::isnan(left[0]) || std::isnan(right[0])) continue;
    for (std::size_t d = 0; d < dimension; ++d)
      largest = std::max(largest, std::abs(static_cast<double>(left[d]) - right[d]));
    const double similarity = cosine(left, right);
    if (std::isnan(similarity)) continue;
    lowest = std::min(lowest, similarity);
    sum += similarity;
    ++frames;
  }
  Json json = Json::object();
  json["max_difference"] = largest;
  json["mean_cosine"] = frames == 0 ? Json() : Json(sum / static_cast<double>(frames));
  json["min_cosine"] = frames == 0 ? Json() : Json(lowest);
  return json;
}

// Measures likewise how far what enters the cut is apart.
Json compare_cuts(const Cut& cut, std::span<const std::byte> a, std::span<const std::byte> b) {
  std::size_t different = 0;
  double largest = 0;
  for (std::size_t at = 0; at < a.size(); at += cut.row_bytes()) {
    const auto left = a.subspan(at, cut.row_bytes()), right = b.subspan(at, cut.row_bytes());
    if (std::ranges::equal(left, right)) continue;
    ++different;
    const std::vector<float> first = values_of(cut, left), second = values_of(cut, right);
    for (std::size_t i = 0; i < first.size(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(first[i]) - second[i]));
  }
  return {{"different_frames", different}, {"max_difference", largest}};
}

// For each exam of `cache` the number of exams before it that `other` has too.
std::vector<std::size_t> common_ranks(const CacheReader& cache, const CacheReader& other) {
  std::vector<std::size_t> ranks;
  std::size_t common = 0;
  for (const ExamInfo& exam : cache.exams()) {
    ranks.push_back(common);
    if (other.find(exam.id) != CacheReader::npos) ++common;
  }
  return ranks;
}

class Comparison {
 public:
  Comparison(const CacheReader& a, const CacheReader& b)
      : a_(a), b_(b), ranks_a_(common_ranks(a, b)), ranks_b_(common_ranks(b, a)) {}
  Json run();

 private:
  void compare_recipes();
  void compare_exam(std::size_t a, std::size_t b);
  std::vector<std::string> metadata_differences(std::size_t a, std::size_t b) const;
  bool same_bits(std::size_t a, std::size_t b, std::size_t view_a, std::size_t view_b) const;
  Json features_json(std::size_t a, std::size_t b) const;
  Json cuts_json(std::size_t a, std::size_t b) const;

  const CacheReader &a_, &b_;
  std::vector<std::string> common_views_;
  // By exam: how many of the exams that both have come before it.
  std::vector<std::size_t> ranks_a_, ranks_b_;
  Json result_ = Json::object();
};

void Comparison::compare_recipes() {
  const Sides sides{"A has", "B"};
  std::vector<std::string> lines = differences(a_.recipe(), b_.recipe(), sides);
  const auto compare = [&](const char* key, const std::string& a, const std::string& b) {
    if (a != b) lines.push_back(difference(key, a, b, sides));
  };
  compare("dimension", concat(a_.dimension()), concat(b_.dimension()));
  compare("storage", dtype_name(a_.storage()), dtype_name(b_.storage()));
  compare("views", join(a_.views(), ", "), join(b_.views(), ", "));
  result_["recipe"] = lines;
  for (const std::string& view : a_.views())
    if (std::count(b_.views().begin(), b_.views().end(), view) != 0) common_views_.push_back(view);
}

bool Comparison::same_bits(std::size_t a, std::size_t b, std::size_t view_a,
                           std::size_t view_b) const {
  return a_.storage() == b_.storage() && a_.checksums(a)[view_a] == b_.checksums(b)[view_b];
}

std::size_t index_of(const std::vector<std::string>& views, const std::string& view) {
  return static_cast<std::size_t>(std::find(views.begin(), views.end(), view) - views.begin());
}

Json Comparison::cuts_json(std::size_t a, std::size_t b) const {
  Json views = Json::object();
  const Cut cut = *a_.cut();
  std::vector<std::byte> first(a_.exams()[a].frames() * cut.row_bytes()), second(first.size());
  for (const std::string& view : common_views_) {
    a_.read_cut(a, index_of(a_.views(), view), first);
    b_.read_cut(b, index_of(b_.views(), view), second);
    if (first != second) views[view] = compare_cuts(cut, first, second);
  }
  return views;
}

Json Comparison::features_json(std::size_t a, std::size_t b) const {
  Json views = Json::object();
  for (const std::string& view : common_views_) {
    // Both are read, so that damage is an error and not "the same".
    const std::vector<float> first = a_.features(a, view), second = b_.features(b, view);
    if (same_bits(a, b, index_of(a_.views(), view), index_of(b_.views(), view))) continue;
    Json json = compare_features(first, second, static_cast<std::size_t>(a_.dimension()));
    // Equal numbers may be stored in other types.
    if (json["max_difference"] != 0.0) views[view] = std::move(json);
  }
  return views;
}

// Lists the differences besides the features. Exams that only one cache has shift no places.
std::vector<std::string> Comparison::metadata_differences(std::size_t a, std::size_t b) const {
  std::vector<std::string> lines = differences(a_.exams()[a], b_.exams()[b]);
  if (ranks_a_[a] != ranks_b_[b])
    lines.push_back(
        concat("place among the exams of both '", ranks_a_[a], "' -> '", ranks_b_[b], "'"));
  return lines;
}

void Comparison::compare_exam(std::size_t a, std::size_t b) {
  const ExamInfo &first = a_.exams()[a], &second = b_.exams()[b];
  Json entry = Json::object();
  entry["exam"] = first.id;
  if (first.frames() != second.frames())
    entry["frames"] = {first.frames(), second.frames()};
  else
    entry["metadata"] = metadata_differences(a, b);
  if (first.frames() == second.frames() && a_.dimension() == b_.dimension())
    entry["features"] = features_json(a, b);
  if (first.frames() == second.frames() && a_.cut() && a_.cut() == b_.cut())
    entry["cut"] = cuts_json(a, b);
  const bool same = !entry.contains("frames") && entry["metadata"].empty() &&
                    (!entry.contains("features") || entry["features"].empty()) &&
                    (!entry.contains("cut") || entry["cut"].empty());
  if (!same) result_["different"].push_back(std::move(entry));
}

Json Comparison::run() {
  compare_recipes();
  for (const char* key : {"only_in_a", "only_in_b", "different"}) result_[key] = Json::array();
  std::size_t common = 0;
  for (std::size_t i = 0; i < a_.exams().size(); ++i) {
    const std::size_t other = b_.find(a_.exams()[i].id);
    if (other == CacheReader::npos) {
      result_["only_in_a"].push_back(a_.exams()[i].id);
      continue;
    }
    ++common;
    compare_exam(i, other);
  }
  for (const ExamInfo& exam : b_.exams())
    if (a_.find(exam.id) == CacheReader::npos) result_["only_in_b"].push_back(exam.id);
  result_["common"] = common;
  result_["same"] = result_["recipe"].empty() && result_["only_in_a"].empty() &&
                    result_["only_in_b"].empty() && result_["different"].empty();
  return std::move(result_);
}

void print_names(const char* title, const Json& names) {
  if (names.empty()) return;
  std::vector<std::string> shown;
  for (const Json& name : names)
    if (shown.size() < kMaxPrinted) shown.push_back(name.get<std::string>());
  std::cout << title << " (" << names.size() << "): " << join(shown, ", ")
            << (names.size() > shown.size() ? ", …" : "") << '\n';
}

std::string features_text(const std::string& view, const Json& features) {
  const auto text = [&](const char* key) {
    return features[key].is_null() ? std::string("unknown") : fixed(features[key].get<double>(), 6);
  };
  return concat("features of view ", view, ": cosine ", text("mean_cosine"), " (lowest frame ",
                text("min_cosine"), "), largest difference ", features["max_difference"].dump());
}

void print_differences(const Json& result) {
  if (!result["recipe"].empty()) std::cout << "recipe\n";
  for (const Json& line : result["recipe"]) std::cout << "  " << line.get<std::string>() << '\n';
  print_names("only in A", result["only_in_a"]);
  print_names("only in B", result["only_in_b"]);
  TextRows rows;
  for (const Json& entry : result["different"]) {
    if (rows.size() >= kMaxPrinted) break;
    const std::string exam = entry["exam"].get<std::string>();
    if (entry.contains("frames"))
      rows.push_back(
          {exam, concat("frames ", entry["frames"][0].dump(), " -> ", entry["frames"][1].dump())});
    if (entry.contains("metadata"))
      for (const Json& line : entry["metadata"]) rows.push_back({exam, line.get<std::string>()});
    if (entry.contains("features"))
      for (const auto& [view, features] : entry["features"].items())
        rows.push_back({exam, features_text(view, features)});
    if (entry.contains("cut"))
      for (const auto& [view, found] : entry["cut"].items())
        rows.push_back(
            {exam, concat("cut of view ", view, ": ", found["different_frames"].dump(),
                          " frames differ, largest difference ", found["max_difference"].dump())});
  }
  if (!rows.empty()) std::cout << "different (" << result["different"].size() << ")\n";
  for (std::vector<std::string>& row : rows) row[0] = "  " + row[0];
  print_table(rows);
  if (result["same"] == true)
    std::cout << "the same: " << plural(result["common"].get<std::size_t>(), "exam") << '\n';
}

int run_diff(const Verb& verb, const std::vector<std::string>& arguments) {
  VerbOptions options;
  if (!parse_verb(verb, arguments, options)) return 0;
  const CacheReader a(options.words[0]), b(options.words[1]);
  const Json result = Comparison(a, b).run();
  options.json ? print_json(result) : print_differences(result);
  return static_cast<int>(result["same"] == true ? ExitCode::kDone : ExitCode::kDoneWithFindings);
}

}  // namespace

extern const Verb kDiffCommand;
const Verb kDiffCommand{
    &kCache,
    "diff",
    "A B",
    "before.h5 after.h5",
    "recipes key by key, exams only in one, features and metadata of the others; exit code 1 when "
    "they differ",
    run_diff};

}  // namespace coldframe::cache::tool
