#include <algorithm>
#include <cmath>

#include "cache/tool/figures/feature_statistics.h"
#include "cache/tool/figures/times.h"
#include "cache/tool/report/report.h"
#include "common/charts/html.h"
#include "common/charts/svg.h"
#include "common/numbers/finite.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kFailuresShown = 200, kMostPairs = 10;

std::string all_quantiles(const Json& quantiles) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : quantiles.items())
    texts.push_back(concat(key, " ", fixed(value.get<double>(), 3)));
  return join(texts, ", ");
}

// A histogram, or one number where all values are that.
std::string distribution(const std::string& title, const std::string& unit,
                         const std::string& counted, const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (low != values.end() && *high - *low <= 1e-6 * std::abs(*high))
    return html::paragraph(concat(title, ": ", html::number_text(*high), " ", unit, ", in all ",
                                  values.size(), " ", counted, "."));
  return html::histogram(title, unit, counted, values);
}

// Without the few that would leave no room for the others.
std::string norms_histogram(const std::vector<double>& norms, double p99) {
  const double most = 3 * p99;
  std::vector<double> shown;
  std::ranges::copy_if(norms, std::back_inserter(shown), [&](double norm) { return norm <= most; });
  const std::size_t beyond = norms.size() - shown.size();
  return html::histogram(
      concat("Norms of the features",
             beyond == 0 ? "" : concat(", without ", beyond, " above ", html::number_text(most))),
      "Euclidean norm", "frames", shown);
}

std::string time_distribution(const std::string& title, const std::string& of,
                              const std::vector<double>& seconds) {
  std::vector<double> known = finite_values(seconds);
  if (known.empty()) return {};
  const TimeUnit unit = to_own_unit(known);
  return distribution(title, unit.name, of, known);
}

}  // namespace

std::string without_folders(const std::string& message) {
  std::string text;
  for (const char c : message)
    if (c == '/')
      text.erase(text.find_last_of(" '\",;:()") + 1);  // the word so far, or all there is
    else
      text += c;
  return text;
}

html::Body sequences_section(const CacheReader& cache) {
  std::vector<double> frames, spans, steps;
  for (const ExamInfo& exam : cache.exams()) {
    frames.push_back(static_cast<double>(exam.frames()));
    const std::vector<double> of_exam = intervals(exam);
    steps.insert(steps.end(), of_exam.begin(), of_exam.end());
    spans.push_back(time_span(exam));
  }
  if (frames.empty()) return html::paragraph("There are no exams.");
  std::string html = distribution("Frames per exam", "frames", "exams", frames);
  if (steps.empty()) return html + html::paragraph("The times of the frames are unknown.");
  html += time_distribution("Time from first to last frame", "exams", spans);
  html += time_distribution("Time between neighbouring frames", "intervals", steps);
  return html;
}

html::Body features_section(const ReportData& data) {
  const Json& view = data.statistics;
  if (view["norm"].is_null()) return html::paragraph("There are no features.");
  const auto fixed_of = [](const Json& value) { return fixed(value.get<double>(), 3); };
  std::string html = norms_histogram(data.norms, view["norm"]["p99"].get<double>());
  html += html::key_values(
      {{"norms", all_quantiles(view["norm"])},
       {"values", concat("mean ", fixed_of(view["values"]["mean"]), ", standard deviation ",
                         fixed_of(view["values"]["deviation"]), ", ",
                         fixed_of(view["values"]["min"]), " to ", fixed_of(view["values"]["max"]))},
       {"deviation of a dimension", all_quantiles(view["values"]["deviation_of_dimensions"])},
       {"constant dimensions", view["dead_dimensions"].dump()},
       {"effective rank", concat(fixed(view["effective_rank"].get<double>(), 1), " of ",
                                 data.overview["dimension"].dump(),
                                 " dimensions (exp of the entropy of the singular ",
                                 "values, Roy and Vetterli 2007; ", view["sampled_rows"].dump(),
                                 " frames, evenly spaced over the cache, their mean taken away)")},
       {"frames equal to another", view["duplicate_rows"].dump()}});
  const Json& near = view["near_duplicates"];
  if (near["pairs"] == 0) return html;
  html::Rows rows;
  for (const Json& pair : near["closest"])
    if (rows.size() < kMostPairs)
      rows.push_back({pair["exams"][0].get<std::string>(), pair["exams"][1].get<std::string>(),
                      fixed(pair["cosine"].get<double>(), 5)});
  html += "<h3>Exams of different patients that are nearly alike</h3>\n";
  html += html::paragraph(
      concat("Cosine of their mean features, the mean of all exams taken away. ",
             compared_exams(near), "; ", near["pairs"].dump(), " found, the closest are shown."));
  return html + html::table({"exam", "exam", "cosine"}, rows);
}

html::Body failures_section(const CacheReader& cache) {
  html::Rows rows;
  for (const Failure& failure : cache.failures())
    if (rows.size() < kFailuresShown)
      rows.push_back({failure.exam, without_folders(failure.reason)});
  if (rows.empty()) return html::paragraph("Every exam and every frame of the input was read.");
  html::Body body = html::table({"exam", "reason"}, rows);
  if (cache.failures().size() > rows.size())
    body += html::paragraph(concat("… and ", cache.failures().size() - rows.size(),
                                   " more; `coldframe cache info --json` has them all."));
  return body;
}

}  // namespace coldframe::cache::tool
