#include "train_temporal/fit/trainer.h"

#include <c10/core/StreamGuard.h>
#include <c10/util/Exception.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/memory.h"
#include "common/torch/precision.h"
#include "train_temporal/fit/memory_plan.h"
#include "train_temporal/fit/objective.h"
#include "train_temporal/fit/tuned_features.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

namespace {

std::shared_ptr<SequenceModel> new_model(const FitTask& task) {
  auto model = make_model(task.config, task.seed);
  if (task.start) load_weights("the weights to start from", *model, *task.start);
  model->to(task.dataset.device);
  model->covariates = task.covariates;
  torch::NoGradGuard no_grad;
  if (!task.start)
    model->set_statistics(input_statistics(task.dataset, task.split.train, task.config.inputs));
  return model;
}

std::unique_ptr<FeatureSource> new_source(const FitTask& task, const TuneMemory& memory,
                                          tune::TunedVit* vit) {
  if (vit == nullptr) return source_of(task.dataset);
  return std::make_unique<TunedFeatures>(
      task.dataset, *vit,
      TunedFeatures::Options{task.options.tune.dropout, task.seed, memory.ahead});
}

// Tokens, positions and rotations say where something is: timm's no_weight_decay() names these.
const std::set<std::string> kUndecayed = {"cls_token", "reg_token", "pos_embed", "rope_freqs",
                                          "relative_position_bias_table"};

std::vector<OptimizedModule> trained_modules(SequenceModel& model, tune::TunedVit* vit,
                                             const FitTask& task) {
  std::vector<OptimizedModule> modules = {
      {model, 1, {}, {{"covariate_head.weight", kCovariateRate}}}};
  const double rate = task.options.tune.learning_rate / task.learning_rate();
  if (vit != nullptr) modules.push_back({vit->trainable(), rate, kUndecayed});
  return modules;
}

// After running out of memory with `size` exams at a time.
void halve(std::size_t& size, const char* at, const FitTask& task) {
  if (size == 1) {
    throw SystemError(
        concat("there is not enough memory for one exam in ", at, ": a fit takes about ",
               human_bytes(predict_memory(task, {1, 1}).total()),
               " beside the features; raise --memory-budget, or lower --train-frames, --hidden or "
               "--layers"));
  }
  size = (size + 1) / 2;
  log_info(concat("out of memory: ", at, " goes on with ", plural(size, "exam"), " at a time"));
}

}  // namespace

Trainer::Trainer(const FitTask& task)
    : Trainer(task, task.tuned != nullptr ? plan_tuning(task) : TuneMemory{}) {}

Trainer::Trainer(const FitTask& task, const TuneMemory& memory)
    : task_(task),
      stream_(task.dataset.device),
      vit_(task.tuned != nullptr ? make_vit(task, memory) : nullptr),
      source_(new_source(task, memory, vit_.get())),
      dataset_(source_->window()),
      model_(new_model(task)),
      optimizer_(trained_modules(*model_, vit_.get(), task), task.options.weight_decay),
      team_(std::make_unique<ThreadTeam>(task.threads, join_cpu_memory_share())),
      sampler_(task.config.order, task.options.train_frames, task.seed),
      objective_(task_.targets, task.split.train, task.options.objective),
      micro_batches_(vit_ ? memory.micro_batches : first_micro_batches(task)),
      best_parameters_(optimizer_.parameters().clone()) {
  early_stop_.patience = task.options.patience;
  model_->precision.type = task.options.precision;
  if (!vit_ && !model_->precision.active() && FusedGru::supports(*model_)) {
    fused_ = std::make_unique<FusedStep>(*model_, task_.config, dataset_, optimizer_.gradients(),
                                         *team_);
  }
  const auto left = device_memory_left(task.dataset.device);
  if (left && !vit_) micro_batches_ = micro_batches_that_fit(task_, micro_batches_, *left);
  if (micro_batches_.training < first_micro_batches(task).training) {
    log_info(concat("the memory budget is predicted to hold ",
                    plural(micro_batches_.training, "exam"), " of a step at a time"));
  }
  recorded_ = make_recorded_step();
  stream_.follow();  // the caller's, on which all of this was made
}

Trainer::~Trainer() {
  stream_.wait();
}

bool Trainer::finished() const {
  const std::size_t epochs = task_.options.epochs + (task_.start ? 1 : 0);
  return diverged_ || history_.size() >= epochs || early_stop_.should_stop();
}

std::int64_t Trainer::steps_per_epoch() const {
  const std::size_t batch = task_.options.batch;
  return static_cast<std::int64_t>((task_.split.train.size() + batch - 1) / batch);
}

double Trainer::train_epoch(std::size_t epoch, double& learning_rate) {
  const FitOptions& options = task_.options;
  const std::int64_t steps = steps_per_epoch() * static_cast<std::int64_t>(options.epochs);
  const auto warmup = static_cast<std::int64_t>(std::ceil(options.warmup * double(steps)));
  const auto groups = in_groups(order_of(epoch), options.batch);
  source_->plan(groups, [this, epoch](std::size_t exam) { return view_of(exam, epoch); });
  LossSum total;
  for (const auto& exams : groups) {
    source_->next();
    const std::vector<BatchItem> items = batch_items(exams, epoch);
    learning_rate = task_.learning_rate() *
                    schedule_factor(options.schedule, optimizer_.steps(), steps, warmup);
    if (step_recorded(items, epoch, learning_rate, total)) continue;
    total += gradients(items, epoch);
    update_parameters(learning_rate);
  }
  if (recorded_) total += recorded_->take_losses();
  return total.mean();
}

bool records_steps(const FitTask& task) {
  const FitOptions& options = task.options;
  const bool wanted = options.recorded.value_or(task.dataset.device.is_cuda());
  const bool whole = options.micro_batch == 0 || options.micro_batch >= options.batch;
  return wanted && whole && task.tuned == nullptr && options.mixup == 0 &&
         options.precision == torch::kFloat32 &&
         RecordedStep::can_record(task.config,
                                  Objective(task.targets, task.split.train, options.objective));
}

std::unique_ptr<RecordedStep> Trainer::make_recorded_step() {
  const FitOptions& options = task_.options;
  if (!records_steps(task_) || micro_batches_.training < options.batch) return nullptr;
  std::int64_t most = 1;  // frames of an exam
  for (const std::size_t exam : task_.split.train)
    most = std::max(most, task_.dataset.sequences[exam].frames());
  if (options.train_frames > 0) most = std::min(most, options.train_frames);
  return std::make_unique<RecordedStep>(
      RecordedStep::Fit{*model_, task_.config, dataset_, objective_, optimizer_, options.batch,
                        static_cast<std::size_t>(most), options.clip},
      dataset_.device.is_cuda() ? cuda_graphs() : MakeGraph());
}

bool Trainer::step_recorded(const std::vector<BatchItem>& items, std::size_t epoch,
                            double learning_rate, LossSum& sum) {
  if (!recorded_) return false;
  try {
    sum += recorded_->compute(items, dropout_in(epoch), learning_rate);
    return true;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    recorded_->release();
    sum += recorded_->take_losses();
    recorded_ = nullptr;
    optimizer_.set_steps(optimizer_.steps());           // which the step may have counted already
    halve(micro_batches_.training, "training", task_);  // which checkpoints hold, too
    return false;
  }
}

Dropout Trainer::dropout_in(std::size_t epoch) const {
  return Dropout(task_.config.dropout, task_.seed, epoch, task_.options.noise,
                 task_.config.clean_inputs());
}

std::vector<BatchItem> Trainer::batch_items(std::span<const std::size_t> exams,
                                            std::size_t epoch) const {
  std::vector<BatchItem> items;
  for (std::size_t exam : exams) {
    const Sequence& sequence = dataset_.sequences[exam];
    items.push_back({exam, sampler_.for_training(sequence.frames(), sequence.key, epoch)});
    if (!source_->one_view()) items.back().view = view_of(exam, epoch);
  }
  if (task_.options.mixup > 0) {
    draw_partners(items, dataset_, task_.options.mixup, task_.seed, epoch);
  }
  return items;
}

std::size_t Trainer::view_of(std::size_t exam, std::size_t epoch) const {
  const Dataset& dataset = task_.dataset;
  return draw_view(dataset.views.size(), task_.seed, dataset.sequences[exam].key, epoch);
}

std::vector<std::size_t> Trainer::order_of(std::size_t epoch) const {
  if (!task_.options.balanced) return epoch_order(task_.split.train, task_.seed, epoch);
  const Labels& labels = task_.targets[0];
  std::vector<std::vector<std::size_t>> groups(labels.strata());
  for (std::size_t exam : task_.split.train) {
    groups[static_cast<std::size_t>(labels.value[exam])].push_back(exam);
  }
  return balanced_order(std::move(groups), task_.seed, epoch);
}

void Trainer::update_parameters(double learning_rate) {
  std::span<float* const> parts;
  if (fused_) parts = fused_->gradient_parts();
  const bool scaled = task_.options.precision == torch::kFloat16;
  if (scaled) optimizer_.gradients().div_(loss_scale_.factor);
  optimizer_.clip_gradients(task_.options.clip, *team_, parts);
  const bool usable = !scaled || std::isfinite(optimizer_.gradient_norm());
  if (scaled) loss_scale_.update(usable);
  if (usable) optimizer_.step(learning_rate, *team_);
}

// The sums over a batch do not depend on micro-batches, except for rounding.
LossSum Trainer::gradients(const std::vector<BatchItem>& items, std::size_t epoch) {
  for (;;) {
    const std::uint64_t learnt = vit_ ? vit_->learnt_budget() : 0;
    try {
      return try_gradients(items, epoch);
    } catch (const c10::OutOfMemoryError&) {
      if (fused_) fused_->release();
      micro_batches_.training = std::min(micro_batches_.training, items_at_hand_);
      // The ViT has found a schedule with less memory, which gives the model fewer exams per
      // micro-batch.
      const bool smaller = vit_ && vit_->learnt_budget() != learnt;
      const bool in_turn = exams_go_in_turn(task_.options, objective_);
      if (smaller && (in_turn || micro_batches_.training == 1)) continue;
      halve(micro_batches_.training, "training", task_);
    }
  }
}

LossSum Trainer::try_gradients(const std::vector<BatchItem>& items, std::size_t epoch) {
  items_at_hand_ = items.size();
  const Dropout dropout = dropout_in(epoch);
  if (fused_ && objective_.couples())
    objective_.couple(fused_->outputs(items, dropout, micro_batches_.training));
  if (fused_) return fused_->compute(items, objective_, dropout, micro_batches_.training);
  if (task_.options.precision == torch::kFloat16) {
    model_->precision.gradient_scale = loss_scale_.factor;
  }
  optimizer_.zero_gradients();
  LossSum sum = objective_.weights_of(items);
  const bool in_turn = exams_go_in_turn(task_.options, objective_);
  source_->train(items, in_turn, epoch, [&](std::span<const BatchItem> part) {
    items_at_hand_ = part.size();
    if (objective_.couples())
      objective_.couple(
          training_outputs(*model_, dataset_, part, dropout, micro_batches_.training));
    accumulate_gradients(*model_, dataset_, part, objective_, dropout, micro_batches_.training,
                         sum);
  });
  return sum;
}

std::vector<double> Trainer::predict(const std::vector<std::size_t>& exams) {
  const auto groups = in_groups(exams, std::max(task_.options.batch, source_->exams_at_once()));
  source_->plan(groups);
  std::vector<double> all;
  for (const auto& group : groups) {
    source_->next();
    source_->evaluate();
    const std::vector<double> part = predict_loaded(group);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<double> Trainer::predict_loaded(const std::vector<std::size_t>& exams) {
  for (;;) {
    try {
      return predict_logits(
          *model_, {dataset_, task_.config, task_.seed, micro_batches_.evaluation}, exams, *team_);
    } catch (const c10::OutOfMemoryError&) {
      if (fused_ && !fused_->gradient_parts().empty()) {  // what training keeps may be in the way
        fused_->release();
        continue;
      }
      micro_batches_.evaluation = std::min(micro_batches_.evaluation, exams.size());
      halve(micro_batches_.evaluation, "evaluation", task_);
    }
  }
}

double Trainer::loss_of(const std::vector<std::size_t>& exams) {
  return objective_.of(predict(exams), exams).mean();
}

void Trainer::run_epoch() {
  using Clock = std::chrono::steady_clock;
  const c10::StreamGuard stream(stream_.get());
  const auto begun = Clock::now();
  EpochLosses losses;
  const bool measures = task_.start && history_.empty();
  losses.train =
      measures ? loss_of(task_.split.train) : train_epoch(history_.size(), losses.learning_rate);
  const std::chrono::duration<double> training = Clock::now() - begun;
  const auto logits = predict(task_.split.validation);
  losses.validation = objective_.of(logits, task_.split.validation).mean();
  losses.measured = validation_figure(task_.targets, task_.split, logits);
  if (task_.options.stopping_metric == StoppingMetric::kMetric)
    losses.figure = losses.measured.value_or(0);
  const std::chrono::duration<double> whole = Clock::now() - begun;
  last_epoch_ = {training.count(), whole.count(), steps_per_epoch()};
  diverged_ = !std::isfinite(losses.train) || !std::isfinite(losses.validation);
  if (diverged_) return;
  early_stop_.blind = !objective_.judges(task_.split.validation);
  if (early_stop_.update(losses.validation, losses.figure)) {
    best_parameters_.copy_(optimizer_.parameters());
  }
  history_.push_back(losses);
}

FitRecord Trainer::finish() {
  const c10::StreamGuard stream(stream_.get());
  optimizer_.parameters().copy_(best_parameters_);
  FitRecord result;
  result.seed = task_.seed;
  if (vit_) result.tuned = state_dict(vit_->trainable());
  if (vit_) result.vit_budget = vit_->learnt_budget();
  result.vit_peak = vit_peak();
  result.history = history_;
  result.diverged = diverged_;
  result.best_epoch = early_stop_.best_epoch;
  result.validation_logits = predict(task_.split.validation);
  result.test_logits = predict(task_.split.test);
  if (objective_.couples()) result.train_logits = predict(task_.split.train);
  result.micro_batches = micro_batches_;
  result.weights = state_dict(*model_);  // last: predictions take memory of their own
  return result;
}

std::uint64_t Trainer::vit_peak() const {
  return std::max(vit_peak_, vit_ ? vit_->peak_bytes() : 0);
}

FitState Trainer::state() const {
  stream_.get().synchronize();
  return {task_.seed,
          history_,
          early_stop_,
          optimizer_.steps(),
          micro_batches_,
          loss_scale_,
          vit_ ? vit_->learnt_budget() : 0,
          vit_peak(),
          optimizer_.parameters(),
          optimizer_.first_moment(),
          optimizer_.second_moment(),
          best_parameters_};
}

void Trainer::restore(const FitState& state) {
  if (state.seed != task_.seed || state.parameters.sizes() != optimizer_.parameters().sizes()) {
    throw DataError("the checkpoint belongs to another fit; start again with --overwrite");
  }
  const c10::StreamGuard stream(stream_.get());
  history_ = state.history;
  early_stop_ = state.early_stop;
  early_stop_.patience = task_.options.patience;
  micro_batches_ = state.micro_batches;
  if (micro_batches_.training < task_.options.batch) recorded_ = nullptr;
  loss_scale_ = state.loss_scale;
  if (vit_) vit_->set_learnt_budget(state.vit_budget);
  vit_peak_ = state.vit_peak;
  optimizer_.set_steps(state.steps);
  optimizer_.parameters().copy_(state.parameters);
  optimizer_.first_moment().copy_(state.first_moment);
  optimizer_.second_moment().copy_(state.second_moment);
  best_parameters_.copy_(state.best_parameters);
}

MicroBatches first_micro_batches(const FitTask& task) {
  const FitOptions& options = task.options;
  const std::size_t training =
      options.micro_batch > 0 ? std::min(options.micro_batch, options.batch) : options.batch;
  return {training, evaluation_size(task.dataset)};
}

namespace {

constexpr const char *kWeightPrefix = "model.", *kTunedPrefix = "vit.";

Json history_json(const std::vector<EpochLosses>& history) {
  Json rows = Json::array();
  for (const EpochLosses& row : history) {
    rows.push_back(Json::array({row.train, row.validation, row.learning_rate, row.figure,
                                row.measured ? Json(*row.measured) : Json()}));
  }
  return rows;
}

std::vector<EpochLosses> history_from_json(const Json& rows) {
  std::vector<EpochLosses> history;
  for (const Json& row : rows) {
    history.push_back({row.at(0).get<double>(), row.at(1).get<double>(), row.at(2).get<double>(),
                       row.at(3).get<double>()});
    if (!row.at(4).is_null()) history.back().measured = row.at(4).get<double>();
  }
  return history;
}

MicroBatches micro_batches_from_json(const Json& json) {
  const MicroBatches micro_batches{json.at(0).get<std::size_t>(), json.at(1).get<std::size_t>()};
  if (micro_batches.training > 0 && micro_batches.evaluation > 0) return micro_batches;
  throw std::out_of_range("pieces");
}

torch::Tensor double_tensor(const std::vector<double>& values) {
  return torch::tensor(values, torch::kFloat64);
}

// The tensors with this name prefix, under the rest of their names.
StateDict with_prefix(const StateDict& tensors, const std::string& prefix) {
  StateDict result;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(prefix)) result[name.substr(prefix.size())] = tensor;
  }
  return result;
}

SafetensorsFile read_file(const std::filesystem::path& path) {
  try {
    return read_sealed_safetensors(path);
  } catch (const DataError& error) {
    throw DataError(concat(error.what(), "; delete it, and --resume does this fit anew"));
  }
}

// Runs `read` on the file; missing or ill-typed entries give a DataError.
template <typename Read>
auto checked(const std::filesystem::path& path, const Read& read) {
  const SafetensorsFile file = read_file(path);
  try {
    const Json json = parse_json(file.metadata.at("state"), path.string());
    return read(file.tensors, json);
  } catch (const std::out_of_range&) {
    throw DataError(concat("'", path.string(), "' lacks an entry; start again with --overwrite"));
  } catch (const Json::exception& error) {
    throw DataError(
        concat("'", path.string(), "': ", error.what(), "; start again with --overwrite"));
  }
}

Json state_json(const FitState& state) {
  Json json;
  json["seed"] = state.seed;
  json["steps"] = state.steps;
  json["best_loss"] = json_number(state.early_stop.best_loss);
  json["best_figure"] = state.early_stop.best_figure;
  json["best_epoch"] = state.early_stop.best_epoch;
  json["epochs"] = state.early_stop.epochs;
  json["history"] = history_json(state.history);
  json["pieces"] = Json::array({state.micro_batches.training, state.micro_batches.evaluation});
  json["loss_scale"] = Json::array({state.loss_scale.factor, state.loss_scale.steady});
  json["vit_budget"] = state.vit_budget;
  json["vit_peak"] = state.vit_peak;
  return json;
}

void read_state(const Json& json, FitState& state) {
  state.seed = json.at("seed").get<std::uint64_t>();
  state.steps = json.at("steps").get<std::int64_t>();
  if (!json.at("best_loss").is_null()) {
    state.early_stop.best_loss = json.at("best_loss").get<double>();
  }
  state.early_stop.best_figure = json.at("best_figure").get<double>();
  state.early_stop.best_epoch = json.at("best_epoch").get<std::size_t>();
  state.early_stop.epochs = json.at("epochs").get<std::size_t>();
  state.history = history_from_json(json.at("history"));
  state.micro_batches = micro_batches_from_json(json.at("pieces"));
  const Json& scale = json.at("loss_scale");
  state.loss_scale = {scale.at(0).get<double>(), scale.at(1).get<std::size_t>()};
  state.vit_budget = json.at("vit_budget").get<std::uint64_t>();
  state.vit_peak = json.at("vit_peak").get<std::uint64_t>();
}

}  // namespace

void write_checkpoint(const std::filesystem::path& path, const FitState& state) {
  write_sealed_safetensors(path,
                           {{"parameters", state.parameters.cpu()},
                            {"first_moment", state.first_moment.cpu()},
                            {"second_moment", state.second_moment.cpu()},
                            {"best_parameters", state.best_parameters.cpu()}},
                           {{"state", state_json(state).dump()}});
}

FitState read_checkpoint(const std::filesystem::path& path) {
  return checked(path, [](const StateDict& tensors, const Json& json) {
    FitState state;
    read_state(json, state);
    state.parameters = tensors.at("parameters");
    state.first_moment = tensors.at("first_moment");
    state.second_moment = tensors.at("second_moment");
    state.best_parameters = tensors.at("best_parameters");
    return state;
  });
}

void write_record(const std::filesystem::path& path, const FitRecord& record) {
  StateDict tensors;
  for (const auto& [name, tensor] : record.weights) tensors[kWeightPrefix + name] = tensor;
  for (const auto& [name, tensor] : record.tuned) tensors[kTunedPrefix + name] = tensor;
  tensors["validation_logits"] = double_tensor(record.validation_logits);
  tensors["test_logits"] = double_tensor(record.test_logits);
  if (!record.train_logits.empty()) tensors["train_logits"] = double_tensor(record.train_logits);
  Json json;
  json["seed"] = record.seed;
  json["best_epoch"] = record.best_epoch;
  json["diverged"] = record.diverged;
  json["vit_budget"] = record.vit_budget;
  json["vit_peak"] = record.vit_peak;
  json["pieces"] = Json::array({record.micro_batches.training, record.micro_batches.evaluation});
  if (!record.families.empty()) json["lead"] = record.lead ? Json(*record.lead) : Json();
  json["history"] = history_json(record.history);
  write_sealed_safetensors(path, tensors, {{"state", json.dump()}});
}

FitRecord read_record(const std::filesystem::path& path) {
  return checked(path, [](const StateDict& tensors, const Json& json) {
    FitRecord record;
    record.seed = json.at("seed").get<std::uint64_t>();
    record.best_epoch = json.at("best_epoch").get<std::size_t>();
    record.diverged = json.at("diverged").get<bool>();
    record.vit_budget = json.at("vit_budget").get<std::uint64_t>();
    record.vit_peak = json.at("vit_peak").get<std::uint64_t>();
    record.micro_batches = micro_batches_from_json(json.at("pieces"));
    record.history = history_from_json(json.at("history"));
    record.validation_logits = doubles(tensors.at("validation_logits"));
    record.test_logits = doubles(tensors.at("test_logits"));
    if (tensors.contains("train_logits")) record.train_logits = doubles(tensors.at("train_logits"));
    record.weights = with_prefix(tensors, kWeightPrefix);
    record.tuned = with_prefix(tensors, kTunedPrefix);
    if (!record.weights.contains("family")) return record;
    record.families = doubles(record.weights["family"]);
    if (const Json& lead = json.at("lead"); !lead.is_null()) record.lead = lead.get<double>();
    return record;
  });
}

}  // namespace coldframe::temporal
