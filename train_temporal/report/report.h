// Questions to a report beside the figures that every report has, with the options that ask them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/charts/html.h"
#include "common/cli/option_rows.h"
#include "common/files/json.h"
#include "train_temporal/evaluate/intervals.h"
#include "train_temporal/evaluate/subgroups.h"
#include "train_temporal/evaluate/survival.h"

namespace coldframe::temporal {

struct Questions {
  std::optional<double> threshold;  // of decisions; none: the validation part's
  std::optional<double> prevalence, at_specificity, at_sensitivity;
  std::optional<std::size_t> level;                     // of intervals, in percent; none: 95
  std::vector<std::string> subgroups, characteristics;  // columns
  std::string aggregate;  // patient or a column: what counts as one; empty: exams
  bool figures = false, without_thumbnails = false;

  // Those of them that two finished runs answer without their cache.
  Questions of_predictions() const {
    Questions some;
    some.prevalence = prevalence;
    some.at_specificity = at_specificity;
    some.at_sensitivity = at_sensitivity;
    some.level = level;
    return some;
  }
  bool of_decisions() const { return threshold || prevalence || at_specificity || at_sensitivity; }
};

// `rows`: an OptionRows, or what else takes names with their values.
template <class Rows>
void add_questions(Rows& rows, Questions& questions) {
  rows.number("threshold", questions.threshold, share(),
              "binary: decide for the positive class from this probability on (default: as the "
              "validation part chose)");
  // Nearer to 0 or 1 odds overflow.
  rows.number("prevalence", questions.prevalence, share(1e-9),
              "binary: predictive values where this share is positive");
  rows.number("at-specificity", questions.at_specificity, share(),
              "binary: the sensitivity at this specificity");
  rows.number("at-sensitivity", questions.at_sensitivity, share(),
              "binary: the specificity at this sensitivity");
  rows.number("level", questions.level, between(90, 99),
              "of the figures' intervals, in percent (default: 95); claims of the verdict take 99");
  rows.names("subgroups", questions.subgroups,
             "all figures for each value of these columns of the cache or of --labels, too");
  rows.names("characteristics", questions.characteristics,
             "a table of the cohort by class (Table 1) of these columns");
  rows.text("aggregate", questions.aggregate, "WHAT",
            "figures are of patients (`patient`), whose exams' predictions are averaged, or of a "
            "patient's exams with one value of a column (`study`)");
  rows.toggle("figures", questions.figures,
              "write drawings as SVG and tables as CSV and LaTeX into a folder `figures` "
              "beside the report, too");
  rows.toggle("without-thumbnails", questions.without_thumbnails,
              "show no pictures of the frames in the report, although the cache has them");
}

// Those that were asked, for config.json and summary.json; an empty object where there are none.
Json questions_json(Questions questions);

// A training or evaluation run reports as report.html, as summary.json and as a few lines for the
// terminal. Reports are filled from plain vectors; patient ids and source paths have no place in
// them.

// Losses by epoch of one fitted model.
struct FoldCurve {
  std::size_t repeat = 0, fold = 0, seed = 0;
  std::vector<double> train_loss, validation_loss;
  std::size_t best_epoch = 0;  // counted from 0
};

// The choices made on the validation part of one fold (of one seed or their average).
struct FoldChoice {
  struct Part {
    std::size_t exams = 0, patients = 0;
  };
  std::size_t repeat = 0, fold = 0;
  Part train = {}, validation = {}, test = {};
  double temperature = 1.0, threshold = 0.5;
  Json setting = nullptr;  // of --search: by option what the fold took
};

// One model or control.
inline constexpr const char* kNoFamily = "none";
struct ModelResult {
  std::string name;
  std::string about = {};     // ": frames in order", behind its name
  bool learns_order = false;  // of frames
  std::string frame = {};     // of `single` on one frame: first, middle, last or best
  // Of `auto` and its twins: what they take where they take no summary, "gru"; with --search the
  // kinds that the folds took, "gru/lstm".
  std::string sequence_model = {};
  // [fold][fit] the family of summaries that `summary` or `auto` took, or kNoFamily where `auto`
  // took the sequence model; empty for others.
  std::vector<std::vector<std::string>> families = {};
  std::vector<FoldScores> folds = {};
  // [fit] the same exams by each of several fits alone, of which `folds` are the average.
  std::vector<std::vector<FoldScores>> fits = {};
  std::vector<MetricSummary> summary = {};
  std::vector<PairedDifference> difference = {};  // main model − this one; empty for the main model
  bool is_finished_run =
      false;  // of a finished run: claims are of its fits, and not of others like it
  bool folds_together = false;  // a repeat is one part, in which exams of several folds are ranked
};
// Fills the figures and, for all but the first, differences; returns the tables that they come
// from. Calls `done` after each model.
std::vector<MetricTable> evaluate_models(std::vector<ModelResult>& models, double level = 0.95,
                                         const std::function<void()>& done = {});

// The exams of a cache by what became of them, as CONSORT and TRIPOD+AI want it told. Each is
// counted at the first step that it does not pass.
struct ExamFlow {
  std::size_t found = 0, failed = 0, without_frame = 0, without_label = 0, in_no_part = 0, used = 0;
};

// A row of the table of a cohort's characteristics: "mean (SD)" of the column age, or a category.
struct Characteristic {
  std::string column, row;
  std::vector<std::string> cells;  // of each class, then of all exams
};

struct DataOverview {
  std::size_t exams = 0, patients = 0, unlabeled = 0;
  std::vector<std::pair<std::string, std::size_t>> exams_per_class;  // all classes, labelled exams
  std::vector<std::size_t> patients_per_class;                       // same order
  std::vector<std::size_t> frames_per_exam;
  std::vector<double> numbers;    // the labels of a regression, or times
  std::size_t events = 0;         // of times to an event: those that came
  std::size_t masked_frames = 0;  // a target per frame: those without a label
  ExamFlow flow = {};             // none found: not known
};

// Each present frame of an exam adds this to the model's output.
struct FrameContributions {
  std::string title;                // the exam, and how the model did
  std::string output_name;          // "P(ill)"
  double output = 0, baseline = 0;  // of the exam, and with the mean image in every frame
  bool timed = false;               // `at` is in seconds; else the number of the frame
  std::vector<double> at, contribution;
  std::vector<html::Picture> pictures = {};  // of the frames; empty: there are none
  std::vector<html::Picture> maps = {};      // of what their patches add; likewise
};
struct FrameReport {
  std::vector<FrameContributions> exams;
  std::string choice;  // which exams these are
  std::string note;    // how exactly they add up
  std::string maps;    // what their maps show; "": there are none
};

// The held-out exams of the first repeat with the main model's predictions, of classes or numbers.
struct HeldOutExams {
  struct Exam {
    std::string id, truth, decision;
    std::size_t fold = 0;
    double output = 0;  // of the model, see output_name
    double error = 0;   // 1 − the probability of the true class, or |prediction − number|
    std::vector<html::Picture> pictures = {};
  };
  std::string output_name, error_name;
  std::vector<Exam> exams;
};

// How many of a cohort's exams lie farther from the training's than nearly all that it held out,
// and the median of their ranks among these, 0.5 for a cohort like it.
struct CohortShift {
  std::string trait;  // features, lengths, intervals
  std::size_t judged = 0, flagged = 0;
  double median_rank = 0;
};

// A figure at a threshold that was asked for, of the main model.
struct OperatingFigure {
  std::string key, title;  // "ppv", "PPV at a prevalence of 0.1"
  Estimate estimate;
  std::optional<double> threshold = {};  // read off the held-out exams themselves
};

// The models know this of a visit besides its images; so many of the exams lack it.
struct CovariateFacts {
  std::string name, kind;  // "age", "number"; "sex", "category: F, M"
  std::size_t missing = 0;
};

using KeyValues = std::vector<std::pair<std::string, std::string>>;

// Whether the model was fitted on patients of the report: not, perhaps on some, whose ids are the
// same, on exams that have the features of held-out ones, or nothing is known of its training.
enum class Seen { kNone, kSome, kCopies, kUnknown };

// What a report says of the run as a whole, whichever its target.
struct RunFacts {
  std::string title = "Coldframe training report";
  std::string subtitle;            // e.g. the run's name and its date
  std::string split;               // "5 folds by patient, 3 seeds averaged"
  std::vector<FoldCurve> curves;   // of the main model
  std::vector<CohortShift> shift;  // of an evaluation
  double shift_rate = 0;           // the share of held-out exams that would be flagged
  KeyValues configuration, recipe, resources;
  std::string against;  // the model that is another run's, to compare with; empty: none
  bool tuned = false;   // the ViT was trained with the main model
  std::vector<CovariateFacts> covariates;
  bool frame_covariates = false;  // they are behind the features of every frame
  Seen seen = Seen::kNone;
  std::string held_out_by;     // --folds groups: the column; each fold holds out one group of it
  BootstrapOptions bootstrap;  // of the bands around curves; its level is that of all intervals
};

// What a report says of one target.
struct TargetReport : RunFacts {
  std::string target;                // the label column
  std::string event;                 // of a time to an event: the column that says if it came
  std::string task = "binary";       // what is learnt of it
  Scale scale = Scale::kNominal;     // decides which figures and drawings there are
  bool per_frame = false;            // figures are over frames, not over exams
  std::vector<std::string> classes;  // binary: {negative, positive}
  std::vector<std::string> groups;   // of exams, for the table of characteristics
  DataOverview data;
  std::vector<ModelResult> models;  // the first is the main model; after evaluate_models()
  std::vector<FoldChoice> choices;  // of the main model
  FrameReport examples;             // of the main model
  HeldOutExams held_out;            // likewise; no exams: not shown
  std::string picture_note;         // HTML on what pictures of frames the page has; "": none
  std::optional<double> applied_threshold = {};  // of an evaluation: at which it decides
  Questions questions;
  std::vector<OperatingFigure> operating_points;  // after evaluate_report(), as asked for
  SurvivalFigures survival;                       // likewise
  std::vector<SubgroupColumn> subgroups;
  std::vector<Characteristic> characteristics;
  std::vector<std::string> warnings;
};

Json metrics_json(const TargetReport& report);
// The main model in summary.json, with its name and figures; Json::exception where that is none.
const Json& main_model_of(const Json& summary);
// What the fits of such a model took, where they had a choice: "gru 6, summary 9"; else "".
std::string fits_text(const Json& model);
std::string summary_text(const TargetReport& report);  // ends with a line end

// Says in plain words whether the result is better than chance, and whether frame order and pixels
// carry it.
std::vector<std::string> verdict(const TargetReport& report);

// What the data themselves show: small validation parts, folds with one class, few patients.
std::vector<std::string> data_warnings(const TargetReport& report);
// The report's `warnings`, and then those of the data, as the page and summary.json list them.
std::vector<std::string> all_warnings(const TargetReport& report);

}  // namespace coldframe::temporal
