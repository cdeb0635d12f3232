#include "train_temporal/bundle/online.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "extract/frames/clip/stream.h"
#include "extract/pipeline/transfer/device_input.h"
#include "extract/preprocess/prepared_frame.h"
#include "train_temporal/bundle/raw_exams.h"
#include "train_temporal/models/online_model.h"
#include "train_temporal/run/apply/ensemble.h"
#include "train_temporal/run/predictions.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::bundle {
namespace {

using Clock = std::chrono::steady_clock;

struct CleanViewAlone {
  static std::size_t count() { return 0; }
  static frames::Image warp(std::size_t, const frames::Image& image) { return image; }
  static void finish(std::size_t, std::vector<std::uint8_t>&) {}
};

// Durations in a histogram of steps of 2 %, so that a long clip takes no more memory than a short
// one; quantiles are right up to such a step.
class Durations {
 public:
  void add(double seconds) {
    const double step = std::log(std::max(seconds, kLeast) / kLeast) / std::log(kStep);
    ++counts_[std::min(static_cast<std::size_t>(step), counts_.size() - 1)];
    ++count_;
    sum_ += seconds;
  }
  double quantile(double share) const {
    double left = share * static_cast<double>(count_);
    std::size_t step = 0;
    while (step + 1 < counts_.size() && left > static_cast<double>(counts_[step]))
      left -= static_cast<double>(counts_[step++]);
    return kLeast * std::pow(kStep, static_cast<double>(step) + 0.5);
  }
  std::size_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  static constexpr double kLeast = 1e-6, kStep = 1.02;
  std::vector<std::size_t> counts_ = std::vector<std::size_t>(1000);
  std::size_t count_ = 0;
  double sum_ = 0;
};

// A frame's features, as `extract` makes and stores them.
class FrameFeatures {
 public:
  explicit FrameFeatures(const extract::ExtractOptions& options)
      : options_(options),
        device_(resolve_device(options.devices.front())),
        backbone_(make(options, device_)),
        input_(options.preprocessing, device_) {}

  torch::Tensor of(frames::Frame&& frame) {
    const auto& crop = options_.preprocessing.crop;
    std::optional<frames::Rect> rect;
    if (crop.kind == frames::CropRule::Kind::kFixed)
      rect = crop.rect_in(frame.pixels.width, frame.pixels.height);
    const preprocess::PreparedFrame prepared(options_.preprocessing, std::move(frame), rect);
    std::vector<std::uint8_t> pixels;
    std::int64_t tiles = 0;
    CleanViewAlone views;
    prepared.make_inputs(views, [&](preprocess::Input&& input) {
      pixels.insert(pixels.end(), input.pixels.begin(), input.pixels.end());
      ++tiles;
      return true;
    });
    const ImageSize& size = options_.preprocessing.image_size;
    const torch::Tensor inputs =
        torch::from_blob(pixels.data(), {tiles, size.height, size.width, 3}, torch::kUInt8);
    const torch::Tensor rows = backbone_
                                   ->forward(input_(inputs))  // [tiles, D], and what is kept
                                   .to(torch::kCPU)
                                   .narrow(1, 0, backbone_->dimension());
    const torch::Tensor feature = rows.to(torch::kFloat64).mean(0).to(torch::kFloat32);
    return options_.storage == DType::kFp16 ? feature.to(torch::kFloat16).to(torch::kFloat32)
                                            : feature;
  }

 private:
  static std::unique_ptr<vit::Backbone> make(const extract::ExtractOptions& options,
                                             const torch::Device& device) {
    if (options.threads > 0) set_torch_threads(options.threads);
    const Precision precision =
        options.precision == "auto" ? Precision::kFp32 : parse_precision(options.precision, device);
    return vit::make_backbone(options.backbone, device, precision);
  }

  const extract::ExtractOptions& options_;
  torch::Device device_;
  std::unique_ptr<vit::Backbone> backbone_;
  extract::DeviceInput input_;
};

void check_recipe(const extract::ExtractOptions& options, const temporal::ModelMetadata& card) {
  const auto refuse = [](const std::string& why) {
    throw ConfigError(concat("--online takes frames one by one, but ", why,
                             "; predict the whole clip without --online"));
  };
  if (card.tuned) refuse("each of the run's models has a tuned ViT of its own");
  if (card.arrangement.asked())
    refuse("the run joins several streams or visits (--streams, --visits)");
  if (!card.covariates.empty())
    refuse(concat("the models take the covariates ", join(card.covariates.names(), ", "),
                  ", which a clip does not bring"));
  if (options.preprocessing.crop.kind == frames::CropRule::Kind::kAuto)
    refuse("the recipe's crop is found in frames of the whole clip (--crop auto)");
  const frames::FrameSelection& selection = options.selection;
  if (selection.count != 0 || selection.every != 1 || selection.needs_times())
    refuse(
        "the recipe chooses frames of the whole clip (--frames, --every, --fps, --start, --end)");
}

// The scores of every target of the frames so far, by all models.
class OnlineEnsemble {
 public:
  explicit OnlineEnsemble(temporal::Ensemble& ensemble) : ensemble_(ensemble) {
    for (temporal::TrainedModel& trained : ensemble.models())
      models_.emplace_back(*trained.model, trained.card.config);
  }

  std::vector<std::vector<double>> step(const torch::Tensor& features, double time_s) {
    std::vector<std::vector<double>> mean(ensemble_.targets().size());
    for (std::size_t m = 0; m < models_.size(); ++m) {
      const auto outputs = models_[m].step(features, time_s);
      for (std::size_t t = 0; t < mean.size(); ++t) {
        const auto scores = scores_of(ensemble_.models()[m].card, t, outputs);
        mean[t].resize(scores.size());
        for (std::size_t i = 0; i < scores.size(); ++i)
          mean[t][i] += scores[i] / static_cast<double>(models_.size());
      }
    }
    return mean;
  }

 private:
  temporal::Ensemble& ensemble_;
  std::vector<temporal::OnlineModel> models_;
};

std::string line_of(const temporal::Ensemble& ensemble, std::int64_t frame, double time_s,
                    const std::vector<std::vector<double>>& scores) {
  std::vector<std::string> row = {concat(frame), std::isnan(time_s) ? "" : exact(time_s)};
  for (std::size_t t = 0; t < scores.size(); ++t) {
    const temporal::Target& target = ensemble.targets()[t];
    add_prediction(row, target, scores[t],
                   decide(target, scores[t], ensemble.threshold(t)).front());
  }
  return csv_row(row);
}

frames::ClipStream open_clip(const std::filesystem::path& clip) {
  try {
    return frames::ClipStream(clip);
  } catch (const DataError&) {
    if (!stop_requested()) throw;
    throw Interrupted("stopped before the clip's first frame");
  }
}

void tell(const Durations& latency, double seconds) {
  if (latency.count() == 0 && stop_requested())
    throw Interrupted("stopped before the clip's first frame");
  if (latency.count() == 0) throw DataError("the clip has no frame");
  log_info(concat(plural(latency.count(), "frame"), " in ", human_duration(seconds), ": ",
                  fixed(static_cast<double>(latency.count()) / seconds, 1),
                  " frames/s; from a frame's pixels to its line ",
                  fixed(1000 * latency.quantile(0.5), 2), " ms in the median, ",
                  fixed(1000 * latency.quantile(0.95), 2), " ms at most in 95 of 100"));
}

}  // namespace

void predict_online(const std::filesystem::path& path, const std::filesystem::path& clip,
                    const std::vector<std::string>& words) {
  const Bundle bundle(path);
  const extract::ExtractOptions options = extract_options(bundle, words);
  temporal::Ensemble ensemble(temporal::model_files(bundle.folder()));
  check_recipe(options, ensemble.card());
  OnlineEnsemble online(ensemble);
  FrameFeatures features(options);
  frames::ClipStream stream = open_clip(clip);
  std::vector<std::string> header = {"frame", "time_s"};
  add_header(header, ensemble.targets(), false);
  std::cout << csv_row(header) << std::flush;
  Durations latency;
  const auto begun = Clock::now();
  while (!stop_requested()) {
    auto frame = stream.next();
    if (!frame) break;
    const std::int64_t number = frame->index;
    const double time_s = frame->time_s;
    const auto arrived = Clock::now();
    const torch::Tensor seen = features.of(std::move(*frame));
    ensemble.require_width(seen.size(-1));
    const auto scores = online.step(seen, time_s);
    std::cout << line_of(ensemble, number, time_s, scores) << std::flush;
    if (!std::cout) break;  // whoever read the lines has gone
    latency.add(std::chrono::duration<double>(Clock::now() - arrived).count());
  }
  tell(latency, std::chrono::duration<double>(Clock::now() - begun).count());
}

}  // namespace coldframe::bundle
