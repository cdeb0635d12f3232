// The options of `train`, group by group.
#include "train_temporal/run/options/train_rows.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/models/registry.h"
#include "train_temporal/run/options/shared_rows.h"
#include "train_temporal/tasks/target.h"
#include "train_temporal/training/objective/mixup.h"

namespace coldframe::temporal {
namespace {

constexpr const char *kRecurrent = "a GRU or LSTM", *kOrdered = "models that read frames in order";

void take_folds(const std::string& word, TrainOptions& options) {
  options.each_patient = word == "patients";
  options.each_group = word == "groups";
  if (options.each_patient || options.each_group) return;
  std::int64_t folds = 0;
  if (!parse_int(word, folds))
    throw ConfigError("--folds: expected a whole number, or patients or groups");
  options.folds = parse_number<std::size_t>("folds", word, between(0, 1000));
}

std::vector<std::string> single_frame_words() {
  std::vector<std::string> words = words_in(single_frames());
  words.push_back(kBestFrame);
  return words;
}

void add_target(OptionRows& rows, TrainOptions& options) {
  TargetOptions& data = options.data;
  rows.group("Target");
  add_data(rows, data);
  rows.text("streams", data.arrangement.stream_column, "COLUMN",
            "frames of several streams (FA and ICGA, T1 and T2) become one input per instant; "
            "COLUMN, of frames, names each one's stream");
  rows.text("visits", data.arrangement.visits, "COLUMN",
            "read every exam with all earlier ones of its patient before it; COLUMN has the "
            "visits' times as dates or in days (start_time: those of the exams themselves)");
  rows.text("task", data.task, "TASK", join(task_words(), ", ")).only(task_words());
  rows.text("positive", data.positive, "VALUE",
            "binary: which value is the positive class; of TIME:EVENT: which says that the event "
            "came");
  add_horizons(rows, data);
}

void add_run(OptionRows& rows, TrainOptions& options) {
  rows.group("Run");
  rows.text("out", options.out, "RUN", "the run folder to make")
      .most_used()
      .written_to(judges_itself);
  rows.toggle("resume", options.existing.resume, "continue an interrupted run").most_used();
  rows.toggle("overwrite", options.existing.overwrite, "replace a run of the same name");
  rows.text("part", options.part, "I/N",
            "do part I of N of the run's fits, I from 0; auto: as SLURM's array, srun or torchrun "
            "say; the same command with --resume instead writes the report in the end");
  rows.toggle("benchmark", options.benchmark,
              "train for a few seconds and print what a run will take; nothing is written");
  rows.parsed(
      "list", "RUNS", [](auto&, auto&) {}, "list runs with their figures; see --list --help");
}

void add_splits(OptionRows& rows, TrainOptions& options) {
  rows.group("Splits");
  rows.parsed(
          "folds", "N", [&](auto&, const std::string& word) { take_folds(word, options); },
          "folds by patient; 1: one hold-out; patients: each patient held out once; groups: each "
          "value of --group; 0: the cache's split column if there is one, else 5")
      .show("0")
      .most_used();
  rows.text("group", options.group, "COLUMN",
            "exams with one value of this column of the cache or of --labels stay on one side of "
            "a split, beside those of a patient");
  rows.toggle("split-column", options.split_column,
              "use the cache's split column (train, val, test)");
  rows.text("splits", options.splits, "FILE.csv", "use the splits.csv of an earlier run").input();
  rows.number("repeats", options.repeats, between(1, 1000),
              "repeat the folds with other divisions");
  rows.number("seeds", options.seeds, between(1, 1000),
              "fits per fold, whose predictions are averaged")
      .most_used();
  rows.number("seed", options.seed, at_least(0), "of all random numbers");
}

void add_models(OptionRows& rows, TrainOptions& options) {
  add_kind(rows, options);
  rows.parsed(
          "compare", "LIST",
          [&](auto&, const std::string& words) {
            options.default_compare = words == kAllControls;
            options.compare = split(words, ',');
          },
          "also fit these on the same folds (--compare alone, or all: those of mean, single, "
          "summary, shuffled, blank and clock that apply to the target, beside another model than "
          "auto gru, with --covariates covariates, and with --tune frozen)")
      .alone(kAllControls)
      .most_used();
  rows.text("single-frame", options.single_frame, "WHICH",
            "what the model `single` sees: the first, middle or last frame, or the best of these "
            "by the validation part of each fold")
      .only(single_frame_words());
  rows.number("layers", options.layers, between(0, 16),
              "layers of the model that reads frames in order; 0: 1 of a GRU or LSTM, 2 of a "
              "transformer, 3 blocks of a TCN")
      .for_models(&Architecture::ordered, kOrdered);
  rows.word("time", options.time,
            {{"auto", TimeInput::kAuto},
             {"on", TimeInput::kOn},
             {"intervals", TimeInput::kIntervals},
             {"off", TimeInput::kOff}},
            "WHEN",
            "give the GRU, or a model in its place, time intervals and, where exams share a zero, "
            "the time since it: on, intervals (these alone), off, or auto (when intervals are "
            "known and uneven, or exams start more than 1 s apart after the zero)");
  add_model(rows, options.architecture);
  add_covariates(rows, options.covariates);
}

void add_training(OptionRows& rows, TrainOptions& options) {
  add_fit(rows, options.fit);
  rows.word("views", options.views,
            {{"auto", ViewChoice::kAuto}, {"clean", ViewChoice::kClean}, {"all", ViewChoice::kAll}},
            "WHICH",
            "train on the cache's augmented views, another one per exam and epoch: clean (none of "
            "them), all, or auto (all that there are)");
  std::vector<std::string> searched;
  for (const ValueRow* row : rows.searched()) searched.push_back(row->name);
  rows.number("search", options.search, or_zero(between(2, 1000)),
              concat("try N settings of ", join(searched, ", "),
                     " on every fold and take the best on its inner validation part; the first is "
                     "the one given, and of the options what is given stays; 0: none"));
  add_bootstrap(rows, options.bootstrap);
}

void add_resources(OptionRows& rows, TrainOptions& options) {
  rows.group("Machine");
  add_machine(rows, options.device, options.threads, options.json);
  rows.number(
      "jobs", options.jobs, at_least(0),
      "fits side by side, which share threads and budget; 0: one per thread, up to 8 on each "
      "GPU (--device cuda takes all), or one under a budget");
  rows.word("features", options.features,
            {{"auto", Residence::kAuto},
             {"device", Residence::kDevice},
             {"memory", Residence::kMemory},
             {"stream", Residence::kStream}},
            "WHERE",
            "device, memory or stream (from the cache, as they are wanted); auto: the first where "
            "they fit");
  rows.parsed(
      "memory-budget", "SIZE", parsed(options.memory_budget, parse_bytes),
      "the most that features and computation may take on the device, e.g. 500MiB (default: all); "
      "batches are cut to fit");
  rows.parsed(
      "require", "LIMITS", parsed(options.required, parse_requirements),
      "end with exit code 1, before anything is trained, where a run takes more than memory=6GiB "
      "(of tensors, predicted), epoch=5s (measured for a few seconds) or run=2h (at most); several "
      "with commas between them");
}

}  // namespace

void add_kind(OptionRows& rows, ModelChoice& choice) {
  rows.group("Model");
  const auto in_order =
      model_names([](const NamedModel& one) { return one.learns_order() && !one.chooses; });
  rows.text("model", choice.model, "NAME",
            concat("auto (in each fit gru, or a summary of the frames unless gru does clearly "
                   "better on the validation part), ",
                   join(model_names([](const NamedModel& one) { return !one.chooses; }), ", ")))
      .only(model_names())
      .most_used()
      .searched(6, {.choices = {in_order.begin(), in_order.end()}});
  rows.text("inputs", choice.inputs, "KIND",
            "what a model sees of a frame: level (its features), change (their differences from "
            "the first frame and from the frame before), or both")
      .only(words_in(kInputs))
      // Differences lose what lies in the level, so that half of the settings do without.
      .searched(7, {.choices = {"level", "level", "change", "both"}});
}

void add_model(OptionRows& rows, ModelConfig& model) {
  rows.group("Model");
  rows.number("hidden", model.hidden, between(1, 8192),
              "width of the projection and of the layers over frames, or of the MLP in their place")
      .searched(0, {.choices = {32, 64, 128}});
  rows.toggle("bidirectional", model.bidirectional, "read sequences both ways (GRU, LSTM)")
      .for_models(&Architecture::recurrent, kRecurrent);
  rows.word("temporal-pool", model.pool, kTemporalPools, "KIND",
            "last, mean or attention (the default) over what the GRU, or a model in its place, "
            "makes of each frame")
      .only({"last", "mean", "attention"})  // `none` follows from a target of frames
      .show_none()
      .for_models(&Architecture::ordered, kOrdered)
      .searched(1, {.choices = {"mean", "attention", "last"}});
  rows.word("time-encoding", model.time_encoding, kTimeEncodings, "KIND",
            "log: of the interval; decay: the GRU's state also fades between frames, as in GRU-D; "
            "time2vec: also learnt sinusoids of the time")
      .for_models(&Architecture::ordered, kOrdered);
  rows.word("fusion", model.gated, {{"concat", false}, {"gated", true}}, "KIND",
            "of streams: concat (side by side) or gated (weighted against each other at each "
            "instant)");
  rows.number("dropout", model.dropout, below_one(), "of projected features and before the head")
      .searched(2, {.low = 0, .high = 0.6});
}

void add_fit(OptionRows& rows, FitOptions& fit) {
  rows.group("Training");
  rows.number("epochs", fit.epochs, between(1, 1000000), "at most").in("fit.epochs");
  rows.number("batch", fit.batch, at_least(1), "exams per step").in("fit.batch");
  rows.number("micro-batch", fit.micro_batch, at_least(0),
              "exams at a time within a step at most, 0: all")
      .in("fit.micro_batch");
  rows.number("lr", fit.learning_rate, above(0), "learning rate at its highest")
      .in("fit.learning_rate")
      .searched(4, {.low = 5e-4, .high = 5e-3, .by_logarithm = true});
  rows.number("warmup", fit.warmup, between(0, 1),
              "share of all steps in which the learning rate rises to its highest")
      .in("fit.warmup");
  rows.word("schedule", fit.schedule, kSchedules, "KIND",
            "cosine or constant, after a linear warm-up")
      .in("fit.schedule");
  rows.number("weight-decay", fit.weight_decay, at_least(0), "AdamW's, of matrices")
      .in("fit.weight_decay")
      .searched(5, {.low = 1e-3, .high = 0.1, .by_logarithm = true});
  rows.number("clip", fit.clip, at_least(0), "largest norm of the gradient, 0: any").in("fit.clip");
  rows.number("train-frames", fit.train_frames, at_least(0),
              "frames drawn per exam and epoch, 0: all")
      .in("fit.train_frames");
  rows.number("patience", fit.patience, at_least(0),
              "epochs without a better validation part after which to stop, 0: never")
      .in("fit.patience");
  rows.word("early-stopping-metric", fit.stopping_metric, kStoppingMetrics, "KIND",
            "what is better, also for the weights that are kept: a lower loss, or a higher metric "
            "(AUROC, ordinal: quadratic kappa, regression: R², TIME:EVENT: Harrell's C)")
      .in("fit.early_stopping_metric");
  rows.number("noise", fit.noise, between(0, 100),
              "add Gaussian noise of this standard deviation to the standardised features of every "
              "frame")
      .in("fit.noise")
      .searched(3, {.low = 0, .high = 1});
  rows.number("mixup", fit.mixup, or_zero(between(kLeastMixup, kMostMixup)),
              "mix every exam with another one of its batch, by shares from Beta(N, N); 0: none")
      .in("fit.mixup");
  rows.number("label-smoothing", fit.objective.label_smoothing, below_one(),
              "classes: share of a label that all classes get alike")
      .in("fit.label_smoothing");
  rows.toggle("class-weights", fit.objective.class_weights, "every class counts the same")
      .in("fit.class_weights");
  rows.parsed(
          "loss", "KIND", parsed(fit.objective.loss, parse_loss),
          "focal or focal=GAMMA for classes, mse, huber or huber=DELTA (standard deviations) for "
          "numbers; auto: cross-entropy, squared error")
      .show("auto")
      .written([&] { return Json(to_string(fit.objective.loss)); })
      .in("fit.loss");
  rows.word("sampler", fit.balanced, {{"order", false}, {"balanced", true}}, "KIND",
            "order: every exam once per epoch; balanced: as many exams of every class")
      .in("fit.sampler");
  rows.word("amp", fit.precision,
            {{"off", torch::kFloat32}, {"bf16", torch::kBFloat16}, {"fp16", torch::kFloat16}},
            "KIND",
            "mixed precision: matrix products in bf16, or in fp16 with scaled gradients; off")
      .alone("bf16")
      .written([&] { return Json(torch::toString(fit.precision)); })
      .in("fit.precision");
}

void add_train(OptionRows& rows, TrainOptions& options) {
  add_target(rows, options);
  add_run(rows, options);
  add_splits(rows, options);
  add_models(rows, options);
  add_training(rows, options);
  add_tune(rows, options);
  rows.group("Report");
  add_questions(rows, options.questions);
  rows.toggle("maps", options.maps,
              "show in the report's example exams what each patch of a frame adds, as predict "
              "--maps does; of a cache with --cut");
  rows.text("weights", options.weights, "PATH",
            "for --maps without --tune: the ViT's, as extract --weights took them")
      .input();
  rows.text("against", options.against, "RUN",
            "compare with this finished run, paired, on the exams that both hold out: "
            "against.html, and `against` in summary.json")
      .input();
  add_resources(rows, options);
}

}  // namespace coldframe::temporal
