// What the rest of the program knows of a kind of model: a row, which stands in the model's own
// file, as do the names by which command lines ask for it.
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

// Values per frame, in units of H, that autograd keeps at the highest point of a step; measured
// with LibTorch 2.11. Of layers over frames: once, and for each layer and direction.
struct KeptValues {
  double once = 0, by_layer = 0;
  double grid_by_layer = 0;  // of each frame of the padded batch
  // Evaluation keeps no more than what one layer needs; 0: a third of what training does.
  double evaluation = 0, evaluation_grid = 0;
};

struct Architecture {
  const char* name;  // in model files
  std::shared_ptr<SequenceModel> (*make)(const ModelConfig& config);
  // Its arithmetic over operations (operations.h): what is between the projected frames and
  // their pooling or, of models that are not so, from inputs to outputs.
  Value (*layers_over_frames)(Operations&, const ModelConfig&, Value x) = nullptr;
  Value (*whole)(Operations&, const ModelConfig&) = nullptr;
  bool is_network() const { return layers_over_frames != nullptr || whole != nullptr; }
  TemporalPool pool = TemporalPool::kMean;  // of those that are not `ordered`

  bool ordered = false;     // reads frames in order and at their times, pooled as `pool` says
  bool recurrent = false;   // can read both ways
  std::int64_t gates = 0;   // of a recurrent cell: 3 of a GRU, 4 of an LSTM
  bool sees_frames = true;  // has features, which can be blanked, and a ViT to tune behind them
  bool takes_covariates = true;
  bool per_frame = true;     // can give an output for each frame
  bool decays = false;       // its state can fade between frames (--time-encoding decay)
  bool has_kernels = false;  // FusedGru computes its plain form on the CPU
  bool even_width = false;   // `hidden` is even
  bool by_steps = true;      // is trained; else fitted exactly, with nothing to search or to tune
  std::int64_t layers = 1;   // unless --layers says otherwise
  std::int64_t max_layers = 64;
  KeptValues kept = {}, kept_decaying = {};  // the latter with --time-encoding decay
};

// Those that the rest of the program names.
extern const Architecture kGru;      // architectures.cpp
extern const Architecture kClock;    // architectures.cpp
extern const Architecture kSummary;  // summary_model.cpp

template <typename Model>
std::shared_ptr<SequenceModel> make(const ModelConfig& config) {
  return std::make_shared<Model>(config);
}

// All that is needed to build a model and to feed it; stored with its weights.

// A model that reads frames in order and sees time gets the log of the interval and the seconds
// since the first frame, with `elapsed` those since the zero that all exams share, and beside them:
enum class TimeEncoding {
  kLog,       // no more than these
  kDecay,     // the GRU's state decays between frames: the γ_h of GRU-D (Che et al. 2018)
  kTime2Vec,  // learnt sinusoids of the seconds since the first frame (Kazemi et al. 2019)
};
inline const WordTable<TimeEncoding> kTimeEncodings{{"log", TimeEncoding::kLog},
                                                    {"decay", TimeEncoding::kDecay},
                                                    {"time2vec", TimeEncoding::kTime2Vec}};

inline constexpr std::int64_t kTime2VecInputs = 8;
inline constexpr std::int64_t kClockFrameInputs = 3;  // place, seconds since first, unknown

struct ModelConfig {
  const Architecture* architecture = &kGru;
  FrameOrder order = FrameOrder::kInOrder;
  bool blank = false;             // features tell nothing; times, mask and length are as they are
  std::int64_t dimension = 0;     // D of the cache, with frame_covariates D + K
  std::int64_t covariates = 0;    // K, see data/covariates.h
  bool frame_covariates = false;  // they end every frame's features; else they go beside the head
  std::int64_t clock_width = 0;   // F of clock_descriptor(), without `elapsed` all but the last
  std::int64_t outputs = 2;       // C: of the head
  std::int64_t hidden = 64;       // H
  std::int64_t layers = 1;
  bool bidirectional = false;
  TemporalPool pool = TemporalPool::kAttention;
  bool time = false;     // whether a model that reads in order sees intervals
  bool elapsed = false;  // then, or of `clock`: also the time since the zero that all exams share
  TimeEncoding time_encoding = TimeEncoding::kLog;
  double dropout = 0.3;
  std::vector<std::string> streams = {};  // of merged frames, in the order of their features
  bool gated = false;              // streams are weighted against each other, else side by side
  std::int64_t only_stream = -1;   // the control that sees one of them alone
  Inputs inputs = Inputs::kLevel;  // what is made of a frame's features before all else

  bool operator==(const ModelConfig&) const = default;
  bool per_frame() const { return pool == TemporalPool::kNone; }
  // True for the models that FusedGru knows: it computes them on the CPU, else autograd does.
  bool has_kernels() const {
    return architecture->has_kernels && time_encoding == TimeEncoding::kLog && !gated &&
           only_stream < 0 && inputs == Inputs::kLevel;
  }
  // True for models to which differences between frames can be shown.
  bool can_show_change() const {
    return architecture->sees_frames && architecture->by_steps && !blank && !is_one_frame(order);
  }
  bool decays() const {
    return architecture->decays && time && time_encoding == TimeEncoding::kDecay;
  }
  std::int64_t time_values() const { return elapsed ? 3 : 2; }    // interval, since first, elapsed
  std::int64_t time_inputs() const { return time_values() + 1; }  // and whether it is unknown
  // What `inputs` make of a frame's features, without covariates, and these features as cached.
  std::int64_t seen_features() const {
    return frame_covariates ? dimension - covariates : dimension;
  }
  std::int64_t features() const { return seen_features() / parts_of(inputs); }
  // d of each stream, of features() = S · d + S.
  std::int64_t stream_width() const { return features() / std::ssize(streams) - 1; }
  // Of a frame's inputs the last ones, which are 0 or 1 or standardised covariates, get no noise.
  std::int64_t clean_inputs() const {
    return architecture->sees_frames ? std::ssize(streams) + dimension - seen_features() : 0;
  }
};
inline const WordTable<TemporalPool> kTemporalPools{{"last", TemporalPool::kLast},
                                                    {"mean", TemporalPool::kMean},
                                                    {"attention", TemporalPool::kAttention},
                                                    {"none", TemporalPool::kNone}};
// What the model is asked to be and cannot, "a transformer of width 33, which is odd"; else "".
std::string impossible(const ModelConfig& config);

Json to_json(const ModelConfig& config);
ModelConfig model_config_from_json(const Json& json);  // DataError

// H' of what the head sees, of all but kClock.
inline std::int64_t pooled_width(const ModelConfig& config) {
  if (!config.architecture->by_steps) return config.dimension;
  return config.architecture->recurrent && config.bidirectional ? 2 * config.hidden : config.hidden;
}

// The names of models, as command lines, files and reports have them: auto, gru, bigru, lstm, … A
// name stands for an architecture, its direction and the order of frames. A model is a file with
// its Architecture and its names; named_models() lists the files.

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

// The names of one file each; model_config.cpp has those that stand for other models: auto and
// twins.
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
