// Decode → batch → backbone → assemble → write, for every exam of a plan.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/format/recipe.h"
#include "cache/store/writer.h"
#include "common/files/json.h"
#include "common/system/monitor.h"
#include "extract/input/exam_list.h"
#include "extract/options.h"
#include "extract/pipeline/decode_stage.h"
#include "extract/pipeline/resume.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

// Of a note (opened_exam.h): the number of exams with it, and the first file that it applies to.
struct NoteCount {
  std::size_t exams = 0;
  std::string file = {};
};

struct PipelineResult {
  std::size_t exams = 0, frames = 0;                     // written; of clips, rows
  std::string input_name = "frame", row_name = "frame";  // as window_frames.h has them
  std::size_t views = 1;                                 // of each of these frames
  std::vector<cache::Failure> failures;                  // of exams
  std::vector<cache::Failure>
      lost;                       // of frames: masked in exams that are written, or were so before
  std::size_t partly_finite = 0;  // frames with some NaN or infinite values
  std::map<std::string, std::size_t> orders;  // exam counts by OrderBasis::order
  std::map<std::string, NoteCount> notes;     // by their texts
  std::size_t unchanged = 0;                  // exams whose lost frames are still unreadable
  bool stopped = false;                       // by a signal, before the end
  double seconds = 0, compute_s = 0;    // in all, and of these in forward passes, as the mean of
                                        // the devices
  std::size_t repeated = 0;             // frames reused by content, not computed
  std::string batch;                    // the batch size found
  std::uint64_t peak_device_bytes = 0;  // tensor bytes, max over devices
};

// A device and its own copy of the backbone.
struct ComputeDevice {
  torch::Device device;
  vit::Backbone* backbone;
};

// Devices take frames from one queue when free, each with its own batch size; the first error on
// any of them ends the job.
PipelineResult run_pipeline(const frames::ExamList& exams, const ExtractOptions& options,
                            std::span<const ComputeDevice> devices, cache::ShardWriter& writer);

// Summarises a run of `extract`, as text and as JSON.

struct ExtractSummary {
  std::string cache, device, precision;
  std::int64_t dimension = 0;
  std::optional<cache::Cut> cut;  // what is stored next to the features
  Json backbone;                  // Backbone::describe()
  std::string weights;            // name of its file, empty for random weights
  std::string license;            // of the weights, empty if nobody states one
  std::size_t patients = 0;       // of the input
  frames::PatientNames patient_names;
  ImageSize image_size{};
  std::int64_t clip_frames = 1;
  preprocess::Size3 block{};  // of volumes; zeros: there are none
  PipelineResult result;
  std::map<std::string, double> stages{};  // seconds, as StageTimes has them
  std::size_t unchanged = 0, metadata_updated = 0;
  std::size_t cached_exams = 0, cached_frames = 0;
  std::uint64_t cache_bytes = 0;
  std::optional<ResourceSummary> resources;  // with --monitor
};

std::string to_text(const ExtractSummary& summary);
Json to_json(const ExtractSummary& summary);

}  // namespace coldframe::extract
