// The features of a cache in the files of others.
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "cache/read/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/exams/filter.h"
#include "cache/tool/exchange/export_thumbnails.h"
#include "cache/tool/exchange/recipe_file.h"
#include "cache/tool/exchange/tables.h"
#include "cache/tool/exchange/tensor_file.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/atomic_file.h"
#include "common/files/csv.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTextBlock = 1u << 20;

const std::vector<std::string> kFormats = {"npy", "npz", "csv", "safetensors"};

// Shortest text that reads back as the same number of its type; "" for NaN.
template <typename T>
void append_number(T value, std::string& text) {
  if (value != value) return;
  std::array<char, 40> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  text.append(digits.data(), end);
}

template <typename T>
std::string number(T value) {
  std::string text;
  append_number(value, text);
  return text;
}

ElementType of_numbers(bool half) {
  return half ? ElementType::kFloat16 : ElementType::kFloat32;
}

class Exporter {
 public:
  Exporter(const CacheReader& cache, std::vector<std::size_t> exams, std::string view)
      : cache_(cache), exams_(std::move(exams)), view_(std::move(view)) {
    for (const std::size_t exam : exams_) frames_ += cache.exams()[exam].frames();
  }
  void check_features() const;  // damage is found before anything is written
  void write_exams_table(const fs::path& path) const;
  void write_frames_table(const fs::path& path) const;
  void write_features(const fs::path& path, const std::string& format) const;
  void write_cut(const fs::path& path) const;
  void write_thumbnails(const fs::path& folder);  // the table of frames names them afterwards
  std::size_t frames() const { return frames_; }

 private:
  void write_csv(AtomicFile& file) const;
  Tensor features() const;
  std::vector<Tensor> tensors() const;
  template <typename T, typename Get>
  Tensor per_frame(const char* name, ElementType type, Get get) const;

  const CacheReader& cache_;
  std::vector<std::size_t> exams_;
  std::string view_;
  std::size_t frames_ = 0;
  std::string thumbnail_folder_;
};

void Exporter::check_features() const {
  cache_.scan_stored(view_, exams_, [](std::size_t, std::span<const std::byte>) {});
}

void Exporter::write_thumbnails(const fs::path& folder) {
  export_thumbnails(cache_, exams_, folder);
  thumbnail_folder_ = folder.filename().string();
}

void Exporter::write_cut(const fs::path& path) const {
  const std::optional<Cut> cut = cache_.cut();
  if (!cut)
    throw ConfigError("--cut: the cache has none; `coldframe extract --cut BLOCK` stores one");
  const bool half = cut->storage == StorageType::kFloat16;
  Tensor rows{"cut", cut->is_pixels() ? ElementType::kUint8 : of_numbers(half), {frames_}, {}};
  rows.shape.insert(rows.shape.end(), cut->shape.begin(), cut->shape.end());
  rows.write = [this](const Tensor::Sink& sink) {
    const auto view = std::ranges::find(cache_.views(), view_) - cache_.views().begin();
    cache_.scan_cut(static_cast<std::size_t>(view), exams_,
                    [&](std::size_t, std::span<const std::byte> bytes) { sink(bytes); });
  };
  AtomicFile file(path);
  write_npy(file, rows);
  file.finish();
}

void Exporter::write_exams_table(const fs::path& path) const {
  std::vector<std::string> header = kExamTable;
  const std::vector<std::string> columns = cache_.column_names();
  for (const std::string& name : columns) header.push_back(name_in_table(name, kExamTable));
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
    for (const std::string& name : columns) row.push_back(column_value(exam, name));
    text += csv_row(row);
    offset += exam.frames();
  }
  write_file_atomically(path, text);
}

void Exporter::write_frames_table(const fs::path& path) const {
  std::vector<std::string> header = kFrameTable;
  if (!thumbnail_folder_.empty()) header.emplace_back(kThumbnailColumn);
  const std::size_t own = header.size();
  std::vector<std::string> columns;
  for (const std::size_t exam : exams_)
    for (const FrameColumn& column : cache_.exams()[exam].frame_columns)
      if (std::find(columns.begin(), columns.end(), column.name) == columns.end())
        columns.push_back(column.name);
  for (const std::string& name : columns) header.push_back(name_in_table(name, kFrameTable));
  AtomicFile file(path);
  std::string text = csv_row(header);
  for (std::size_t place = 0; place < exams_.size(); ++place) {
    const ExamInfo& exam = cache_.exams()[exams_[place]];
    for (std::size_t t = 0; t < exam.frames(); ++t) {
      std::vector<std::string> row = {exam.id,
                                      concat(t),
                                      number(exam.time_s[t]),
                                      exam.present[t] != 0 ? "1" : "0",
                                      concat(exam.frame_index[t]),
                                      exam.frame_source[t]};
      if (!thumbnail_folder_.empty())
        row.push_back(exam.present[t] == 0
                          ? ""
                          : (thumbnail_folder_ / thumbnail_path(place, exam.id, t)).string());
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
  file.finish();
}

Tensor Exporter::features() const {
  const bool half = cache_.storage() == StorageType::kFloat16;
  return {"features",
          of_numbers(half),
          {frames_, static_cast<std::uint64_t>(cache_.dimension())},
          [this](const Tensor::Sink& sink) {
            cache_.scan_stored(view_, exams_,
                               [&](std::size_t, std::span<const std::byte> rows) { sink(rows); });
          }};
}

template <typename T, typename Get>
Tensor Exporter::per_frame(const char* name, ElementType type, Get get) const {
  return {name, type, {frames_}, [this, get](const Tensor::Sink& sink) {
            for (const std::size_t exam : exams_) {
              const std::vector<T>& values = get(cache_.exams()[exam]);
              sink(std::as_bytes(std::span(values)));
            }
          }};
}

std::vector<Tensor> Exporter::tensors() const {
  Tensor offset{
      "offset", ElementType::kInt64, {exams_.size() + 1}, [this](const Tensor::Sink& sink) {
        std::vector<std::int64_t> offsets{0};
        for (const std::size_t exam : exams_)
          offsets.push_back(offsets.back() +
                            static_cast<std::int64_t>(cache_.exams()[exam].frames()));
        sink(std::as_bytes(std::span(offsets)));
      }};
  return {features(), offset,
          per_frame<double>(
              "time_s", ElementType::kFloat64,
              [](const ExamInfo& exam) -> auto& { return exam.time_s; }),
          per_frame<std::int64_t>(
              "index", ElementType::kInt64,
              [](const ExamInfo& exam) -> auto& { return exam.frame_index; }),
          per_frame<std::uint8_t>(
              "present", ElementType::kUint8,
              [](const ExamInfo& exam) -> auto& { return exam.present; })};
}

// One row per frame: exam, slot, f0 … f(D−1); a missing frame has empty fields.
void Exporter::write_csv(AtomicFile& file) const {
  const auto dimension = static_cast<std::size_t>(cache_.dimension());
  std::string text = "exam,slot";
  for (std::size_t d = 0; d < dimension; ++d) text += concat(",f", d);
  text += "\n";
  cache_.scan(view_, exams_, [&](std::size_t exam, std::span<const float> features) {
    const std::string id = csv_field(cache_.exams()[exam].id);
    for (std::size_t t = 0; t < features.size() / dimension; ++t) {
      text += concat(id, ",", t);
      for (const float value : features.subspan(t * dimension, dimension)) {
        text += ',';
        append_number(value, text);
      }
      text += '\n';
      if (text.size() < kTextBlock) continue;
      file.append(text);
      text.clear();
    }
  });
  file.append(text);
}

void Exporter::write_features(const fs::path& path, const std::string& format) const {
  AtomicFile file(path);
  if (format == "npy") {
    write_npy(file, features());
  } else if (format == "npz") {
    write_npz(file, tensors());
  } else if (format == "safetensors") {
    write_safetensors(file, tensors(),
                      {{"format", "coldframe-export"},
                       {"view", view_},
                       {"feature_digest", cache_.recipe().feature_digest()},
                       {"recipe", to_json(cache_.recipe()).dump()}});
  } else {
    write_csv(file);
  }
  file.finish();
}

int run_export(const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  std::vector<std::string> where;
  std::string view = "clean";
  bool with_thumbnails = false, with_cut = false, overwrite = false;
  po::options_description more;
  more.add_options()("where", po::value(&where)->composing()->value_name("CONDITION"), kWhereHelp)(
      "view", po::value(&view)->value_name("NAME")->default_value(view), "which view")(
      "thumbnails", po::bool_switch(&with_thumbnails),
      "also the frames' thumbnails, as OUT's .thumbnails/PLACE-EXAM/SLOT.jpg, each named in "
      ".frames.csv")("cut", po::bool_switch(&with_cut),
                     "also what `extract --cut` stored, as OUT's .cut.npy [frames, tokens, width], "
                     "a row for each of the features'")("overwrite", po::bool_switch(&overwrite),
                                                        kOverwriteHelp);
  if (!parse_verb(kExportCommand, arguments, options, more)) return 0;
  const fs::path out = options.words[1];
  const std::string ending = out.extension().string();
  const std::string format = ending.empty() ? "" : ending.substr(1);
  if (std::find(kFormats.begin(), kFormats.end(), format) == kFormats.end())
    throw ConfigError(concat(
        "'", out.string(), "': the name's ending says the format: .", join(kFormats, ", ."),
        format == "parquet" ? "; pandas writes Parquet of them, as does examples/read_cache.py"
                            : ""));
  const fs::path stem = fs::path(out).replace_extension();
  std::vector<fs::path> files = {stem.string() + ".exams.csv", stem.string() + ".frames.csv",
                                 stem.string() + ".recipe.json", out};
  if (with_thumbnails) files.emplace_back(stem.string() + ".thumbnails");
  if (with_cut) files.emplace_back(stem.string() + ".cut.npy");
  if (!overwrite) require_free(files);
  const CacheReader cache(options.path());
  Exporter exporter(cache, select_exams(cache, where), view);
  exporter.check_features();
  if (with_cut) exporter.write_cut(files.back());
  if (with_thumbnails) exporter.write_thumbnails(files[4]);
  exporter.write_exams_table(files[0]);
  exporter.write_frames_table(files[1]);
  write_recipe_file(cache, view, files[2]);
  exporter.write_features(out, format);
  if (options.json) {
    Json json{{"frames", exporter.frames()}, {"files", Json::array()}};
    for (const fs::path& file : files) json["files"].push_back(file.string());
    print_json(json);
  }
  log_info(concat(plural(exporter.frames(), "frame"), " in ", out.string(),
                  ", what belongs to them in ", files[0].string(), ", ", files[1].string(), " and ",
                  files[2].string()));
  return 0;
}

}  // namespace

const Command kExportCommand{
    "export", "PATH OUT", "x.h5 x.npz --where label=covid",
    "features to .npy, .npz, .csv or .safetensors, with OUT's .exams.csv, .frames.csv and "
    ".recipe.json beside it; `import` takes them back",
    run_export};

}  // namespace coldframe::cache::tool
