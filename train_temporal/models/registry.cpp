#include "train_temporal/models/registry.h"

#include <algorithm>
#include <ranges>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

constexpr NamedModel kChoiceNames[] = {
    {.name = kAutoModel,
     .architecture = &kGru,
     .about = "frames in order, or a summary of them, as each fit's validation part chose",
     .chooses = true},
};

constexpr NamedModel kTwinNames[] = {
    {.name = "shuffled",
     .architecture = &kGru,
     .about = "(control): frames in random order",
     .order = FrameOrder::kShuffled,
     .twin = true,
     .compared = true,
     .names_covariates = true},
    {.name = "blank",
     .architecture = &kGru,
     .about = "(control): the same model, features blanked; it sees times",
     .blank = true,
     .twin = true,
     .compared = true,
     .names_covariates = true},
};

// ConfigError, which lists the streams, where there is no such one.
void see_only(ModelConfig& config, const std::string& name) {
  std::vector<std::string> names;
  for (const std::string& stream : config.streams) names.push_back(kOnlyPrefix + stream);
  config.only_stream = static_cast<std::int64_t>(choice("compare", name, names));
}

// Per frame `single` is every frame by itself.
FrameOrder order_of(const NamedModel& model, const ModelConfig& config) {
  return config.per_frame() && is_one_frame(model.order) ? FrameOrder::kInOrder : model.order;
}

bool has_twin(const ModelConfig& config, const NamedModel& twin) {
  return twin.blank ? config.architecture->sees_frames : config.architecture->ordered;
}

bool describes(const NamedModel& model, const ModelConfig& config) {
  if (model.blank) return config.blank;
  const bool ordered = config.architecture->ordered || config.architecture == &kSummary;
  if (model.twin) return ordered && config.order == model.order;
  const bool one_frame = is_one_frame(model.order) && is_one_frame(config.order);
  return config.architecture == model.architecture &&
         (one_frame || config.order == order_of(model, config)) &&
         (!model.bidirectional || config.bidirectional);
}

}  // namespace

std::span<const NamedModel> named_models() {
  static const std::vector<NamedModel> all = [] {
    std::vector<NamedModel> rows;
    for (const std::span<const NamedModel> part :
         {std::span<const NamedModel>(kChoiceNames), recurrent_models(), transformer_models(),
          convolutional_models(), pooled_models(), summary_models(),
          std::span<const NamedModel>(kTwinNames), models_without_frames()})
      rows.insert(rows.end(), part.begin(), part.end());
    return rows;
  }();
  return all;
}

const NamedModel* find_model(const std::string& name) {
  const auto models = named_models();
  const auto found = std::ranges::find(models, name, &NamedModel::name);
  return found == models.end() ? nullptr : &*found;
}

const WordTable<const Architecture*>& architectures() {
  static const WordTable<const Architecture*> table = [] {
    WordTable<const Architecture*> all;
    for (const NamedModel& model : named_models())
      if (!value_for(all, model.architecture->name))
        all.emplace_back(model.architecture->name, model.architecture);
    return all;
  }();
  return table;
}

std::vector<std::string> model_names() {
  return model_names([](const NamedModel&) { return true; });
}

bool is_twin(const std::string& name) {
  const NamedModel* model = find_model(name);
  return name.starts_with(kOnlyPrefix) || (model != nullptr && model->twin);
}

void set_model(ModelConfig& config, const std::string& name) {
  if (name.starts_with(kOnlyPrefix)) return see_only(config, name);
  const NamedModel& model = named_models()[choice("model", name, model_names())];
  config.blank = model.blank;
  if (model.twin && has_twin(config, model)) {
    if (!model.blank) config.order = model.order;
    return;
  }
  config.architecture = model.architecture;
  config.order = order_of(model, config);
  if (model.bidirectional) config.bidirectional = true;
}

std::string model_name(const ModelConfig& config) {
  if (config.only_stream >= 0)
    return kOnlyPrefix + config.streams[static_cast<std::size_t>(config.only_stream)];
  // The last row that describes it: a GRU is `gru`, and one that reads both ways `bigru`.
  for (const NamedModel& model : named_models() | std::views::reverse)
    if (describes(model, config)) return model.name;
  throw DataError("model configuration: no model has this architecture and order of frames");
}

std::string about_model(const std::string& name, bool per_frame, bool covariates) {
  const NamedModel* model = find_model(name);
  const bool only = name.starts_with(kOnlyPrefix);
  if (model == nullptr && !only) return "";
  const std::string about =
      only ? "(control): the same model, of features this stream's alone, at the times of all"
      : per_frame && model->about_frames != nullptr ? model->about_frames
                                                    : model->about;
  const bool adds = covariates && (only || model->names_covariates);
  return concat(about.starts_with('(') ? " " : ": ", about, adds ? ", and covariates" : "");
}

const WordTable<FrameOrder>& single_frames() {
  static const WordTable<FrameOrder> table{
      {"first", FrameOrder::kFirst}, {"middle", FrameOrder::kMiddle}, {"last", FrameOrder::kLast}};
  return table;
}

}  // namespace coldframe::temporal
