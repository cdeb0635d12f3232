// The options of `evaluate` and `predict`.
#include <algorithm>
#include <string_view>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/run/options/bounds.h"
#include "train_temporal/run/options/named_files.h"
#include "train_temporal/run/options/option_values.h"
#include "train_temporal/run/options/shared_options.h"

namespace coldframe::temporal {
namespace {

namespace po = boost::program_options;

const CommandHelp kEvaluateHelp{
    "coldframe evaluate (--run RUN | --bundle BUNDLE) (--cache CACHE | --input EXAMS) [options]\n"
    "       coldframe evaluate --run RUN --against RUN [options]",
    "Applies the models of a run or a bundle, averaged, to another labelled cohort: a cache of the "
    "same recipe or, by a bundle, exams as they come. Or compares two runs.",
    "coldframe evaluate --run runs/label --cache hospital2.cache --out runs/label-hospital2"};
const CommandHelp kPredictHelp{
    "coldframe predict (--run RUN | --bundle BUNDLE) (--cache CACHE | --input EXAMS) "
    "--out predictions.csv [options]",
    "Applies the models of a run or a bundle, averaged, to exams without labels: those of a cache "
    "of "
    "its recipe or, by a bundle, exams as they come.",
    "coldframe predict --bundle model.bundle --input exams --out predictions.csv"};

// Words whose meaning is decided after parsing.
struct ApplyWords {
  std::string cache, labels, out, run, bundle, input, watch, explain, against;
  bool overwrite = false;
};

// Options of `extract` that exams as they come may need, with a value or without.
struct PassedOption {
  const char* name;
  const char* value;  // null: a switch
  const char* help;
};
constexpr PassedOption kPassed[] = {
    {"columns", "A=B,...", "what the manifest calls its columns, as in extract"},
    {"frame-columns", "A,B", "manifest columns that hold one value per frame"},
    {"exam-from", "REGEX", "of a folder: exams and patients by their paths, as in extract"},
    {"sort", "time", "bring each exam's frames into the order of their times"},
    {"allow-unordered", nullptr, "accept times that decrease within an exam"},
    {"keep-patient-id", nullptr, "patients as they are named instead of salted hashes"},
    {"patient-salt", "TEXT", "of these hashes, as in extract"},
    {"min-frames", "N", "fail an exam of which fewer than N frames can be read"},
    {"precision", "TYPE",
     "of the backbone: auto (default; with --online fp32), fp32, bf16 or fp16"},
    {"decode-threads", "N", "threads that decode and resize"},
    {"memory-budget", "SIZE", "the most that tensors may take on the device, e.g. 4GiB"},
};

void add_study(po::options_description& description, ApplyWords& words, ApplyOptions& options) {
  auto add = description.add_options();
  add("run", text(words.run, "RUN"), "a folder that `coldframe train` made");
  add("bundle", text(words.bundle, "BUNDLE"), "or a bundle of `coldframe bundle make`");
  add("other-patients", po::bool_switch(&options.other_patients),
      "none of these people took part in the training, even where ids are the same");
}

void add_raw(po::options_description& description, ApplyWords& words,
             std::vector<std::string>& extraction) {
  auto add = description.add_options();
  add("input", text(words.input, "PATH"),
      "with --bundle: exams as they come, a folder, file or CSV manifest as `coldframe extract` "
      "takes them");
  for (const PassedOption& option : kPassed) {
    const std::string word = concat("--", option.name);
    if (option.value == nullptr) {
      add(option.name, po::bool_switch()->notifier([&extraction, word](bool given) {
        if (given) extraction.push_back(word);
      }),
          option.help);
    } else {
      const auto pass = [&extraction, word](const std::string& value) {
        extraction.insert(extraction.end(), {word, value});
      };
      add(option.name, po::value<std::string>()->value_name(option.value)->notifier(pass),
          option.help);
    }
  }
}

void apply_words(const ApplyWords& words, ApplyOptions& options) {
  if (words.run.empty() == words.bundle.empty())
    throw ConfigError(words.run.empty() ? "--run or --bundle is missing; see --help"
                                        : "--run and --bundle: give one of them");
  const int sources = !words.cache.empty() + !words.input.empty() + !words.watch.empty();
  const bool held_out = sources == 0 && !words.against.empty() && words.bundle.empty();
  if (sources != 1 && !held_out)
    throw ConfigError(sources == 0 ? "--cache or --input is missing; see --help"
                                   : "--cache, --input and --watch: give one of them");
  const bool raw = words.cache.empty() && !held_out;
  if (raw && words.bundle.empty())
    throw ConfigError(
        "--input and --watch need --bundle, which holds the backbone; `coldframe bundle make` "
        "makes one of a run, or extract these exams and give --cache");
  if (!raw && !options.extraction.empty())
    throw ConfigError(concat(options.extraction.front(), " is for --input; leave it out"));
  options.run = words.run;
  options.bundle = words.bundle;
  options.against = words.against;
  options.input = words.input;
  options.watch = words.watch;
  if (options.device.empty()) options.device = raw ? "auto" : "cpu";
  options.data.cache = words.cache;
  options.data.labels = words.labels;
  options.out = words.out;
  options.overwrite = words.overwrite;
}

// Options that would do nothing are refused by name.
void refuse_options(const GivenOptions& given, const std::vector<const char*>& names,
                    const std::string& why) {
  for (const char* name : names)
    if (given.contains(name)) throw ConfigError(concat("--", name, ' ', why, "; leave it out"));
}

// Lines go to the standard output as they come, and nothing else does.
void check_online(const GivenOptions& given, const ApplyWords& words) {
  if (words.input.empty()) throw ConfigError("--online needs --bundle and --input");
  std::vector<const char*> names = {"out",    "explain",   "json",   "overwrite",     "once",
                                    "marker", "quiet-for", "labels", "other-patients"};
  for (const PassedOption& option : kPassed)
    if (std::string_view(option.name) != "precision") names.push_back(option.name);
  refuse_options(
      given, names,
      "does not go with --online, which reads one clip and writes lines to the standard output");
}

void check_watch(const GivenOptions& given, const ApplyWords& words) {
  if (words.watch.empty())
    return refuse_options(given, {"once", "marker", "quiet-for"}, "is for --watch");
  refuse_options(given, {"explain", "overwrite", "json", "other-patients"},
                 "does not go with --watch");
  refuse_options(given, {"columns", "frame-columns"},
                 "is for a manifest, and --watch takes no tables among what arrives");
}

}  // namespace

bool parse_evaluate_options(const std::vector<std::string>& arguments, ApplyOptions& options) {
  ApplyWords words;
  po::options_description description("Options");
  auto add = description.add_options();
  add_study(description, words, options);
  add_data(description, words.cache, words.labels, options.data);
  add_horizons(description, options.data);
  add("positive", text(options.data.positive, "VALUE"),
      "of TIME:EVENT: which value says that the event came, where it is not the run's own word");
  add_raw(description, words, options.extraction);
  add("against", text(words.against, "RUN"),
      "compare with this run, paired: on the exams of --cache, or without one on those that both "
      "runs have held out");
  add("out", text(words.out, "FOLDER"), "write metrics, predictions and report.html here");
  add("overwrite", po::bool_switch(&words.overwrite), "replace files of an earlier evaluation");
  add_questions(description, options.questions);
  add("bootstrap", number(options.resamples), "resamples for the bands around curves");
  add("seed", number(options.seed), "of the resamples");
  add_machine(description, options.device, options.threads, options.json);
  GivenOptions given;
  if (!parse_command_line(kEvaluateHelp, description, arguments, "", &given)) return false;
  apply_words(words, options);
  if (options.questions.figures && words.out.empty())
    throw ConfigError("--figures writes into the folder of --out; give that, too");
  if (options.data.cache.empty() && options.input.empty())
    refuse_options(
        given,
        {"subgroups", "characteristics", "aggregate", "threshold", "labels", "target", "positive",
         "device", "exam-is-patient", "other-patients"},
        "needs --cache: the exams that runs have held out are taken as they are in their "
        "predictions.csv");
  check_bounds(options);
  check_named_files(options, /*out_is_folder=*/true);
  return true;
}

bool parse_predict_options(const std::vector<std::string>& arguments, ApplyOptions& options) {
  ApplyWords words;
  po::options_description description("Options");
  auto add = description.add_options();
  add_study(description, words, options);
  add("cache", text(words.cache, "CACHE"),
      "features, as `coldframe extract` made them; of several streams in a cache each: "
      "fa=PATH,icga=PATH");
  add("labels", text(words.labels, "FILE.csv"),
      "covariates that the models take, from a CSV with columns exam and theirs");
  add_horizons(description, options.data);
  add_raw(description, words, options.extraction);
  add("watch", text(words.watch, "FOLDER"),
      "with --bundle: predict what arrives in a folder, each file or folder in it once; --out is a "
      "folder then, with a file for each and predictions.csv of all");
  add("quiet-for", number(options.quiet_s),
      "seconds without a change after which an arrival is complete");
  add("marker", text(options.marker, "NAME"),
      "instead: it is complete when this file lies in it, or ARRIVAL.NAME beside it");
  add("once", po::bool_switch(&options.once), "predict what is complete now, and end");
  add("online", po::bool_switch(&options.online),
      "with --bundle: predict a clip frame by frame, as it comes, in constant memory; --input is a "
      "file or - for the standard input, and each line of the standard output is of the frames so "
      "far");
  add("out", text(words.out, "FILE.csv"), "the predictions to write");
  add("explain", text(words.explain, "FILE.csv"),
      "also write what each frame adds to the probability, number or expected class (integrated "
      "gradients over time)");
  add("overwrite", po::bool_switch(&words.overwrite), "replace the files");
  add_machine(description, options.device, options.threads, options.json);
  GivenOptions given;
  if (!parse_command_line(kPredictHelp, description, arguments, "", &given)) return false;
  apply_words(words, options);
  check_bounds(options);
  options.explain = words.explain;
  if (options.online) {
    check_online(given, words);
    return true;
  }
  check_watch(given, words);
  require_given(words.out, "out");
  if (!(options.quiet_s >= 0)) throw ConfigError("--quiet-for: expected 0 seconds or more");
  check_named_files(options, /*out_is_folder=*/!options.watch.empty());
  return true;
}

}  // namespace coldframe::temporal
