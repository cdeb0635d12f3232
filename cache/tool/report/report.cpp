// `report`: one HTML page about a cache.
#include "cache/tool/report/report.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cache/tool/columns.h"
#include "cache/tool/exams/filter.h"
#include "cache/tool/figures/feature_statistics.h"
#include "cache/tool/figures/overview.h"
#include "common/charts/html.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/outputs.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
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

const Verb kReportCommand{&kCache,
                          "report",
                          "OUT PATH",
                          "x.html x.h5 --colour label --exam E0007",
                          "one HTML page about the cache, to open from disk or to send",
                          run_report};

}  // namespace coldframe::cache::tool
