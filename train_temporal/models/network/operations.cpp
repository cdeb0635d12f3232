#include "train_temporal/models/network/operations.h"

#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

// Gated multimodal units (Arevalo et al. 2017, arXiv:1702.01992), with a softmax, since streams may
// be more than two: [v_s, g_s] = fusion.s(f_s), x = Σ_s softmax_s(g_s) ∘ tanh(v_s).
Value weigh_streams(Operations& ops, const ModelConfig& config, const Value& x) {
  const std::int64_t streams = std::ssize(config.streams), width = config.stream_width();
  std::vector<Value> values, scores;
  for (std::int64_t s = 0; s < streams; ++s) {
    const Value both =
        ops.linear(ops.columns(x, s * width, width), concat("fusion.", s), 2 * config.hidden);
    values.push_back(ops.tanh(ops.columns(both, 0, config.hidden)));
    scores.push_back(ops.columns(both, config.hidden, config.hidden));
  }
  return ops.weigh(values, scores, ops.columns(x, streams * width, streams));
}

// x, the times where they are known, and whether they are not; with time2vec also a line and
// sinusoids of the seconds since the first frame.
Value with_times(Operations& ops, const ModelConfig& config, const Value& x) {
  const TimeInputs times = ops.times();
  std::vector<Value> parts = {x, ops.multiply(times.value, times.known),
                              ops.one_minus(times.time_known)};
  if (config.time_encoding == TimeEncoding::kTime2Vec) {
    const Value phase = ops.linear(ops.columns(times.value, 1, 1), "time2vec", kTime2VecInputs);
    const Value periodic = ops.sine(ops.columns(phase, 1, kTime2VecInputs - 1));
    parts.push_back(ops.multiply(ops.join({ops.columns(phase, 0, 1), periodic}), times.time_known));
  }
  return ops.join(parts);
}

}  // namespace

Value outputs_of(Operations& ops, const ModelConfig& config) {
  const Architecture& architecture = *config.architecture;
  if (architecture.whole != nullptr) return architecture.whole(ops, config);
  Value x = config.gated ? weigh_streams(ops, config, ops.features())
                         : ops.linear(ops.features(), "project", config.hidden);
  x = ops.dropout(x, RandomPurpose::kProjectionDropout);
  if (architecture.ordered && config.time) x = with_times(ops, config, x);
  x = architecture.layers_over_frames(ops, config, x);
  return head_of(ops, config, config.per_frame() ? x : ops.pool(x));
}

Value head_of(Operations& ops, const ModelConfig& config, const Value& x) {
  return ops.linear(ops.dropout(x, RandomPurpose::kHeadDropout), "head", config.outputs);
}

TemporalPool pool_of(const ModelConfig& config) {
  return config.per_frame() || config.architecture->ordered ? config.pool
                                                            : config.architecture->pool;
}

}  // namespace coldframe::temporal
