// `report`: one HTML page about a cache.
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/format/exam.h"
#include "cache/store/pictures.h"
#include "cache/store/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/exams.h"
#include "cache/tool/odd.h"
#include "cache/tool/overview.h"
#include "cache/tool/statistics.h"
#include "common/charts/data_table.h"
#include "common/charts/html.h"
#include "common/charts/svg.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/outputs.h"
#include "common/numbers/quantile.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {

// The parts of the report on a cache: each makes HTML out of what was gathered.

// The report shows this.
struct ReportData {
  std::string name;  // of the cache, without its folder
  Json overview;     // describe_cache
  Json statistics;   // FeatureStatistics of the view `clean`
  std::vector<double> norms;
  ExamMeans means;
  std::vector<ExamMetrics> figures;  // of each exam
  NearestRows nearest;               // of means
  Oddities odd;
  std::string colour;          // the column that colours the map; "": none
  bool with_patients = false;  // by the names that the cache has, else by numbers
};

// The table of all exams, and rows of it, have this name in links.
inline constexpr const char* kExamTableId = "exams";

// Exams as points, at most this many, and all outliers.
inline constexpr std::size_t kMaxMapped = 1500;
// Frames of an exam in its self-similarity matrix, at most, evenly spaced.
inline constexpr std::size_t kMaxFramesCompared = 48;

html::Body sequences_section(const CacheReader& cache);
html::Body features_section(const ReportData& data);
// `wanted`: "" for the first column with 2 to 8 different values.
std::string choose_colour(const CacheReader& cache, const std::string& wanted);
html::Body map_section(const CacheReader& cache, const ReportData& data);
html::Body odd_section(const CacheReader& cache, const ReportData& data);
// All exams, with `pictures` for the odd ones first.
html::Body table_section(const CacheReader& cache, const ReportData& data, Pictures& pictures);
// Some exams frame by frame.
html::Body exam_section(const CacheReader& cache, const ReportData& data,
                        const std::vector<std::size_t>& exams, Pictures& pictures);
html::Body failures_section(const CacheReader& cache);

// Says in plain words what a person should look at; empty when nothing was found.
std::vector<std::string> warnings_of(const ReportData& data);

// A message without the folders of the paths in it: a report may be shown to others.
std::string without_folders(const std::string& message);

namespace {

constexpr std::size_t kSpreadExams = 4;

struct ReportOptions {
  std::vector<std::string> exams;
  std::string colour, most_pictures = "4MiB";
  bool with_patients = false, without_thumbnails = false, overwrite = false;
};

std::vector<std::size_t> chosen_exams(const CacheReader& cache,
                                      const std::vector<std::string>& ids) {
  if (ids.empty()) return evenly_spaced(cache.exams().size(), kSpreadExams);
  std::vector<std::size_t> chosen;
  for (const std::string& list : ids) {
    const bool one = cache.find(list) != CacheReader::npos;  // its name may have a comma
    for (const std::string& id : one ? std::vector{list} : split(list, ',')) {
      chosen.push_back(cache.find(id));
      if (chosen.back() == CacheReader::npos)
        throw ConfigError(
            concat("--exam: the cache has no exam '", id, "'; `coldframe cache ls` lists them"));
    }
  }
  return chosen;
}

std::string key_values_of(const TextRows& rows) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::vector<std::string>& row : rows)
    pairs.emplace_back(trim(row[0]), row.size() > 1 ? row[1] : "");
  return html::key_values(pairs);
}

html::Body recipe_section(const Json& overview) {
  html::Rows rows;
  for (const auto& [key, value] : recipe_rows(overview["recipe"])) {
    const std::string name = trim(key);
    std::string indented;
    for (std::size_t i = name.size(); i < key.size(); i += 2) indented += "\u2003";
    rows.push_back({indented + name, without_folders(value)});
  }
  rows.push_back({"feature digest", overview["feature_digest"].get<std::string>()});
  rows.push_back({"cache digest", overview["cache_digest"].get<std::string>()});
  return html::table({"key", "value"}, rows);
}

ReportData gather(const CacheReader& cache, const std::string& path, const ReportOptions& options) {
  ReportData data;
  data.name = locate(path).path.filename().string();
  data.overview = describe_cache(cache, data.name);
  data.colour = choose_colour(cache, options.colour);
  data.with_patients = options.with_patients;
  const auto dimension = static_cast<std::size_t>(cache.dimension());
  data.figures.resize(cache.exams().size());
  FeatureStatistics statistics =
      gather_statistics(cache, "clean", select_exams(cache, {}),
                        [&](std::size_t exam, std::span<const float> features) {
                          data.figures[exam] = figures_of(cache.exams()[exam], features, dimension);
                        });
  data.statistics = statistics.finish(cache, &data.nearest);
  data.norms = statistics.norms();
  data.means = statistics.means();
  data.odd = find_oddities({cache, data.figures, data.means, data.nearest, data.colour});
  return data;
}

std::string make_page(const CacheReader& cache, const ReportData& data,
                      const ReportOptions& options) {
  const std::vector<std::size_t> exams = chosen_exams(cache, options.exams);
  html::Page page(concat("Cache ", data.name),
                  concat(data.overview["exams"].dump(), " exams · ", data.overview["frames"].dump(),
                         " frames · ", data.overview["dimension"].dump(), " features"));
  page.section("Overview", key_values_of(overview_rows(data.overview)));
  const std::vector<std::string> findings = warnings_of(data);
  page.section("What stands out",
               findings.empty() ? html::paragraph("Nothing stands out.") : html::list(findings));
  page.section("Odd exams", odd_section(cache, data));
  page.section("Map", map_section(cache, data));
  Pictures pictures(cache, options.without_thumbnails ? 0 : parse_bytes(options.most_pictures));
  html::Body frame_by_frame = exam_section(cache, data, exams, pictures);
  html::Body table = table_section(cache, data, pictures);
  page.section("All exams", pictures.note("those of the exams frame by frame and of odd exams") +
                                std::move(table));
  page.section("Sequences", sequences_section(cache));
  page.section("Features", features_section(data));
  page.section("Frame by frame", std::move(frame_by_frame));
  if (!data.overview["columns"].empty())
    page.section("Columns", key_values_of(column_rows(data.overview["columns"])));
  page.section("Failures", failures_section(cache));
  page.section("Recipe", recipe_section(data.overview) +
                             html::paragraph(concat(
                                 "This page names exams and shows their columns. It holds neither ",
                                 data.with_patients ? "" : "patients' ids nor ",
                                 "the folders of source files.")));
  return page.finish();
}

int run_report(const Verb& verb, const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  ReportOptions given;
  po::options_description more;
  more.add_options()("exam", po::value(&given.exams)->composing()->value_name("A,B"),
                     "show these exams frame by frame (else a few, evenly spaced)")(
      "colour", po::value(&given.colour)->value_name("COLUMN"),
      "the column that colours the map (else the first one with 2 to 8 values)")(
      "patients", po::bool_switch(&given.with_patients),
      "name patients as the cache does (else they are numbered)")(
      "most-pictures", po::value(&given.most_pictures)->value_name("SIZE"),
      "how many bytes of thumbnails go into the page, those of odd exams first (default 4MiB)")(
      "without-thumbnails", po::bool_switch(&given.without_thumbnails),
      "show no pictures of the frames, although the cache has them")(
      "overwrite", po::bool_switch(&given.overwrite), kOverwriteHelp);
  if (!parse_verb(verb, arguments, options, more)) return 0;
  const std::filesystem::path out = options.words[0], path = options.words[1];
  if (lower(out.extension().string()) != ".html")
    throw ConfigError(
        concat("'", out.string(), "': a report is a page; give it a name that ends in .html"));
  check_outputs({{"OUT", out}}, {{"PATH", path}}, overwrite_said(given.overwrite));
  const CacheReader cache(path, Detail::kWithoutSources);
  const ReportData data = gather(cache, path, given);
  const std::string page = make_page(cache, data, given);
  write_file_atomically(out, page, existing_for(given.overwrite));
  if (options.json)
    print_json(
        Json{{"path", out.string()}, {"bytes", page.size()}, {"findings", warnings_of(data)}});
  log_info(concat("wrote ", out.string(), " (", human_bytes(page.size()), ")"));
  return 0;
}

}  // namespace

extern const Verb kReportCommand;
const Verb kReportCommand{&kCache,
                          "report",
                          "OUT PATH",
                          "x.html x.h5 --colour label --exam E0007",
                          "one HTML page about the cache, to open from disk or to send",
                          run_report};

// Single exams: how their frames resemble each other, and which exams are nearest.

namespace {

constexpr std::size_t kNearest = 5;

std::string similarity_charts(std::span<const float> features, std::size_t dimension,
                              std::size_t exam, Pictures& pictures) {
  const std::size_t frames = features.size() / dimension;
  const std::vector<std::size_t> shown = evenly_spaced(frames, kMaxFramesCompared);
  std::vector<std::vector<double>> cells;
  double low = 1;
  for (const std::size_t row : shown) {
    cells.emplace_back();
    for (const std::size_t column : shown) {
      cells.back().push_back(cosine(features.subspan(row * dimension, dimension),
                                    features.subspan(column * dimension, dimension)));
      if (std::isfinite(cells.back().back())) low = std::min(low, cells.back().back());
    }
  }
  const std::string which = shown.size() < frames ? concat(shown.size(), " of ", frames, " frames")
                                                  : concat(frames, " frames");
  std::string html = html::heat_map(concat("Cosine of ", which, ": ", fixed(low, 3), " to 1"),
                                    cells, low, 1.0, shown, pictures.of(exam, shown));
  std::vector<double> numbers(frames);
  std::iota(numbers.begin(), numbers.end(), 0);
  return html +
         html::line_chart({.title = "Cosine with the frame before",
                           .x_label = "frame",
                           .y_label = "cosine",
                           .series = {{"", numbers, cosine_to_previous(features, dimension)}},
                           .whole_x = true});
}

html::Body nearest_exams(const CacheReader& cache, const ExamMeans& means, std::size_t exam) {
  const auto place = std::find(means.exams.begin(), means.exams.end(), exam);
  if (place == means.exams.end()) return {};
  const std::vector<std::string> columns = cache.column_names();
  std::vector<std::string> header = {"nearest exam", "cosine", "patient"};
  header.insert(header.end(), columns.begin(), columns.end());
  html::Rows rows;
  std::vector<std::string> links;
  for (const Pair& pair :
       nearest_rows(means, static_cast<std::size_t>(place - means.exams.begin()), kNearest)) {
    const ExamInfo &here = cache.exams()[exam], &there = cache.exams()[means.exams[pair.b]];
    links.push_back(html::link_to(kExamTableId, means.exams[pair.b]));
    rows.push_back({there.id, fixed(pair.cosine, 4),
                    here.patient.empty() || there.patient.empty() ? "unknown"
                    : spelt_alike(here.patient, there.patient)    ? "the same"
                                                                  : "another"});
    for (const std::string& column : columns) rows.back().push_back(column_value(there, column));
  }
  return html::table(header, rows, links);
}

}  // namespace

html::Body exam_section(const CacheReader& cache, const ReportData& data,
                        const std::vector<std::size_t>& exams, Pictures& pictures) {
  const auto dimension = static_cast<std::size_t>(cache.dimension());
  html::Body body = html::paragraph(
      "Matrices: the cosine between any two frames; the lower, the fainter. Nearest exams: by the "
      "cosine of mean features, after the mean of all exams was taken away.");
  for (const std::size_t index : exams) {
    const ExamInfo& exam = cache.exams()[index];
    body += concat("<h3>", html::escape(exam.id), "</h3>\n");
    std::vector<std::string> facts = {plural(exam.frames(), "frame")};
    if (missing_frames(exam) > 0) facts.push_back(concat(missing_frames(exam), " missing"));
    if (const double span = time_span(exam); std::isfinite(span))
      facts.push_back(fixed(span, 2) + " s");
    for (const ExamColumn& column : exam.columns)
      if (!column.value.empty()) facts.push_back(concat(column.name, " ", column.value));
    body += html::paragraph(join(facts, " · "));
    body += similarity_charts(cache.features(index), dimension, index, pictures);
    body += nearest_exams(cache, data.means, index);
  }
  return body;
}

// Exams as points in the plane of their first two principal components.

namespace {

constexpr std::size_t kMaxColours = 8;

std::map<std::string, std::size_t> count_values(const CacheReader& cache,
                                                const std::string& column) {
  std::map<std::string, std::size_t> counts;
  for (const ExamInfo& exam : cache.exams()) {
    ++counts[column_value(exam, column)];
    if (counts.size() > 1000) break;  // no classes
  }
  return counts;
}

// The most frequent values have a colour each; all others share the last.
std::vector<std::string> coloured_values(const CacheReader& cache, const std::string& column) {
  const auto counts = count_values(cache, column);
  std::vector<std::pair<std::string, std::size_t>> frequent(counts.begin(), counts.end());
  std::ranges::stable_sort(frequent, std::greater<>{}, [](const auto& one) { return one.second; });
  if (frequent.size() > kMaxColours) frequent.resize(kMaxColours - 1);
  std::vector<std::string> values;
  for (const auto& [value, count] : frequent) values.push_back(value);
  std::sort(values.begin(), values.end(), natural_less);
  return values;
}

// Rows of the exams' means, centred, [n, D].
Matrix rows_of(const ExamMeans& means, const std::vector<std::size_t>& places) {
  Matrix rows{0, means.rows.columns, {}};
  for (const std::size_t place : places) {
    rows.add_row(means.rows.row(place));
    for (std::size_t d = 0; d < rows.columns; ++d)
      rows.values[rows.values.size() - rows.columns + d] *= means.lengths[place];
  }
  return rows;
}

// The exams of the map: drawn ones that are no outliers, which have the axes of their variance, and
// behind them all outliers.
struct Mapped {
  std::vector<std::size_t> exams;
  std::size_t usual = 0;     // of these, no outliers
  std::size_t usual_of = 0;  // from which they were drawn
  Matrix points;             // [n, 2]
  std::vector<double> variance_share;
};

Mapped map_exams(const ReportData& data) {
  const ExamMeans& means = data.means;
  std::vector<std::size_t> usual, outliers;
  for (std::size_t i = 0; i < means.exams.size(); ++i)
    (data.odd.outlier[means.exams[i]] ? outliers : usual).push_back(i);
  // At random, in the order of the cache: labels often alternate, and even steps would miss some.
  std::vector<std::size_t> places;
  std::ranges::sample(usual, std::back_inserter(places), kMaxMapped, std::mt19937_64(0));
  Matrix rows = rows_of(means, places);
  const std::vector<float> middle = centre(rows);
  const PrincipalAxes axes = principal_axes(rows, 2);
  Mapped mapped{{}, places.size(), usual.size(), {}, axes.variance_share};
  if (axes.axes.rows < 2) return mapped;
  places.insert(places.end(), outliers.begin(), outliers.end());
  rows = rows_of(means, places);
  for (std::size_t i = 0; i < rows.values.size(); ++i) rows.values[i] -= middle[i % rows.columns];
  mapped.points = products(rows, axes.axes);
  for (const std::size_t place : places) mapped.exams.push_back(means.exams[place]);
  return mapped;
}

}  // namespace

std::string choose_colour(const CacheReader& cache, const std::string& wanted) {
  const std::vector<std::string> names = cache.column_names();
  if (wanted.empty()) {
    for (const std::string& name : names) {
      const std::size_t values = count_values(cache, name).size();
      if (values >= 2 && values <= kMaxColours) return name;
    }
    return "";
  }
  if (std::ranges::find(names, wanted) != names.end()) return wanted;
  throw ConfigError(concat("--colour: the cache has no column '", wanted, "'; it has ",
                           known_words(names, wanted)));
}

html::Body map_section(const CacheReader& cache, const ReportData& data) {
  const std::string& column = data.colour;
  const Mapped mapped = map_exams(data);
  if (mapped.exams.empty()) return html::paragraph("Too few exams for a map.");
  const std::vector<std::string> values =
      column.empty() ? std::vector<std::string>{} : coloured_values(cache, column);
  const auto axis_label = [&](std::size_t i) {
    return concat("component ", i + 1, " (", fixed(100 * mapped.variance_share[i], 1),
                  " % of the variance)");
  };
  html::Chart chart{"Exams by their mean features", axis_label(0), axis_label(1), {}};
  for (const std::string& value : values)
    chart.series.push_back({value.empty() ? "no value" : value});
  if (values.empty() || values.size() == kMaxColours - 1)
    chart.series.push_back({values.empty() ? "" : "other"});
  const std::size_t colours = chart.series.size();
  chart.series.push_back({.name = "outlier", .outliers = true});
  for (std::size_t i = 0; i < mapped.exams.size(); ++i) {
    const ExamInfo& exam = cache.exams()[mapped.exams[i]];
    const std::string& value = column.empty() ? "" : column_value(exam, column);
    const auto place = static_cast<std::size_t>(std::ranges::find(values, value) - values.begin());
    html::Series& series = chart.series[i < mapped.usual ? std::min(place, colours - 1) : colours];
    series.points = true;
    series.x.push_back(mapped.points.row(i)[0]);
    series.y.push_back(mapped.points.row(i)[1]);
    series.labels.push_back(concat(exam.id, column.empty() ? "" : concat(" (", value, ")")));
    series.links.push_back(html::link_to(kExamTableId, mapped.exams[i]));
  }
  chart.large = true;
  std::erase_if(chart.series, [](const html::Series& series) { return series.x.empty(); });
  const std::size_t outliers = mapped.exams.size() - mapped.usual;
  return html::paragraph(concat(
             "Each point is an exam, the mean of its frames' features, on the first two principal "
             "components of ",
             mapped.usual < mapped.usual_of
                 ? concat(mapped.usual, " exams, drawn at random from ", mapped.usual_of)
                 : concat("all ", plural(mapped.usual, "exam")),
             outliers == 0
                 ? (data.means.exams.size() < cache.exams().size() ? " with features" : "")
                 : concat(" that are no outliers; ", plural(outliers, "outlier"),
                          outliers == 1 ? " is a ring, drawn at the edge if it lies beyond"
                                        : " are rings, at the edge if they lie beyond"),
             ". A click on a point shows the exam. ",
             column.empty() ? "No column has 2 to 8 different values to colour by."
                            : concat("Colour: ", column, "."))) +
         html::line_chart(chart);
}

namespace {

constexpr std::size_t kFailuresShown = 200, kMaxPairsShown = 10;

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
    if (rows.size() < kMaxPairsShown)
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

// Which exams are odd, and the table of all exams.

namespace {

constexpr std::size_t kOddShown = 100, kMaxColumnsShown = 30;
constexpr double kMaxExact = 1e6;  // whole numbers above may be names, which float32 would blur

// The oddest first.
std::vector<std::size_t> by_oddness(const Oddities& odd) {
  std::vector<std::size_t> order(odd.oddness.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>{}, [&](std::size_t i) { return odd.oddness[i]; });
  return order;
}

// Patients by their names, or by numbers in order of appearance.
std::vector<std::string> patients_of(const CacheReader& cache, bool by_name) {
  std::unordered_map<std::string, std::size_t> numbers;
  std::vector<std::string> patients;
  for (const ExamInfo& exam : cache.exams()) {
    const auto place = numbers.emplace(plain_spelling(exam.patient), numbers.size() + 1).first;
    patients.push_back(by_name || exam.patient.empty() ? exam.patient : concat(place->second));
  }
  return patients;
}

// A number for each exam.
template <typename Value>
std::vector<double> each_exam(const CacheReader& cache, const Value& value) {
  std::vector<double> values;
  for (std::size_t i = 0; i < cache.exams().size(); ++i)
    values.push_back(static_cast<double>(value(i)));
  return values;
}

void add_spans(const CacheReader& cache, html::DataTable& table) {
  std::vector<double> spans =
      each_exam(cache, [&](std::size_t i) { return time_span(cache.exams()[i]); });
  if (finite_values(spans).empty()) return;
  const TimeUnit unit = to_own_unit(spans);
  table.add_numbers(concat("span, ", unit.name), std::move(spans), 2);
}

void add_nearest(const ReportData& data, html::DataTable& table) {
  std::vector<std::uint32_t> nearest(data.figures.size(), html::DataTable::kNoRow);
  for (std::size_t row = 0; row < data.nearest.size(); ++row)
    if (!data.nearest[row].empty())
      nearest[data.means.exams[row]] =
          static_cast<std::uint32_t>(data.means.exams[data.nearest[row][0].row]);
  table.add_rows("nearest exam", std::move(nearest));
}

// Numbers have as many digits behind the point as their texts, at most 4.
void add_column(const CacheReader& cache, const std::string& name, html::DataTable& table) {
  std::vector<std::string> texts;
  std::vector<double> numbers;
  double largest = 0;
  std::size_t digits = 0;
  for (const ExamInfo& exam : cache.exams()) {
    const std::string text = trim(texts.emplace_back(column_value(exam, name)));
    if (const std::size_t point = text.find('.'); point != std::string::npos)
      digits = std::max(digits, text.size() - point - 1);
    double& number = numbers.emplace_back(std::nan(""));
    if (!is_missing(text)) parse_double(text, number);
    if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
  }
  if (infer_type(texts) == ColumnType::kText || largest >= kMaxExact)
    table.add_text(name, std::move(texts));
  else
    table.add_numbers(name, std::move(numbers), std::min(static_cast<int>(digits), 4));
}

void add_sheets(const CacheReader& cache, const Oddities& odd, Pictures& pictures,
                html::DataTable& table) {
  if (!pictures.wanted()) return;
  for (const std::size_t exam : by_oddness(odd)) {
    const auto frames = evenly_spaced(cache.exams()[exam].frames(), kMaxFramesCompared);
    const std::vector<html::Picture> sheet = pictures.of(exam, frames);
    if (pictures.is_full()) break;
    if (!sheet.empty()) table.pictures[exam] = sheet;
  }
  table.without_pictures = "This page has no pictures of this exam.";
}

}  // namespace

html::Body odd_section(const CacheReader& cache, const ReportData& data) {
  html::Rows rows;
  std::vector<std::string> links;
  std::size_t all = 0;
  for (const std::size_t exam : by_oddness(data.odd)) {
    if (data.odd.oddness[exam] == 0) break;
    if (++all > kOddShown) continue;
    rows.push_back(
        {cache.exams()[exam].id, fixed(data.odd.oddness[exam], 1), data.odd.reasons[exam]});
    links.push_back(html::link_to(kExamTableId, exam));
  }
  html::Body body = html::paragraph("No exam is unlike the others.");
  if (!rows.empty()) {
    const std::string listed = rows.size() < all ? concat("; the ", rows.size(),
                                                          " oddest are listed here, all in the "
                                                          "table of exams")
                                                 : "";
    body = html::paragraph(concat(
               all, " of ", plural(cache.exams().size(), "exam"), listed,
               ". Each reason counts 1; a number counts as often as its distance from the median "
               "exceeds 6 robust standard deviations, at most 10.")) +
           html::table({"exam", "oddness", "why"}, rows, links);
  }
  if (!data.odd.common.empty())
    body += html::paragraph(concat("Too common to be odd: ", join(data.odd.common, "; "), "."));
  return body;
}

html::Body table_section(const CacheReader& cache, const ReportData& data, Pictures& pictures) {
  const std::vector<ExamInfo>& exams = cache.exams();
  if (exams.empty()) return html::paragraph("There are no exams.");
  std::vector<std::string> ids;
  for (const ExamInfo& exam : exams) ids.push_back(exam.id);
  html::DataTable table(kExamTableId, "exam", std::move(ids));
  table.add_numbers("oddness", data.odd.oddness, 1);
  table.add_text("why", data.odd.reasons);
  table.add_text("patient", patients_of(cache, data.with_patients));
  table.add_numbers("frames", each_exam(cache, [&](std::size_t i) { return exams[i].frames(); }),
                    0);
  add_spans(cache, table);
  table.add_numbers("norm", each_exam(cache, [&](std::size_t i) { return data.figures[i].norm; }),
                    3);
  table.add_numbers("distance", data.odd.distance, 3);
  add_nearest(data, table);
  std::vector<std::string> columns = cache.column_names();
  const std::size_t all = columns.size();
  columns.resize(std::min(all, kMaxColumnsShown));
  for (const std::string& name : columns) add_column(cache, name, table);
  add_sheets(cache, data.odd, pictures, table);
  return html::paragraph(concat(
             "Norm: the median over the frames. Distance: the mean one between the mean features "
             "of the exam and of its 5 nearest exams",
             data.means.exams.size() > kMaxExhaustive
                 ? ", of those that lie near it along a principal axis"
                 : "",
             ". A click on a name shows the exam.",
             columns.size() < all ? concat(" The first ", columns.size(), " of ", all, " columns.")
                                  : "")) +
         table.html("oddness");
}

namespace {

constexpr double kLowRank = 8, kManyMissing = 0.05;

void add_of_features(const Json& view, std::vector<std::string>& warnings) {
  const auto count = [&](const char* key) { return view[key].get<std::size_t>(); };
  const std::array<const char*, 3> kinds[] = {
      {"nan_rows", "frame", " marked as present, with features that are not numbers."},
      {"zero_rows", "frame", " with only zeros as features."},
      {"dead_dimensions", "dimension",
       " with the same value in every frame, which carries nothing."}};
  for (const auto& [key, of, what] : kinds)
    if (count(key) > 0) warnings.push_back(plural(count(key), of) + what);
  if (count("duplicate_rows") * 20 > count("rows"))
    warnings.push_back(concat(count("duplicate_rows"), " of ", count("rows"),
                              " frames have exactly the features of another frame. Still images "
                              "and repeated frames look like this."));
  const double rank = view["effective_rank"].get<double>();
  if (rank > 0 && rank < kLowRank)
    warnings.push_back(concat("The effective rank of the features is only ", fixed(rank, 1),
                              ": frames differ in few ways as this backbone sees them."));
}

void add_of_exams(const Json& view, std::vector<std::string>& warnings) {
  const std::size_t identical = view["identical_exams"].size();
  if (identical > 0)
    warnings.push_back(
        concat(plural(identical, "group"), identical == 100 ? " or more" : "",
               " of exams have exactly the same features: ", join(view["identical_exams"][0], ", "),
               identical > 1 ? ", and others." : "."));
  const Json& near = view["near_duplicates"];
  if (near["pairs"] != 0)
    warnings.push_back(concat(near["pairs"].dump(), near["pairs"] == 1 ? " pair" : " pairs",
                              " of exams that are not known to be of one patient are nearly alike "
                              "(cosine of mean features at least ",
                              near["cosine_at_least"].dump(),
                              "): ", join(near["closest"][0]["exams"], " and "),
                              near["pairs"] == 1 ? "" : ", and others",
                              ". If one exam stands under two patients, a split by patient does "
                              "not keep training and test apart."));
}

}  // namespace

std::vector<std::string> warnings_of(const ReportData& data) {
  const Json& info = data.overview;
  const auto number = [&](const char* key) { return info[key].get<std::size_t>(); };
  std::vector<std::string> warnings;
  if (!info["failures"].empty())
    warnings.push_back(concat(plural(info["failures"].size(), "failure"),
                              " while extracting; the reasons are below."));
  if (static_cast<double>(number("missing_frames")) >
      kManyMissing * static_cast<double>(number("frames")))
    warnings.push_back(concat(number("missing_frames"), " of ", number("frames"),
                              " frames are missing; they keep their slots and are masked."));
  if (number("exams_without_patient") > 0)
    warnings.push_back(concat(plural(number("exams_without_patient"), "exam"),
                              " without a patient: training cannot keep a patient's exams on one "
                              "side of a split."));
  if (info["time"]["span_s"].is_null() && number("exams") > 0)
    warnings.emplace_back("No exam has times: intervals between frames are unknown to the model.");
  if (info["precision"].size() > 1)
    warnings.push_back(concat("Features were computed in several precisions (",
                              join(info["precision"], ", "), ")."));
  add_of_features(data.statistics, warnings);
  add_of_exams(data.statistics, warnings);
  return warnings;
}

}  // namespace coldframe::cache::tool
