#include "train_temporal/bundle/raw_exams.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/text/text.h"
#include "common/torch/device_memory.h"
#include "extract/pipeline/devices/load_backbones.h"
#include "extract/pipeline/pipeline.h"
#include "extract/plan/patient_salt.h"
#include "extract/plan/recipe.h"
#include "extract/plan/resume/resume.h"
#include "train_temporal/bundle/packed_backbone.h"

namespace coldframe::bundle {
namespace {

constexpr std::uint64_t kLongestOptions = 1 << 20;

extract::ComputeDevices devices_for(const extract::ExtractOptions& options) {
  budget_device_memory(options.devices, options.batch.memory_budget);
  return {options.devices, options.threads};
}

}  // namespace

extract::ExtractOptions extract_options(const Bundle& bundle, std::vector<std::string> words) {
  const Json& backbone = bundle.facts().at("backbone");
  const std::string kind = backbone.at("kind");
  const auto add = [&](const char* option, const std::string& value) {
    words.insert(words.end(), {option, value});
  };
  in_context(concat("bundle '", bundle.folder().string(), "'"), [&] {
    require_recipe_options(read_text_file(bundle.file(kOptionsFile), kLongestOptions));
  });
  add("--config", bundle.file(kOptionsFile));
  if (backbone.contains("file"))
    add(kind == "vit" ? "--weights" : "--backbone",
        bundle.file(backbone["file"].get<std::string>()));
  if (backbone.contains("mask")) add("--mask", bundle.file(backbone["mask"].get<std::string>()));
  add("--out", "features.cache");
  auto options = extract::parse_extract_options(words);
  if (!options) throw ConfigError("--help is not an option of a bundle's exams");
  const std::string column = bundle.facts().value("stream_column", "");
  auto& columns = options->frame_columns;
  if (!column.empty() && std::ranges::find(columns, column) == columns.end())
    columns.push_back(column);
  const Json& stated = bundle.recipe().features.at("backbone");
  if (stated.contains("architecture"))
    options->backbone.stated = vit::architecture_from_json(stated["architecture"]);
  return *options;
}

RawExams::RawExams(const Bundle& bundle, const std::vector<std::string>& words)
    : options_(extract_options(bundle, words)), devices_(devices_for(options_)) {}

const std::filesystem::path& RawExams::extract() {
  const frames::ExamList exams =
      extract::list_exams_salted(options_.input, extract::list_options(options_));
  for (const auto& warning : frames::shown_warnings(exams)) log_warning(warning);
  extract::load_backbones(devices_, options_, exams, nullptr, nullptr);
  const vit::Backbone& backbone = devices_.backbone();
  const extract::Plan plan =
      extract::plan_extraction(exams, {options_.selection, options_.reader}, nullptr);
  scratch_ = std::make_unique<ScratchFolder>();
  cache_ = scratch_->path() / "features.cache";
  cache::WriterOptions stored;
  stored.storage = options_.storage;
  stored.precision = to_string(backbone.precision());
  cache::ShardWriter writer(cache::locate(cache_), extract::make_recipe(options_, backbone),
                            backbone.dimension(), stored);
  const auto result = extract::run_pipeline(exams, plan.extract, options_, devices_.all(), writer);
  if (result.stopped || stop_requested()) throw Interrupted("stopped; run the same command again");
  writer.finish();
  return cache_;
}

}  // namespace coldframe::bundle
