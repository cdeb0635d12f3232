// What each patch of each frame adds to what models say of exams, through the ViT behind each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/text/image_size.h"
#include "train_temporal/data/feature_stream.h"
#include "train_temporal/explain/contributions.h"

namespace coldframe::temporal {

// ConfigError where such a model has nothing to map: the backbone is no ViT, it sees no frames, or
// frames of several streams, or the ViT's weights are not given.
void check_maps(const ModelMetadata& card, const std::filesystem::path& weights);
// ConfigError.
void require_cut(const cache::CacheReader& cache);

class PatchMaps {
 public:
  // `weights`: of the ViT that made the cache; tuned models have their own. `dataset`: loaded from
  // the cache, which has a cut. It must live on, and so must the models.
  PatchMaps(std::span<const TrainedModel> models, const Dataset& dataset,
            const std::filesystem::path& weights);
  ~PatchMaps();

  // So many ViTs go through the frames, one after another; one is in memory at a time.
  std::size_t vits() const { return tuned_ ? models_.size() : 1; }

  // Of exams with their gradients, those of one side by side: for each [frames, rows, columns], of
  // the frames that are present, or of `most` of them, evenly spaced. `frame_done` is called after
  // each frame of each entry and ViT.
  std::vector<torch::Tensor> of(std::span<const ExplainedExam> exams, std::size_t most,
                                const std::function<void()>& frame_done);
  // [frames, H, W, 3] of the same frames; undefined where the cut holds no pixels.
  torch::Tensor pixels_of(std::size_t exam, std::size_t most);

  // Known once there is a map.
  std::int64_t block() const { return block_; }
  const ImageSize& image_size() const { return image_size_; }
  // The largest of any frame, in units of what is explained (for a number, standard deviations).
  double largest_gap() const { return largest_gap_; }

 private:
  class Vit;
  Vit& vit_of(const TrainedModel& model);
  void add_vit(std::size_t index, std::span<const ExplainedExam> exams, std::size_t most,
               const std::function<void()>& frame_done, std::vector<torch::Tensor>& maps,
               std::vector<double>& gaps);

  std::span<const TrainedModel> models_;
  const Dataset& dataset_;
  std::filesystem::path weights_;
  bool tuned_;
  FeatureStream cut_;         // the rows of present frames, as the cut stores them
  std::unique_ptr<Vit> vit_;  // the frozen one stays, a tuned one goes before the next
  std::int64_t block_ = 0;
  ImageSize image_size_;
  double largest_gap_ = 0;
};

// A PNG file: `map` [rows, columns] from -1 to 1, over the frame's pixels [H, W, 3], or over white
// where these are undefined. What adds is red, what takes away blue, the more the stronger.
std::string map_picture(const torch::Tensor& map, const torch::Tensor& pixels,
                        const ImageSize& size);
// The largest magnitude of an exam's maps, which gets full colour.
double full_color(const torch::Tensor& maps);

}  // namespace coldframe::temporal
