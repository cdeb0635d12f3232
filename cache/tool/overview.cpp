#include "cache/tool/overview.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_set>

#include "cache/format/contents.h"
#include "cache/format/exam.h"
#include "cache/format/format.h"
#include "cache/tool/exams.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {

namespace {

void add_range(Json& column, const std::map<std::string, std::size_t>& counts, bool integer) {
  double lowest = 0, highest = 0, sum = 0;
  std::size_t n = 0;
  for (const auto& [text, exams] : counts) {
    double value = 0;
    parse_double(text, value);
    lowest = n == 0 ? value : std::min(lowest, value);
    highest = n == 0 ? value : std::max(highest, value);
    sum += value * static_cast<double>(exams);
    n += exams;
  }
  // Integers look like integers as long as a double holds them exactly.
  integer = integer && std::max(std::abs(lowest), std::abs(highest)) < 9007199254740992.0;
  column["min"] = integer ? Json(static_cast<std::int64_t>(lowest)) : Json(lowest);
  column["max"] = integer ? Json(static_cast<std::int64_t>(highest)) : Json(highest);
  column["mean"] = sum / static_cast<double>(n);
}

Json describe(const CacheReader& cache, std::span<const std::size_t> exams, const std::string& name,
              std::size_t max_values) {
  std::map<std::string, std::size_t> counts;
  std::size_t missing = 0;
  for (const std::size_t exam : exams) {
    const std::string& value = column_value(cache.exams()[exam], name);
    is_missing(value) ? ++missing : ++counts[trim(value)];
  }
  std::vector<std::pair<std::string, std::size_t>> frequent(counts.begin(), counts.end());
  std::stable_sort(frequent.begin(), frequent.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  frequent.resize(std::min(frequent.size(), max_values));
  const ColumnType type = infer_type(cache.exams(), name);
  Json column = Json::object();
  column["name"] = name;
  column["type"] = column_type_name(type);
  column["values"] = exams.size() - missing;
  column["missing"] = missing;
  column["distinct"] = counts.size();
  column["counts"] = Json::array();
  for (const auto& [value, times] : frequent)
    column["counts"].push_back(Json{{"value", value}, {"exams", times}});
  if (type != ColumnType::kText && !counts.empty())
    add_range(column, counts, type == ColumnType::kInteger);
  return column;
}

}  // namespace

TextRows column_rows(const Json& columns) {
  TextRows rows;
  for (const Json& column : columns) {
    const Json &counts = column["counts"], &distinct = column["distinct"];
    std::string text = column["type"].get<std::string>();
    if (distinct > counts.size() && column.contains("min"))
      text += concat(", ", column["min"].dump(), " to ", column["max"].dump());
    else if (distinct > counts.size())
      text += concat(", ", distinct.dump(), " distinct values");
    else
      for (const Json& count : counts)
        text += concat(&count == &counts[0] ? ": " : ", ", count["value"].get<std::string>(), " ×",
                       count["exams"].dump());
    if (column["missing"] != 0) text += concat("; ", column["missing"].dump(), " without a value");
    rows.push_back({"  " + column["name"].get<std::string>(), text});
  }
  return rows;
}

Json describe_columns(const CacheReader& cache, std::span<const std::size_t> exams,
                      std::size_t max_values) {
  Json columns = Json::array();
  for (const std::string& name : cache.column_names())
    columns.push_back(describe(cache, exams, name, max_values));
  return columns;
}

namespace {

constexpr std::size_t kMaxValues = 12;

const Fractions kSpread = {{"min", 0}, {"median", 0.5}, {"max", 1}};

// `digits`: of seconds.
std::string time_range_text(Json spread, int digits) {
  if (spread.is_null()) return range_text(spread, digits, "");
  const TimeUnit unit = time_unit(spread["median"].get<double>());
  for (Json& value : spread) value = value.get<double>() / unit.seconds;
  return range_text(spread, unit.seconds > 1 ? 1 : digits, unit.sign);
}

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
  std::unordered_set<std::string> patients;
  std::set<std::string> frame_columns;
  std::map<std::string, std::size_t> kinds;
  std::size_t frames = 0, missing = 0, without_patient = 0;
  for (const ExamInfo& exam : exams) {
    counts.push_back(static_cast<double>(exam.frames()));
    frames += exam.frames();
    missing += missing_frames(exam);
    exam.patient.empty() ? ++without_patient : patients.insert(plain_spelling(exam.patient)).second;
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

}  // namespace

namespace {

Json describe_cut(const CacheReader& cache) {
  if (!cache.cut()) return nullptr;
  const Cut cut = *cache.cut();
  std::uint64_t frames = 0;
  for (const ExamInfo& exam : cache.exams()) frames += exam.frames();
  Json json = to_json(cut);
  json["storage"] = dtype_name(cut.type());
  json["bytes"] = frames * cache.views().size() * cut.row_bytes();
  return json;
}

}  // namespace

Json describe_cache(const CacheReader& cache, const std::string& path) {
  Json json = Json::object();
  json["path"] = path;
  json["kind"] = locate(path).single_file ? "file" : "folder";
  json["format_version"] = kFormatVersion;
  json["files"] = cache.shard_count();
  json["bytes"] = cache.bytes_on_disk();
  json["bytes_read"] = cache.bytes_read();
  json["frames_per_exam"] = describe_frames(cache.exams(), json);
  json["dimension"] = cache.dimension();
  json["storage"] = dtype_name(cache.storage());
  json["precision"] = cache.precisions();
  json["views"] = cache.views();
  json["thumbnail_bytes"] =
      cache.recipe().has_thumbnails() ? Json(cache.thumbnail_bytes()) : Json(nullptr);
  json["cut"] = describe_cut(cache);
  json["time"] = describe_times(cache.exams());
  json["columns"] = describe_columns(cache, select_exams(cache, {}), kMaxValues);
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
  json["notes"] = cache.recipe().notes;
  return json;
}

namespace {

// Nested keys stand below their object, further to the right.
void add_recipe(const Json& json, const std::string& indent, Pairs& rows) {
  for (const auto& [key, value] : json.items()) {
    rows.emplace_back(indent + key, value.is_object() ? "" : shown(value));
    if (value.is_object()) add_recipe(value, indent + "  ", rows);
  }
}

}  // namespace

Pairs recipe_rows(const Json& recipe) {
  Pairs rows;
  add_recipe(recipe, "", rows);
  return rows;
}

// "" when the cache does not tell the file's name.
std::string weights_text(const Json& info) {
  const Json name = info["notes"].value("weights", Json());
  if (!name.is_string()) return "";
  const Json& features = info["recipe"]["features"];
  const Json backbone = features.value("backbone", Json::object());
  const Json digest = backbone.is_object() ? backbone.value("sha256", Json()) : Json();
  const Json license = info["notes"].value(kWeightsLicense, Json());
  return concat(name.get<std::string>(),
                digest.is_string() ? concat(" (SHA-256 ", digest.get<std::string>(), ")") : "",
                license.is_string() ? ", licence " + license.get<std::string>() : "");
}

// "what enters block 8: 197 × 384 × float16 a frame, 1.4 GiB in all"
std::string cut_text(const Json& cut) {
  if (cut.is_null()) return "none";
  std::string shape;
  for (const Json& side : cut["shape"]) shape += concat(side.dump(), " × ");
  return concat(cut["block"] == 0 ? "the pixels that enter the ViT"
                                  : concat("what enters block ", cut["block"].dump()),
                ": ", shape, cut["storage"].get<std::string>(), " a frame, ",
                human_bytes(cut["bytes"].get<std::uint64_t>()), " in all");
}

// "each of a block of 96 × 96 × 96 voxels of 1.5 × 1.5 × 1.5 mm (RAS)"; "" of frames.
std::string blocks_text(const Json& info) {
  const Json pixels = info["recipe"]["features"].value("preprocessing", Json::object());
  if (!pixels.is_object() || !pixels.contains("block")) return "";
  const auto product = [&](const char* key) {
    std::vector<std::string> edges;
    for (const Json& edge : pixels[key]) edges.push_back(edge.dump());
    return join(edges, " × ");
  };
  return concat(
      pixels.contains("blend") ? "each of a volume, in blocks of " : "each of a block of ",
      product("block"), " voxels",
      pixels.contains("spacing_mm") ? concat(" of ", product("spacing_mm"), " mm") : "", " (",
      pixels.value("orientation", ""), ")");
}

// "each of a window of 16 frames, one in 4"; "" of single frames.
std::string windows_text(const Json& info) {
  const Json clip = info["recipe"]["features"].value("clip", Json::object());
  if (!clip.is_object() || !clip.contains("frames")) return "";
  const auto one = [&](const char* key, const char* before, const char* after) {
    return clip.contains(key) ? concat(before, clip[key].dump(), after) : std::string();
  };
  return concat("each of a window of ", clip["frames"].dump(), " frames",
                clip.value("every", 1) > 1 ? one("every", ", one in ", "") : "",
                one("fps", ", ", " a second"));
}

TextRows overview_rows(const Json& info) {
  const auto number = [&](const char* key) { return info[key].get<std::size_t>(); };
  std::string frames = concat(info["frames"].dump());
  if (number("missing_frames") > 0) frames += concat(" (", number("missing_frames"), " missing)");
  for (const std::string& each : {windows_text(info), blocks_text(info)})
    if (!each.empty()) frames += concat(", ", each);
  std::string patients = concat(number("patients"));
  if (number("exams_without_patient") > 0)
    patients += concat("; ", plural(number("exams_without_patient"), "exam"), " without a patient");
  std::vector<std::string> kinds;
  for (const auto& [kind, count] : info["source_kinds"].items())
    kinds.push_back(concat(kind, " ×", count.dump()));
  TextRows rows = {
      {"cache",
       concat(info["path"].get<std::string>(), " (format version ", info["format_version"].dump(),
              ", ", plural(number("files"), "file"), ", ", human_bytes(number("bytes")), ", ",
              human_bytes(number("bytes_read")), " of it read)")},
      {"exams", info["exams"].dump()},
      {"patients", patients},
      {"frames", frames},
      {"frames per exam", range_text(info["frames_per_exam"], 0, "")},
      {"time span", time_range_text(info["time"]["span_s"], 2)},
      {"interval", time_range_text(info["time"]["interval_s"], 3)},
      {"features", concat(info["dimension"].dump(), " × ", info["storage"].get<std::string>(),
                          ", computed in ", join(info["precision"], ", "))},
      {"views", join(info["views"], ", ")},
      {"thumbnails", info["thumbnail_bytes"].is_null() ? "none"
                                                       : human_bytes(number("thumbnail_bytes")) +
                                                             " of JPEG images of the frames"},
      {"cut", cut_text(info["cut"])},
      {"sources", kinds.empty() ? "none" : join(kinds, ", ")},
      {"frame columns", info["frame_columns"].empty() ? "none" : join(info["frame_columns"], ", ")},
      {"failures", concat(info["failures"].size())}};
  if (const std::string weights = weights_text(info); !weights.empty())
    rows.push_back({"weights", weights});
  return rows;
}

}  // namespace coldframe::cache::tool
