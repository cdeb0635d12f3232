// All that is needed to build a model and to feed it; stored with its weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/text/word_table.h"
#include "train_temporal/data/batcher.h"
#include "train_temporal/data/input_statistics.h"
#include "train_temporal/models/architecture.h"

namespace coldframe::temporal {

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

}  // namespace coldframe::temporal
