// A file that holds one image.
#pragma once

#include "extract/frames/source.h"

namespace coldframe::frames {

class StillSource : public FileSource {
 public:
  explicit StillSource(const SourceFile& file) : FileSource("image", file) {}

  std::int64_t frame_count() override { return 1; }
  double time_s(std::int64_t) const override { return 0.0; }
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override {
    if (!indices.empty()) sink(Frame{0, 0.0, guarded([this] { return image(); })});
  }

 protected:
  virtual Image image() const = 0;  // DataError without the file's name
};

}  // namespace coldframe::frames
