// The options of `evaluate` and `predict`.
#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/files/publish/publish.h"
#include "common/text/text.h"
#include "train_temporal/run/options/shared_rows.h"

namespace coldframe::temporal {
namespace {

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
    {"min-frames", "N", "fail exams with fewer than N readable frames"},
    {"precision", "TYPE", "of the backbone: auto (default), fp32, bf16 or fp16"},
    {"decode-threads", "N", "threads that decode and resize"},
    {"memory-budget", "SIZE", "the most that tensors may take on the device, e.g. 4GiB"},
};

void add_study(OptionRows& rows, ApplyOptions& options) {
  rows.text("run", options.run, "RUN", "a folder that `coldframe train` made").input();
  rows.text("bundle", options.bundle, "BUNDLE", "or a bundle of `coldframe bundle make`").input();
  rows.toggle("other-patients", options.other_patients,
              "none of these people took part in the training, even where ids are the same");
  rows.toggle("without-times", options.without_times,
              "go on where no time of a frame is known, though the models were shown times");
}

void add_raw(OptionRows& rows, ApplyOptions& options) {
  std::vector<std::string>& extraction = options.extraction;
  rows.text("input", options.input, "PATH",
            "with --bundle: exams as they come, a folder, file or CSV manifest as `coldframe "
            "extract` takes them")
      .input();
  for (const PassedOption& option : kPassed) {
    const std::string word = concat("--", option.name);
    rows.parsed(
        option.name, option.value,
        [&extraction, word, is_switch = option.value == nullptr](auto&, const std::string& value) {
          extraction.push_back(word);
          if (!is_switch) extraction.push_back(value);
        },
        option.help);
  }
}

void resolve(ApplyOptions& options) {
  const bool cache = !options.data.cache.empty();
  if (options.run.empty() == options.bundle.empty())
    throw ConfigError(options.run.empty() ? "--run or --bundle is missing; see --help"
                                          : "--run and --bundle: give one of them");
  const bool raw = !options.input.empty();
  const bool held_out = !cache && !raw && !options.against.empty() && options.bundle.empty();
  if (cache == raw && !held_out)
    throw ConfigError(raw ? "--cache and --input: give one of them"
                          : "--cache or --input is missing; see --help");
  if (raw && options.bundle.empty())
    throw ConfigError(
        "--input needs --bundle, which holds the backbone; `coldframe bundle make` makes one of a "
        "run, or extract these exams and give --cache");
  if (!raw && !options.extraction.empty())
    throw ConfigError(concat(options.extraction.front(), " is for --input; leave it out"));
  if (raw && options.data.equal_numbers != EqualNumbers::kAsk)
    options.extraction.insert(
        options.extraction.end(),
        {"--equal-numbers", word_for(kEqualNumbers, options.data.equal_numbers)});
  if (options.device.empty()) options.device = raw ? "auto" : "cpu";
  check_questions(options.questions);
}

}  // namespace

bool parse_evaluate_options(const std::vector<std::string>& arguments, ApplyOptions& options) {
  OptionRows rows;
  add_study(rows, options);
  add_data(rows, options.data);
  add_horizons(rows, options.data);
  rows.text("positive", options.data.positive, "VALUE",
            "of TIME:EVENT: which value says that the event came, where it is not the run's own "
            "word");
  add_raw(rows, options);
  rows.text("against", options.against, "RUN",
            "compare with this run, paired: on the exams of --cache, or without one on those that "
            "both runs have held out")
      .input();
  rows.text("out", options.out, "FOLDER", "write metrics, predictions and report.html here")
      .written_to(judges_itself);
  rows.toggle("overwrite", options.overwrite, "replace files of an earlier evaluation");
  add_questions(rows, options.questions);
  add_bootstrap(rows, options.bootstrap);
  rows.number("seed", options.bootstrap.seed, at_least(0), "of the resamples");
  add_machine(rows, options.device, options.threads, options.json);
  if (!rows.parse(kEvaluateHelp, arguments)) return false;
  resolve(options);
  if (options.questions.figures && options.out.empty())
    throw ConfigError("--figures writes into the folder of --out; give that, too");
  if (options.data.cache.empty() && options.input.empty())
    rows.refuse({"subgroups", "characteristics", "aggregate", "threshold", "labels", "target",
                 "positive", "device", "exam-is-patient", "other-patients", "without-times",
                 "unclear-labels", "equal-numbers"},
                "needs --cache: the exams that runs have held out are taken as they are in their "
                "predictions.csv");
  rows.check_files(cache_inputs(options.data), options.overwrite);
  return true;
}

bool parse_predict_options(const std::vector<std::string>& arguments, ApplyOptions& options) {
  OptionRows rows;
  add_study(rows, options);
  add_cache(rows, options.data);
  rows.text("labels", options.data.labels, "FILE.csv",
            "covariates that the models take, from a CSV with columns exam and theirs")
      .input();
  add_horizons(rows, options.data);
  add_raw(rows, options);
  rows.text("out", options.out, "FILE.csv", "the predictions to write").written_to();
  rows.text("explain", options.explain, "FILE.csv",
            "also write what each frame adds to the probability, number or expected class "
            "(integrated gradients over time)")
      .written_to();
  rows.text("maps", options.maps, "FOLDER",
            "also write where: what each patch of each frame adds to that, through the ViT, as a "
            "picture per frame and a table per exam; with --input, or a cache with --cut")
      .written_to_folder();
  rows.text("weights", options.weights, "PATH",
            "for --maps of a run: the ViT's, as extract --weights took them")
      .input();
  rows.toggle("overwrite", options.overwrite, "replace the files");
  add_machine(rows, options.device, options.threads, options.json);
  if (!rows.parse(kPredictHelp, arguments)) return false;
  resolve(options);
  rows.require("out");
  if (options.maps.empty()) rows.refuse({"weights"}, "is for --maps");
  if (!options.bundle.empty()) rows.refuse({"weights"}, "is for --run: a bundle has its own");
  options.maps = without_trailing_slash(options.maps);
  rows.check_files(cache_inputs(options.data), options.overwrite);
  return true;
}

}  // namespace coldframe::temporal
