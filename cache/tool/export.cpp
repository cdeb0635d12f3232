// The features of a cache as a .npy file and tables.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "cache/store/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/exams.h"
#include "cache/tool/exchange.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/files/npy_header.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/outputs.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {

// The features of a cache as a .npy file and tables.

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTextBlock = 1u << 20;

// Shortest text that reads back as the same number; "" for NaN.
std::string number(double value) {
  if (value != value) return "";
  std::array<char, 40> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

class Exporter {
 public:
  Exporter(const CacheReader& cache, std::vector<std::size_t> exams, std::string view)
      : cache_(cache), exams_(std::move(exams)), view_(std::move(view)) {
    for (const std::size_t exam : exams_) frames_ += cache.exams()[exam].frames();
  }
  void check_features() const;  // damage is found before anything is written
  void write_exams_table(AtomicFile& file) const;
  void write_frames_table(AtomicFile& file) const;
  void write_features(AtomicFile& file) const;
  void write_cut(AtomicFile& file) const;
  std::size_t frames() const { return frames_; }

 private:
  const CacheReader& cache_;
  std::vector<std::size_t> exams_;
  std::string view_;
  std::size_t frames_ = 0;
};

void Exporter::check_features() const {
  cache_.scan_stored(view_, exams_, [](std::size_t, std::span<const std::byte>) {});
}

void Exporter::write_cut(AtomicFile& file) const {
  const std::optional<Cut> cut = cache_.cut();
  if (!cut)
    throw ConfigError("--cut: the cache has none; `coldframe extract --cut BLOCK` stores one");
  std::vector<std::uint64_t> shape{frames_};
  shape.insert(shape.end(), cut->shape.begin(), cut->shape.end());
  file.append(npy_header(cut->type(), shape));
  const auto view = std::ranges::find(cache_.views(), view_) - cache_.views().begin();
  cache_.scan_cut(static_cast<std::size_t>(view), exams_,
                  [&](std::size_t, std::span<const std::byte> bytes) { file.append(bytes); });
}

void Exporter::write_exams_table(AtomicFile& file) const {
  std::vector<std::string> header = kExamColumns;
  const bool has_elapsed = std::ranges::any_of(
      exams_, [&](std::size_t exam) { return std::isfinite(cache_.exams()[exam].elapsed_start); });
  if (has_elapsed) header.emplace_back(kElapsedColumn);
  const std::vector<std::string> columns = cache_.column_names();
  for (const std::string& name : columns) header.push_back(name_in_table(name, kExamColumns));
  std::string text = csv_row(header);
  std::size_t offset = 0;
  for (const std::size_t index : exams_) {
    const ExamInfo& exam = cache_.exams()[index];
    std::vector<std::string> row = {exam.id,
                                    exam.patient,
                                    concat(offset),
                                    concat(exam.frames()),
                                    number(exam.start_time),
                                    exam.source_kind,
                                    concat(exam.frame_width),
                                    concat(exam.frame_height)};
    if (has_elapsed) row.push_back(number(exam.elapsed_start));
    for (const std::string& name : columns) row.push_back(column_value(exam, name));
    text += csv_row(row);
    offset += exam.frames();
  }
  file.append(text);
}

void Exporter::write_frames_table(AtomicFile& file) const {
  std::vector<std::string> header = kFrameColumns;
  const std::size_t own = header.size();
  std::vector<std::string> columns;
  for (const std::size_t exam : exams_)
    for (const FrameColumn& column : cache_.exams()[exam].frame_columns)
      if (std::find(columns.begin(), columns.end(), column.name) == columns.end())
        columns.push_back(column.name);
  for (const std::string& name : columns) header.push_back(name_in_table(name, kFrameColumns));
  std::string text = csv_row(header);
  for (const std::size_t index : exams_) {
    const ExamInfo& exam = cache_.exams()[index];
    for (std::size_t t = 0; t < exam.frames(); ++t) {
      std::vector<std::string> row = {exam.id,
                                      concat(t),
                                      number(exam.time_s[t]),
                                      exam.present[t] != 0 ? "1" : "0",
                                      concat(exam.frame_index[t]),
                                      exam.frame_source[t]};
      row.resize(header.size());
      for (const FrameColumn& column : exam.frame_columns)
        row[own + static_cast<std::size_t>(std::find(columns.begin(), columns.end(), column.name) -
                                           columns.begin())] = column.values[t];
      text += csv_row(row);
    }
    if (text.size() < kTextBlock) continue;
    file.append(text);
    text.clear();
  }
  file.append(text);
}

void Exporter::write_features(AtomicFile& file) const {
  file.append(
      npy_header(cache_.storage(), {frames_, static_cast<std::uint64_t>(cache_.dimension())}));
  cache_.scan_stored(view_, exams_,
                     [&](std::size_t, std::span<const std::byte> rows) { file.append(rows); });
}

// The names of what is written, all beside OUT.
struct ExportNames {
  ExportNames(const fs::path& features, bool with_cut) : out(features) {
    const std::string stem = fs::path(features).replace_extension().string();
    exams = stem + ".exams.csv";
    frames = stem + ".frames.csv";
    recipe = stem + ".recipe.json";
    if (with_cut) cut = stem + ".cut.npy";
  }
  std::vector<fs::path> all() const {
    std::vector<fs::path> names = {exams, frames, recipe, out, cut};
    std::erase(names, fs::path());
    return names;
  }

  fs::path out, exams, frames, recipe, cut;  // the last one: empty, where not asked for
};

void check_names(const ExportNames& names, const std::string& cache, bool overwrite) {
  std::vector<NamedOutput> outputs;
  for (const fs::path& name : names.all()) outputs.push_back({"OUT", name, {}});
  check_outputs(outputs, {{"PATH", cache}}, overwrite_said(overwrite));
}

void require_npy(const fs::path& out) {
  if (out.extension() == ".npy") return;
  throw ConfigError(
      concat("'", out.string(),
             "': features are exported to .npy; name OUT.npy (h5py reads the cache "
             "as it is, and Python's coldframe.open(PATH).table() is a DataFrame of it)"));
}

void write_all(const CacheReader& cache, const Exporter& exporter, const std::string& view,
               const ExportNames& names, Existing existing) {
  FileSet written(existing);
  if (!names.cut.empty()) exporter.write_cut(written.add(names.cut));
  exporter.write_exams_table(written.add(names.exams));
  exporter.write_frames_table(written.add(names.frames));
  written.add(names.recipe).append(recipe_file(cache, view));
  exporter.write_features(written.add(names.out));
  written.finish();
}

int run_export(const Verb& verb, const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  std::vector<std::string> where;
  std::string view = "clean";
  bool with_cut = false, overwrite = false;
  po::options_description more;
  more.add_options()("where", po::value(&where)->composing()->value_name("CONDITION"), kWhereHelp)(
      "view", po::value(&view)->value_name("NAME")->default_value(view), "which view")(
      "cut", po::bool_switch(&with_cut),
      "also what `extract --cut` stored, as OUT's .cut.npy [frames, tokens, width], "
      "a row for each of the features'")("overwrite", po::bool_switch(&overwrite), kOverwriteHelp);
  if (!parse_verb(verb, arguments, options, more)) return 0;
  const ExportNames names(options.words[0], with_cut);
  require_npy(names.out);
  check_names(names, options.words[1], overwrite);
  const CacheReader cache(options.words[1]);
  const Exporter exporter(cache, select_exams(cache, where), view);
  exporter.check_features();
  write_all(cache, exporter, view, names, existing_for(overwrite));
  if (options.json) {
    Json json{{"frames", exporter.frames()}, {"files", Json::array()}};
    for (const fs::path& file : names.all()) json["files"].push_back(file.string());
    print_json(json);
  }
  log_info(concat(plural(exporter.frames(), "frame"), " in ", names.out.string(),
                  ", what belongs to them in ", names.exams.string(), ", ", names.frames.string(),
                  " and ", names.recipe.string()));
  return 0;
}

}  // namespace

extern const Verb kExportCommand;
const Verb kExportCommand{&kCache,
                          "export",
                          "OUT PATH",
                          "x.npy x.h5 --where label=covid",
                          "features to .npy, with OUT's .exams.csv, .frames.csv and "
                          ".recipe.json next to it; `import` takes "
                          "them back",
                          run_export};

}  // namespace coldframe::cache::tool
