// An Architecture describes a kind of model to the rest of the program. It is defined in the
// model's own file, as are the names that command lines use for it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/text/spelling.h"
#include "train_temporal/data/batcher.h"
#include "train_temporal/data/input_statistics.h"

namespace coldframe::temporal {

class Operations;
class SequenceModel;
struct Value;
struct ModelConfig;

enum class TemporalPool { kLast, kMean, kAttention, kNone };  // kNone: the head sees every frame

// Values per frame, in units of H, that autograd keeps at the peak of a step, measured with
// LibTorch 2.11: once, and for each layer over frames and direction.
struct KeptValues {
  double once = 0, by_layer = 0;
  double grid_by_layer = 0;  // of each frame of the padded batch
  // Evaluation keeps at most what one layer needs; 0: a third of what training keeps.
  double evaluation = 0, evaluation_grid = 0;
  double weights = 1;  // copies of the last layer's recurrent weights
};

struct Architecture {
  const char* name;  // in model files
  std::shared_ptr<SequenceModel> (*make)(const ModelConfig& config);
  // Its computation in terms of Operations (operations.h): the layers between the projected frames
  // and their pooling or, for models without these, everything from inputs to outputs.
  Value (*layers_over_frames)(Operations&, const ModelConfig&, Value x) = nullptr;
  Value (*whole)(Operations&, const ModelConfig&) = nullptr;
  bool is_network() const { return layers_over_frames != nullptr || whole != nullptr; }
  TemporalPool pool = TemporalPool::kMean;  // of models that are not `ordered`

  bool ordered = false;     // reads frames in order and at their times; pooled as ModelConfig::pool
  bool recurrent = false;   // can be bidirectional
  std::int64_t gates = 0;   // of the recurrent cell: GRU 3, LSTM 4
  bool sees_frames = true;  // takes features, which can be blanked; its ViT can be tuned
  bool takes_covariates = true;
  bool per_frame = true;     // can output a value per frame
  bool decays = false;       // its state can decay between frames (--time-encoding decay)
  bool has_kernels = false;  // FusedGru can compute its plain form on the CPU
  bool even_width = false;   // `hidden` must be even
  bool by_steps = true;  // trained by gradient steps; else fitted exactly, without search or tuning
  std::int64_t layers = 1;  // unless --layers says otherwise
  std::int64_t max_layers = 64;
  KeptValues kept = {}, kept_decaying = {};  // the latter with --time-encoding decay
};

// Architectures that the rest of the program refers to.
extern const Architecture kGru;      // architectures.cpp
extern const Architecture kClock;    // architectures.cpp
extern const Architecture kSummary;  // summary_model.cpp

template <typename Model>
std::shared_ptr<SequenceModel> make(const ModelConfig& config) {
  return std::make_shared<Model>(config);
}

// Everything needed to build a model and to prepare its inputs; stored with its weights.

// A model that reads frames in order and sees time takes the log of the interval and the seconds
// since the first frame, with `elapsed` also those since the common time zero of all exams, plus:
enum class TimeEncoding {
  kLog,       // nothing more
  kDecay,     // decay of the GRU's state between frames: γ_h of GRU-D (Che et al. 2018)
  kTime2Vec,  // learnt sinusoids of the seconds since the first frame (Kazemi et al. 2019)
};
inline const WordTable<TimeEncoding> kTimeEncodings{{"log", TimeEncoding::kLog},
                                                    {"decay", TimeEncoding::kDecay},
                                                    {"time2vec", TimeEncoding::kTime2Vec}};

inline constexpr std::int64_t kTime2VecInputs = 8;
inline constexpr std::int64_t kClockFrameInputs = 3;  // position, seconds since first, unknown

struct ModelConfig {
  const Architecture* architecture = &kGru;
  FrameOrder order = FrameOrder::kInOrder;
  bool blank = false;             // null features: only times, mask and length are informative
  std::int64_t dimension = 0;     // D of the cache, with frame_covariates D + K
  std::int64_t covariates = 0;    // K, see data/covariates.h
  bool frame_covariates = false;  // appended to each frame's features; else next to the head
  std::int64_t clock_width = 0;   // F of clock_descriptor(); without `elapsed` all but the last
  std::int64_t outputs = 2;       // C: of the head
  std::int64_t hidden = 64;       // H
  std::int64_t layers = 1;
  bool bidirectional = false;
  TemporalPool pool = TemporalPool::kAttention;
  bool time = false;     // an ordered model sees intervals
  bool elapsed = false;  // with `time` or `clock`: also the time since the common zero of all exams
  TimeEncoding time_encoding = TimeEncoding::kLog;
  double dropout = 0.3;
  std::vector<std::string> streams = {};  // of merged frames, in the order of their features
  bool gated = false;                     // streams are weighted by a softmax; else concatenated
  std::int64_t only_stream = -1;          // the control that sees one stream only; −1: none
  Inputs inputs = Inputs::kLevel;         // first transformation of a frame's features

  bool operator==(const ModelConfig&) const = default;
  bool per_frame() const { return pool == TemporalPool::kNone; }
  // True if FusedGru computes the model on the CPU; else autograd does.
  bool has_kernels() const {
    return architecture->has_kernels && time_encoding == TimeEncoding::kLog && !gated &&
           only_stream < 0 && inputs == Inputs::kLevel;
  }
  // True for models that can take differences between frames as inputs.
  bool can_show_change() const {
    return architecture->sees_frames && architecture->by_steps && !blank && !is_one_frame(order);
  }
  bool decays() const {
    return architecture->decays && time && time_encoding == TimeEncoding::kDecay;
  }
  std::int64_t time_values() const { return elapsed ? 3 : 2; }    // interval, since first, elapsed
  std::int64_t time_inputs() const { return time_values() + 1; }  // and whether it is unknown
  // Width of a frame's inputs without covariates, after (seen) and before `inputs` transforms them.
  std::int64_t seen_features() const {
    return frame_covariates ? dimension - covariates : dimension;
  }
  std::int64_t features() const { return seen_features() / parts_of(inputs); }
  // d of each stream; features() = S · d + S.
  std::int64_t stream_width() const { return features() / std::ssize(streams) - 1; }
  // Number of trailing inputs of a frame (0/1 flags and standardised covariates) without noise.
  std::int64_t clean_inputs() const {
    return architecture->sees_frames ? std::ssize(streams) + dimension - seen_features() : 0;
  }
};
inline const WordTable<TemporalPool> kTemporalPools{{"last", TemporalPool::kLast},
                                                    {"mean", TemporalPool::kMean},
                                                    {"attention", TemporalPool::kAttention},
                                                    {"none", TemporalPool::kNone}};
// Describes an impossible configuration, "a transformer of width 33, which is odd"; else "".
std::string impossible(const ModelConfig& config);

Json to_json(const ModelConfig& config);
ModelConfig model_config_from_json(const Json& json);  // DataError

// H': the input width of the head, for all models but kClock.
inline std::int64_t pooled_width(const ModelConfig& config) {
  if (!config.architecture->by_steps) return config.dimension;
  return config.architecture->recurrent && config.bidirectional ? 2 * config.hidden : config.hidden;
}

// The names of models in command lines, files and reports: auto, gru, bigru, lstm, … A name stands
// for an architecture, its direction and the order of frames. Each model has one file, with its
// Architecture and its names; named_models() lists the files.

struct NamedModel {
  const char* name;
  const Architecture* architecture;  // a twin's, for main models with nothing to take away
  const char* about;                 // "frames in order": shown next to its name in the report
  FrameOrder order = FrameOrder::kInOrder;
  bool bidirectional = false, blank = false;
  bool twin = false;          // the main model except for frame order or features
  bool compared = false;      // trained by --compare without a list
  bool chooses = false;       // each fit chooses: the architecture, or a summary of the frames
  bool learns_frames = true;  // can learn a per-frame target
  const char* about_frames = nullptr;  // `about` for per-frame targets, if it differs
  bool names_covariates = false;       // the report mentions that it takes covariates, too

  // True for models that learn from the order of frames.
  bool learns_order() const { return architecture->ordered && !twin; }
};

// The names defined in one file each. Names that stand for other models (auto, twins) are in
// model_config.cpp.
std::span<const NamedModel> recurrent_models();
std::span<const NamedModel> transformer_models();
std::span<const NamedModel> convolutional_models();
std::span<const NamedModel> pooled_models();
std::span<const NamedModel> summary_models();
std::span<const NamedModel> models_without_frames();

std::span<const NamedModel> named_models();             // all
const NamedModel* find_model(const std::string& name);  // null: none
const WordTable<const Architecture*>& architectures();  // as model files name them

// The names of the models for which `wanted` is true, in the order of the table.
template <typename Wanted>
std::vector<std::string> model_names(Wanted wanted) {
  std::vector<std::string> names;
  for (const NamedModel& model : named_models())
    if (wanted(model)) names.emplace_back(model.name);
  return names;
}
std::vector<std::string> model_names();  // of all

inline constexpr const char *kAutoModel = "auto", *kSingle = "single", *kBlank = "blank",
                            *kCovariatesAlone = "covariates", *kSummaryModel = "summary";
// Prefix of the main model on a single stream: "only-FA".
inline constexpr const char* kOnlyPrefix = "only-";
bool is_twin(const std::string& name);

// Sets `config` to the named model; a twin modifies the model that `config` already describes.
void set_model(ModelConfig& config, const std::string& name);  // ConfigError
std::string model_name(const ModelConfig& config);             // DataError where there is none

// What the report states after a model's name; "" for unknown names.
std::string about_model(const std::string& name, bool per_frame, bool covariates);

// "first", "middle", "last": the frame that `single` sees.
const WordTable<FrameOrder>& single_frames();

}  // namespace coldframe::temporal
