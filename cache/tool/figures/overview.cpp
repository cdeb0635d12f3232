#include "cache/tool/figures/overview.h"

#include <map>
#include <set>
#include <unordered_set>

#include "cache/format/contents.h"
#include "cache/format/format.h"
#include "cache/tool/columns.h"
#include "cache/tool/exams/filter.h"
#include "cache/tool/figures/times.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kMostValues = 12;

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
  json["columns"] = describe_columns(cache, select_exams(cache, {}), kMostValues);
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

std::string as_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Nested keys stand below their object, further to the right.
void add_recipe(const Json& json, const std::string& indent, Pairs& rows) {
  for (const auto& [key, value] : json.items()) {
    rows.emplace_back(indent + key, value.is_object() ? "" : as_text(value));
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
  return concat(name.get<std::string>(),
                digest.is_string() ? concat(" (SHA-256 ", digest.get<std::string>(), ")") : "");
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

TextRows overview_rows(const Json& info) {
  const auto number = [&](const char* key) { return info[key].get<std::size_t>(); };
  std::string frames = concat(info["frames"].dump());
  if (number("missing_frames") > 0) frames += concat(" (", number("missing_frames"), " missing)");
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
