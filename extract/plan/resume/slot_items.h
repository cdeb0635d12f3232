// Finds which row or file of the input each cached frame came from.
#pragma once

#include <cstddef>
#include <vector>

#include "cache/format/exam.h"
#include "extract/frames/source.h"

namespace coldframe::extract {

// True if every slot is a file of its own, so that stated times are labels and no reader computed
// them.
bool one_file_per_frame(const cache::ExamInfo& cached);

// The item that each cached slot came from, where the files have the same content as then; empty
// when the input no longer tells. Clips that lie elsewhere than then are opened.
std::vector<std::size_t> items_of_slots(const frames::ExamSpec& exam,
                                        const frames::FrameSelection& selection,
                                        const frames::ReaderOptions& reader,
                                        const cache::ExamInfo& cached);

}  // namespace coldframe::extract
