#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <unordered_map>

#include "cache/reader.h"
#include "cache/tool/columns.h"
#include "cache/tool/command.h"
#include "common/fingerprint.h"
#include "common/text.h"

namespace coldframe::cache {
namespace {

constexpr std::size_t kMostValues = 20, kMostNamed = 20;

const std::vector<std::pair<const char*, double>> kNormQuantiles = {
    {"min", 0},    {"p1", 0.01},  {"p25", 0.25}, {"median", 0.5},
    {"p75", 0.75}, {"p99", 0.99}, {"max", 1}};

// Figures of one view, gathered exam by exam so that no more than one exam is in memory.
class ViewStatistics {
 public:
  explicit ViewStatistics(std::size_t dimension) : lowest_(dimension), highest_(dimension) {}
  void add(const ExamInfo& exam, const std::vector<float>& features);
  Json finish() const;

 private:
  void add_row(std::span<const float> row);

  std::vector<float> lowest_, highest_;
  std::vector<double> norms_;
  std::size_t rows_ = 0, missing_ = 0, nan_ = 0, zero_ = 0;
  std::unordered_map<std::uint64_t, std::size_t> rows_by_hash_;
  std::map<std::uint64_t, std::vector<std::string>> exams_by_hash_;
};

void ViewStatistics::add_row(std::span<const float> row) {
  double sum = 0;
  for (const float value : row) sum += static_cast<double>(value) * value;
  if (!std::isfinite(sum)) {
    ++nan_;
    return;
  }
  for (std::size_t d = 0; d < row.size(); ++d) {
    lowest_[d] = norms_.empty() ? row[d] : std::min(lowest_[d], row[d]);
    highest_[d] = norms_.empty() ? row[d] : std::max(highest_[d], row[d]);
  }
  norms_.push_back(std::sqrt(sum));
  if (sum == 0) ++zero_;
  ++rows_by_hash_[xxh3_64(std::as_bytes(row))];
}

void ViewStatistics::add(const ExamInfo& exam, const std::vector<float>& features) {
  const std::size_t dimension = lowest_.size();
  for (std::size_t t = 0; t < exam.frames(); ++t) {
    ++rows_;
    exam.present[t] ? add_row(std::span(features).subspan(t * dimension, dimension))
                    : static_cast<void>(++missing_);
  }
  exams_by_hash_[xxh3_64(std::as_bytes(std::span(features)))].push_back(exam.id);
}

Json ViewStatistics::finish() const {
  std::size_t duplicates = 0;
  for (const auto& [hash, count] : rows_by_hash_) duplicates += count - 1;
  Json dead = Json::array(), identical = Json::array();
  std::size_t dead_count = 0;
  for (std::size_t d = 0; d < lowest_.size(); ++d) {
    if (norms_.empty() || lowest_[d] != highest_[d]) continue;
    ++dead_count;
    if (dead.size() < kMostNamed) dead.push_back(d);
  }
  for (const auto& [hash, ids] : exams_by_hash_)
    if (ids.size() > 1) identical.push_back(ids);
  Json json = Json::object();
  json["rows"] = rows_;
  json["missing_rows"] = missing_;
  json["nan_rows"] = nan_;
  json["zero_rows"] = zero_;
  json["duplicate_rows"] = duplicates;
  json["norm"] = quantiles(norms_, kNormQuantiles);
  json["dead_dimensions"] = dead_count;
  json["first_dead_dimensions"] = dead;
  json["identical_exams"] = identical;
  return json;
}

Json gather(const CacheReader& cache) {
  Json json = Json::object();
  json["views"] = Json::object();
  for (const std::string& view : cache.views()) {
    ViewStatistics statistics(static_cast<std::size_t>(cache.dimension()));
    for (std::size_t i = 0; i < cache.exams().size(); ++i)
      statistics.add(cache.exams()[i], cache.features(i, view));
    json["views"][view] = statistics.finish();
  }
  json["columns"] = describe_columns(cache, kMostValues);
  return json;
}

void print_view(const std::string& name, const Json& view) {
  std::cout << "view " << name << '\n';
  std::vector<std::vector<std::string>> rows;
  for (const char* key :
       {"rows", "missing_rows", "nan_rows", "zero_rows", "duplicate_rows", "dead_dimensions"}) {
    std::string label = key;
    std::replace(label.begin(), label.end(), '_', ' ');
    rows.push_back({"  " + label, view[key].dump()});
  }
  std::vector<std::string> quantile_texts;
  for (const auto& [key, value] : view["norm"].items())
    quantile_texts.push_back(concat(key, " ", fixed(value.get<double>(), 3)));
  rows.push_back({"  norms", quantile_texts.empty() ? "none" : join(quantile_texts, ", ")});
  for (const Json& ids : view["identical_exams"])
    rows.push_back({"  identical exams", join(ids, ", ")});
  print_table(rows);
}

void print_text(const Json& stats) {
  for (const auto& [name, view] : stats["views"].items()) print_view(name, view);
  std::vector<std::vector<std::string>> rows;
  for (const Json& column : stats["columns"]) {
    rows.push_back({column["name"].get<std::string>(), column["type"].get<std::string>(),
                    concat(column["distinct"].dump(), " distinct, ", column["missing"].dump(),
                           " without a value")});
    for (const Json& count : column["counts"])
      rows.push_back({"  " + count["value"].get<std::string>(), "×" + count["exams"].dump()});
    if (column["distinct"] > column["counts"].size()) rows.push_back({"  …"});
  }
  if (!rows.empty()) std::cout << "\ncolumns\n";
  print_table(rows);
}

int run_stats(const std::vector<std::string>& arguments) {
  VerbOptions options;
  if (!parse_verb(kStatsCommand, arguments, options)) return 0;
  const CacheReader cache(options.path, Detail::kWithoutSources);
  const Json stats = gather(cache);
  options.json ? print_json(stats) : print_text(stats);
  return 0;
}

}  // namespace

const Command kStatsCommand{
    "stats", "norms; NaN, zero and duplicate rows; identical exams; dead dimensions; column counts",
    run_stats};

}  // namespace coldframe::cache
