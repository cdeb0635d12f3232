// The names of models, as command lines, files and reports have them: auto, gru, bigru, lstm, … A
// name stands for an architecture, its direction and the order of frames. A model is a file with
// its Architecture and its names; named_models() lists the files.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/text/word_table.h"
#include "train_temporal/models/model_config.h"

namespace coldframe::temporal {

struct NamedModel {
  const char* name;
  const Architecture* architecture;  // a twin's, where the main model has nothing to lose
  const char* about;                 // "frames in order": beside its name in the report
  FrameOrder order = FrameOrder::kInOrder;
  bool bidirectional = false, blank = false;
  bool twin = false;                   // the main model, but for its order or its features
  bool compared = false;               // by --compare alone
  bool chooses = false;                // in each fit: the architecture, or a summary of the frames
  bool learns_frames = true;           // can learn a target per frame
  const char* about_frames = nullptr;  // then, where that differs
  bool names_covariates = false;       // the report says that it has them as well

  // True for models that are trained on the order of frames.
  bool learns_order() const { return architecture->ordered && !twin; }
};

// The names of one file each; registry.cpp has those that stand for other models: auto and twins.
std::span<const NamedModel> recurrent_models();
std::span<const NamedModel> transformer_models();
std::span<const NamedModel> convolutional_models();
std::span<const NamedModel> pooled_models();
std::span<const NamedModel> summary_models();
std::span<const NamedModel> models_without_frames();

std::span<const NamedModel> named_models();             // all
const NamedModel* find_model(const std::string& name);  // null: none
const WordTable<const Architecture*>& architectures();  // as model files name them

// The names of those that `wanted` takes, in the order of the table.
template <typename Wanted>
std::vector<std::string> model_names(Wanted wanted) {
  std::vector<std::string> names;
  for (const NamedModel& model : named_models())
    if (wanted(model)) names.emplace_back(model.name);
  return names;
}
std::vector<std::string> model_names();  // of all

inline constexpr const char *kAutoModel = "auto", *kSingle = "single",
                            *kCovariatesAlone = "covariates", *kSummaryModel = "summary";
// The main model on one stream alone: "only-FA".
inline constexpr const char* kOnlyPrefix = "only-";
bool is_twin(const std::string& name);

// Twins change the model that `config` describes already.
void set_model(ModelConfig& config, const std::string& name);  // ConfigError
std::string model_name(const ModelConfig& config);             // DataError where there is none

// What the report says behind a model's name; "" of names that are none of these.
std::string about_model(const std::string& name, bool per_frame, bool covariates);

// "first", "middle", "last": the frame that `single` sees.
const WordTable<FrameOrder>& single_frames();

}  // namespace coldframe::temporal
