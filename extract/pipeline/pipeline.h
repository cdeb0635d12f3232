// Decode → batch → backbone → assemble → write, for every exam of a plan.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "cache/store/writer.h"
#include "extract/options/options.h"
#include "extract/pipeline/decode/decode_stage.h"
#include "extract/plan/resume/resume.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

// Of a note (opened_exam.h): in how many exams, and the first file of which it holds.
struct NoteCount {
  std::size_t exams = 0;
  std::string file = {};
};

struct PipelineResult {
  std::size_t exams = 0, frames = 0;     // written
  std::size_t views = 1;                 // of each of these frames
  std::vector<cache::Failure> failures;  // of exams
  std::vector<cache::Failure>
      lost;                       // of frames: masked in exams that are written, or were so before
  std::size_t partly_finite = 0;  // frames of which some values are NaN or infinite
  std::map<std::string, std::size_t> orders;  // exams by what the order of their frames rests on
  std::map<std::string, NoteCount> notes;     // by their texts
  std::size_t unchanged = 0;                  // exams whose lost frames were tried again in vain
  bool stopped = false;                       // by a signal, before all was done
  double seconds = 0, compute_s = 0;    // in all, and of these in forward passes, as the mean of
                                        // the devices
  std::size_t repeated = 0;             // frames that were found by their content, not computed
  std::string batch;                    // what was learnt of its size
  std::uint64_t peak_device_bytes = 0;  // in tensors, of the device that took most
};

// A device and its own copy of the backbone.
struct ComputeDevice {
  torch::Device device;
  vit::Backbone* backbone;
};

// Several devices take frames from one queue as they come free, each with batches of its own size;
// the first error on any of them ends the job.
PipelineResult run_pipeline(const frames::ExamList& exams, const ExtractOptions& options,
                            std::span<const ComputeDevice> devices, cache::ShardWriter& writer);

}  // namespace coldframe::extract
