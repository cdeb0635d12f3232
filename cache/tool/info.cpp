#include <iostream>
#include <map>
#include <set>

#include "cache/contents.h"
#include "cache/format.h"
#include "cache/reader.h"
#include "cache/tool/columns.h"
#include "cache/tool/command.h"
#include "cache/tool/times.h"
#include "common/text.h"

namespace coldframe::cache {
namespace {

constexpr std::size_t kMostValues = 12;
constexpr std::size_t kMostFailures = 10;  // in the text; JSON has them all

const std::vector<std::pair<const char*, double>> kSpread = {
    {"min", 0}, {"median", 0.5}, {"max", 1}};

Json describe_times(const std::vector<ExamInfo>& exams) {
  std::vector<double> spans, steps;
  std::size_t complete = 0;
  for (const ExamInfo& exam : exams) {
    const std::vector<double> of_exam = intervals(exam);
    steps.insert(steps.end(), of_exam.begin(), of_exam.end());
    if (of_exam.size() + 1 == exam.frames()) ++complete;
    const double span = time_span(exam);
    if (span == span) spans.push_back(span);
  }
  Json json = Json::object();
  json["exams_with_all_intervals"] = complete;
  json["span_s"] = quantiles(spans, kSpread);
  json["interval_s"] = quantiles(steps, kSpread);
  return json;
}

Json describe_frames(const std::vector<ExamInfo>& exams, Json& json) {
  std::vector<double> counts;
  std::set<std::string> patients, frame_columns;
  std::map<std::string, std::size_t> kinds;
  std::size_t frames = 0, missing = 0, without_patient = 0;
  for (const ExamInfo& exam : exams) {
    counts.push_back(static_cast<double>(exam.frames()));
    frames += exam.frames();
    missing += missing_frames(exam);
    exam.patient.empty() ? ++without_patient : patients.insert(exam.patient).second;
    ++kinds[exam.source_kind];
    for (const FrameColumn& column : exam.frame_columns) frame_columns.insert(column.name);
  }
  json["exams"] = exams.size();
  json["frames"] = frames;
  json["missing_frames"] = missing;
  json["patients"] = patients.size();
  json["exams_without_patient"] = without_patient;
  json["source_kinds"] = kinds;
  json["frame_columns"] = frame_columns;
  return quantiles(counts, kSpread);
}

Json describe(const CacheReader& cache, const std::string& path) {
  Json json = Json::object();
  json["path"] = path;
  json["kind"] = locate(path).single_file ? "file" : "folder";
  json["format_version"] = kFormatVersion;
  json["files"] = cache.shard_count();
  json["bytes"] = cache.bytes_on_disk();
  json["frames_per_exam"] = describe_frames(cache.exams(), json);
  json["dimension"] = cache.dimension();
  json["storage"] = storage_name(cache.storage());
  json["precision"] = cache.precisions();
  json["views"] = cache.views();
  json["time"] = describe_times(cache.exams());
  json["columns"] = describe_columns(cache, kMostValues);
  json["failures"] = Json::array();
  for (const Failure& failure : cache.failures())
    json["failures"].push_back(Json{{"exam", failure.exam},
                                    {"ordinal", failure.ordinal},
                                    {"revision", failure.revision},
                                    {"source", failure.source},
                                    {"reason", failure.reason}});
  json["feature_digest"] = cache.recipe().feature_digest();
  json["cache_digest"] = cache.recipe().cache_digest();
  json["recipe"] = to_json(cache.recipe());
  return json;
}

using Rows = std::vector<std::vector<std::string>>;

std::string as_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void add_recipe(const Json& json, const std::string& indent, Rows& rows) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      rows.push_back({indent + key});
      add_recipe(value, indent + "  ", rows);
    } else {
      rows.push_back({indent + key, as_text(value)});
    }
  }
}

std::string range_text(const Json& spread, int digits, const char* unit) {
  if (spread.is_null()) return "unknown";
  const auto value = [&](const char* name) { return fixed(spread[name].get<double>(), digits); };
  if (spread["min"] == spread["max"]) return value("min") + unit;
  return concat(value("min"), " to ", value("max"), unit, ", median ", value("median"), unit);
}

std::string column_text(const Json& column) {
  std::string text = column["type"].get<std::string>();
  if (column.contains("min") && column["distinct"] > kMostValues)
    text += concat(", ", column["min"].dump(), " to ", column["max"].dump());
  else if (column["distinct"] > kMostValues)
    text += concat(", ", column["distinct"].dump(), " distinct values");
  else
    for (const Json& count : column["counts"])
      text += concat(count == column["counts"][0] ? ": " : ", ", as_text(count["value"]), " ×",
                     count["exams"].dump());
  if (column["missing"] != 0) text += concat("; ", column["missing"].dump(), " without a value");
  return text;
}

Rows overview(const Json& info) {
  const auto number = [&](const char* key) { return info[key].get<std::size_t>(); };
  std::string frames = concat(info["frames"].dump());
  if (number("missing_frames") > 0) frames += concat(" (", number("missing_frames"), " missing)");
  std::string patients = concat(number("patients"));
  if (number("exams_without_patient") > 0)
    patients += concat("; ", plural(number("exams_without_patient"), "exam"), " without a patient");
  std::vector<std::string> kinds;
  for (const auto& [kind, count] : info["source_kinds"].items())
    kinds.push_back(concat(kind, " ×", count.dump()));
  return {
      {"cache",
       concat(info["path"].get<std::string>(), " (format version ", info["format_version"].dump(),
              ", ", plural(number("files"), "file"), ", ", human_bytes(number("bytes")), ")")},
      {"exams", info["exams"].dump()},
      {"patients", patients},
      {"frames", frames},
      {"frames per exam", range_text(info["frames_per_exam"], 0, "")},
      {"time span", range_text(info["time"]["span_s"], 2, " s")},
      {"interval", range_text(info["time"]["interval_s"], 3, " s")},
      {"features", concat(info["dimension"].dump(), " × ", info["storage"].get<std::string>(),
                          ", computed in ", join(info["precision"], ", "))},
      {"views", join(info["views"], ", ")},
      {"sources", kinds.empty() ? "none" : join(kinds, ", ")},
      {"frame columns", info["frame_columns"].empty() ? "none" : join(info["frame_columns"], ", ")},
      {"failures", concat(info["failures"].size())}};
}

void print_text(const Json& info) {
  print_table(overview(info));
  Rows rows;
  for (const Json& column : info["columns"])
    rows.push_back({"  " + column["name"].get<std::string>(), column_text(column)});
  if (!rows.empty()) std::cout << "\ncolumns\n";
  print_table(rows);
  rows.clear();
  for (const Json& failure : info["failures"])
    if (rows.size() < kMostFailures)
      rows.push_back({"  " + failure["exam"].get<std::string>(), as_text(failure["reason"])});
  if (!rows.empty()) std::cout << "\nfailures\n";
  print_table(rows);
  if (info["failures"].size() > rows.size())
    std::cout << "  … and " << info["failures"].size() - rows.size() << " more (--json has all)\n";
  std::cout << "\nrecipe\n";
  rows.clear();
  add_recipe(info["recipe"], "  ", rows);
  rows.push_back({"  feature digest", as_text(info["feature_digest"])});
  rows.push_back({"  cache digest", as_text(info["cache_digest"])});
  print_table(rows);
}

int run_info(const std::vector<std::string>& arguments) {
  VerbOptions options;
  if (!parse_verb(kInfoCommand, arguments, options)) return 0;
  const CacheReader cache(options.path, Detail::kWithoutSources);
  const Json info = describe(cache, options.path);
  options.json ? print_json(info) : print_text(info);
  return 0;
}

}  // namespace

const Command kInfoCommand{
    "info", "what the cache holds and how it was made: exams, times, columns, failures, recipe",
    run_info};

}  // namespace coldframe::cache
