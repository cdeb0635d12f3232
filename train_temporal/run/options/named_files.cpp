#include "train_temporal/run/options/named_files.h"

#include "common/files/publish/outputs.h"
#include "common/system/monitor.h"
#include "train_temporal/run/options/named_caches.h"

namespace coldframe::temporal {
namespace {

bool judges_itself(const std::filesystem::path&) {
  return true;
}

void add_caches(const TargetOptions& data, std::vector<NamedInput>& inputs) {
  if (data.cache.empty()) return;
  for (const cache::NamedCache& cache : named_caches(data.cache.string()))
    inputs.push_back({"--cache", cache.path});
}

}  // namespace

void check_named_files(const TrainOptions& options) {
  std::vector<NamedInput> inputs = {
      {"--labels", options.data.labels}, {"--splits", options.splits},
      {"--against", options.against},    {"--tune", options.tune.weights},
      {"--weights", options.weights},    {"--from", options.tune.from}};
  add_caches(options.data, inputs);
  check_outputs(
      {{"--out", options.out, judges_itself}, {"--monitor", options.monitor, is_monitor_table}},
      inputs, overwrite_said(options.existing.overwrite));
}

void check_named_files(const ApplyOptions& options, bool out_is_folder) {
  std::vector<NamedInput> inputs = {
      {"--labels", options.data.labels}, {"--run", options.run},     {"--bundle", options.bundle},
      {"--against", options.against},    {"--input", options.input}, {"--watch", options.watch},
      {"--weights", options.weights}};
  add_caches(options.data, inputs);
  NamedOutput out{"--out", options.out};
  if (out_is_folder) out.may_stand = judges_itself;
  check_outputs({out, {"--explain", options.explain}, {"--maps", options.maps}}, inputs,
                overwrite_said(options.overwrite));
}

}  // namespace coldframe::temporal
