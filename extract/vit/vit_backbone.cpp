#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>
#include <utility>
#include <vector>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "common/torch/device.h"
#include "common/torch/memory.h"
#include "extract/vit/backbone.h"
#include "extract/vit/checkpoint/checkpoint.h"
#include "extract/vit/config/model_config.h"
#include "extract/vit/cpu/choose.h"
#include "extract/vit/gpu/choose.h"
#include "extract/vit/published/published.h"
#include "extract/vit/resolve_architecture.h"
#include "extract/vit/vit.h"
#include "extract/vit/weights.h"

namespace coldframe::vit {

namespace {

constexpr int kTimedPasses = 3;                     // at least, and as many as take so long
constexpr double kMinTiming = 0.1, kMaxTiming = 2;  // seconds
// Of all images: below, other programs decide what is measured, and little can be won.
constexpr double kWorthTiming = 0.02;  // seconds

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::uint64_t bytes_of(const std::vector<torch::Tensor>& tensors) {
  std::uint64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += tensor.nbytes();
  return bytes;
}

// The last block alone needs no naming: recipes are the same either way.
FeatureOptions resolved(FeatureOptions options, const Architecture& architecture) {
  if (of_last_block_alone(options, architecture)) options.layers.clear();
  return options;
}

// [B, 1, X, Y, Z] -> [B, X, 3, Y, Z], three equal channels.
torch::Tensor planes_of(const torch::Tensor& blocks) {
  return blocks.transpose(1, 2).expand({-1, -1, 3, -1, -1});
}

class VitBackbone : public Backbone {
 public:
  VitBackbone(VisionTransformer model, Json source, const BackboneOptions& options,
              const torch::Device& device, const std::vector<Precision>& precisions)
      : model_(std::move(model)),
        source_(std::move(source)),
        architecture_(model_->architecture),
        features_(resolved(options.features, model_->architecture)),
        projection_(model_->projection),
        image_size_(options.image_size),
        grid_(model_->grid),
        block_(options.block),
        pools_volumes_(options.pools_volumes),
        device_(device),
        precision_(precisions.front()),
        named_precision_(options.named_precision),
        times_(options.times) {
    model_->eval();
    if (options.check && options.clip_frames == 0 && architecture_.takes_clips())
      throw unknown_length(architecture_.frames);  // its frames were read one by one
    if (options.check) check_ = options.check();
    const torch::Tensor images = check_.images;
    if (images.defined() && (precision_ != Precision::kFp32 || device.is_cuda()))
      compute_exactly(images);
    if (device.is_cpu()) {
      if (precisions.size() == 1 && !exact_.valid())
        take(candidate(precision_, /*frees=*/true));
      else
        begin_on_cpu(precisions, images, detached_tensors());
      exact_ = {};
      check_ = {};
      if (engine_) model_ = nullptr;  // it has its own copy of the weights
      return;
    }
    const std::vector<torch::Tensor> weights = detached_tensors();
    if (auto engine = make_gpu_engine(options)) {
      gpu_engine_ = std::make_unique<gpu::GuardedEngine>(std::move(engine), check_, exact_);
      begin_on_gpu();
    }
    if (exact_.valid() && !gpu_engine_) check_operators(images, weights);
  }

  torch::Tensor forward(const torch::Tensor& given) override {
    const torch::Tensor images = takes_blocks() ? planes_of(given) : given;
    require_images(images, image_size_,
                   grid_.steps * std::max<std::int64_t>(1, architecture_.tubelet));
    const torch::InferenceMode guard;
    if (engine_) {
      torch::Tensor kept;
      const torch::Tensor pooled =
          engine_->forward(images.to(torch::kCPU).contiguous(), features_, &kept);
      TorchOperations ops;
      const torch::Tensor result = apply_if_present(ops, projection_, pooled);
      return kept.defined() ? at::cat({result, kept.flatten(1)}, 1) : result;
    }
    if (gpu_engine_) {
      const torch::Tensor found = gpu_engine_->forward_images(images.to(device_).contiguous());
      if (still_takes_frames()) return found;
    }
    // LibTorch's operators. Where memory runs out on the way, the next call goes on.
    model_->to(device_, scalar_type(precision_));
    const torch::Tensor input = images.to(device_, scalar_type(precision_)).contiguous();
    return model_->forward(input, features_).to(torch::kFloat32).contiguous();
  }

  bool takes_frames() const override { return gpu_engine_ != nullptr; }
  torch::Tensor forward_frames(const torch::Tensor& frames, const torch::Tensor& levels) override {
    const torch::Tensor found = gpu_engine_->forward_frames(frames, levels);
    return still_takes_frames() ? found : torch::Tensor();
  }
  void expect(std::int64_t batch, bool stays) override {
    if (!gpu_engine_) return;
    gpu_engine_->expect(batch, stays);
    still_takes_frames();
  }
  std::uint64_t bytes_per_image() const override { return gpu_engine_ ? bytes_per_image_ : 0; }
  std::uint64_t bytes_aside() const override {
    return gpu_engine_ ? gpu_engine_->engine().graph_bytes() : 0;
  }
  void release_memory() override {
    if (gpu_engine_) gpu_engine_->release_memory();
  }
  std::int64_t max_images() const override {
    return gpu_engine_ ? gpu_engine_->engine().max_images() : Backbone::max_images();
  }

  std::int64_t dimension() const override {
    if (projection_) return projection_->weight.size(0);
    return pooled_features(features_.pooling, architecture_, grid_.patches()) *
           static_cast<std::int64_t>(layers_of(features_, architecture_).size());
  }

  std::int64_t clip_frames() const override {
    return architecture_.takes_clips() && !takes_blocks() ? grid_.steps * architecture_.tubelet : 1;
  }
  std::array<std::int64_t, 3> block() const override { return block_; }
  bool pools_volumes() const override { return pools_volumes_; }
  std::int64_t clip_steps() const override {
    return features_.pooling == Pooling::kTime ? grid_.steps : 1;
  }

  std::vector<std::int64_t> cut_shape() const override {
    if (features_.cut == 0) return {};
    return {architecture_.prefix_tokens() + grid_.patches(), architecture_.width};
  }

  Precision precision() const override { return precision_; }

  Json describe() const override {
    Json json = source_;
    json["architecture"] = to_json(architecture_);
    json["pooling"] = pools_volumes_ ? "volume" : to_string(features_.pooling);
    if (!features_.layers.empty()) json["layers"] = features_.layers;
    if (projection_) json["projection"] = dimension();
    if (architecture_.positions && grid_ != position_grid(architecture_))
      json["positions_resampled_to"] = ImageSize(grid_.rows, grid_.columns);
    return json;
  }

 private:
  // What computes on the CPU in one precision.
  struct Candidate {
    Precision precision;
    std::unique_ptr<cpu::Engine> engine;  // null: LibTorch's operators
    double seconds = std::numeric_limits<double>::infinity();
    std::string strays = {};  // how, "" if it does not
  };

  // Takes the fastest of these precisions in which features do not stray. fp32 where all do, or
  // where there are several and nothing to compare them on; the first where the memory has no room
  // for several.
  void begin_on_cpu(const std::vector<Precision>& precisions, const torch::Tensor& images,
                    const std::vector<torch::Tensor>& weights) {
    std::vector<Candidate> candidates;
    if (precisions.size() > 1 && !exact_.valid()) return take(candidate(Precision::kFp32));
    const std::uint64_t free = available_bytes();  // 0: it cannot be told
    if (precisions.size() > 1 && free > 0 && 3 * bytes_of(weights) > free)
      return begin_on_cpu({precisions.front()}, images, weights);
    try {
      for (const Precision precision : precisions) candidates.push_back(candidate(precision));
      if (exact_.valid()) compare(candidates, images, weights);
    } catch (const c10::OutOfMemoryError&) {
      if (precisions.size() == 1) throw;
      restore(weights);
      engine_ = nullptr;
      candidates.clear();  // two of them do not fit
      return begin_on_cpu({precisions.front()}, images, weights);
    }
    std::vector<double> seconds;
    for (const Candidate& one : candidates) seconds.push_back(one.seconds);
    const std::size_t best = cpu::clearly_quickest(seconds);
    Candidate taken =
        candidates[best].strays.empty() ? std::move(candidates[best]) : candidate(Precision::kFp32);
    for (const Candidate& one : candidates)
      if (!one.strays.empty())
        leave_precision(one.precision, one.strays, named_precision_, taken.precision);
    take(std::move(taken));
  }

  void take(Candidate candidate) {
    precision_ = candidate.precision;
    engine_ = std::move(candidate.engine);
  }

  Candidate candidate(Precision precision, bool frees = false) const {
    const StageTimer timer(times_.get(), "engine");
    return {precision, cpu::make_engine(*model_, image_size_, precision, frees)};
  }

  // Runs body() with what computes so in place, ready to compute.
  template <class Body>
  void with(Candidate& candidate, const std::vector<torch::Tensor>& weights, const Body& body) {
    precision_ = candidate.precision;
    std::swap(engine_, candidate.engine);
    if (!engine_) model_->to(device_, scalar_type(precision_));
    body();
    if (!engine_) restore(weights);
    std::swap(engine_, candidate.engine);
  }

  // Finds out which of them stray, and how long the others take where they are several.
  void compare(std::vector<Candidate>& candidates, const torch::Tensor& images,
               const std::vector<torch::Tensor>& weights) {
    const StageTimer timer(times_.get(), "check");
    std::vector<Candidate*> right;
    for (Candidate& one : candidates) {
      double cosine = 1;
      if (one.precision != Precision::kFp32) {
        with(one, weights, [&] {
          const Clock::time_point start = Clock::now();
          cosine = min_cosine(images);
          one.seconds = since(start);
        });
      }
      if (cosine >= kMinCosine)  // not so for NaN
        right.push_back(&one);
      else
        one.strays = strays_by(cosine, device_);
    }
    const bool worth_timing = right.size() > 1 && right.front()->seconds >= kWorthTiming;
    for (Candidate& one : candidates) one.seconds = std::numeric_limits<double>::infinity();
    if (worth_timing)
      time_all(right, images, weights);
    else if (!right.empty())
      right.front()->seconds = 0;
  }

  // In turns, so that another program on the machine slows all of them.
  void time_all(const std::vector<Candidate*>& candidates, const torch::Tensor& images,
                const std::vector<torch::Tensor>& weights) {
    const Clock::time_point begin = Clock::now();
    const auto goes_on = [&](int passes) {
      return since(begin) < (passes < kTimedPasses ? kMaxTiming : kMinTiming);
    };
    for (int pass = 0; goes_on(pass); ++pass) {
      for (Candidate* const one : candidates) {
        with(*one, weights, [&] {
          const Clock::time_point start = Clock::now();
          features_of(images);
          one->seconds = std::min(one->seconds, since(start));
        });
      }
    }
    std::vector<std::string> found;
    for (const Candidate* const one : candidates)
      found.push_back(concat(to_string(one->precision), " ",
                             fixed(1e3 * one->seconds / static_cast<double>(images.size(0)), 1)));
    log_info(concat("--precision auto: ms for one input: ", join(found, ", ")));
  }

  std::unique_ptr<gpu::Engine> make_gpu_engine(const BackboneOptions& options) const {
    const StageTimer timer(times_.get(), "engine");
    return gpu::make_engine(*model_, options, device_, precision_, exact_.valid());
  }

  // Checks the engine before the job, on the job's stream. If features stray, the engine or the
  // precision may be the cause, so neither is used.
  void begin_on_gpu() {
    const c10::impl::VirtualGuardImpl streams(device_.type());
    streams.synchronizeDevice(device_.index());  // the weights are there
    const c10::StreamGuard stream(compute_stream(device_));
    reset_device_memory_peak(device_);
    const std::uint64_t before = peak_device_memory(device_);
    gpu_engine_->check();
    if (exact_.valid())
      bytes_per_image_ = (peak_device_memory(device_) - before) /
                         static_cast<std::uint64_t>(check_.frames.size(0));
    gpu_engine_->release_memory();
    if (gpu_engine_->strays()) {
      leave_precision(precision_, gpu_engine_->failure(), named_precision_, Precision::kFp32);
      precision_ = Precision::kFp32;
      gpu_engine_ = nullptr;
    } else {
      still_takes_frames();
    }
  }

  // Goes on with LibTorch's operators where the engine has failed. They have to compute rightly in
  // the precision in which the cache was begun.
  bool still_takes_frames() {
    if (gpu_engine_->failure().empty()) return true;
    log_warning(concat(gpu_engine_->failure(), "; going on with LibTorch's operators"));
    gpu_engine_ = nullptr;
    if (exact_.valid()) require_right(min_cosine(check_.images));
    return false;
  }

  void require_right(double cosine) const {
    if (cosine >= kMinCosine) return;
    throw SystemError(concat("LibTorch's operators compute wrongly on ", device_.str(), ": ",
                             to_string(precision_), " ", strays_by(cosine, device_),
                             "; use another device, or --device cpu"));
  }

  // LibTorch's operators on a GPU fall back to fp32 where features stray from the exact ones.
  void check_operators(const torch::Tensor& images, const std::vector<torch::Tensor>& weights) {
    const double cosine = min_cosine(images);
    if (cosine >= kMinCosine) return;  // not so for NaN
    if (precision_ == Precision::kFp32) require_right(cosine);
    leave_precision(precision_, strays_by(cosine, device_), named_precision_, Precision::kFp32);
    precision_ = Precision::kFp32;
    restore(weights);
    require_right(min_cosine(images));
  }

  // On a GPU beside what begins there, which only reads the weights; who needs them waits.
  void compute_exactly(const torch::Tensor& images) {
    const bool beside = device_.is_cuda();
    exact_ = std::async(beside ? std::launch::async | std::launch::deferred : std::launch::deferred,
                        [this, images, beside] {
                          if (beside)  // a team of its own
                            require_threads(static_cast<std::size_t>(torch::get_num_threads()));
                          return exact_features(images);
                        })
                 .share();
    if (!beside) exact_.get();
  }

  // The readable model's features in fp32 on the CPU, before its weights move anywhere.
  torch::Tensor exact_features(const torch::Tensor& images) {
    const StageTimer timer(times_.get(), "check_fp32");
    const torch::InferenceMode guard;
    return of_each(images, [&](const torch::Tensor& image) {
      return model_->forward(takes_blocks() ? planes_of(image) : image, features_);
    });
  }

  torch::Tensor features_of(const torch::Tensor& images) {
    const torch::InferenceMode guard;
    return of_each(images, [&](const torch::Tensor& image) { return forward(image); });
  }

  // Only once the exact features are there may the model's weights move.
  double min_cosine(const torch::Tensor& images) {
    const torch::InferenceMode guard;
    const torch::Tensor& exact = exact_.get();
    return at::cosine_similarity(features_of(images), exact).min().item<double>();
  }

  // One image at a time: a check must not need more memory than the job.
  template <class Forward>
  torch::Tensor of_each(const torch::Tensor& images, const Forward& compute) const {
    std::vector<torch::Tensor> features;
    for (const torch::Tensor& image : images.to(torch::kCPU).split(1))
      features.push_back(compute(image.contiguous())
                             .narrow(1, 0, clip_steps() * dimension())
                             .to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true));
    return at::cat(features);
  }

  // Parameters, and buffers that are made of them (relative positions).
  std::vector<torch::Tensor> tensors_of_model() const {
    std::vector<torch::Tensor> tensors = model_->parameters();
    for (const torch::Tensor& buffer : model_->buffers()) tensors.push_back(buffer);
    return tensors;
  }

  // model_->to() rounds the model's own tensors, and leaves these.
  std::vector<torch::Tensor> detached_tensors() const {
    std::vector<torch::Tensor> weights;
    for (const torch::Tensor& tensor : tensors_of_model()) weights.push_back(tensor.detach());
    return weights;
  }

  void restore(const std::vector<torch::Tensor>& weights) {
    const std::vector<torch::Tensor> tensors = tensors_of_model();
    for (std::size_t i = 0; i < weights.size(); ++i) tensors[i].set_data(weights[i]);
  }

  VisionTransformer model_;              // null once the CPU engine owns the weights
  std::unique_ptr<cpu::Engine> engine_;  // null where the model or the GPU engine computes
  std::unique_ptr<gpu::GuardedEngine> gpu_engine_;  // falls back on the model
  Json source_;                                     // kind, and what the weights are
  Architecture architecture_;
  FeatureOptions features_;
  Linear projection_;  // may be empty
  ImageSize image_size_;
  Grid grid_;  // of the patches of an image or clip
  std::array<std::int64_t, 3> block_;
  bool pools_volumes_;
  torch::Device device_;
  Precision precision_;
  bool named_precision_;
  std::shared_ptr<StageTimes> times_;  // may be null
  CheckInput check_;                   // on a GPU
  std::uint64_t bytes_per_image_ = 0;
  // The check's features in fp32 on the CPU; not valid: nothing is compared. It goes first: what
  // computes them reads the rest.
  std::shared_future<torch::Tensor> exact_;
};

// A block is computed as a clip: the planes along its first axis are the frames.
BackboneOptions by_planes(BackboneOptions options) {
  if (!options.takes_blocks()) return options;
  options.clip_frames = options.block[0];
  options.image_size = {options.block[1], options.block[2]};
  return options;
}

std::pair<VisionTransformer, Json> random_model(const BackboneOptions& options) {
  const StageTimer timer(options.times.get(), "weights");
  if (options.architecture.empty() && !options.stated)
    throw ConfigError("--random-weights needs an architecture; choose a --preset or name one");
  Architecture architecture =
      options.stated ? *options.stated : find_published(options.architecture).architecture;
  architecture.heads = options.heads.value_or(architecture.heads);
  architecture.activation = options.activation.value_or(architecture.activation);
  check_heads(options, architecture);
  check_options(options, architecture);
  if (options.features.projection)
    throw ConfigError("--random-weights has no projection; leave out --projection");
  RandomSource source(*options.random_seed);
  VisionTransformer model(Scope(source), architecture, options.image_size, 0,
                          clip_frames_of(options, architecture));
  Json what;
  what["kind"] = "random";
  what["generator"] = kRandomWeightsVersion;
  what["seed"] = *options.random_seed;
  return {std::move(model), std::move(what)};
}

// The features that a projection's weight [P, D] gives.
std::int64_t projection_features(const StateDict& projection) {
  const auto weight = projection.find("projection.weight");
  if (weight == projection.end())
    throw ConfigError(
        "these weights have no projection: leave out --projection where it is given, give --pool "
        "for the features before it, or a whole CLIP's checkpoint");
  return weight->second.size(0);
}

VisionTransformer build(const WeightFiles& files, StateDict tensors,
                        const BackboneOptions& options) {
  CanonicalWeights weights = canonical_names(std::move(tensors));
  std::optional<ModelConfig> config;
  if (options.architecture.empty() && !options.stated) config = read_model_config(files);
  const Architecture architecture =
      options.stated ? *options.stated : resolve_architecture(weights, options, config);
  check_options(options, architecture);
  std::int64_t projected = 0;
  if (options.features.projection) {
    projected = projection_features(weights.projection);
    weights.tensors.merge(std::move(weights.projection));
  }
  StateDictSource source(std::move(weights.tensors));
  VisionTransformer model(Scope(source), architecture, options.image_size, projected,
                          clip_frames_of(options, architecture));
  source.finish();
  return model;
}

// The model, and what its weights are for the recipe.
std::pair<VisionTransformer, Json> read_model(const BackboneOptions& options) {
  const StageTimer timer(options.times.get(), "weights");
  const WeightFiles files = find_weight_files(options.weights);
  std::future<std::string> digest = std::async([&] { return digest_of(files); });
  StateDict tensors = load_weights(files);  // names the files in its errors
  VisionTransformer model = in_context(concat("weights '", options.weights.string(), "'"),
                                       [&] { return build(files, std::move(tensors), options); });
  Json what;
  what["kind"] = "vit";
  what["sha256"] = digest.get();
  if (model->architecture.takes_clips())
    if (const std::string part = part_taken(files); !part.empty()) what["part"] = part;
  return {std::move(model), std::move(what)};
}

// While it lives, blocks of memory as large as weights go back to the system when they are freed.
// malloc would keep them, in pieces that others hardly fit: a V-JEPA 2 L took 1.8 times as much.
class FreedWeightsGoBack {
 public:
  FreedWeightsGoBack() { ::mallopt(M_MMAP_THRESHOLD, 1 << 20); }
  // What malloc comes to by itself at most (mallopt(3)).
  ~FreedWeightsGoBack() {
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20);
    ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
  }
  FreedWeightsGoBack(const FreedWeightsGoBack&) = delete;
  FreedWeightsGoBack& operator=(const FreedWeightsGoBack&) = delete;
};

}  // namespace

std::unique_ptr<Backbone> make_vit_backbone(const BackboneOptions& given,
                                            const torch::Device& device,
                                            const std::vector<Precision>& precisions) {
  const FreedWeightsGoBack scope;
  const BackboneOptions options = by_planes(given);
  auto [model, what] = options.random_seed ? random_model(options) : read_model(options);
  return std::make_unique<VitBackbone>(std::move(model), std::move(what), options, device,
                                       precisions);
}

}  // namespace coldframe::vit
