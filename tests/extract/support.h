// Helpers with verbs for the tests of extraction: small images and a backbone that
// can be checked by hand.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "extract/options.h"
#include "extract/vit/backbone.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::extract {

// A square image of one grey level; the suffix says of which kind.
void write_grey_image(const std::filesystem::path& path, int level, int size = 16);

// A DICOM file whose frames have one grey level each.
struct DicomFile {
  std::string series_uid, sop_uid, patient;
  int series_number = 1, instance = 1;
  std::vector<int> levels;
};
void write_dicom_file(const std::filesystem::path& path, const DicomFile& file);

void write_text(const std::filesystem::path& path, const std::string& text);

// [B,3,S,S] -> [B,2]: the mean of the red plane and a constant 1. Throws out-of-memory beyond
// `fits` images.
class MeanBackbone : public vit::Backbone {
 public:
  Precision precision() const override { return Precision::kFp32; }
  explicit MeanBackbone(std::int64_t fits = 1 << 20) : fits_(fits) {}
  torch::Tensor forward(const torch::Tensor& images) override;
  std::int64_t dimension() const override { return 2; }
  Json describe() const override { return {{"kind", "mean of red"}}; }

  void release_memory() override { ++releases; }
  std::int64_t max_images() const override { return most; }
  std::uint64_t bytes_per_image() const override { return bytes; }
  void expect(std::int64_t batch, bool stays) override { expected.emplace_back(batch, stays); }

  std::vector<std::int64_t> batches;  // sizes that were computed
  int releases = 0;
  std::int64_t most = 1 << 20;
  std::uint64_t bytes = 0;                              // of a pass over one image
  std::vector<std::pair<std::int64_t, bool>> expected;  // before each pass; whether it stays
  std::function<void()> before;                         // each computation, if set

 private:
  std::int64_t fits_;
};

// 16x16 input, mean 0, std 1, two decode threads, batches of `batch`.
ExtractOptions small_options(std::int64_t batch = 4);

}  // namespace coldframe::extract
