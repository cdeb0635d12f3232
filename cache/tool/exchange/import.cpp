// Features that another program computed become a cache.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "cache/tool/command.h"
#include "cache/tool/exchange/npy.h"
#include "cache/write/writer.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

struct ImportOptions {
  std::string describe, store = "float16";
  std::vector<std::string> frame_columns;
};

// The rows of the table, exam by exam in order of appearance.
class Importer {
 public:
  Importer(const NpyMatrix& features, const CsvTable& table, const ImportOptions& options);
  void write(ShardWriter& writer) const;
  std::size_t exams() const { return exams_.size(); }

 private:
  struct Exam {
    std::string id;
    std::vector<std::size_t> rows;
  };
  ExamFeatures make_exam(std::size_t ordinal) const;
  void fill_frame(ExamInfo& info, std::size_t row, std::span<float> values) const;
  double time_of(std::size_t row) const;
  std::int64_t index_of(std::size_t row, std::size_t slot) const;
  void require_constant(const Exam& exam, std::size_t column) const;
  const std::string& value(std::size_t row, std::size_t column) const {
    return table_.rows[row][column];
  }
  [[noreturn]] void refuse(std::size_t row, const std::string& reason) const {
    throw DataError(concat(table_.name, ", line ", table_.lines[row], ": ", reason));
  }

  const NpyMatrix& features_;
  const CsvTable& table_;
  std::optional<std::size_t> frame_, time_, patient_;
  std::vector<std::size_t> exam_columns_, frame_columns_;
  std::vector<Exam> exams_;
};

Importer::Importer(const NpyMatrix& features, const CsvTable& table, const ImportOptions& options)
    : features_(features),
      table_(table),
      frame_(table.column("frame")),
      time_(table.column("time")),
      patient_(table.column("patient")) {
  if (table.rows.size() != features.rows())
    throw DataError(concat(table.name, " has ", plural(table.rows.size(), "row"),
                           " and the features have ", features.rows(),
                           "; each frame has a row in both, in one order"));
  if (table.rows.empty()) throw DataError(concat(table.name, " has no rows"));
  const std::size_t exam = table.require_column("exam");
  for (const std::string& name : options.frame_columns)
    frame_columns_.push_back(table.require_column(name));
  for (std::size_t c = 0; c < table.header.size(); ++c)
    if (c != exam && c != frame_ && c != time_ && c != patient_ &&
        std::find(frame_columns_.begin(), frame_columns_.end(), c) == frame_columns_.end())
      exam_columns_.push_back(c);
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::string id = trim(value(row, exam));
    if (id.empty()) refuse(row, "column 'exam' is empty; every row names its exam");
    const auto [place, is_new] = places.emplace(id, exams_.size());
    if (is_new) exams_.push_back({id, {}});
    exams_[place->second].rows.push_back(row);
  }
}

void Importer::require_constant(const Exam& exam, std::size_t column) const {
  for (const std::size_t row : exam.rows)
    if (value(row, column) != value(exam.rows[0], column))
      refuse(row, concat("exam '", exam.id, "' has ", table_.header[column], " '",
                         value(row, column), "' here and '", value(exam.rows[0], column),
                         "' on line ", table_.lines[exam.rows[0]],
                         "; make them equal, or name the column in --frame-columns"));
}

double Importer::time_of(std::size_t row) const {
  if (!time_ || trim(value(row, *time_)).empty()) return kUnknownTime;
  double seconds = 0;
  if (!parse_double(trim(value(row, *time_)), seconds) || !std::isfinite(seconds))
    refuse(row, concat("column 'time' holds '", value(row, *time_), "'; expected seconds"));
  return seconds;
}

std::int64_t Importer::index_of(std::size_t row, std::size_t slot) const {
  std::int64_t index = static_cast<std::int64_t>(slot);
  if (frame_ && (!parse_int(trim(value(row, *frame_)), index) || index < 0))
    refuse(row, concat("column 'frame' holds '", value(row, *frame_),
                       "'; expected the frame's index, counted from 0"));
  return index;
}

void Importer::fill_frame(ExamInfo& info, std::size_t row, std::span<float> values) const {
  features_.read_row(row, values);
  const auto missing = static_cast<std::size_t>(
      std::count_if(values.begin(), values.end(), [](float v) { return std::isnan(v); }));
  if (missing != 0 && missing != values.size())
    refuse(row, concat("exam '", info.id, "': ", missing, " of ", values.size(),
                       " features are NaN; a missing frame is a row of NaN only"));
  info.time_s.push_back(time_of(row));
  info.frame_index.push_back(index_of(row, info.present.size()));
  info.frame_source.emplace_back();
  info.present.push_back(missing == 0);
}

ExamFeatures Importer::make_exam(std::size_t ordinal) const {
  const Exam& exam = exams_[ordinal];
  ExamFeatures made;
  ExamInfo& info = made.info;
  info.id = exam.id;
  info.ordinal = ordinal;
  info.source_kind = "imported";
  if (patient_) {
    require_constant(exam, *patient_);
    info.patient = value(exam.rows[0], *patient_);
  }
  for (const std::size_t column : exam_columns_) {
    require_constant(exam, column);
    info.columns.push_back({table_.header[column], value(exam.rows[0], column)});
  }
  const std::size_t dimension = features_.columns();
  made.views.push_back({"clean", std::vector<float>(exam.rows.size() * dimension)});
  for (std::size_t t = 0; t < exam.rows.size(); ++t)
    fill_frame(info, exam.rows[t],
               std::span(made.views[0].values).subspan(t * dimension, dimension));
  for (const std::size_t column : frame_columns_) {
    info.frame_columns.push_back({table_.header[column], {}});
    for (const std::size_t row : exam.rows)
      info.frame_columns.back().values.push_back(value(row, column));
  }
  // Seconds since the first frame, if that frame's time is known.
  const double first = info.time_s[0];
  for (double& time : info.time_s) time -= first;
  return made;
}

void Importer::write(ShardWriter& writer) const {
  for (std::size_t i = 0; i < exams_.size(); ++i) writer.add(make_exam(i));
  writer.finish();
}

// Nothing was there before: a table that turns out wrong leaves nothing half-made.
void remove_all_of(const Location& out) {
  std::error_code error;
  for (const std::filesystem::path& file : out.files()) std::filesystem::remove(file, error);
  std::filesystem::remove(out.shard_folder(), error);  // if it is empty
}

int run_import(const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  ImportOptions given;
  po::options_description more;
  more.add_options()("describe", po::value(&given.describe)->value_name("TEXT"),
                     "how the features were made: it becomes the recipe, and caches of one text "
                     "count as comparable")(
      "store", po::value(&given.store)->value_name("TYPE")->default_value(given.store),
      "float16 or float32")("frame-columns",
                            po::value(&given.frame_columns)->multitoken()->value_name("NAME…"),
                            "columns that belong to the frames, not to the exam");
  if (!parse_verb(kImportCommand, arguments, options, more)) return 0;
  if (trim(given.describe).empty())
    throw ConfigError(
        "--describe is missing: say how the features were made, such as "
        "'ResNet-50, ImageNet, 224 px, torchvision 0.26'");
  const StorageType storage = choice("store", given.store, kStorageTypes);
  const Location out = locate(options.path());
  if (!out.files().empty())
    throw ConfigError(concat(options.path(), " is there already; choose another name"));
  const NpyMatrix features(options.words[1]);
  const CsvTable table = read_csv(options.words[2]);
  const Importer importer(features, table, given);
  Recipe recipe;
  recipe.features["imported"] = given.describe;
  recipe.features["dimension"] = features.columns();
  recipe.storage["store"] = given.store;
  WriterOptions how;
  how.storage = storage;
  how.precision = features.type_name();
  try {
    ShardWriter writer(out, recipe, static_cast<std::int64_t>(features.columns()), how);
    importer.write(writer);
  } catch (...) {
    remove_all_of(out);
    throw;
  }
  if (options.json)
    print_json(
        Json{{"path", options.path()}, {"exams", importer.exams()}, {"frames", features.rows()}});
  log_info(concat(options.path(), ": ", plural(importer.exams(), "exam"), ", ",
                  plural(features.rows(), "frame")));
  return 0;
}

}  // namespace

const Command kImportCommand{
    "import", "OUT FEATURES TABLE", "x.h5 x.npy x.csv --describe 'ResNet-50, ImageNet, 224 px'",
    "a .npy of features [frames, D] and a CSV with a row for each (exam; frame, time in seconds, "
    "patient and columns if there are any) become a cache; rows of NaN are missing frames",
    run_import};

}  // namespace coldframe::cache::tool
