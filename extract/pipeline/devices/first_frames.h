// A look at the input before the job: what the backbone's precision is judged by.
#pragma once

#include <cstdint>
#include <functional>

#include "common/torch/tensor.h"
#include "extract/frames/input/exam_list.h"
#include "extract/options/options.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

// Begins to read the first frames of the input that can be read, at most `count`, on a thread of
// its own. What is returned waits for them and holds nothing when there is none. Every worker of a
// job gets the same ones. `input` and `options` must outlive it.
std::function<vit::CheckInput()> first_frames(const frames::ExamList& input,
                                              const ExtractOptions& options, std::int64_t count);

}  // namespace coldframe::extract
