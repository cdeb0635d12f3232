#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/format/exam.h"
#include "cache/store/lock.h"
#include "cache/store/writer.h"
#include "cache/tool/command.h"
#include "cache/tool/exchange.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/files/file.h"
#include "common/files/npy_header.h"
#include "common/numbers/dtype.h"
#include "common/text/text.h"
#include "common/text/timestamp.h"

namespace coldframe::cache::tool {

// Reads the features of a .npy file, row by row.

// [rows, columns] of float16, float32 or float64, little-endian, in C order. DataError for
// everything else.
class FeatureFile {
 public:
  explicit FeatureFile(const std::filesystem::path& path);
  std::uint64_t rows() const { return rows_; }
  std::uint64_t columns() const { return columns_; }
  DType type() const { return type_; }
  // Gives float32; what float32 cannot hold becomes infinite.
  void read_row(std::uint64_t row, std::span<float> values) const;

 private:
  void set_shape(std::int64_t rows, std::int64_t columns, std::uint64_t bytes_there);
  void require(bool condition, const std::string& what) const;

  std::filesystem::path path_;
  InputFile file_;
  std::uint64_t data_ = 0, rows_ = 0, columns_ = 0;
  DType type_ = DType::kFp32;
};

// The tables of an import become the metadata of each exam.

// A table with a row for each frame, and perhaps one with a row for each exam, in either order: any
// CSV files with the column `exam`, or those that `export` wrote.
class ImportTables {
 public:
  // `frame_columns`: columns of a table that is alone which belong to the frames. DataError: not
  // such tables, an exam that one of them lacks. `allow_unordered`: times within an exam may fall.
  ImportTables(const std::vector<std::filesystem::path>& paths,
               const std::vector<std::string>& frame_columns, bool allow_unordered);

  std::size_t rows() const { return frames_.rows.size(); }
  std::size_t exams() const { return exams_.size(); }
  const std::string& name() const { return frames_.name; }

  // The exam that is number `place` in the table, with its features; `features` has a row for each
  // of the table's. DataError names the line.
  ExamFeatures exam(std::size_t place, const FeatureFile& features) const;

 private:
  // Numbers of columns.
  struct FrameRoles {
    std::optional<std::size_t> index, time, present, source, patient;
    bool times_are_relative = false;  // to the exam's first frame already
    std::vector<std::size_t> of_exam, of_frame;
  };
  struct ExamRoles {
    std::optional<std::size_t> patient, frames, start_time, elapsed_start, kind, width, height;
    std::vector<std::size_t> columns;
  };
  struct Exam {
    std::string id;
    std::vector<std::size_t> rows;  // of the table of frames
    std::size_t row = 0;            // of the table of exams
  };
  void read_tables(const std::vector<std::filesystem::path>& paths);
  void find_frame_roles(const std::vector<std::string>& frame_columns);
  void find_exam_roles();
  void find_exams();
  void match_exams();
  void fill_frame(ExamInfo& info, std::size_t row, const FeatureFile& features,
                  std::span<float> values) const;
  void fill_from_frames(const Exam& exam, ExamInfo& info) const;
  void fill_times(const Exam& exam, ExamInfo& info) const;
  void require_ordered(const Exam& exam, const ExamInfo& info) const;
  void fill_from_exams(const Exam& exam, ExamInfo& info) const;
  const std::string& constant(const Exam& exam, std::size_t column) const;

  CsvTable frames_;
  std::optional<CsvTable> exams_table_;
  FrameRoles frame_roles_;
  ExamRoles exam_roles_;
  bool frames_exported_ = false, allow_unordered_ = false;
  std::vector<Exam> exams_;
  std::unordered_map<std::string, std::size_t> places_;  // of exams, by id
};

namespace {

constexpr std::uint64_t kMaxColumns = 1u << 20;

}  // namespace

FeatureFile::FeatureFile(const std::filesystem::path& path) : path_(path), file_(path) {
  if (lower(path.extension().string()) != ".npy")
    throw DataError(
        concat(path.string(), ": features are imported from .npy; numpy.save writes it"));
  const NpyHeader header =
      in_context(path_.string(), [&] { return read_npy_header(InputFile(path_, refuse_unnamed)); });
  data_ = header.data;
  require(header.dtype && is_float(*header.dtype) && header.type.starts_with('<'),
          concat("its values are '", header.type,
                 "' where '<f2', '<f4' or '<f8' (little-endian floats) was expected"));
  type_ = *header.dtype;
  require(!header.fortran_order, "is in Fortran order; save numpy.ascontiguousarray(x)");
  const std::vector<std::int64_t>& shape = header.shape;
  require(shape.size() == 2 && shape[0] >= 0 && shape[1] >= 0,
          concat("has the shape (", header.shape_text, ") where (frames, dimension) was expected"));
  set_shape(shape[0], shape[1], file_.size() - data_);
}

void FeatureFile::require(bool condition, const std::string& what) const {
  if (!condition) throw DataError(concat(path_.string(), ": ", what));
}

void FeatureFile::set_shape(std::int64_t rows, std::int64_t columns, std::uint64_t bytes_there) {
  rows_ = static_cast<std::uint64_t>(rows);
  columns_ = static_cast<std::uint64_t>(columns);
  require(columns_ >= 1 && columns_ <= kMaxColumns, concat("has ", columns, " columns"));
  const std::uint64_t row_bytes = columns_ * bytes_of(type_);
  require(rows_ <= bytes_there / row_bytes && rows_ * row_bytes == bytes_there,
          concat("has ", bytes_there, " bytes of data where (", rows, ", ", columns, ") needs ",
                 bytes_of(type_), " × ", rows, " × ", columns));
}

void FeatureFile::read_row(std::uint64_t row, std::span<float> values) const {
  std::vector<std::byte> bytes(values.size() * bytes_of(type_));
  file_.read_at(data_ + row * bytes.size(), bytes);
  convert(bytes, type_, values);
}

namespace {

// A table that `export` wrote, with its columns in any order. DataError: it has the two of them
// that no table has by chance, and not all.
bool is_exported(const CsvTable& table, const std::vector<std::string>& columns,
                 const std::array<const char*, 2>& telling) {
  const auto has = [&](const std::string& name) { return table.column(name).has_value(); };
  const auto absent = std::ranges::find_if_not(columns, has);
  if (absent == columns.end()) return true;
  if (!std::ranges::all_of(telling, has)) return false;
  throw DataError(concat(table.name, " has the columns '", telling[0], "' and '", telling[1],
                         "' of a table that `coldframe cache export` wrote, and not '", *absent,
                         "'; put that back, or give these two other names"));
}

bool is_frame_table(const CsvTable& table) {
  return is_exported(table, kFrameColumns, {"slot", "time_s"});
}

bool is_exam_table(const CsvTable& table) {
  return is_exported(table, kExamColumns, {"offset", "source_kind"});
}

[[noreturn]] void refuse_row(const CsvTable& table, std::size_t row, const std::string& reason) {
  throw DataError(concat(table.name, ", line ", table.lines[row], ": ", reason));
}

// NaN for an empty field.
double read_seconds(const CsvTable& table, std::size_t row, std::size_t column) {
  const std::string text = trim(table.rows[row][column]);
  double seconds = kUnknownTime;
  if (!text.empty() && (!parse_double(text, seconds) || !(std::abs(seconds) <= kMaxUnixSeconds)))
    refuse_row(table, row,
               concat("column '", table.header[column], "' holds '", text, "'; expected seconds"));
  return seconds;
}

// Seconds or a date; nothing for an empty field.
std::optional<Timestamp> read_time(const CsvTable& table, std::size_t row, std::size_t column) {
  const std::string text = trim(table.rows[row][column]);
  if (text.empty()) return std::nullopt;
  const auto time = parse_timestamp(text);
  if (!time)
    refuse_row(table, row,
               concat("column '", table.header[column], "' holds '", text,
                      "'; expected seconds such as 12.5 or a date and time such as "
                      "2024-03-01T12:30:05"));
  return time;
}

std::int64_t read_count(const CsvTable& table, std::size_t row, std::size_t column,
                        const char* expected,
                        std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  std::int64_t count = 0;
  if (!parse_int(trim(table.rows[row][column]), count) || count < 0 || count > most)
    refuse_row(table, row,
               concat("column '", table.header[column], "' holds '", table.rows[row][column],
                      "'; expected ", expected));
  return count;
}

std::string read_id(const CsvTable& table, std::size_t row, std::size_t column) {
  std::string id = trim(table.rows[row][column]);
  if (id.empty()) refuse_row(table, row, "column 'exam' is empty; every row names its exam");
  return id;
}

}  // namespace

ImportTables::ImportTables(const std::vector<std::filesystem::path>& paths,
                           const std::vector<std::string>& frame_columns, bool allow_unordered)
    : allow_unordered_(allow_unordered) {
  read_tables(paths);
  find_frame_roles(frame_columns);
  find_exams();
  if (!exams_table_) return;
  find_exam_roles();
  match_exams();
}

// `export` writes two tables, which the shell names in either order.
void ImportTables::read_tables(const std::vector<std::filesystem::path>& paths) {
  frames_ = read_csv(paths.front());
  if (paths.size() > 1) exams_table_ = read_csv(paths[1]);
  if (exams_table_ && is_frame_table(*exams_table_)) std::swap(frames_, *exams_table_);
  if (is_exam_table(frames_))
    throw DataError(concat(frames_.name,
                           " is the table of exams that `coldframe cache export` "
                           "wrote; name that of the frames too"));
  if (frames_.rows.empty()) throw DataError(concat(frames_.name, " has no rows"));
  frames_exported_ = is_frame_table(frames_);
}

void ImportTables::find_frame_roles(const std::vector<std::string>& frame_columns) {
  FrameRoles& roles = frame_roles_;
  std::vector<std::size_t> others;
  for (const std::string& name : frame_columns)
    roles.of_frame.push_back(frames_.require_column(name));
  frames_.require_column("exam");
  if (frames_exported_) {
    roles.times_are_relative = true;
    roles.time = frames_.column("time_s");
    roles.present = frames_.column("present");
    roles.index = frames_.column("index");
    roles.source = frames_.column("source");
  } else {
    roles.index = frames_.column("frame");
    roles.time = frames_.column("time");
    roles.patient = frames_.column("patient");
  }
  for (std::size_t c = 0; c < frames_.header.size(); ++c) {
    const std::string& name = frames_.header[c];
    const bool ours = frames_exported_ ? is_ours(name, kFrameColumns)
                                       : name == "exam" || c == roles.index || c == roles.time ||
                                             c == roles.patient;
    if (ours || std::count(roles.of_frame.begin(), roles.of_frame.end(), c) != 0) continue;
    (frames_exported_ || exams_table_ ? roles.of_frame : roles.of_exam).push_back(c);
  }
}

void ImportTables::find_exam_roles() {
  ExamRoles& roles = exam_roles_;
  const bool exported = is_exam_table(*exams_table_);
  roles.patient = exams_table_->column("patient");
  if (exported) {
    roles.frames = exams_table_->column("frames");
    roles.start_time = exams_table_->column("start_time");
    roles.elapsed_start = exams_table_->column(kElapsedColumn);
    roles.kind = exams_table_->column("source_kind");
    roles.width = exams_table_->column("width");
    roles.height = exams_table_->column("height");
  }
  for (std::size_t c = 0; c < exams_table_->header.size(); ++c) {
    const std::string& name = exams_table_->header[c];
    const bool ours = exported ? is_ours(name, kExamColumns) : name == "exam" || name == "patient";
    if (!ours) roles.columns.push_back(c);
  }
}

void ImportTables::find_exams() {
  const std::size_t column = frames_.require_column("exam");
  for (std::size_t row = 0; row < frames_.rows.size(); ++row) {
    const std::string id = read_id(frames_, row, column);
    const auto [place, is_new] = places_.emplace(id, exams_.size());
    if (is_new) exams_.push_back({id, {}, 0});
    exams_[place->second].rows.push_back(row);
  }
}

// Both tables have the same exams.
void ImportTables::match_exams() {
  const CsvTable& table = *exams_table_;
  const std::size_t column = table.require_column("exam");
  std::vector<bool> found(exams_.size());
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::string id = read_id(table, row, column);
    const auto place = places_.find(id);
    if (place == places_.end())
      refuse_row(table, row, concat("exam '", id, "' has no frame in ", frames_.name));
    if (found[place->second]) refuse_row(table, row, concat("exam '", id, "' has two rows"));
    found[place->second] = true;
    exams_[place->second].row = row;
    const std::size_t frames = exams_[place->second].rows.size();
    if (exam_roles_.frames && trim(table.rows[row][*exam_roles_.frames]) != concat(frames))
      refuse_row(table, row,
                 concat("exam '", id, "' has ", table.rows[row][*exam_roles_.frames],
                        " frames here and ", frames, " in ", frames_.name));
  }
  for (const Exam& exam : exams_)
    if (!found[places_.at(exam.id)])
      throw DataError(
          concat(table.name, ": exam '", exam.id, "' is missing, which ", frames_.name, " has"));
}

const std::string& ImportTables::constant(const Exam& exam, std::size_t column) const {
  const std::string& first = frames_.rows[exam.rows[0]][column];
  for (const std::size_t row : exam.rows)
    if (frames_.rows[row][column] != first)
      refuse_row(frames_, row,
                 concat("exam '", exam.id, "' has ", frames_.header[column], " '",
                        frames_.rows[row][column], "' here and '", first, "' on line ",
                        frames_.lines[exam.rows[0]],
                        "; make them equal, or name the column in --frame-columns"));
  return first;
}

void ImportTables::fill_frame(ExamInfo& info, std::size_t row, const FeatureFile& features,
                              std::span<float> values) const {
  const FrameRoles& roles = frame_roles_;
  features.read_row(row, values);
  const auto missing = static_cast<std::size_t>(
      std::count_if(values.begin(), values.end(), [](float v) { return std::isnan(v); }));
  if (missing != 0 && missing != values.size())
    refuse_row(frames_, row,
               concat("exam '", info.id, "': ", missing, " of ", values.size(),
                      " features are NaN; a missing frame is a row of NaN only"));
  const bool present = missing == 0;
  if (roles.present && trim(frames_.rows[row][*roles.present]) != (present ? "1" : "0"))
    refuse_row(frames_, row,
               concat("exam '", info.id, "': the features say that the frame is ",
                      present ? "there" : "missing", ", the table that it is not"));
  const auto slot = static_cast<std::int64_t>(info.present.size());
  info.present.push_back(present);
  const bool relative = roles.time && roles.times_are_relative;
  info.time_s.push_back(relative ? read_seconds(frames_, row, *roles.time) : kUnknownTime);
  info.frame_index.push_back(
      roles.index ? read_count(frames_, row, *roles.index, "the frame's index, counted from 0")
                  : slot);
  info.frame_source.push_back(roles.source ? frames_.rows[row][*roles.source] : "");
}

void ImportTables::fill_from_frames(const Exam& exam, ExamInfo& info) const {
  const FrameRoles& roles = frame_roles_;
  if (roles.patient) info.patient = constant(exam, *roles.patient);
  for (const std::size_t column : roles.of_exam)
    info.columns.push_back({frames_.header[column], constant(exam, column)});
  for (const std::size_t column : roles.of_frame) {
    const std::string& name = frames_.header[column];
    info.frame_columns.push_back(
        {frames_exported_ ? name_in_input(name, kFrameColumns) : name, {}});
    for (const std::size_t row : exam.rows)
      info.frame_columns.back().values.push_back(frames_.rows[row][column]);
  }
  if (roles.time && !roles.times_are_relative) fill_times(exam, info);
  if (roles.time && !allow_unordered_) require_ordered(exam, info);
}

// Like `extract`: a negative interval means wrong times, or frames in the wrong order.
void ImportTables::require_ordered(const Exam& exam, const ExamInfo& info) const {
  std::size_t before = 0;
  for (std::size_t t = 0; t < info.time_s.size(); ++t) {
    if (std::isnan(info.time_s[t])) continue;
    if (info.time_s[t] < info.time_s[before])
      refuse_row(frames_, exam.rows[t],
                 concat("exam '", info.id, "': frame ", t, " has time ", exact(info.time_s[t]),
                        " s before frame ", before, " at ", exact(info.time_s[before]),
                        " s, since the exam's first frame; sort the rows and their features by "
                        "time, or pass --allow-unordered"));
    before = t;
  }
}

// Seconds since the first frame, if that frame's time is known.
void ImportTables::fill_times(const Exam& exam, ExamInfo& info) const {
  const std::size_t column = *frame_roles_.time;
  const auto first = read_time(frames_, exam.rows[0], column);
  if (first) (first->absolute ? info.start_time : info.elapsed_start) = first->seconds;
  for (std::size_t t = 0; t < exam.rows.size(); ++t) {
    const auto time = read_time(frames_, exam.rows[t], column);
    if (!time || !first) continue;
    if (time->absolute != first->absolute)
      refuse_row(frames_, exam.rows[t],
                 concat("exam '", info.id, "' mixes seconds with dates in column '",
                        frames_.header[column], "'; write dates as YYYY-MM-DD"));
    info.time_s[t] = time->seconds - first->seconds;
  }
}

void ImportTables::fill_from_exams(const Exam& exam, ExamInfo& info) const {
  const CsvTable& table = *exams_table_;
  const ExamRoles& roles = exam_roles_;
  const bool exported = roles.kind.has_value();
  const std::vector<std::string>& row = table.rows[exam.row];
  if (roles.patient) info.patient = row[*roles.patient];
  if (exported) {
    info.start_time = read_seconds(table, exam.row, *roles.start_time);
    if (roles.elapsed_start)
      info.elapsed_start = read_seconds(table, exam.row, *roles.elapsed_start);
    info.source_kind = row[*roles.kind];
    const auto pixels = [&](std::size_t column) {
      return static_cast<std::int32_t>(
          read_count(table, exam.row, column, "pixels", std::numeric_limits<std::int32_t>::max()));
    };
    info.frame_width = pixels(*roles.width);
    info.frame_height = pixels(*roles.height);
  }
  for (const std::size_t column : roles.columns) {
    const std::string& name = table.header[column];
    info.columns.push_back({exported ? name_in_input(name, kExamColumns) : name, row[column]});
  }
}

ExamFeatures ImportTables::exam(std::size_t place, const FeatureFile& features) const {
  const Exam& exam = exams_[place];
  ExamFeatures made;
  ExamInfo& info = made.info;
  info.id = exam.id;
  info.ordinal = place;
  info.source_kind = "imported";
  const std::size_t dimension = features.columns();
  made.views.push_back({"clean", std::vector<float>(exam.rows.size() * dimension)});
  for (std::size_t t = 0; t < exam.rows.size(); ++t)
    fill_frame(info, exam.rows[t], features,
               std::span(made.views[0].values).subspan(t * dimension, dimension));
  fill_from_frames(exam, info);
  if (exams_table_) fill_from_exams(exam, info);
  return made;
}

// Features that another program computed, or that `export` wrote, become a cache.

namespace {

namespace fs = std::filesystem;

struct ImportWords {
  std::string describe, recipe, store, frame_columns;
  bool allow_unordered = false;
};

// Returns what the cache is made with: recipe, type of storage and origin of the numbers.
ExportedRecipe described_recipe(const ImportWords& words, const FeatureFile& features) {
  ExportedRecipe made;
  const std::string store = words.store.empty() ? "float16" : words.store;
  made.storage = choice("store", store, kStorageTypes);
  made.precision = dtype_name(features.type());
  made.dimension = static_cast<std::int64_t>(features.columns());
  made.recipe.features["imported"] = words.describe;
  made.recipe.features["dimension"] = features.columns();
  made.recipe.storage["store"] = store;
  return made;
}

ExportedRecipe recorded_recipe(const ImportWords& words, const FeatureFile& features) {
  ExportedRecipe recorded = read_recipe_file(words.recipe);
  if (recorded.dimension != static_cast<std::int64_t>(features.columns()))
    throw DataError(concat(words.recipe, " is of ", recorded.dimension, " features a frame, where ",
                           features.columns(), " are given"));
  if (!words.store.empty() && words.store != dtype_name(recorded.storage))
    throw ConfigError(concat("--store ", words.store, ", but the recipe stores ",
                             dtype_name(recorded.storage), "; leave --store out"));
  return recorded;
}

void check_words(const VerbOptions& options, const ImportWords& words) {
  if (options.words.size() > 4)
    throw ConfigError(concat(options.words.size() - 2,
                             " tables where one or two were expected: "
                             "one of the frames, and one of the exams"));
  if (!words.recipe.empty() && !words.describe.empty())
    throw ConfigError("--describe and --recipe both say how the features were made; give one");
  if (!words.recipe.empty() || !trim(words.describe).empty()) return;
  const std::string beside = fs::path(options.words[1]).replace_extension(".recipe.json").string();
  throw ConfigError(concat(
      fs::exists(beside)
          ? concat("--recipe is missing: say --recipe ", shell_word(beside), ", or --describe")
          : "--describe is missing: say how the features were made, such as "
            "'ResNet-50, ImageNet, 224 px, torchvision 0.26'"));
}

// Nothing was there when its lock was taken: a table that turns out wrong leaves nothing half-made.
void remove_all_of(const Location& out) {
  std::error_code error;
  for (const fs::path& file : out.files()) fs::remove(file, error);
}

void write_cache(const Location& out, const FileLock& lock, const ExportedRecipe& made,
                 const ImportTables& tables, const FeatureFile& features) {
  WriterOptions how;
  how.storage = made.storage;
  how.precision = made.precision;
  try {
    ShardWriter writer(out, made.recipe, made.dimension, how, &lock);
    for (std::size_t i = 0; i < tables.exams(); ++i) writer.add(tables.exam(i, features));
    writer.finish();
  } catch (...) {
    remove_all_of(out);
    throw;
  }
}

int run_import(const Verb& verb, const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  ImportWords words;
  po::options_description more;
  more.add_options()("describe", po::value(&words.describe)->value_name("TEXT"),
                     "how the features were made: it becomes the recipe, and caches of one text "
                     "count as comparable")(
      "recipe", po::value(&words.recipe)->value_name("FILE"),
      "instead of it: the .recipe.json that `export` wrote with the features")(
      "store", po::value(&words.store)->value_name("TYPE"),
      "float16 (the default) or float32; a recipe says it itself")(
      "frame-columns", po::value(&words.frame_columns)->value_name("A,B"),
      "columns of a table that is alone which belong to the frames, not to the exam")(
      "allow-unordered", po::bool_switch(&words.allow_unordered),
      "take frames as they are listed, though their times fall within an exam");
  if (!parse_verb(verb, arguments, options, more)) return 0;
  check_words(options, words);
  const Location out = locate(options.path());
  const WriterLock lock = lock_writer(out, 0);
  require_new(out);
  const FeatureFile features(options.words[1]);
  const ImportTables tables(
      {options.words.begin() + 2, options.words.end()},
      words.frame_columns.empty() ? std::vector<std::string>{} : split(words.frame_columns, ','),
      words.allow_unordered);
  if (tables.rows() != features.rows())
    throw DataError(concat(tables.name(), " has ", plural(tables.rows(), "row"),
                           " and the features have ", features.rows(),
                           "; each frame has a row in both, in one order"));
  write_cache(
      out, *lock,
      words.recipe.empty() ? described_recipe(words, features) : recorded_recipe(words, features),
      tables, features);
  if (options.json)
    print_json(
        Json{{"path", options.path()}, {"exams", tables.exams()}, {"frames", features.rows()}});
  log_info(concat(options.path(), ": ", plural(tables.exams(), "exam"), ", ",
                  plural(features.rows(), "frame")));
  return 0;
}

}  // namespace

extern const Verb kImportCommand;
const Verb kImportCommand{
    &kCache,
    "import",
    "OUT FEATURES TABLE…",
    "x.h5 x.npy x.csv --describe 'ResNet-50, ImageNet, 224 px'",
    "features [frames, D] (.npy) and a CSV with a row for each (exam; "
    "frame, time in seconds or as a date, patient and columns if there are any) become a cache, or "
    "both tables "
    "that `export` wrote; rows of NaN are missing frames",
    run_import};

}  // namespace coldframe::cache::tool
