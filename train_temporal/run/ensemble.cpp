#include "train_temporal/run/ensemble.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <optional>
#include <tuple>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/data/dataset.h"
#include "train_temporal/data/sequence_reader.h"
#include "train_temporal/fit/trainer.h"
#include "train_temporal/fit/tuned_features.h"
#include "train_temporal/labels/labels.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::temporal {

// Decides whether a model can be given the features of a cache.

// CacheError, which lists the differences, when the cache was made by another recipe than the one
// that the model was trained on. Streams are compared one by one.
void require_same_features(const cache::Recipe& trained, const SequenceReader& cache,
                           const std::filesystem::path& path);

namespace {

// The part of a recipe that made one of several streams, which may be the same for all.
Json of_stream(const Json& features, const std::string& stream) {
  const Json streams = features.value(kRecipesOfStreams, Json::object());
  return streams.contains(stream) ? streams[stream] : features;
}

// `what`: the cache, or its stream, as errors name it.
void require_same(const Json& trained, const Json& found, const std::string& what) {
  if (trained == found) return;
  const auto changes = cache::differences(found, trained, {"cache has", "the run"});
  throw CacheError(concat(what, " was made by another recipe than the run's:\n  ",
                          join(changes, "\n  "), "\nextract these exams with the run's recipe"));
}

}  // namespace

void require_same_features(const cache::Recipe& trained, const SequenceReader& cache,
                           const std::filesystem::path& path) {
  const Json& found = cache.recipe().features;
  const std::string name = concat("'", path.string(), "'");
  if (cache.streams().empty()) return require_same(trained.features, found, name);
  for (const std::string& stream : cache.streams())
    require_same(of_stream(trained.features, stream), of_stream(found, stream),
                 concat("the stream ", stream, " of ", name));
}

std::vector<CovariateColumn> covariate_columns(const CovariateEncoding& encoding,
                                               const SequenceReader& cache,
                                               const std::vector<std::size_t>& exams,
                                               const std::filesystem::path& labels) {
  std::optional<CsvTable> table;
  if (!labels.empty()) table = read_csv(labels);
  const std::vector<std::string> known = cache.column_names();
  std::vector<CovariateColumn> columns;
  std::vector<std::string> said;
  for (const auto& learnt : encoding.columns()) {
    if (!(table && table->column(learnt.name)) &&
        std::ranges::find(known, learnt.name) == known.end())
      throw ConfigError(concat("the models take the covariates ", join(encoding.names(), ", "),
                               ", and the cache", table ? " and --labels have" : " has",
                               " no column '", learnt.name,
                               "'; extract these exams with a manifest that has it, or give a CSV "
                               "with columns exam and ",
                               learnt.name, " by --labels"));
    if (!table || !table->column(learnt.name)) cache.require_agreed(learnt.name);
    columns.push_back(
        {learnt.name, learnt.category,
         exam_column(cache.exams(), table ? &*table : nullptr, learnt.name, "covariates", said)});
    require_numbers(columns.back(), cache.exams(), exams);
  }
  for (const std::string& one : said) log_info_once(one);
  return columns;
}

std::vector<std::string> missing_covariates(const std::vector<CovariateColumn>& columns,
                                            const std::vector<std::size_t>& exams) {
  std::vector<std::string> said;
  for (const CovariateColumn& column : columns) {
    const auto missing =
        std::ranges::count_if(exams, [&](std::size_t exam) { return column.values[exam].empty(); });
    if (missing > 0)
      said.push_back(concat("covariate '", column.name, "': ",
                            plural(static_cast<std::size_t>(missing), "exam"), " without a value"));
  }
  return said;
}

std::vector<std::string> unknown_covariates(const CovariateEncoding& encoding,
                                            const std::vector<CovariateColumn>& columns,
                                            const std::vector<std::size_t>& exams) {
  std::vector<std::string> said;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::size_t unknown = unknown_categories(encoding, i, columns[i], exams);
    if (unknown > 0)
      said.push_back(concat("covariate '", columns[i].name, "': ", plural(unknown, "exam"),
                            " with a category that the training did not have count as missing"));
  }
  return said;
}

namespace {

tune::TuneOptions within_budget() {
  tune::TuneOptions options;
  options.budget = 1ull << 30;  // more makes it no faster
  return options;
}

// The ViT of a trained model, with the features that it makes.
class OwnFeatures final : public FeatureSource {
 public:
  OwnFeatures(const TrainedModel& trained, const Dataset& dataset)
      : source_(trained.card.recipe.features, dataset.cache->cut()->block,
                backbone_folder(trained.file), trained.card.tuned->weights_sha256),
        vit_(source_, within_budget(), 0, dataset.device),
        features_(dataset, vit_, {}) {}

  const Dataset& window() const override { return features_.window(); }
  bool one_view() const override { return features_.one_view(); }
  std::size_t exams_at_once() const override { return features_.exams_at_once(); }
  using FeatureSource::plan;
  void plan(Groups groups, ViewOf view_of) override {
    features_.plan(std::move(groups), std::move(view_of));
  }
  void next() override { features_.next(); }
  void evaluate() override { features_.evaluate(); }

 private:
  tune::TunedSource source_;
  tune::TunedVit vit_;
  TunedFeatures features_;
};

}  // namespace

std::shared_ptr<FeatureSource> features_for(const TrainedModel& trained, const Dataset& dataset) {
  if (trained.card.tuned) return std::make_shared<OwnFeatures>(trained, dataset);
  return source_of(dataset);
}

namespace {

// `--search` may have given every fold a setting of its own, fits of `single` may each have chosen
// their frame, and the training parts may hold other categories.
bool same_but_for_choices(ModelConfig a, const ModelConfig& b) {
  const bool same_features = a.features() == b.features();
  if (a.architecture != b.architecture && !a.architecture->by_steps)  // --model auto
    std::tie(a.time, a.elapsed, a.clock_width, a.frame_covariates) =
        std::tie(b.time, b.elapsed, b.clock_width, b.frame_covariates);
  if (b.architecture->ordered && (a.architecture->ordered || !a.architecture->by_steps))
    std::tie(a.architecture, a.layers, a.bidirectional) =
        std::tie(b.architecture, b.layers, b.bidirectional);
  a.hidden = b.hidden;
  a.dropout = b.dropout;
  a.inputs = b.inputs;
  if (same_features && a.frame_covariates == b.frame_covariates)
    std::tie(a.dimension, a.covariates) = std::tie(b.dimension, b.covariates);
  if (a.per_frame() == b.per_frame()) a.pool = b.pool;
  if (is_one_frame(a.order) && is_one_frame(b.order)) a.order = b.order;
  return a == b;
}

// True where no exam of the model's training part had the stream (input_statistics()).
bool hides_stream(const TrainedModel& trained, std::size_t stream) {
  const ModelConfig& config = trained.card.config;
  if (config.blank || !trained.model->uses_features()) return false;
  const torch::Tensor deviation = trained.model->named_buffers()["feature_std"];
  const std::int64_t place = config.features() - std::ssize(config.streams);
  return deviation[place + static_cast<std::int64_t>(stream)].item<float>() == kBlankDeviation;
}

// The outputs of one fit for all exams, group by group.
std::vector<double> outputs_of(TrainedModel& trained, const Dataset& dataset,
                               const std::vector<std::size_t>& exams, ThreadTeam& team) {
  trained.model->to(dataset.device);
  const auto features = features_for(trained, dataset);
  const auto groups = in_groups(exams, features->exams_at_once());
  features->plan(groups);
  std::vector<double> outputs;
  for (const auto& group : groups) {
    if (stop_requested()) throw Interrupted("stopped; run the same command again");
    features->next();
    features->evaluate();
    const auto part = predict_logits(
        *trained.model,
        {features->window(), trained.card.config, trained.card.fit_seed, evaluation_size(dataset)},
        group, team);
    outputs.insert(outputs.end(), part.begin(), part.end());
  }
  return outputs;
}

}  // namespace

Ensemble::Ensemble(const std::vector<std::filesystem::path>& files, std::filesystem::path labels)
    : labels_(std::move(labels)) {
  for (const auto& path : files) models_.push_back(read_model(path));
  const auto trained = [](const TrainedModel& one) {
    return one.card.config.architecture->by_steps;
  };
  const auto first = std::ranges::find_if(models_, trained);
  described_ = first == models_.end() ? 0 : static_cast<std::size_t>(first - models_.begin());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::filesystem::path& path = files[i];
    const ModelMetadata& added = models_[i].card;
    if (!same_but_for_choices(added.config, card().config) || added.targets != card().targets ||
        added.recipe.feature_digest() != card().recipe.feature_digest() ||
        added.tuned.has_value() != card().tuned.has_value() ||
        added.arrangement != card().arrangement ||
        added.covariates.names() != card().covariates.names()) {
      throw DataError(
          concat("'", path.string(),
                 "' differs from the run's other models in its "
                 "configuration or targets; a run's models must come from one training"));
    }
  }
}

double Ensemble::threshold(std::size_t target) const {
  double sum = 0;
  for (const TrainedModel& trained : models_) sum += trained.card.readouts[target].threshold;
  return sum / static_cast<double>(models_.size());
}

bool Ensemble::sees_times() const {
  return std::ranges::any_of(models_, [](const TrainedModel& trained) {
    return trained.card.config.time || trained.card.config.elapsed || trained.model->sees_times();
  });
}

void Ensemble::set_horizons(const std::vector<double>& horizons) {
  if (horizons.empty()) return;
  if (std::ranges::none_of(targets(), &Target::is_timed))
    throw ConfigError(concat("--horizons is for a time to an event, and the run learnt ",
                             names_of(targets()), "; leave it out"));
  for (TrainedModel& trained : models_)
    for (Target& target : trained.card.targets)
      if (target.is_timed()) target.horizons = horizons;
  warn_of_late_horizons(horizons.back());
}

void Ensemble::take_horizons(const std::vector<Target>& targets) {
  for (TrainedModel& trained : models_)
    for (std::size_t t = 0; t < std::min(targets.size(), trained.card.targets.size()); ++t)
      trained.card.targets[t].horizons = targets[t].horizons;
}

// Hazards are unknown after the last training event of the model where that comes first.
void Ensemble::warn_of_late_horizons(double horizon) const {
  double last = std::numeric_limits<double>::infinity();
  for (const TrainedModel& trained : models_)
    for (const Readout& readout : trained.card.readouts)
      if (!readout.times.empty()) last = std::min(last, readout.times.back());
  if (horizon > last)
    log_warning(concat("--horizons ", exact(horizon), ": no event of the training came after ",
                       exact(last), "; predictions are of no event up to that time"));
}

void Ensemble::require_same_features(const SequenceReader& cache,
                                     const std::filesystem::path& path) const {
  temporal::require_same_features(card().recipe, cache, path);
  const auto& tuned = card().tuned;
  if (!tuned) return;
  const auto cut = cache.cut();
  if (cut && cut->block <= tuned->block) return;
  throw CacheError(concat("'", path.string(), "' ",
                          cut ? concat("is cut at block ", cut->block) : std::string("has no cut"),
                          ", but the run trained the ViT from block ", tuned->block,
                          " on; extract these exams with --cut ", tuned->block));
}

void Ensemble::require_width(std::int64_t features) const {
  const std::int64_t expected = card().config.features();
  if (features == expected) return;
  throw DataError(concat("the models take ", plural(expected, "feature"), " of a frame, and these ",
                         "exams have ", features, " once they are arranged as the run's were; '",
                         models_.front().file.string(),
                         "' is damaged, or was not trained on such exams"));
}

std::vector<std::string> Ensemble::unlearnt_inputs(const SequenceReader& cache,
                                                   const std::vector<std::size_t>& exams) const {
  std::vector<std::string> said;
  if (!card().covariates.empty())
    said = unknown_covariates(card().covariates,
                              covariate_columns(card().covariates, cache, exams, labels_), exams);
  const std::vector<std::string>& streams = card().config.streams;
  for (std::size_t s = 0; s < streams.size(); ++s) {
    const auto without = std::ranges::count_if(
        models_, [&](const TrainedModel& trained) { return hides_stream(trained, s); });
    const auto with =
        std::ranges::count_if(exams, [&](std::size_t exam) { return cache.has_stream(exam, s); });
    if (without > 0 && with > 0)
      said.push_back(concat("stream '", streams[s],
                            "': ", plural(static_cast<std::size_t>(with), "exam"),
                            " with it, which ", without, " of ", plural(models_.size(), "model"),
                            " did not see in the training and count as missing"));
  }
  return said;
}

void Ensemble::take_covariates(const SequenceReader& cache, const std::vector<std::size_t>& exams) {
  require_width(cache.dimension());
  if (card().covariates.empty()) return;
  const auto columns = covariate_columns(card().covariates, cache, exams, labels_);
  for (TrainedModel& trained : models_)
    trained.model->covariates = trained.card.covariates.encode(columns);
  for (const std::string& said : missing_covariates(columns, exams)) log_info_once(said);
}

Dataset Ensemble::load(const SequenceReader& cache, const std::vector<std::size_t>& exams,
                       const torch::Device& device) {
  take_covariates(cache, exams);
  return load_features(cache, exams, device);
}

Dataset Ensemble::load_features(const SequenceReader& cache, const std::vector<std::size_t>& exams,
                                const torch::Device& device) const {
  return load_dataset(cache, exams, card().source_kinds, device, {"clean"},
                      residence_of(cache, exams, device));
}

// A tuned model makes its own features; others are loaded where memory has room for them.
FeaturePlacement Ensemble::residence_of(const SequenceReader& cache,
                                        const std::vector<std::size_t>& exams,
                                        const torch::Device& device) const {
  if (card().tuned) return FeaturePlacement::kStream;
  const std::uint64_t bytes = stored_bytes(cache, exams, RowKind::kFeatures);
  const Placement placement = place_features(FeaturePlacement::kAuto, bytes, device, 0);
  if (placement.where == FeaturePlacement::kStream) log_info_once("features: " + placement.text);
  return placement.where;
}

std::vector<std::vector<std::vector<double>>> Ensemble::scores(
    const Dataset& dataset, const std::vector<std::size_t>& exams) {
  std::vector<std::vector<std::vector<double>>> all(targets().size());
  ThreadTeam team(static_cast<std::size_t>(torch::get_num_threads()));
  for (TrainedModel& trained : models_) {
    const auto outputs = outputs_of(trained, dataset, exams, team);
    for (std::size_t t = 0; t < all.size(); ++t)
      all[t].push_back(scores_of(trained.card, t, outputs));
  }
  return all;
}

double Ensemble::seconds_for(const SequenceReader& cache, const std::vector<std::size_t>& exams,
                             const torch::Device& device) {
  const Dataset dataset = load_features(cache, exams, device);
  ThreadTeam team(static_cast<std::size_t>(torch::get_num_threads()));
  std::chrono::duration<double> quickest = std::chrono::hours(24);
  for (int pass = 0; pass < 4; ++pass) {  // the first warms up
    const auto begun = std::chrono::steady_clock::now();
    outputs_of(models_[described_], dataset, exams, team);
    quickest =
        std::min<std::chrono::duration<double>>(quickest, std::chrono::steady_clock::now() - begun);
  }
  return quickest.count();
}

std::vector<double> mean_scores(const std::vector<std::vector<double>>& scores) {
  std::vector<double> mean(scores.front().size());
  for (const std::vector<double>& one : scores)
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += one[i] / static_cast<double>(scores.size());
  return mean;
}

PredictionTable Ensemble::averaged(
    const SequenceReader& cache, const std::vector<std::size_t>& exams,
    const std::vector<std::vector<std::vector<double>>>& scores) const {
  PredictionTable table = empty_table(targets(), cache.exams());
  table.held_out = false;
  add_rows(table, cache.exams(), exams, nullptr);
  for (std::size_t t = 0; t < scores.size(); ++t)
    add_scores(table, t, mean_scores(scores[t]), threshold(t));
  return table;
}

std::vector<std::size_t> exams_with_frames(const SequenceReader& cache) {
  std::vector<std::size_t> exams;
  for (std::size_t i = 0; i < cache.exams().size(); ++i) {
    if (present_frames(cache.exams()[i]) > 0) exams.push_back(i);
  }
  return exams;
}

}  // namespace coldframe::temporal
