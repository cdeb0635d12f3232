// Features that another program computed, or that `export` wrote, become a cache.
#include "cache/maintain/lock.h"
#include "cache/tool/command.h"
#include "cache/tool/exchange/feature_file.h"
#include "cache/tool/exchange/import_tables.h"
#include "cache/tool/exchange/recipe_file.h"
#include "cache/write/writer.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

namespace fs = std::filesystem;

struct ImportWords {
  std::string describe, recipe, store, frame_columns;
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
      fs::exists(beside) ? concat("--recipe is missing: say --recipe ", beside, ", or --describe")
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
      "columns of a table that is alone which belong to the frames, not to the exam");
  if (!parse_verb(verb, arguments, options, more)) return 0;
  check_words(options, words);
  const Location out = locate(options.path());
  const WriterLock lock = lock_writer(out, 0);
  require_new(out);
  const FeatureFile features(options.words[1]);
  const ImportTables tables(
      {options.words.begin() + 2, options.words.end()},
      words.frame_columns.empty() ? std::vector<std::string>{} : split(words.frame_columns, ','));
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
