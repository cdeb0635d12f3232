#include <algorithm>
#include <cmath>
#include <iostream>

#include "cache/store/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/exams.h"
#include "cache/tool/statistics.h"
#include "common/cli/error.h"
#include "common/numbers/quantile.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kSparkWidth = 100;  // frames a line

Json frame_json(const ExamInfo& exam, std::size_t t, double norm, double cosine) {
  Json json = Json::object();
  json["slot"] = t;
  json["present"] = exam.present[t] != 0;
  json["time_s"] = json_number(exam.time_s[t]);
  json["index"] = exam.frame_index[t];
  json["source"] = exam.frame_source[t];
  json["norm"] = json_number(norm);
  json["cosine_to_previous"] = json_number(cosine);
  json["columns"] = Json::object();
  for (const FrameColumn& column : exam.frame_columns)
    json["columns"][column.name] = column.values[t];
  return json;
}

Json describe(const CacheReader& cache, const ExamInfo& exam, std::size_t index,
              const std::string& view) {
  const std::vector<float> features = cache.features(index, view);
  const auto dimension = static_cast<std::size_t>(cache.dimension());
  const std::vector<double> norms = row_norms(features, dimension),
                            cosines = cosine_to_previous(features, dimension);
  Json json = Json::object();
  json["id"] = exam.id;
  json["view"] = view;
  json["patient"] = exam.patient;
  json["ordinal"] = exam.ordinal;
  json["revision"] = exam.revision;
  add_stored(exam, json);
  json["missing_frames"] = missing_frames(exam);
  json["span_s"] = json_number(time_span(exam));
  json["columns"] = Json::object();
  for (const ExamColumn& column : exam.columns) json["columns"][column.name] = column.value;
  json["frames"] = Json::array();
  for (std::size_t t = 0; t < exam.frames(); ++t)
    json["frames"].push_back(frame_json(exam, t, norms[t], cosines[t]));
  return json;
}

std::string number_or_dash(const Json& value, int digits) {
  return value.is_null() ? "-" : fixed(value.get<double>(), digits);
}

void print_sparkline(const char* title, const char* key, const Json& frames) {
  std::vector<double> values;
  for (const Json& frame : frames)
    values.push_back(frame[key].is_null() ? kUnknownTime : frame[key].get<double>());
  const std::vector<double> finite = finite_values(values);
  if (finite.empty()) return;
  const auto [low, high] = std::minmax_element(finite.begin(), finite.end());
  std::cout << title << ", " << fixed(*low, 4) << " to " << fixed(*high, 4) << '\n';
  // One scale for all lines: the extremes stand at the end of each and are cut off again.
  for (std::size_t first = 0; first < values.size(); first += kSparkWidth) {
    const std::size_t count = std::min(kSparkWidth, values.size() - first);
    std::vector<double> line(values.begin() + static_cast<std::ptrdiff_t>(first),
                             values.begin() + static_cast<std::ptrdiff_t>(first + count));
    line.insert(line.end(), {*low, *high});
    const std::string text = sparkline(line);
    std::cout << "  " << text.substr(0, text.size() - 2 * std::string("▁").size()) << '\n';
  }
}

void print_exam(const Json& exam) {
  TextRows rows{{"exam", exam["id"].get<std::string>()},
                {"patient", exam["patient"] == "" ? "unknown" : exam["patient"].get<std::string>()},
                {"source", concat(exam["source_kind"].get<std::string>(), ", ",
                                  exam["width"].dump(), " × ", exam["height"].dump(), " pixels")},
                {"time span",
                 exam["span_s"].is_null() ? "unknown" : number_or_dash(exam["span_s"], 3) + " s"}};
  for (const auto& [name, value] : exam["columns"].items())
    rows.push_back({name, value.get<std::string>()});
  print_table(rows);
  std::cout << '\n';
  rows = {{"FRAME", "TIME", "INDEX", "NORM", "COSINE", "SOURCE"}};
  for (const auto& [name, value] : exam["frames"][0]["columns"].items()) rows[0].push_back(name);
  for (const Json& frame : exam["frames"]) {
    const bool present = frame["present"].get<bool>();
    rows.push_back({frame["slot"].dump(),
                    frame["time_s"].is_null() ? "-" : number_or_dash(frame["time_s"], 3) + " s",
                    present ? frame["index"].dump() : "-",
                    present ? number_or_dash(frame["norm"], 3) : "missing",
                    number_or_dash(frame["cosine_to_previous"], 4),
                    frame["source"].get<std::string>()});
    for (const auto& [name, value] : frame["columns"].items())
      rows.back().push_back(value.get<std::string>());
  }
  print_table(rows);
  std::cout << '\n';
  print_sparkline("cosine with the frame before", "cosine_to_previous", exam["frames"]);
  print_sparkline("norm", "norm", exam["frames"]);
}

std::size_t find_exam(const CacheReader& cache, const std::string& id) {
  const std::size_t index = cache.find(id);
  if (index != CacheReader::npos) return index;
  for (const Failure& failure : cache.failures())
    if (failure.exam == id)
      throw DataError(concat("exam '", id, "' could not be extracted: ", failure.reason));
  std::vector<std::string> ids;
  for (const ExamInfo& exam : cache.exams()) ids.push_back(exam.id);
  const std::string near = ids.size() > 10000 ? "" : nearest(id, ids);
  throw ConfigError(concat(
      "the cache has no exam '", id, "'",
      near.empty() ? "; `coldframe cache ls` lists them" : "; did you mean '" + near + "'?"));
}

int run_show(const Verb& verb, const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  std::string view = "clean";
  po::options_description more;
  more.add_options()("view", po::value(&view)->value_name("NAME")->default_value(view),
                     "the view whose features are shown");
  if (!parse_verb(verb, arguments, options, more)) return 0;
  const CacheReader cache(options.path());
  const std::size_t index = find_exam(cache, options.words[1]);
  const Json exam = describe(cache, cache.exams()[index], index, view);
  options.json ? print_json(exam) : print_exam(exam);
  return 0;
}

}  // namespace

extern const Verb kShowCommand;
const Verb kShowCommand{&kCache,
                        "show",
                        "PATH EXAM",
                        "x.h5 E0007",
                        "one exam frame by frame: time, source, norm, cosine with the frame before",
                        run_show};

}  // namespace coldframe::cache::tool
