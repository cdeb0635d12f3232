#include "train_temporal/bundle/make.h"

#include <torch/version.h>
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/format/recipe.h"
#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/outputs.h"
#include "common/text/model_card.h"
#include "common/text/text.h"
#include "extract/pipeline/recipe.h"
#include "train_temporal/bundle/bundle.h"
#include "train_temporal/bundle/raw_exams.h"
#include "train_temporal/report/report.h"
#include "train_temporal/run/ensemble.h"
#include "train_temporal/run/options.h"
#include "train_temporal/run/run_folder.h"
#include "train_temporal/run/sets.h"
#include "train_temporal/run/warm_start.h"

namespace coldframe::bundle {

// README.md tells people and the Hugging Face hub about a bundle.

// `facts`: bundle.json. `metrics`: metrics/summary.json. `more`: Markdown of the user's, "" for
// none: keys of its front matter and sections ("## Limits") go in the place of ours of that name,
// or behind them.
std::string model_card(const Json& facts, const Json& metrics, const std::string& more);

// The licence in the front matter of `more`, "" for none. ConfigError: it is not one word.
std::string stated_license(const std::string& more);

// The targets' entries of a summary, which has one alone at its top.
Json targets_of(const Json& metrics);
// The estimate of a metric that counts.
const Json& primary(const Json& metric);

// configs/metadata.json tells MONAI's tools about a bundle.

// docs.monai.io, "MONAI Bundle Specification". `facts`: bundle.json. `metrics`:
// metrics/summary.json.
Json monai_metadata(const Json& facts, const Json& metrics);

namespace {

constexpr std::uint64_t kPiece = 1 << 20;  // bytes

}  // namespace

void copy_into(const std::filesystem::path& from, const std::filesystem::path& to) {
  const InputFile file(from);
  create_folders_durably(to.parent_path());
  AtomicFile copy(to);
  for (std::uint64_t at = 0; at < file.size(); at += kPiece)
    copy.append(file.read(at, std::min(kPiece, file.size() - at)));
  copy.finish();
}

namespace {

// JSON's strings are YAML's.
std::string quoted(const std::string& text) {
  return Json(text).dump();
}

std::string number(const Json& value) {
  return value.is_number() ? fixed(value.get<double>(), 3) : "undefined";
}

// "0.912 [0.854, 0.951]"
std::string interval(const Json& estimate) {
  const std::string value = number(estimate.at("value"));
  if (!estimate.at("low").is_number()) return value;
  return concat(value, " [", number(estimate.at("low")), ", ", number(estimate.at("high")), "]");
}

// "95 %"
std::string level(const Json& target) {
  return concat(fixed(100 * target.at("interval").at("level").get<double>(), 0), " %");
}

// A name from the data as Markdown's own text: nothing in it is HTML, a link or the end of a cell
// or a line. HTML numbers characters in decimals.
std::string plain(const std::string& text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool link = c == ']' && text.substr(i + 1, 1) == "(";
    if (c < ' ' || link || std::string_view("&<>`|").find(text[i]) != std::string_view::npos)
      shown += concat("&#", static_cast<int>(c), ";");
    else
      shown += text[i];
  }
  return shown;
}

std::string plain(const Json& name) {
  return plain(name.get<std::string>());
}

// A name in code's letters, in which Markdown knows no way to write some characters.
std::string code(const std::string& name) {
  const std::string shown = plain(name);
  return shown == name ? concat("`", name, "`") : shown;
}

std::string code(const Json& name) {
  return code(name.get<std::string>());
}

CardParts front_matter(const Json& facts) {
  return {{"license", concat(" ", quoted(facts.at("license")), "\n")},
          {"library_name", " coldframe\n"},
          {"tags", "\n- medical-imaging\n- vision-transformer\n- temporal-model\n- monai\n"}};
}

std::string classes_text(const Json& target) {
  std::vector<std::string> names;
  for (const Json& name : target.at("classes")) names.push_back(plain(name));
  if (target.contains("event")) return concat("the time to the event ", code(target.at("event")));
  if (names.empty()) return "a number";
  const auto changes = temporal::class_changes_from_json(target);
  return concat(join(names, ", "), changes.empty() ? "" : "; learnt ",
                temporal::text_of(changes, [](const std::string& name) { return plain(name); }));
}

// "`FA`, `ICGA`"
std::string names_in(const Json& facts, const char* key) {
  std::string text;
  for (const Json& name : facts.value(key, Json::array()))
    text += concat(text.empty() ? "" : ", ", code(name));
  return text;
}

// Says what an exam must bring.
std::string inputs_text(const Json& facts) {
  std::string text;
  if (facts.contains("streams"))
    text +=
        concat("\nFrames are of the streams ", names_in(facts, "streams"), ", which the frame ",
               "column ", code(facts.at("stream_column")), " names; an exam may ", "lack some.\n");
  if (facts.contains("visits"))
    text += concat("\nAn exam is read after the earlier ones of its patient, in the order of ",
                   code(facts["visits"]), ".\n");
  if (facts.contains("covariates"))
    text += concat("\nBeside its frames it takes of each exam: ", names_in(facts, "covariates"),
                   ". The models hold the name of every category of these that their training ",
                   "had, be it of one exam.\n");
  return text;
}

std::string intended_use(const Json& facts) {
  std::string text =
      "Research. It is not a medical device, and nobody has shown that it helps a patient.\n\n";
  for (const Json& target : facts.at("targets"))
    text += concat("- ", code(target.at("name")), " (", target.at("task").get<std::string>(),
                   target.at("per_frame").get<bool>() ? ", of each frame" : "",
                   "): ", classes_text(target), "\n");
  return concat(text, inputs_text(facts),
                "\nIt takes sequences of frames of one exam. `coldframe predict --bundle` ",
                "decodes, prepares and reads them as in the training.\n");
}

std::string data_text(const Json& facts, const Json& metrics) {
  std::string text;
  for (const Json& target : targets_of(metrics))
    text += concat("- ", code(target.at("target")), ": ",
                   plural(target.at("exams").get<std::size_t>(), "exam"), " of ",
                   plural(target.at("patients").get<std::size_t>(), "patient"), "\n");
  const Json& training = facts.at("training");
  for (const auto& [target, classes] : training.at("exams_per_class").items())
    for (const auto& [name, exams] : classes.items())
      text += concat("- ", code(target), " = ", plain(name), ": ",
                     plural(exams.get<std::size_t>(), "exam"), "\n");
  if (training.at("frames").at(1) > 0)
    text += concat("- ", training["frames"].at(0).get<int>(), " to ",
                   training["frames"].at(1).get<int>(), " frames in an exam\n");
  return text;
}

// Of a mean over folds that leaves some out: " (4 of 5 folds)".
std::string folds_text(const Json& metric) {
  const Json folds = metric.value("folds", Json::object());
  if (folds.value("with_figure", 0) == folds.value("all", 0)) return {};
  return concat(" (", folds.at("with_figure").get<int>(), " of ",
                plural(folds.at("all").get<std::size_t>(), "fold"), ")");
}

std::string results_text(const Json& facts, const Json& metrics) {
  const Json& training = facts.at("training");
  const std::string taken = temporal::fits_text(training);
  std::string text = concat(
      "On held-out patients (", plural(training.at("folds").get<std::size_t>(), "fold"), ", ",
      plural(training.at("seeds").get<std::size_t>(), "seed"), "), with ",
      level(targets_of(metrics).front()), " intervals by patient. Predictions are the mean of ",
      plural(facts.at("models").get<std::size_t>(), "model"),
      taken.empty() ? "" : concat(" (", taken, ")"),
      ", each fitted without the patients of its own test part.\n");
  for (const Json& target : targets_of(metrics)) {
    text += concat("\n| ", plain(target.at("target")), " | value |\n| --- | --- |\n");
    const std::size_t classes = target.at("classes").size();
    for (const auto& [key, metric] : target.at("models").at(0).at("metrics").items())
      text += concat("| ", temporal::title_of(temporal::metric_named(key), classes),
                     folds_text(metric), " | ", interval(primary(metric)), " |\n");
  }
  return text;
}

std::string controls_text(const Json& metrics) {
  std::string text;
  for (const Json& target : targets_of(metrics))
    for (const Json& line : target.at("verdict")) text += concat("- ", plain(line), "\n");
  return text.empty() ? "None were fitted.\n" : text;
}

// The bundle holds the weights, whose licence the bundle's own does not change.
std::string weights_license_text(const Json& facts) {
  const Json& backbone = facts.at("backbone");
  if (!backbone.contains("file")) return "";
  const std::string license = backbone.value("license", "");
  return concat("- The backbone's weights are in the bundle under a licence of their own",
                license.empty() ? ", which nobody stated" : concat(": ", plain(license)), ".\n");
}

std::string limits_text(const Json& facts) {
  return concat(
      weights_license_text(facts),
      "- Nothing is known of other scanners, sites and patients than those of the training: "
      "`coldframe evaluate --bundle` measures it on yours.\n"
      "- Thresholds were chosen on the fractions of classes in the training data.\n"
      "- Exams of the training cannot be recognised: the bundle holds no ids. Predictions of "
      "them look better than the model is.\n");
}

std::string use_text(const Json& facts) {
  return concat("```\ncoldframe predict --bundle THIS --input exams --out predictions.csv\n```\n\n",
                "Made by Coldframe ", facts.at("coldframe").get<std::string>(), " with LibTorch ",
                facts.at("torch").get<std::string>(),
                ". `bundle.json` has the recipe of features, ",
                "classes and thresholds, `SHA256SUMS` the checksums.\n");
}

void complete(const std::string& more, CardParts& keys, CardParts& sections) {
  const ModelCard card = read_model_card(more);
  for (const auto& [key, value] : card.keys) put(keys, key, value);
  for (const auto& [name, text] : card.sections) put(sections, name, text);
}

}  // namespace

std::string stated_license(const std::string& more) {
  const ModelCard card = read_model_card(more);
  const std::string word = value_of(card, "license");
  const bool stated = std::ranges::count(card.keys, "license", &CardParts::value_type::first) > 0;
  if (stated && (word.empty() || word.find_first_of(" \t\n[]{}\"'") != word.npos))
    throw ConfigError(concat("--card: license: ", word,
                             " is not one word of the Hugging Face hub, as apache-2.0"));
  return word;
}

const Json& primary(const Json& metric) {
  return metric.at(metric.at("primary").get<std::string>());
}

Json targets_of(const Json& metrics) {
  return metrics.contains("targets") ? metrics["targets"] : Json::array({metrics});
}

std::string model_card(const Json& facts, const Json& metrics, const std::string& more) {
  CardParts keys = front_matter(facts);
  CardParts sections = {{"Intended use", intended_use(facts)},
                        {"Data", data_text(facts, metrics)},
                        {"Results", results_text(facts, metrics)},
                        {"Controls", controls_text(metrics)},
                        {"Limits", limits_text(facts)},
                        {"Use", use_text(facts)}};
  complete(more, keys, sections);
  std::string text = "---\n";
  for (const auto& [key, value] : keys) text += concat(key, ":", value);
  text += concat("---\n\n# ", plain(facts.at("name")), "\n");
  for (const auto& [name, section] : sections)
    text += concat("\n", name.empty() ? "" : concat("## ", name, "\n\n"), section);
  return text;
}

namespace {

Json series(std::size_t channels, const Json& shape, const Json& names) {
  return {{"type", "series"},
          {"format", "sequence"},
          {"modality", "n/a"},
          {"num_channels", channels},
          {"spatial_shape", shape},
          {"dtype", "float32"},
          {"value_range", Json::array()},
          {"is_patch_data", false},
          {"channel_def", names}};
}

// The encoded covariates are the first model's: others may know other categories.
Json inputs_of(const Json& facts) {
  const std::size_t streams = facts.value("streams", Json::array()).size();
  const auto width = facts.at("dimension").get<std::size_t>();
  const char* of_one = "a frame's features, by the backbone of bundle.json";
  const char* of_several =
      "the features of every stream of bundle.json, NaN where it has no frame, and after them 1 "
      "for each that has one";
  Json inputs;
  inputs["features"] = series(streams == 0 ? width : streams * (width + 1), {"*"},
                              {{"0", streams == 0 ? of_one : of_several}});
  if (!facts.contains("covariates")) return inputs;
  Json places = Json::object();
  for (const Json& name : facts.at("covariate_inputs")) places[concat(places.size())] = name;
  inputs["covariates"] = series(places.size(), Json::array(), places);
  return inputs;
}

Json output_of(const Json& target) {
  const bool classes = !target.at("classes").empty();
  Json channels = Json::object();
  for (const Json& name : target["classes"]) channels[concat(channels.size())] = name;
  if (!classes) channels["0"] = target.at("name");
  return {{"type", classes ? "probabilities" : "series"},
          {"format", classes ? "classes" : "magnitude"},
          {"modality", "n/a"},
          {"num_channels", channels.size()},
          {"spatial_shape", target.at("per_frame").get<bool>() ? Json({"*"}) : Json::array()},
          {"dtype", "float32"},
          {"value_range", classes ? Json({0, 1}) : Json::array()},
          {"is_patch_data", false},
          {"channel_def", channels}};
}

Json scores_of(const Json& metrics) {
  Json scores = Json::object();
  for (const Json& target : targets_of(metrics))
    for (const auto& [key, metric] : target.at("models").at(0).at("metrics").items())
      scores[concat(target.at("target").get<std::string>(), ": ", key)] =
          primary(metric).at("value");
  return scores;
}

}  // namespace

Json monai_metadata(const Json& facts, const Json& metrics) {
  Json outputs = Json::object();
  std::vector<std::string> names;
  for (const Json& target : facts.at("targets")) {
    names.push_back(target.at("name"));
    outputs[names.back()] = output_of(target);
  }
  return {{"schema",
           "https://github.com/Project-MONAI/MONAI-extra-test-data/releases/download/0.8.1/"
           "meta_schema_20240725.json"},
          {"version", "1.0.0"},
          {"changelog", {{"1.0.0", "made of a finished run"}}},
          {"monai_version", "1.6.1"},
          {"pytorch_version", TORCH_VERSION},
          {"numpy_version", "2.4.6"},
          {"optional_packages_version", {{"safetensors", "0.8.0"}}},
          {"required_packages_version", {{"safetensors", "0.8.0"}}},
          {"supported_apps", Json::object()},
          {"name", facts.at("name")},
          {"task", concat("prediction from sequences of frames: ", join(names, ", "))},
          {"description",
           "A frozen vision transformer's features of each frame, and temporal models "
           "of all folds, whose predictions are averaged; README.md says more."},
          {"authors", "not stated"},
          {"copyright", concat("licence: ", facts.at("license").get<std::string>())},
          {"intended_use", "research, not diagnosis"},
          {"eval_metrics", scores_of(metrics)},
          {"network_data_format", {{"inputs", inputs_of(facts)}, {"outputs", outputs}}}};
}

namespace {

namespace fs = std::filesystem;
using temporal::Ensemble;

// Beside models and controls a run may hold these, which the bundle has under the same names.
constexpr const char* kKeptFiles[] = {"unlike_training.safetensors"};

constexpr std::uint64_t kMaxText = 1 << 20;  // bytes, of a card or of options

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
    most = std::max(most, model.card.max_frames);
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
  if (const Json weights = of_run(cache::kWeightsLicense); weights.is_string())
    facts["backbone"]["license"] = weights;
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
  extract::ExtractOptions asked;
  asked.input = ".";
  const auto options = extract_options(bundle, asked);
  const auto backbone = vit::make_backbone(options.backbone, torch::kCPU, Precision::kFp32);
  const cache::Recipe made = extract::make_recipe(options, *backbone);
  if (made.feature_digest() == bundle.recipe().feature_digest()) return;
  throw DataError(concat(
      "the run's recipe cannot be followed with these weights by this version:\n  ",
      join(cache::differences(bundle.recipe().features, made.features, {"the run has", "made"}),
           "\n  ")));
}

// The author's words go into the card as they are; <script> is refused.
std::string read_card(const MakeOptions& options) {
  if (options.card.empty()) return "";
  const std::string text = read_text_file(options.card, kMaxText);
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
  if (const std::string scores = temporal::held_out_scores_csv(options.run, ensemble.targets());
      !scores.empty())
    write_file_atomically(folder / temporal::kHeldOutScores, scores);
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
                          temporal::portable_options(read_text_file(asked, kMaxText)));
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
  const auto has_own_validator = [](const fs::path&) { return true; };
  check_outputs({{"--out", options.out, has_own_validator}},
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
