// Optional questions to a report, in addition to its standard metrics, and their command-line
// options.
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
#include "train_temporal/evaluate/classes.h"
#include "train_temporal/evaluate/conformal.h"
#include "train_temporal/evaluate/confounds.h"
#include "train_temporal/evaluate/intervals.h"
#include "train_temporal/evaluate/subgroups.h"
#include "train_temporal/evaluate/survival.h"

namespace coldframe::temporal {

struct Questions {
  std::optional<double> threshold;  // of decisions; none: that of the validation part
  std::optional<double> prevalence, at_specificity, at_sensitivity;
  std::optional<std::size_t> level;                     // of intervals, in percent; none: 95
  std::vector<std::string> subgroups, characteristics;  // columns
  std::string aggregate;  // unit of aggregation, patient or a column; empty: exams
  bool figures = false, without_thumbnails = false;

  // The questions that two finished runs can answer without their cache.
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

// `rows`: an OptionRows, or another visitor of names and values.
template <class Rows>
void add_questions(Rows& rows, Questions& questions) {
  rows.number("threshold", questions.threshold, share(),
              "binary: decide for the positive class from this probability on (default: as the "
              "validation part chose)");
  // Nearer to 0 or 1 odds overflow.
  rows.number("prevalence", questions.prevalence, share(1e-9),
              "binary: predictive values where this fraction is positive");
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

// The given questions, for config.json and summary.json; an empty object if there are none.
Json questions_json(Questions questions);

// Training and evaluation runs write report.html, summary.json and a few lines on the terminal.
// Reports are filled from plain vectors and must not contain patient ids or source paths.

// Losses by epoch of one fit.
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
  Json setting = nullptr;  // of --search: the fold's setting, by option
};

// One model or control.
inline constexpr const char* kNoFamily = "none";
struct ModelResult {
  std::string name;
  std::string about = {};     // ": frames in order", shown after its name
  bool learns_order = false;  // of frames
  std::string frame = {};     // for `single` on one frame: first, middle, last or best
  // For `auto` and its twins: the model used if no summary is chosen, "gru"; with --search the
  // kinds that the folds chose, "gru/lstm".
  std::string sequence_model = {};
  // [fold][fit] the family of summaries that `summary` or `auto` chose, or kNoFamily if `auto`
  // chose the sequence model; empty for others.
  std::vector<std::vector<std::string>> families = {};
  bool blind_to_order = false;  // each fit took a summary that is the same in any order of frames
  std::vector<FoldScores> folds = {};
  // [fit] the same exams by each single fit; `folds` is the average over fits.
  std::vector<std::vector<FoldScores>> fits = {};
  std::vector<MetricSummary> summary = {};
  std::vector<PairedDifference> difference = {};  // main model − this one; empty for the main model
  bool is_finished_run = false;                   // a finished run: claims concern its fits only
  bool folds_together = false;                    // ranks pool the folds of a repeat
};
// Computes the metrics and, for all models but the first, the differences; returns the underlying
// tables. Calls `done` after each model.
std::vector<MetricTable> evaluate_models(std::vector<ModelResult>& models, double level = 0.95,
                                         const std::function<void()>& done = {});

// The flow of exams as CONSORT and TRIPOD+AI require it. Each exam is counted at the first step
// that it does not pass.
struct ExamFlow {
  std::size_t found = 0, failed = 0, without_frame = 0, without_label = 0, in_no_part = 0, used = 0;
};

// A row of the table of a cohort's characteristics: "mean (SD)" of the column age, or a category.
struct Characteristic {
  std::string column, row;
  std::vector<std::string> cells;  // one per class, then of all exams
};

struct DataOverview {
  std::size_t exams = 0, patients = 0, unlabeled = 0;
  std::vector<std::pair<std::string, std::size_t>> exams_per_class;  // all classes, labelled exams
  std::vector<std::size_t> patients_per_class;                       // same order
  std::vector<std::size_t> frames_per_exam;
  std::vector<double> numbers;                  // labels of a regression, or times
  std::size_t events = 0;                       // number of events of a time-to-event target
  std::size_t masked_frames = 0;                // frames without a label of a per-frame target
  ExamFlow flow = {};                           // `found` 0: unknown
  std::size_t patients_of_several_classes = 0;  // by their exams
};

// The contributions of the present frames of an exam to the model's output.
struct FrameContributions {
  std::string title;                // the exam and the model's decision
  std::string output_name;          // "P(ill)"
  double output = 0, baseline = 0;  // for the exam, and for what contributions start from
  std::string baseline_name;        // "mean images"
  bool timed = false;               // `at` is in seconds; else the number of the frame
  std::vector<double> at, contribution;
  std::vector<html::Picture> pictures = {};  // of the frames; empty: there are none
  std::vector<html::Picture> maps = {};      // of the contributions of their patches; likewise
};
struct FrameReport {
  std::vector<FrameContributions> exams;
  std::string choice;    // which exams these are
  std::string baseline;  // what contributions start from
  std::string note;      // the accuracy of their sums
  std::string maps;      // what their maps show; "": there are none
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

// How many of a cohort's exams are farther from the training exams than nearly all held-out ones,
// and the median rank among these (0.5 if in distribution).
struct CohortShift {
  std::string trait;  // features, lengths, intervals
  std::size_t judged = 0, flagged = 0;
  double median_rank = 0;
};

// A requested metric at a threshold, for the main model.
struct OperatingFigure {
  std::string key, title;  // "ppv", "PPV at a prevalence of 0.1"
  Estimate estimate;
  std::optional<double> threshold = {};  // chosen on the held-out exams themselves
};

// A covariate of the models, and the number of exams without it.
struct CovariateFacts {
  std::string name, kind;  // "age", "number"; "sex", "category: F, M"
  std::size_t missing = 0;
};

using KeyValues = std::vector<std::pair<std::string, std::string>>;

// Whether the model was fitted on patients of the report: no; perhaps on some with equal ids; on
// exams with the same features as held-out ones; or unknown training data.
enum class Seen { kNone, kSome, kCopies, kUnknown };

// What a report states about the whole run, for all targets.
struct RunFacts {
  std::string title = "Coldframe training report";
  std::string subtitle;            // e.g. the run's name and its date
  std::string split;               // "5 folds by patient, 3 seeds averaged"
  std::vector<FoldCurve> curves;   // of the main model
  std::vector<CohortShift> shift;  // of an evaluation
  double shift_rate = 0;           // fraction of held-out exams that would be flagged
  KeyValues configuration, recipe, resources;
  std::string against;  // the model of another run to compare with; empty: none
  bool tuned = false;   // the ViT was trained with the main model
  std::vector<CovariateFacts> covariates;
  bool frame_covariates = false;  // they are appended to the features of every frame
  Seen seen = Seen::kNone;
  std::string held_out_by;     // --folds groups: the column; each fold holds out one group of it
  BootstrapOptions bootstrap;  // for the bands around curves; its level applies to all intervals
};

// What a report states about one target.
struct TargetReport : RunFacts {
  std::string target;                // the label column
  std::string event;                 // of a time to an event: the column of event indicators
  std::string task = "binary";       // the task
  Scale scale = Scale::kNominal;     // determines which metrics and plots there are
  bool per_frame = false;            // metrics are over frames, not over exams
  std::vector<std::string> classes;  // binary: {negative, positive}
  std::vector<std::string> groups;   // of exams, for the table of characteristics
  DataOverview data;
  std::vector<ModelResult> models;  // the first is the main model; after evaluate_models()
  // Beside `auto` its sequence model, and the same on shuffled frames: whether order matters to a
  // model that reads it, whatever auto took. Empty, or two; after evaluate_report().
  std::vector<ModelResult> in_order_and_shuffled = {};
  std::vector<FoldChoice> choices;               // of the main model
  FrameReport examples;                          // of the main model
  HeldOutExams held_out;                         // likewise; no exams: not shown
  std::string picture_note;                      // HTML note on the page's thumbnails; "": none
  std::optional<double> applied_threshold = {};  // decision threshold of an evaluation
  Questions questions;
  std::vector<OperatingFigure> operating_points;  // set by evaluate_report(), as requested
  SurvivalFigures survival;                       // likewise
  std::vector<FiguresOfClass> by_class;           // of several classes, likewise; else empty
  std::vector<SubgroupColumn> subgroups;
  std::optional<SetCoverage> sets;  // of 90 %; set by evaluate_report()
  std::vector<Characteristic> characteristics;
  Confounds confounds = {};  // of training: what predicts the labels without the images
  std::vector<std::string> warnings;
};

Json metrics_json(const TargetReport& report);
// The main model in summary.json, with its name and metrics; Json::exception if the file is no such
// summary.
const Json& main_model_of(const Json& summary);
// What the fits of such a model chose: "gru 6, summary 9"; "" without a choice.
std::string fits_text(const Json& model);
std::string summary_text(const TargetReport& report);  // ends with a line end

// States in plain words whether the result is better than chance, and whether it depends on frame
// order and pixels.
std::vector<std::string> verdict(const TargetReport& report);

// Warnings about the data: small validation parts, folds with a single class, few patients.
std::vector<std::string> data_warnings(const TargetReport& report);
// The report's `warnings`, then data_warnings(), as in the page and summary.json.
std::vector<std::string> all_warnings(const TargetReport& report);

}  // namespace coldframe::temporal
