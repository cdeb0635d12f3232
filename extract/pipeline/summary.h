// Says what a run of `extract` did, for people and as JSON.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cache/format/recipe.h"
#include "common/files/json.h"
#include "common/system/monitor.h"
#include "extract/pipeline/pipeline.h"
#include "extract/plan/resume/resume.h"

namespace coldframe::extract {

struct ExtractSummary {
  std::string cache, device, precision;
  std::int64_t dimension = 0;
  std::optional<cache::Cut> cut;  // what is stored beside the features
  Json backbone;                  // Backbone::describe()
  std::string weights;            // name of its file, empty for random weights
  std::size_t patients = 0;       // of the input
  frames::PatientNames patient_names;
  ImageSize image_size{};
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
