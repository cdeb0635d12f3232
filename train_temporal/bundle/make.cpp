#include "train_temporal/bundle/make.h"

#include <torch/version.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/files/file.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/destination.h"
#include "common/files/publish/outputs.h"
#include "common/text/text.h"
#include "extract/plan/recipe.h"
#include "train_temporal/bundle/bundle.h"
#include "train_temporal/bundle/files/copy.h"
#include "train_temporal/bundle/model_card.h"
#include "train_temporal/bundle/monai_metadata.h"
#include "train_temporal/bundle/packed_backbone.h"
#include "train_temporal/bundle/raw_exams.h"
#include "train_temporal/report/report.h"
#include "train_temporal/run/apply/ensemble.h"
#include "train_temporal/run/options/options.h"
#include "train_temporal/run/run_folder.h"
#include "train_temporal/run/tuned_backbone.h"

namespace coldframe::bundle {
namespace {

namespace fs = std::filesystem;
using temporal::Ensemble;

// Beside models and controls a run may hold these, which the bundle has under the same names.
constexpr const char* kKeptFiles[] = {"unlike_training.safetensors"};

constexpr std::uint64_t kLongestText = 1 << 20;  // bytes, of a card or of options

void copy_models(const fs::path& run, const fs::path& to) {
  auto groups = temporal::control_files(run);
  groups[""] = temporal::model_files(run);
  for (const auto& [control, files] : groups)
    for (const fs::path& file : files) {
      const fs::path place = to / file.lexically_relative(run);
      copy_into(file, place);
      const fs::path tuned = temporal::backbone_folder(file);
      if (fs::is_directory(tuned))
        for (const auto& entry : fs::directory_iterator(tuned))
          copy_into(entry.path(), temporal::backbone_folder(place) / entry.path().filename());
    }
}

// For each target with classes, the exams of each.
Json exams_per_class(const fs::path& run, const std::vector<temporal::Target>& targets) {
  const CsvTable table = read_csv(run / "predictions.csv");
  const std::size_t exam = table.require_column("exam");
  Json counts = Json::object();
  for (const temporal::Target& target : targets) {
    if (!target.has_classes() || target.per_frame) continue;
    const std::size_t label =
        table.require_column(targets.size() > 1 ? target.name + ":label" : "label");
    std::map<std::string, std::set<std::string>> exams;
    for (const auto& row : table.rows) exams[row[label]].insert(row[exam]);
    for (const std::string& name : target.classes) counts[target.name][name] = exams[name].size();
  }
  return counts;
}

Json targets_json(const Ensemble& ensemble) {
  Json list = Json::array();
  for (std::size_t t = 0; t < ensemble.targets().size(); ++t) {
    const temporal::Target& target = ensemble.targets()[t];
    Json entry = temporal::to_json(target);
    if (target.has_threshold()) entry["threshold"] = ensemble.threshold(t);
    list.push_back(entry);
  }
  return list;
}

Json frames_of(Ensemble& ensemble) {
  std::size_t least = SIZE_MAX, most = 0;
  for (const temporal::TrainedModel& model : ensemble.models()) {
    least = std::min(least, model.card.least_frames);
    most = std::max(most, model.card.most_frames);
  }
  return {least, most};
}

Json controls_of(const fs::path& run) {
  Json names = Json::array();
  for (const auto& [name, files] : temporal::control_files(run)) names.push_back(name);
  return names;
}

Json facts_of(const MakeOptions& options, const std::string& license, Ensemble& ensemble,
              const PackedBackbone& backbone) {
  const Json config = read_json_file(options.run / "config.json");
  const auto of_run = [&](const char* key) { return config.value(key, Json(nullptr)); };
  const temporal::ModelConfig& model = ensemble.card().config;
  const Json summary = read_json_file(options.run / "summary.json");
  const Json& main = temporal::main_model_of(summary);
  Json facts = {{"format", kFormat},
                {"name", options.name.empty() ? options.out.stem().string() : options.name},
                {"license", license},
                {"coldframe", kVersion},
                {"torch", TORCH_VERSION},
                {"dimension", model.streams.empty() ? model.features() : model.stream_width()},
                {"models", ensemble.size()},
                {"controls", controls_of(options.run)},
                {"targets", targets_json(ensemble)},
                {"training",
                 {{"coldframe", of_run("coldframe")},
                  {"torch", of_run("torch")},
                  {"model", main.at("name")},
                  {"folds", of_run("folds")},
                  {"seeds", of_run("seeds")},
                  {"data_digest", of_run("data_digest")},
                  {"frames", frames_of(ensemble)},
                  {"exams_per_class", exams_per_class(options.run, ensemble.targets())}}},
                {"backbone", backbone.facts},
                {"recipe", cache::to_json(ensemble.card().recipe)},
                {"feature_digest", ensemble.card().recipe.feature_digest()}};
  if (main.contains("taken")) facts["training"]["taken"] = main["taken"];
  if (const auto& covariates = ensemble.card().covariates; !covariates.empty())
    facts.update({{"covariates", covariates.names()}, {"covariate_inputs", covariates.places()}});
  const temporal::Arrangement& arrangement = ensemble.card().arrangement;
  if (!arrangement.stream_column.empty())
    facts.update(
        {{"streams", arrangement.stream_names}, {"stream_column", arrangement.stream_column}});
  if (!arrangement.visits.empty()) facts["visits"] = arrangement.visits;
  return facts;
}

// The run's figures. Its warnings may name exams and patients, a comparison other runs; they are
// left out.
Json metrics_of(const fs::path& run) {
  Json metrics = read_json_file(run / "summary.json");
  for (const char* key : {"memory", "seconds", "warnings", "split", "against"}) metrics.erase(key);
  if (metrics.contains("targets"))
    for (Json& target : metrics["targets"])
      for (const char* key : {"warnings", "split"}) target.erase(key);
  return metrics;
}

// Only what reproduces the recipe is of any use: weights, masks and options are taken from the
// bundle as predict will take them.
void require_recipe(const Bundle& bundle) {
  const auto options = extract_options(bundle, {"--input", ".", "--device", "cpu"});
  const auto backbone = vit::make_backbone(options.backbone, torch::kCPU, Precision::kFp32);
  const cache::Recipe made = extract::make_recipe(options, *backbone);
  const auto frames = [](const cache::Recipe& recipe) {
    return extract::frame_options(recipe.storage);
  };
  if (made.feature_digest() == bundle.recipe().feature_digest() &&
      frames(made) == frames(bundle.recipe()))
    return;
  throw DataError(
      concat("the run's recipe cannot be followed with these weights by this version:\n  ",
             join(cache::differences(bundle.recipe(), made, {"the run has", "made"}), "\n  ")));
}

// The author's words go into the card as they are; <script> is refused.
std::string read_card(const MakeOptions& options) {
  if (options.card.empty()) return "";
  const std::string text = read_text_file(options.card, kLongestText);
  if (lower(text).find("<script") == std::string::npos) return text;
  throw ConfigError(concat("--card '", options.card.string(),
                           "' holds <script>; a card runs nothing: take it out"));
}

// bundle.json, the metadata and the card state one licence.
std::string license_of(const MakeOptions& options, const std::string& more) {
  const std::string stated = stated_license(more);
  if (stated.empty() || stated == options.license) return options.license;
  if (options.license == MakeOptions().license) return stated;
  throw ConfigError(concat("--license ", options.license, " contradicts --card '",
                           options.card.string(), "', whose front matter has license: ", stated,
                           "; leave one of them out"));
}

void fill(const MakeOptions& options, const fs::path& folder) {
  const std::string more = read_card(options);
  const std::string license = license_of(options, more);
  Ensemble ensemble(temporal::model_files(options.run));
  const PackedBackbone backbone =
      pack_backbone(ensemble.card(), {options.weights, options.mask}, folder / "backbone");
  copy_models(options.run, folder);
  for (const char* name : kKeptFiles)
    if (fs::exists(options.run / name)) copy_into(options.run / name, folder / name);
  const Json metrics = metrics_of(options.run);
  const Json facts = facts_of(options, license, ensemble, backbone);
  for (const char* part : {"metrics", "configs"}) create_folders_durably(folder / part);
  write_file_atomically(folder / "metrics/summary.json", metrics.dump(2) + "\n");
  write_file_atomically(folder / "configs/metadata.json",
                        monai_metadata(facts, metrics).dump(2) + "\n");
  write_file_atomically(folder / "README.md", model_card(facts, metrics, more));
  write_file_atomically(folder / kOptionsFile, backbone.options);
  if (const auto asked = options.run / temporal::kRunOptions; fs::exists(asked))
    write_file_atomically(folder / kTrainingFile,
                          temporal::portable_options(read_text_file(asked, kLongestText)));
  write_file_atomically(folder / kFactsFile, facts.dump(2) + "\n");
  write_file_atomically(folder / kChecksumsFile, checksums_of(folder));
}

void require_bundle(const fs::path& path) {
  const auto others = strangers(path, checksums_in(path).files, true);
  if (others.empty()) return;
  throw ConfigError(concat("--overwrite would remove '", *others.begin(), "' in '", path.string(),
                           "', which is not the bundle's; move it away, or choose another name"));
}

void check_out(const MakeOptions& options) {
  const auto judges_itself = [](const fs::path&) { return true; };
  check_outputs({{"--out", options.out, judges_itself}},
                {{"RUN", options.run},
                 {"--weights", options.weights},
                 {"--mask", options.mask},
                 {"--card", options.card}},
                overwrite_said(options.overwrite));
  if (!fs::exists(options.out)) return;
  if (!options.overwrite)
    throw ConfigError(concat("--out '", options.out.string(), "' is there already; choose another ",
                             "name, or say --overwrite to replace it"));
  require_bundle(options.out);
}

}  // namespace

void make_bundle(const MakeOptions& options) {
  check_out(options);
  const fs::path out = folder_target(options.out);
  const ScratchFolder scratch(out.parent_path());
  const fs::path folder = scratch.path() / "bundle";
  create_folders_durably(folder);
  fill(options, folder);
  require_recipe(Bundle(folder));
  publish(folder, out, existing_for(options.overwrite), require_bundle);
}

}  // namespace coldframe::bundle
